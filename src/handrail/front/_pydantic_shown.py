"""What a model is shown of an agent's own tool beside its value: without secrets, and as much as the settings say."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

from pydantic_ai.messages import BinaryContent, TextContent, ToolReturnPart
from pydantic_core import to_json, to_jsonable_python

from handrail.errors import Problem
from handrail.front._pydantic_bytes import hidden_in_bytes
from handrail.front._pydantic_values import Plain
from handrail.output.bound import Bounds, bound
from handrail.output.redact import Redactor
from handrail.ports import Limits, Spill
from handrail.words import Ref


class Shown:
    """Hides, bounds, and keeps with the run what does not fit; `refs` names what was kept."""

    __slots__ = ("_bounds", "_spill", "_whole", "redactor", "refs")

    def __init__(self, redactor: Redactor, limits: Limits, spill: Spill) -> None:
        lines, size = limits.max_output_lines, limits.max_output_bytes
        self.redactor, self._spill = redactor, spill
        self._bounds = Bounds(lines, size, limits.max_line_chars)
        self._whole = Bounds(lines, size, size)  # a long line alone is no reason to cut: JSON is one
        self.refs: list[Ref] = []

    def fits(self, value: Any) -> bool:
        """Whether a model may be shown all of a value, as Pydantic AI writes it; files are no text."""
        try:
            return self._fits(ToolReturnPart("", value).model_response_str())
        except Exception:  # noqa: BLE001  what belongs to a file may be anything
            return False

    def text(self, text: str) -> str:
        """A text for the model."""
        told = self.redactor.text(text)
        return told if self._fits(told) else self._cut(told, self._bounds, told)

    def value(self, value: Any) -> Any:
        """What a tool says that may be no text; of what is too much, the beginning as JSON."""
        if isinstance(value, str):
            return self.text(value)
        plain = Plain(self.redactor)
        told = self.redactor.value(plain.value(value))
        files = [(path, self.file(item)) for path, item in plain.files]
        whole, aside = with_files(told, files)
        if not aside and self.fits(whole):
            return whole
        said = self.text(to_json(told, indent=2).decode())
        return [said, *(item for _, item in files)] if files else said

    def content(self, content: Any) -> Any:
        """What is said to the model beside the value; its texts together are bounded as one."""
        if isinstance(content, str):
            return self.text(content)
        if not isinstance(content, Sequence) or isinstance(content, (bytes, bytearray)):
            return content  # nothing, or what Pydantic AI refuses and says why
        items = [self._said(item) for item in content]
        whole = "\n".join(text for text in map(_words, items) if text is not None)
        return items if self._fits(whole) else self._begun(items, whole)

    def file(self, item: Any) -> Any:
        """A file for the model; its address, its name and its bytes, where they are text, are hidden as texts are."""
        told: dict[str, Any] = {
            name: hidden
            for name in ("url", "_identifier")
            if isinstance(text := getattr(item, name, None), str) and (hidden := self.redactor.text(text)) != text
        }
        if isinstance(item, BinaryContent):
            data = hidden_in_bytes(item.data, self.redactor, item.media_type)
            told |= {"data": data} if data != item.data else {}
        return _changed(item, told) if told else item

    def _fits(self, text: str) -> bool:
        return bound(text, self._whole) is None

    def _said(self, item: Any) -> Any:
        if isinstance(item, str):
            return self.redactor.text(item)
        if not isinstance(item, TextContent) or not isinstance(item.content, str):
            return self.file(item)
        told = self.redactor.text(item.content)
        if told == item.content and self._is_clean(getattr(item, "value", None)):
            return item
        return TextContent(told, metadata=item.metadata)

    def _is_clean(self, value: Any) -> bool:
        """Whether nothing is to be hidden in what some models are sent in the place of a text."""
        try:
            written = to_jsonable_python(value, fallback=repr, bytes_mode="base64")
        except Exception:  # noqa: BLE001
            return False
        return bool(self.redactor.value(written) == written and self._fits(to_json(written).decode()))

    def _begun(self, items: Sequence[Any], whole: str) -> list[Any]:
        """The texts from the first on that have room, the next in part, and every file."""
        shown: list[Any] = []
        lines, size, full = self._bounds.max_lines, self._bounds.max_bytes, False
        for item in items:
            text = _words(item)
            if text is None:
                shown.append(item)
            elif not full:
                full = bound(text, Bounds(lines, size, size)) is not None
                room = Bounds(lines, size, self._bounds.max_line_chars)
                shown.append(self._cut(text, room, whole, self._bounds.max_bytes - size) if full else item)
                lines, size = max(0, lines - text.count("\n") - 1), max(0, size - _size(text) - 1)
        return shown

    def _cut(self, text: str, room: Bounds, whole: str, before: int = 0) -> str:
        """The beginning of a text that does not fit, and a last line that says so and where the whole is."""
        cut = bound(text, room)
        assert cut is not None
        told = f"{cut.shown} of {cut.total} {cut.by}"
        if whole is not text:
            told = f"{before + _size(cut.text)} of {_size(whole)} bytes"
        try:
            self.refs.append(self._spill.put(whole))
            where = f'the whole: read_file {{"path": "{self.refs[-1].ref}"}}'
        except Problem as problem:
            where = f"the rest is lost: {problem.message}"
        begun = cut.text.rstrip("\n")
        return f"{begun}\n[cut: {told} shown; {where}]"


def with_files(value: Any, files: Sequence[tuple[tuple[str | int, ...], Any]]) -> tuple[Any, list[Any]]:
    """A value made anew with the files where they were, and those whose places are not there any more."""
    if not files:
        return value, []
    top, aside = [_copied(value)], []
    for path, item in files:
        holder: Any = top
        place: str | int = 0
        for part in path:
            holder, place = _at(holder, place), part
        if isinstance(_at(holder, place), dict):
            holder[place] = item
        else:
            aside.append(item)  # its name or what stood around it is hidden
    return top[0], aside


def _at(holder: Any, place: Any) -> Any:
    try:
        return holder[place] if isinstance(holder, (dict, list)) else None
    except (KeyError, IndexError, TypeError):
        return None


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _changed(item: Any, told: dict[str, Any]) -> Any:
    """A file that differs in this; `dataclasses.replace` would forget the name that a program gave it."""
    item = copy(item)
    for name, value in told.items():
        setattr(item, name, value)
    return item


def _words(item: Any) -> str | None:
    """The text of an item; None for a file."""
    text = item.content if isinstance(item, TextContent) else item
    return text if isinstance(text, str) else None


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))

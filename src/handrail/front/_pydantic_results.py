"""What an agent's own tool gives back through the gate: values with secrets hidden, media and content as they were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic_ai.exceptions import (
    AgentRunError,
    ApprovalRequired,
    CallDeferred,
    FallbackExceptionGroup,
    ModelRetry,
    ToolFailed,
    ToolFailedError,
    ToolRetryError,
    UserError,
)
from pydantic_ai.messages import BinaryContent, TextContent, ToolReturn, is_multi_modal_content
from pydantic_core import to_jsonable_python

from handrail.errors import Code, Problem
from handrail.output.redact import Redactor

# What a tool says to Pydantic AI by raising it: in words for the record, and the code that fits them best.
_TOLD: dict[type[Exception], tuple[Code, str]] = {
    ModelRetry: (Code.UPSTREAM_ERROR, "asked for another try"),
    ToolRetryError: (Code.UPSTREAM_ERROR, "asked for another try"),
    ToolFailed: (Code.UPSTREAM_ERROR, "said that it failed"),
    ToolFailedError: (Code.UPSTREAM_ERROR, "said that it failed"),
    ApprovalRequired: (Code.APPROVAL_REQUIRED, "wants an approval by the program"),
    CallDeferred: (Code.OUTCOME_UNKNOWN, "is done elsewhere, and how that ends is not known here"),
    AgentRunError: (Code.UPSTREAM_ERROR, "ended the agent's run"),
    UserError: (Code.UPSTREAM_ERROR, "ended the agent's run"),
    FallbackExceptionGroup: (Code.UPSTREAM_ERROR, "ended the agent's run"),
}
SIGNALS = tuple(_TOLD)
Path = tuple[str | int, ...]


def recorded(tool: str, signal: Exception) -> Problem:
    """What is on record of a signal; that one of the agent's tools failed opens no breaker for the others."""
    code, words = next(told for kind, told in _TOLD.items() if isinstance(signal, kind))
    return Problem(code, f"{tool} {words}: {type(signal).__name__}.", host=tool)


def hidden(signal: Exception, redactor: Redactor) -> Exception:
    """A signal whose words to the model have their secrets hidden, as in every answer."""
    if isinstance(signal, (ModelRetry, ToolFailed)):
        told = redactor.text(signal.message)
        if told != signal.message:
            signal.message, signal.args = told, (told,)
    elif isinstance(signal, ToolRetryError):
        told_again: Any = redactor.value(signal.tool_retry.content)
        return ToolRetryError(replace(signal.tool_retry, content=told_again))
    elif isinstance(signal, ToolFailedError):
        return ToolFailedError(replace(signal.tool_failed, content=redactor.value(signal.tool_failed.content)))
    return signal


class Result:
    """What a tool returned: JSON values for the gate, and aside what is none."""

    __slots__ = ("_media", "_returned", "value")

    def __init__(self, returned: Any) -> None:
        self._media: list[tuple[Path, Any]] = []
        self._returned = returned if isinstance(returned, ToolReturn) else None
        self.value = self._plain(returned if self._returned is None else self._returned.return_value, ())

    def _plain(self, value: Any, path: Path) -> Any:
        """The value as JSON; images and other files are set aside and described."""
        if is_multi_modal_content(value):
            self._media.append((path, value))
            return _described(value)
        if isinstance(value, (list, tuple)) and any(map(_may_hold, value)):
            return [self._plain(item, (*path, number)) for number, item in enumerate(value)]
        if isinstance(value, Mapping) and any(map(_may_hold, value.values())) and all(type(n) is str for n in value):
            return {name: self._plain(item, (*path, name)) for name, item in value.items()}
        return to_jsonable_python(value, fallback=repr)

    def given(self, told: ToolReturn[Any], redactor: Redactor, *, whole: bool) -> ToolReturn[Any]:
        """What the agent gets: what the gate let through, with the files and the content that belong to it."""
        value, aside = told.return_value, []
        for path, item in self._media:
            item = _shown(item, redactor)
            if whole:
                value = _put_back(value, path, item)
            else:
                aside.append(item)  # the values were too large to be given: the files stand beside what is said
        theirs = self._returned
        if theirs is None:
            return replace(told, return_value=value, content=aside or None)
        content = _content(theirs.content, redactor)
        if aside:
            content = [*aside, *([content] if isinstance(content, str) else content or ())]
        return replace(theirs, return_value=value, content=content, metadata=_joined(theirs.metadata, told.metadata))


def _may_hold(value: Any) -> bool:
    return is_multi_modal_content(value) or isinstance(value, (list, tuple, Mapping))


def _described(item: Any) -> dict[str, Any]:
    """What is on record of a file."""
    if isinstance(item, BinaryContent):
        return {"media": item.kind, "media_type": item.media_type, "bytes": len(item.data)}
    return {"media": item.kind, "url": getattr(item, "url", None)}


def _shown(item: Any, redactor: Redactor) -> Any:
    """A file for the model; an address and the bytes of a text are hidden as texts are."""
    url = getattr(item, "url", None)
    if isinstance(url, str) and (told := redactor.text(url)) != url:
        return replace(item, url=told)
    if isinstance(item, BinaryContent) and item.media_type.startswith(("text/", "application/json")):
        text = item.data.decode("utf-8", "replace")
        if (told := redactor.text(text)) != text:
            return replace(item, data=told.encode())
    return item


def _put_back(value: Any, path: Path, item: Any) -> Any:
    """The value with a file where it was; where something is hidden by now, it stays hidden."""
    if not path:
        return item
    holder = value
    for part in path[:-1]:
        if not isinstance(holder, (dict, list)):
            return value
        holder = holder[part]  # type: ignore[index]
    if isinstance(holder, (dict, list)) and isinstance(holder[path[-1]], dict):  # type: ignore[index]
        holder[path[-1]] = item  # type: ignore[index]
    return value


def _content(content: Any, redactor: Redactor) -> Any:
    """What is said to the model beside the value."""
    if content is None or isinstance(content, str):
        return content if content is None else redactor.text(content)
    return [_said(item, redactor) for item in content]


def _said(item: Any, redactor: Redactor) -> Any:
    if isinstance(item, str):
        return redactor.text(item)
    if not isinstance(item, TextContent):
        return _shown(item, redactor)
    value = to_jsonable_python(getattr(item, "value", None), fallback=repr)  # what some models are sent in its place
    told = redactor.text(item.content)
    if told == item.content and redactor.value(value) == value:
        return item
    return TextContent(told, metadata=item.metadata)


def _joined(theirs: Any, ours: Any) -> Any:
    """Metadata for the program: ours where the tool gave none; else the tool's, with the outcome under our name."""
    if theirs is None:
        return ours
    return {**theirs, "handrail": ours} if isinstance(theirs, Mapping) else theirs

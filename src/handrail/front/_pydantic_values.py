"""What a tool gave, as JSON values: something can be told of whatever it is, for the tool has done its work by then."""

from __future__ import annotations

import dataclasses
from base64 import urlsafe_b64encode
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_ai.messages import BinaryContent, is_multi_modal_content
from pydantic_core import to_jsonable_python

from handrail.front._pydantic_bytes import hidden_in_base64
from handrail.output.redact import Redactor
from handrail.strict_json import LEAST_INTEGER, MOST_INTEGER, is_text

Path = tuple[str | int, ...]
_MOST_LEVELS = 100  # any reader takes as many
_ROUND = "[not shown: it holds itself]"
_HOLDERS = (Mapping, list, tuple, set, frozenset, deque, Iterator)


class Plain:
    """Makes JSON of a value as Pydantic AI does, and leaves a note where that is not possible.

    Images and other files are described in their places and kept in `files`.
    """

    __slots__ = ("_redactor", "files")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.files: list[tuple[Path, Any]] = []

    def value(self, value: Any, path: Path = (), above: frozenset[int] = frozenset()) -> Any:
        """Make JSON of a value that stands at `path`, in the holders `above`."""
        kind = type(value)
        if value is None or kind is bool or kind is float:
            return value
        if kind is str:
            return self._text(value)
        if kind is int:
            return value if LEAST_INTEGER <= value <= MOST_INTEGER else _digits(value)
        if is_multi_modal_content(value):
            self.files.append((path, value))
            return _described(value)
        if not isinstance(value, _HOLDERS):
            return self._other(value, path, above)
        if id(value) in above:
            return _ROUND
        if len(path) >= _MOST_LEVELS:
            return f"[not shown: nested more than {_MOST_LEVELS} levels deep]"
        above |= {id(value)}
        return self._pairs(value, path, above) if isinstance(value, Mapping) else self._items(value, path, above)

    def _items(self, value: Any, path: Path, above: frozenset[int]) -> list[Any]:
        made: list[Any] = []
        try:
            for item in value:
                made.append(self.value(item, (*path, len(made)), above))
        except Exception as error:  # noqa: BLE001  what came before it is told all the same
            made.append(_not_shown(error))
        return made

    def _pairs(self, value: Mapping[Any, Any], path: Path, above: frozenset[int]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        try:
            for given, item in value.items():
                name = self._name(given)
                made[name] = self.value(item, (*path, name), above)
        except Exception as error:  # noqa: BLE001
            made["…"] = _not_shown(error)
        return made

    def _name(self, name: Any) -> str:
        if type(name) is not str:
            try:
                (name,) = to_jsonable_python({name: None}, bytes_mode="base64", fallback=_told)
            except Exception:  # noqa: BLE001
                name = f"[{type(name).__name__}]"
        return self._text(name)

    def _text(self, text: str) -> str:
        """A text; half of a surrogate pair, which cannot be written down, is spelled out."""
        if not is_text(text):
            text = text.encode("utf-8", "backslashreplace").decode()
        return hidden_in_base64(text, self._redactor)

    def _other(self, value: Any, path: Path, above: frozenset[int]) -> Any:
        """What Pydantic makes of an object; where it fails, of each of its fields."""
        if id(value) in above:
            return _ROUND
        try:
            made = to_jsonable_python(value, bytes_mode="base64", fallback=_told)
        except Exception as error:  # noqa: BLE001
            made = _fields(value, error)
        if type(made) not in (str, int, list, dict, bool, float, type(None)):
            made = _told(made)
        return self.value(made, path, above | {id(value)})


def _fields(value: Any, error: Exception) -> Any:
    """The fields of an object that cannot be written down as a whole, each in its own way, or a note of it."""
    names, serializer = getattr(value, "__pydantic_fields__", None), getattr(value, "__pydantic_serializer__", None)
    if names is None or serializer is None:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
        return _not_shown(error)
    made: dict[str, Any] = {}
    for name in names:
        try:
            field = _field(serializer, value, name)
        except Exception as wrong:  # noqa: BLE001
            field = {name: _not_shown(wrong)}
        if not isinstance(field, dict):
            return urlsafe_b64encode(field).decode() if isinstance(field, bytes) else field  # a model that is one value
        made |= field
    return made


def _field(serializer: Any, value: Any, name: str) -> Any:
    """One field, as the object's own type writes it; bytes that it takes for text and are none stay bytes."""
    try:
        return serializer.to_python(value, mode="json", include={name}, by_alias=True, fallback=_told)
    except UnicodeDecodeError:
        return serializer.to_python(value, include={name}, by_alias=True)


def _described(item: Any) -> dict[str, Any]:
    """What is on record of a file."""
    if isinstance(item, BinaryContent):
        return {"media": item.kind, "media_type": item.media_type, "bytes": len(item.data)}
    return {"media": item.kind, "url": getattr(item, "url", None)}


def _digits(number: int) -> str:
    """An integer that not every reader holds exactly, as a text."""
    try:
        return str(number)
    except ValueError:
        return f"[not shown: an integer of {number.bit_length()} bits]"


def _told(value: Any) -> str:
    try:
        return str(repr(value))
    except Exception:  # noqa: BLE001
        return f"[not shown: {type(value).__name__}]"


def _not_shown(error: Exception) -> str:
    """A note in the place of what cannot be written down; the error's own words may hold anything."""
    return f"[not shown: it cannot be written down ({type(error).__name__})]"

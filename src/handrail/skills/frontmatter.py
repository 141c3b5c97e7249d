"""The YAML of a header, of which only plain mappings, lists and texts are taken. Pure.

Every scalar stays the text it is: no dates, numbers or yes and no. Built from the parser's events, so that neither a
tag nor an anchor is ever acted upon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

MAX_DEPTH = 8
MAX_EVENTS = 5000
# Free text in which people write `: ` without quotes. Nothing that decides about tools is read this way.
_FREE_TEXT = re.compile(r"(description|compatibility|license):[ \t]+(?![\"'|>\[{&*!%@`])(\S.*)", re.IGNORECASE)


_FRAMES = frozenset({"StreamStartEvent", "StreamEndEvent", "DocumentStartEvent", "DocumentEndEvent"})
_NOTHING = ("~", "null", "Null", "NULL")


class Unreadable(Exception):
    """A header that cannot be taken, and why."""


def fields_of(head: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Read the header's fields, and what had to be mended to read them."""
    try:
        return _mapping(head), ()
    except Unreadable as error:
        mended = _mended(head)
        if mended == head:
            raise
        try:
            fields = _mapping(mended)
        except Unreadable:
            raise error from None
        return fields, (f"not quite YAML, read all the same ({error}); put quotes around values that hold `: `",)


def _mended(head: str) -> str:
    """Tabs as spaces, and quotes around free text."""
    lines = []
    for line in head.split("\n"):
        spaced = line.replace("\t", "  ")
        free = _FREE_TEXT.fullmatch(spaced)
        lines.append(f"{free[1]}: '{_quoted(free[2])}'" if free else spaced)
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return text.rstrip().replace("'", "''")


def _mapping(head: str) -> dict[str, Any]:
    import yaml

    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        events = _checked(yaml.parse(head, Loader=loader))
        found = _document(events)
    except yaml.YAMLError as error:
        raise Unreadable(f"the header is not valid YAML: {_told(error)}") from None
    if not isinstance(found, dict):
        raise Unreadable("the header must be a mapping: lines such as `name: my-skill`")
    return found


def _told(error: yaml.YAMLError) -> str:
    """One line, with the place in the file: the header starts on its second line."""
    what, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    if what is None:
        return str(error).split("\n")[0]
    return f"{what} (line {mark.line + 2}, column {mark.column + 1})" if mark is not None else str(what)


def _checked(events: Iterator[Any]) -> Iterator[Any]:
    """Pass on what a header may hold; refuse anchors, aliases, tags, depth and size."""
    depth = 0
    for number, event in enumerate(events):
        line = event.start_mark.line + 2
        if number > MAX_EVENTS:
            raise Unreadable(f"the header holds more than {MAX_EVENTS} values")
        if getattr(event, "anchor", None) is not None:
            raise Unreadable(f"anchors and aliases are not taken (line {line})")
        if getattr(event, "tag", None) is not None:
            raise Unreadable(f"tags such as {event.tag} are not taken (line {line})")
        kind = type(event).__name__
        depth += kind.endswith(("MappingStartEvent", "SequenceStartEvent"))
        depth -= kind.endswith(("MappingEndEvent", "SequenceEndEvent"))
        if depth > MAX_DEPTH:
            raise Unreadable(f"the header is nested more than {MAX_DEPTH} deep (line {line})")
        yield event


def _document(events: Iterator[Any]) -> Any:
    """The one document there may be; an empty header is an empty mapping."""
    found: list[Any] = []
    for event in events:
        if type(event).__name__ in _FRAMES:
            continue
        if found:
            raise Unreadable(f"the header holds more than one document (line {event.start_mark.line + 2})")
        found.append(_value(event, events))
    return found[0] if found and found[0] != "" else {}


def _value(event: Any, events: Iterator[Any]) -> Any:
    kind = type(event).__name__
    if kind == "MappingStartEvent":
        return _dict(events)
    if kind == "SequenceStartEvent":
        return _list(events)
    return "" if not event.style and event.value in _NOTHING else event.value


def _list(events: Iterator[Any]) -> list[Any]:
    found = []
    for event in events:
        if type(event).__name__ == "SequenceEndEvent":
            break
        found.append(_value(event, events))
    return found


def _dict(events: Iterator[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for event in events:
        if type(event).__name__ == "MappingEndEvent":
            break
        key, line = _value(event, events), event.start_mark.line + 2
        if not isinstance(key, str):
            raise Unreadable(f"a key must be a plain word (line {line})")
        if key in found:
            raise Unreadable(f"the header has `{key}` twice (line {line})")
        found[key] = _value(next(events), events)
    return found

"""JSON as text: a value is put in, changed or taken out, and everything else stays as it is, byte for byte. Pure.

Comments and commas before a closing bracket, as editors allow them in their settings, count as blanks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from handrail import strict_json
from handrail.words import noun

_GAP = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
_TOKENS = re.compile(r'"(?>(?:[^"\\\n]|\\.)*)"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r",(?=[ \t\n\r]*[}\]])")
Path = Sequence[str]


@noun
class TextObject:
    """Where an object or an array stands in a text, and where its members do."""

    start: int
    end: int
    members: Mapping[str | int, tuple[int, int]]
    begins: Mapping[str | int, int]  # where each member begins, its name included


@noun
class TextStyle:
    """How a file writes: the end of a line and a step of indentation."""

    eol: str
    step: str


def plain(text: str) -> str:
    """Blank out comments and commas at the end of lists; every other character stays at its place."""
    blanked = _TOKENS.sub(lambda found: found[0] if found[0][0] == '"' else re.sub(r"[^\n\r]", " ", found[0]), text)
    return "".join(_without_trailing(blanked))


def _without_trailing(text: str) -> Iterator[str]:
    at = 0
    for found in re.finditer(r'"(?>(?:[^"\\\n]|\\.)*)"', text):
        yield _TRAILING.sub(" ", text[at : found.start()])
        yield found[0]
        at = found.end()
    yield _TRAILING.sub(" ", text[at:])


def read(text: str) -> Any:
    """Give the value of a text; ValueError where it is no JSON, even without comments."""
    return strict_json.loads(plain(text))


def style_of(text: str) -> TextStyle:
    """Tell how a file is written, so that the difference is only what is new."""
    found = re.search(r"\n([ \t]+)\S", text)
    return TextStyle("\r\n" if "\r\n" in text else "\n", found[1] if found else "  ")


def written(value: Any, margin: str | None, style: TextStyle) -> str:
    """Write a value of ours, for a member at a margin; all on one line where there is none."""
    if margin is None:
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, indent=style.step, ensure_ascii=False).replace("\n", style.eol + margin)


def braced(values: Mapping[str, str], margin: str | None, style: TextStyle) -> str:
    """Write an object of values that are written already: on one line, or its members on lines of their own."""
    members = [f"{json.dumps(name)}: {value}" for name, value in values.items()]
    if margin is None:
        return f"{{{', '.join(members)}}}"
    inner = f",{style.eol}{margin}".join(members)
    return f"{{{style.eol}{margin}{inner}{style.eol}{margin.removesuffix(style.step)}}}"


def margin_of(text: str, found: TextObject, outer: str | None, style: TextStyle) -> str | None:
    """Tell what stands before each member of an object on its line; None where all of them are on one."""
    if not found.members:
        return None if outer is None else outer + style.step
    gap = text[found.start + 1 : gap_after(text, found.start + 1)]
    return gap.rpartition("\n")[2] if "\n" in gap else None


def object_at(text: str, start: int) -> TextObject:
    """Find the members of an object or an array in a text that is known to be JSON."""
    members: dict[str | int, tuple[int, int]] = {}
    begins: dict[str | int, int] = {}
    listed = text[start] == "["
    at = gap_after(text, start + 1)
    while text[at] not in "}]":
        name: str | int = len(members)
        first = at
        if not listed:
            name, at = _DECODER.raw_decode(text, at)
            at = gap_after(text, gap_after(text, at) + 1)  # behind the colon
        end = _DECODER.raw_decode(text, at)[1]
        members[name] = at, end
        begins[name] = first
        at = gap_after(text, end)
        if text[at] == ",":
            at = gap_after(text, at + 1)
    return TextObject(start, at + 1, members, begins)


def gap_after(text: str, start: int) -> int:
    """Tell where the white space ends that begins there."""
    found = _GAP.match(text, start)
    return start if found is None else found.end()


def added(text: str, into: TextObject, name: str, value: str, margin: str | None, style: TextStyle) -> str:
    """Add a member behind all others of an object."""
    if not into.members:
        return text[: into.start] + braced({name: value}, margin, style) + text[into.end :]
    end = max(end for _, end in into.members.values())
    gap = ", " if margin is None else f",{style.eol}{margin}"
    return f"{text[:end]}{gap}{json.dumps(name)}: {value}{text[end:]}"


def appended(text: str, path: Path, value: Any) -> str:
    """Give the text with a value behind all others of the array at a path; what is missing on the way is made."""
    style = style_of(text)
    if not text.strip():
        made: Any = [value]
        for name in reversed(path):
            made = {name: made}
        return json.dumps(made, indent=2, ensure_ascii=False) + "\n"
    bare = plain(text)
    found = object_at(bare, gap_after(bare, 0))
    margin = margin_of(bare, found, "", style)
    for depth, name in enumerate(path):
        if name not in found.members:
            made = [value]
            for missing in reversed(path[depth + 1 :]):
                made = {missing: made}
            return added(text, found, name, written(made, margin, style), margin, style)
        found = object_at(bare, found.members[name][0])
        margin = margin_of(bare, found, margin, style)
    if not found.members:
        return text[: found.start] + written([value], _outer(margin, style), style) + text[found.end :]
    end = max(end for _, end in found.members.values())
    gap = ", " if margin is None else f",{style.eol}{margin}"
    return f"{text[:end]}{gap}{written(value, margin, style)}{text[end:]}"


def put(text: str, path: Path, value: Any) -> str:
    """Give the text with a value at a path, in the place of what stood there; what is missing on the way is made."""
    style = style_of(text)
    if not text.strip():
        for name in reversed(path):
            value = {name: value}
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    bare = plain(text)
    found = object_at(bare, gap_after(bare, 0))
    margin = margin_of(bare, found, "", style)
    for depth, name in enumerate(path):
        if name not in found.members:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return added(text, found, name, written(value, margin, style), margin, style)
        start, end = found.members[name]
        if depth == len(path) - 1:
            return text[:start] + written(value, margin, style) + text[end:]
        found = object_at(bare, start)
        margin = margin_of(bare, found, margin, style)
    return text


def removed(text: str, path: Sequence[str | int]) -> str:
    """Give the text without the member at a path: its comma and the blanks before it go with it."""
    bare = plain(text)
    found = object_at(bare, gap_after(bare, 0))
    for name in path[:-1]:
        found = object_at(bare, found.members[name][0])
    names = list(found.members)
    at = names.index(path[-1])
    end = found.members[path[-1]][1]
    if at > 0:
        return text[: found.members[names[at - 1]][1]] + text[end:]
    if len(names) > 1:
        return text[: found.begins[path[-1]]] + text[found.begins[names[1]] :]
    return text[: found.start + 1] + text[found.end - 1 :]


def _outer(margin: str | None, style: TextStyle) -> str | None:
    return None if margin is None else margin.removesuffix(style.step)

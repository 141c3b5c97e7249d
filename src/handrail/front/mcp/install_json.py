"""Settings in JSON: the entry is put in as text, so that everything else stays as it is, byte for byte."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handrail import strict_json
from handrail.errors import SettingsFault

_KEY, _NAME = "mcpServers", "handrail"
# What stays of an entry that was there: a person's own choices. All else says how the server is started or reached.
_STAYS = {
    *("env", "envFile", "disabled", "timeout", "description", "trust"),
    *("alwaysAllow", "autoApprove", "includeTools", "excludeTools"),
}
_STRING = re.compile(r'"(?>(?:[^"\\\n]|\\.)*)"')
_GAP = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class _Object:
    """Where an object stands in a text, and where the values of its members do."""

    start: int
    end: int
    members: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Style:
    """How a file writes: the end of a line and a step of indentation."""

    eol: str
    step: str


def shown(entry: Mapping[str, Any]) -> str:
    """Write the entry as it would stand in an empty file."""
    return json.dumps({_KEY: {_NAME: entry}}, indent=2, ensure_ascii=False) + "\n"


def laid_over(path: Path, before: str | None, entry: dict[str, Any]) -> str:
    """Give the text with the entry in it; everything else is as it was, which is checked."""
    style = _style(before or "")
    if before is None or not before.strip():
        return shown(entry).replace("\n", style.eol)
    known = _read(path, before)
    servers = known.get(_KEY, {}) if isinstance(known, dict) else None
    if not isinstance(servers, dict):
        raise SettingsFault(f"{path}: there is no object where {_KEY} should be; add the entry by hand (--print)")
    had = servers.get(_NAME)
    stays = {name: value for name, value in had.items() if _kept(name, value)} if isinstance(had, dict) else {}
    wanted = {**stays, **entry}
    if had == wanted:
        return before
    after = _with(before, wanted, entry, style)
    if strict_json.loads(after) != {**known, _KEY: {**servers, _NAME: wanted}}:
        raise SettingsFault(f"{path}: the entry cannot be put in safely; add it by hand, `--print` shows it")
    return after


def _kept(name: str, value: Any) -> bool:
    return name in _STAYS or (name, value) == ("type", "stdio")


def _read(path: Path, text: str) -> Any:
    try:
        return strict_json.loads(text)
    except ValueError as error:
        outside = _STRING.sub("", text)
        advice = "comments would be lost" if "//" in outside or "/*" in outside else "mend it first"
        reason = "it begins with a byte order mark" if text.startswith("\ufeff") else error
        raise SettingsFault(
            f"{path}: is not plain JSON ({reason}); {advice}, so nothing is written: "
            "add the entry by hand, `--print` shows it"
        ) from None


def _with(text: str, wanted: Mapping[str, Any], entry: Mapping[str, Any], style: _Style) -> str:
    """The text with the entry, written as the object is that it comes into."""
    top = _object(text, _gap(text, 0))
    margin = _margin(text, top, "", style)
    if _KEY not in top.members:
        return _added(text, top, _KEY, _written({_NAME: entry}, margin, style), margin, style)
    servers = _object(text, top.members[_KEY][0])
    margin = _margin(text, servers, margin, style)
    if _NAME not in servers.members:
        return _added(text, servers, _NAME, _written(entry, margin, style), margin, style)
    start, end = servers.members[_NAME]
    old = _object(text, start).members if text[start] == "{" else {}
    below = None if margin is None else margin + style.step
    # What stays is copied as it is written: a number has all of its digits.
    values = {
        name: _written(value, below, style) if name in entry else text[slice(*old[name])]
        for name, value in wanted.items()
    }
    return text[:start] + _braced(values, below, style) + text[end:]


def _added(text: str, into: _Object, name: str, value: str, margin: str | None, style: _Style) -> str:
    """Add a member behind all others."""
    if not into.members:
        return text[: into.start] + _braced({name: value}, margin, style) + text[into.end :]
    end = max(end for _, end in into.members.values())
    gap = ", " if margin is None else f",{style.eol}{margin}"
    return f"{text[:end]}{gap}{json.dumps(name)}: {value}{text[end:]}"


def _braced(values: Mapping[str, str], margin: str | None, style: _Style) -> str:
    """An object of values that are written already: on one line, or its members on lines of their own."""
    members = [f"{json.dumps(name)}: {value}" for name, value in values.items()]
    if margin is None:
        return f"{{{', '.join(members)}}}"
    inner = f",{style.eol}{margin}".join(members)
    return f"{{{style.eol}{margin}{inner}{style.eol}{margin.removesuffix(style.step)}}}"


def _written(value: Any, margin: str | None, style: _Style) -> str:
    """A value of ours, for a member at a margin."""
    if margin is None:
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, indent=style.step, ensure_ascii=False).replace("\n", style.eol + margin)


def _margin(text: str, found: _Object, outer: str | None, style: _Style) -> str | None:
    """What stands before each member of an object on its line; None where all of them are on one."""
    if not found.members:
        return None if outer is None else outer + style.step
    gap = text[found.start + 1 : _gap(text, found.start + 1)]
    return gap.rpartition("\n")[2] if "\n" in gap else None


def _object(text: str, start: int) -> _Object:
    """Find the members of an object in a text that is known to be JSON."""
    members, at = dict[str, tuple[int, int]](), _gap(text, start + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        begin = _gap(text, _gap(text, at) + 1)  # behind the colon
        end = _DECODER.raw_decode(text, begin)[1]
        members[name] = begin, end
        at = _gap(text, end)
        if text[at] == ",":
            at = _gap(text, at + 1)
    return _Object(start, at + 1, members)


def _gap(text: str, start: int) -> int:
    """Where the white space ends that begins there."""
    found = _GAP.match(text, start)
    return start if found is None else found.end()


def _style(text: str) -> _Style:
    """How a file is written, so that the difference is only what is new."""
    found = re.search(r"\n([ \t]+)\S", text)
    return _Style("\r\n" if "\r\n" in text else "\n", found[1] if found else "  ")

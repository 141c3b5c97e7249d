"""Settings in JSON: the entry is put in as text, so that everything else stays as it is, byte for byte."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from handrail import strict_json
from handrail.errors import SettingsFault
from handrail.json_edit import TextStyle, added, braced, gap_after, margin_of, object_at, plain, style_of, written
from handrail.words import noun

_NAME = "handrail"
# What stays of an entry that was there: a person's own choices. All else says how the server is started or reached.
_STAYS = {
    *("env", "envFile", "disabled", "timeout", "description", "trust"),
    *("alwaysAllow", "autoApprove", "includeTools", "excludeTools"),
}


@noun
class Form:
    """How a client writes its settings: the key beneath which servers stand, and whether it reads comments."""

    key: str = "mcpServers"
    comments: bool = False

    def plain(self, text: str) -> str:
        """Give the text as JSON, every character at its place."""
        return plain(text) if self.comments else text


_USUAL = Form()
_STRING = re.compile(r'"(?>(?:[^"\\\n]|\\.)*)"')


def shown(entry: Mapping[str, Any], key: str = _USUAL.key) -> str:
    """Write the entry as it would stand in an empty file."""
    return json.dumps({key: {_NAME: entry}}, indent=2, ensure_ascii=False) + "\n"


def laid_over(path: Path, before: str | None, entry: dict[str, Any], form: Form = _USUAL) -> str:
    """Give the text with the entry in it; everything else is as it was, which is checked."""
    style = style_of(before or "")
    if before is None or not before.strip():
        return shown(entry, form.key).replace("\n", style.eol)
    known = _read(path, form.plain(before))
    servers = known.get(form.key, {}) if isinstance(known, dict) else None
    if not isinstance(servers, dict):
        raise SettingsFault(f"{path}: there is no object where {form.key} should be; add the entry by hand (--print)")
    had = servers.get(_NAME)
    stays = {name: value for name, value in had.items() if _kept(name, value)} if isinstance(had, dict) else {}
    wanted = {**stays, **entry}
    if had == wanted:
        return before
    after = _with(before, wanted, entry, style, form)
    if strict_json.loads(form.plain(after)) != {**known, form.key: {**servers, _NAME: wanted}}:
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


def _with(text: str, wanted: Mapping[str, Any], entry: Mapping[str, Any], style: TextStyle, form: Form) -> str:
    """The text with the entry, written as the object is that it comes into."""
    bare = form.plain(text)
    top = object_at(bare, gap_after(bare, 0))
    margin = margin_of(bare, top, "", style)
    if form.key not in top.members:
        return added(text, top, form.key, written({_NAME: entry}, margin, style), margin, style)
    servers = object_at(bare, top.members[form.key][0])
    margin = margin_of(bare, servers, margin, style)
    if _NAME not in servers.members:
        return added(text, servers, _NAME, written(entry, margin, style), margin, style)
    start, end = servers.members[_NAME]
    old = object_at(bare, start).members if bare[start] == "{" else {}
    below = None if margin is None else margin + style.step
    # What stays is copied as it is written: a number has all of its digits.
    values = {
        name: written(value, below, style) if name in entry else text[slice(*old[name])]
        for name, value in wanted.items()
    }
    return text[:start] + braced(values, below, style) + text[end:]

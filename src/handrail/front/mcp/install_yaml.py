"""Goose keeps its settings as YAML: the entry is put in as text, so that comments and order stay."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from handrail.errors import SettingsFault

_KEY = "extensions"
_NAME = "handrail"


def shown(entry: dict[str, Any]) -> str:
    """Write the entry as it would stand in an empty file."""
    return f"{_KEY}:\n{_block(entry, '  ')}"


def laid_over(path: Path, before: str | None, entry: dict[str, Any]) -> str:
    """Give the text with the entry in it; everything else is as it was, which is checked."""
    if before is None or not before.strip():
        return shown(entry)
    known = _read(path, before)
    there = known.get(_KEY)
    if isinstance(there, dict) and _NAME in there:
        if there[_NAME] == entry:
            return before
        raise SettingsFault(f"{path}: has an entry {_NAME} already; change it by hand, `--print` shows the new one")
    after = _with(before, entry, has=there is not None)
    expected = {**known, _KEY: {**(there or {}), _NAME: entry}}
    if _read(path, after) != expected:
        raise SettingsFault(f"{path}: the entry cannot be put in safely; add it by hand, `--print` shows it")
    return after


def _with(before: str, entry: dict[str, Any], *, has: bool) -> str:
    text = before if before.endswith("\n") else f"{before}\n"
    head = re.search(rf"^{_KEY}:[ \t]*(#.*)?\n", text, re.MULTILINE)
    if head is None:
        # Written in another way (`extensions: {}`): what comes out does not fit what is expected, and is refused.
        return text if has else f"{text}{shown(entry)}"
    below = re.match(r"(?:[ \t]*(?:#.*)?\n)*([ ]+)\S", text[head.end() :])
    return text[: head.end()] + _block(entry, below[1] if below else "  ") + text[head.end() :]


def _block(entry: dict[str, Any], indent: str) -> str:
    import yaml

    text: str = yaml.safe_dump({_NAME: entry}, sort_keys=False, default_flow_style=False, allow_unicode=True)
    return "".join(f"{indent}{line}\n" for line in text.splitlines())


def _read(path: Path, text: str) -> dict[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SettingsFault(f"{path}: is not YAML ({error}); mend it first, or add the entry by hand") from None
    if not isinstance(found, dict):
        raise SettingsFault(f"{path}: is not a table of settings; add the entry by hand, `--print` shows it")
    return found

"""Codex keeps its settings as TOML: the entry is put in so that comments, order and blanks stay."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from handrail.errors import SettingsFault

KEY, _NAME = "mcp_servers", "handrail"
_BY_HAND = "add the entry by hand, `--print` shows it"


def shown(entry: Mapping[str, Any]) -> str:
    """Write the entry as it would stand in an empty file."""
    import tomlkit

    document = tomlkit.document()
    _put(document, (KEY, _NAME), dict(entry))
    return tomlkit.dumps(document)


def laid_over(path: Path, before: str | None, entry: Mapping[str, Any]) -> str:
    """Give the text with the entry in it; everything else is as it was, which is checked."""
    return put_all(path, before, [((KEY, _NAME), dict(entry))])


def put_all(path: Path, before: str | None, values: Sequence[tuple[Sequence[str], Any]]) -> str:
    """Give the text with values at their paths; SettingsFault where that cannot be done safely."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    text = before or ""
    try:
        wanted = tomllib.loads(text)
        document = tomlkit.parse(text)
        for keys, value in values:
            _put(document, keys, value)
            _put(wanted, keys, value)
        after = tomlkit.dumps(document)
        fits = tomllib.loads(after) == wanted
    except (ValueError, TypeError, AttributeError, KeyError, TOMLKitError) as error:
        raise SettingsFault(f"{path}: is not TOML that can be changed ({error}); {_BY_HAND}") from None
    if not fits:
        raise SettingsFault(f"{path}: the entry cannot be put in safely; {_BY_HAND}")
    return after


def _put(into: Any, keys: Sequence[str], value: Any) -> None:
    import tomlkit

    for depth, key in enumerate(keys[:-1]):
        if key not in into:
            plain = isinstance(into, dict) and not hasattr(into, "as_string")
            into[key] = {} if plain else tomlkit.table(is_super_table=depth == 0 and len(keys) > 1)
        into = into[key]
    into[keys[-1]] = value

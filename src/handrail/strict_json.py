"""JSON as the other side sends it: no duplicate keys, no NaN, no bottomless nesting."""

from __future__ import annotations

import json
from typing import Any, NoReturn

MAX_DEPTH = 200


def loads(text: str | bytes) -> Any:
    """Parse foreign JSON; ValueError with the reason where plain `json` would guess."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep") from None
    _check_depth(value)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return result


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for item in level if isinstance(item, (dict, list)) for child in _children(item)]
        if not level:
            return
    raise ValueError(f"nested more than {MAX_DEPTH} levels deep")


def _children(item: dict[str, Any] | list[Any]) -> list[Any]:
    return list(item.values()) if isinstance(item, dict) else item

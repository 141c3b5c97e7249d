"""JSON as the other side sends it: no duplicate keys, no NaN, no bottomless nesting."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

MAX_DEPTH = 200


def loads(text: str | bytes) -> Any:
    """Parse foreign JSON; ValueError with the reason where plain `json` would guess."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError:
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep") from None
    check(value)
    return value


def check(value: Any) -> None:
    """Refuse, with ValueError, a value that cannot be written down as JSON and read back the same."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below = []
        for item in level:
            if isinstance(item, (dict, list, tuple)):
                below += _children(item)
            elif isinstance(item, str):
                _check_text(item)
            elif isinstance(item, float) and not math.isfinite(item):
                raise ValueError(f"{item} is not JSON")
        level = below
        if not level:
            return
    raise ValueError(f"nested more than {MAX_DEPTH} levels deep")


def is_text(value: Any) -> bool:
    """Whether a value is a text that can be written down: one without half of a surrogate pair."""
    try:
        return isinstance(value, str) and (value.isascii() or value.encode() is not None)
    except UnicodeEncodeError:
        return False


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"half of a surrogate pair at character {error.start + 1}") from None


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large a number")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return result


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _children(item: dict[str, Any] | list[Any] | tuple[Any, ...]) -> list[Any]:
    return [*item.keys(), *item.values()] if isinstance(item, dict) else list(item)

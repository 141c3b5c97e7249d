"""JSON as the other side sends it: no duplicate keys, no NaN, no bottomless nesting.

Integers of any size may be read, and picked from; only those of 64 bits are handed on: every reader holds them exactly.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import orjson

MAX_DEPTH = 200
LEAST_INTEGER, MOST_INTEGER = -(2**63), 2**64 - 1  # that can be written down


def loads(text: str | bytes, *, half_pairs: bool = False) -> Any:
    """Parse foreign JSON; ValueError with the reason where plain `json` would guess.

    With `half_pairs`, texts may hold half of a surrogate pair: for who refuses those in better words.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError:
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep") from None
    except ValueError as error:
        raise _in_our_words(error) from None
    _check(value, integers=False, half_pairs=half_pairs)
    return value


def check(value: Any) -> None:
    """Refuse, with ValueError, a value that cannot be written down as JSON and read back the same."""
    _check(value, integers=True)


def _check(value: Any, *, integers: bool, half_pairs: bool = False) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below = []
        for item in level:
            if isinstance(item, (dict, list, tuple, set, frozenset)):
                below += _children(item)
            elif isinstance(item, str):
                if not half_pairs:
                    _check_text(item)
            elif isinstance(item, float) and not math.isfinite(item):
                raise ValueError(f"{item} is not JSON")
            elif integers and isinstance(item, int) and not LEAST_INTEGER <= item <= MOST_INTEGER:
                raise ValueError(
                    f"an integer of {item.bit_length()} bits, more than the 64 that fit; a text can hold it"
                )
        level = below
        if not level:
            return
    raise ValueError(f"nested more than {MAX_DEPTH} levels deep")


def handed_on(value: Any) -> Any:
    """Give a value back if it can be written down as part of an outcome; ValueError otherwise."""
    try:
        orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS, default=_as_json)
    except TypeError as error:
        check(value)
        raise ValueError(str(error)) from None
    return value


def _as_json(value: Any) -> Any:
    """What a value that is no JSON becomes in an outcome; what gives its items only once keeps them."""
    from pydantic_core import to_jsonable_python

    return None if isinstance(value, Iterator) else to_jsonable_python(value, fallback=repr)


def is_text(value: Any) -> bool:
    """Whether a value is a text that can be written down: one without half of a surrogate pair."""
    try:
        return isinstance(value, str) and (value.isascii() or value.encode() is not None)
    except UnicodeEncodeError:
        return False


def is_whole(value: Any) -> bool:
    """Whether a number came with a point and is an integer all the same, as JSON Schema counts it: 1.0, exactly."""
    return value.__class__ is float and value.is_integer() and abs(value) < 2**53


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"half of a surrogate pair at character {error.start + 1}") from None


def _in_our_words(error: ValueError) -> ValueError:
    digits = sys.get_int_max_str_digits()
    return ValueError(f"an integer of more than {digits} digits") if "set_int_max_str_digits" in str(error) else error


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


def _children(item: dict[str, Any] | Iterable[Any]) -> list[Any]:
    return [*item.keys(), *item.values()] if isinstance(item, dict) else list(item)

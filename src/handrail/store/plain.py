"""Makes any value fit for a line of JSON; for the rare one that does not fit as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handrail.strict_json import LEAST_INTEGER, MOST_INTEGER

MAX_DEPTH = 50


def plain(value: Any, depth: int = 0) -> Any:
    """Give the nearest JSON value: lone surrogates written out, what JSON lacks as text."""
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        return int(value) if LEAST_INTEGER <= value <= MOST_INTEGER else _digits(value)
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if depth > MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, depth + 1) for item in value]
    return plain(str(value))


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # thousands of digits
        return f"an integer of {value.bit_length()} bits"

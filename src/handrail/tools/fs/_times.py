"""Times of files as text. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  (UTC, as all here)


def utc(ns: int) -> str:
    """Write a time of a file in UTC, to the second; one that no calendar holds as the nearest it does."""
    return _second(ns // 1_000_000_000)


@lru_cache(4096)
def _second(second: int) -> str:
    try:
        return f"{(_EPOCH + timedelta(seconds=second)).isoformat()}Z"
    except OverflowError:
        return "9999-12-31T23:59:59Z" if second > 0 else "0001-01-01T00:00:00Z"

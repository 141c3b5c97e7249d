"""Times of files as text. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc(mtime_ns: int) -> str:
    """Write a time of change in UTC, to the second; one that no calendar holds as the nearest it does."""
    try:
        return f"{_EPOCH + timedelta(seconds=mtime_ns // 1_000_000_000):%Y-%m-%dT%H:%M:%SZ}"
    except OverflowError:
        return "9999-12-31T23:59:59Z" if mtime_ns > 0 else "0001-01-01T00:00:00Z"

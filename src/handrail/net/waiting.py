"""How long a host asks to be left alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that a Retry-After asks for, as a number or a date; None where it asks for nothing sensible."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return float(text[:9])
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None

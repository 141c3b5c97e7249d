"""Names near a wrong one. Few calls need them, and what finds them takes time to load."""

from __future__ import annotations

from collections.abc import Iterable

MAX_LENGTH = 256  # of a name that is compared: the time grows with the square of it


def nearest(name: str, known: Iterable[str], count: int = 3, cutoff: float = 0.6) -> list[str]:
    """Give the known names that are most like a wrong one, the nearest first; none for one too long to be a name."""
    if len(name) > MAX_LENGTH:
        return []
    from difflib import get_close_matches

    return get_close_matches(name, list(known), count, cutoff)

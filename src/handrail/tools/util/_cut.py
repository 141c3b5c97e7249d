"""Cutting text to a limit without tearing a character apart. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

Measure = Callable[[str], int]
_JOINER = "\u200d"
_EXTENDING = frozenset({"Mn", "Me", "Mc"})


def cut_text(text: str, max_chars: int | None, max_bytes: int | None, keep: str) -> tuple[str, int]:
    """Give a text within the limit and how many characters it lost; `middle` keeps the middle."""
    measure: Measure = len if max_chars is not None else byte_length
    limit = max_chars if max_chars is not None else max_bytes or 0
    if measure(text) <= limit:
        return text, 0
    marks = 2 if keep == "middle" else 1
    for mark in (f"[… cut from {len(text)} characters …]", "…", ""):
        room = limit - marks * measure(mark)
        if room >= (4 * measure(mark) if len(mark) > 1 else 0):
            break
    return _kept(text, room, keep, mark, measure)


def _kept(text: str, room: int, keep: str, mark: str, measure: Measure) -> tuple[str, int]:
    if keep == "head":
        end = _end(text, room, measure)
        return text[:end] + mark, len(text) - end
    if keep == "tail":
        start = _start(text, room, measure)
        return mark + text[start:], start
    spare = (measure(text) - room) // 2
    start = boundary_after(text, _end(text, spare, measure))
    end = start + _end(text[start:], room, measure)
    return mark + text[start:end] + mark, len(text) - (end - start)


def byte_length(text: str) -> int:
    """How many bytes a text is in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _end(text: str, room: int, measure: Measure) -> int:
    """The last place to cut so that what stands before fits."""
    low, high = 0, min(len(text), max(0, room))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(text[:middle]) <= room else (low, middle - 1)
    while low > 0 and not is_boundary(text, low):
        low -= 1
    return low


def _start(text: str, room: int, measure: Measure) -> int:
    """The first place to cut so that what stands after fits."""
    low, high = max(0, len(text) - max(0, room)), len(text)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if measure(text[middle:]) <= room else (middle + 1, high)
    return boundary_after(text, low)


def boundary_after(text: str, place: int) -> int:
    """The nearest place from here on where a text may be cut."""
    while place < len(text) and not is_boundary(text, place):
        place += 1
    return place


def is_boundary(text: str, place: int) -> bool:
    """Whether no visible character is torn apart by a cut here: accents, joined emoji, flags, CR LF stay whole."""
    if place <= 0 or place >= len(text):
        return True
    before, after = text[place - 1], text[place]
    if before == "\r" and after == "\n":
        return False
    if after.isascii() and before.isascii():
        return True
    if after == _JOINER or before == _JOINER or unicodedata.category(after) in _EXTENDING:
        return False
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\ufe00" <= after <= "\ufe0f" or "\U000e0020" <= after <= "\U000e007f":
        return False
    return not (_is_flag(after) and _flags_before(text, place) % 2)


def _is_flag(sign: str) -> bool:
    return "\U0001f1e6" <= sign <= "\U0001f1ff"


def _flags_before(text: str, place: int) -> int:
    count = 0
    while place - count > 0 and _is_flag(text[place - count - 1]):
        count += 1
    return count

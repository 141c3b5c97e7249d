"""Where a text that was not found nearly stands, and the first line that differs, blanks made visible. Pure."""

from __future__ import annotations

import re
from collections import Counter

from handrail.errors import Code, Problem
from handrail.output.redact import MARK
from handrail.spelling import nearest
from handrail.tools.fs._ladder import Original
from handrail.tools.fs._text import body_of, lines_of

_COMPARED = 20_000  # lines that are looked at where no line is the same
_SPELT, _LETTERS = 500, 60  # lines that are compared letter by letter, and how many letters
_SHOWN = 160  # characters of a line
_WORD = re.compile(r"\w+")
_VISIBLE = str.maketrans({" ": "·", "\t": "→", "\r": "␍", "\u00a0": "⍽", "\u200b": "⁞", "\ufeff": "⁞"})


def no_match(original: Original, quoted: str, field: str, shown: str) -> Problem:
    """Say that a quoted text is not there, and where it nearly is, by what may be shown of the text."""
    original = original.shown
    wanted = [body_of(line) for line in lines_of(quoted)]
    there = [body_of(line) for line in original.lines]
    if MARK in quoted:
        hint = f" It holds {MARK}, which only marks a value that is hidden from you; quote the text around it."
    else:
        hint = ""
    start = _nearest(there, wanted)
    if start is None:
        return Problem(
            Code.NO_MATCH,
            f"`{field}` is not in {shown}, nor anything like it.{hint}",
            next_call={"tool": "read_file", "args": {"path": shown}},
        )
    at, column = _first_difference(there, wanted, start)
    expected = wanted[at] if at < len(wanted) else ""
    line = start + at
    found = there[line] if line < len(there) else ""
    if MARK in found and not hint:
        hint = f" {MARK} stands for a hidden value; a part of one is never found: quote the text around it."
    offset, limit = max(1, start - 2), len(wanted) + 6
    return Problem(
        Code.NO_MATCH,
        f"`{field}` is not in {shown}. The nearest place starts at line {start + 1}; line {line + 1} differs from "
        f"column {column + 1} on: expected {visible(expected, column)!r}, found {visible(found, column)!r} "
        f"(· is a space, → a tab).{_signs(expected, found, column)}{hint}",
        next_call={"tool": "read_file", "args": {"path": shown, "offset": offset, "limit": limit}},
        nearest_line=start + 1,
        line=line + 1,
        expected=visible(expected, column),
        found=visible(found, column),
    )


def visible(text: str, column: int = 0) -> str:
    """Show the blanks of a line, and of a long line the part around a column."""
    start = max(0, column - _SHOWN // 2) if len(text) > _SHOWN else 0
    part = text[start : start + _SHOWN].translate(_VISIBLE)
    return f"{'…' if start else ''}{part}{'…' if start + _SHOWN < len(text) else ''}"


def _signs(expected: str, found: str, column: int) -> str:
    """Name the two characters where they may look alike."""
    one, other = expected[column : column + 1], found[column : column + 1]
    if not one or not other or (one.isascii() and other.isascii()) or MARK in found:
        return ""
    return f" There stands U+{ord(other):04X} where U+{ord(one):04X} is expected."


def _nearest(there: list[str], wanted: list[str]) -> int | None:
    """The line where most of the wanted lines stand as they should, or the one most like the longest of them."""
    places: dict[str, list[int]] = {}
    for index, line in enumerate(wanted):
        if line.strip():
            places.setdefault(line.strip(), []).append(index)
    votes = Counter(
        index - offset
        for index, line in enumerate(there)
        for offset in places.get(line.strip(), [])[:10]
        if index >= offset
    )
    if votes:
        return max(votes, key=lambda start: (votes[start], -start))
    longest = max(places, key=len, default=None)
    if longest is None:
        return None
    at = _alike(there, longest[:_SHOWN])
    return None if at is None else max(0, at - places[longest][0])


def _alike(there: list[str], wanted: str) -> int | None:
    """The line that has most words in common with one, or is most like it letter by letter."""
    starts = [line.strip()[:_SHOWN] for line in there[:_COMPARED]]
    words = set(_WORD.findall(wanted))
    shared = [len(words & set(_WORD.findall(line))) for line in starts]
    if words and shared and 2 * max(shared) >= len(words):
        return shared.index(max(shared))
    like = nearest(wanted[:_LETTERS], {line[:_LETTERS] for line in starts[:_SPELT]}, 1, 0.5)
    return next((index for index, line in enumerate(starts) if like and line[:_LETTERS] == like[0]), None)


def _first_difference(there: list[str], wanted: list[str], start: int) -> tuple[int, int]:
    """The first wanted line that stands otherwise, and from which character on."""
    for index, line in enumerate(wanted):
        other = there[start + index] if start + index < len(there) else ""
        if start + index >= len(there) or line.rstrip() != other.rstrip():
            return index, _column(line, other)
    return _blank_difference(there, wanted, start)


def _blank_difference(there: list[str], wanted: list[str], start: int) -> tuple[int, int]:
    for index, line in enumerate(wanted):
        other = there[start + index]
        if line != other:
            return index, _column(line, other)
    return max(0, len(wanted) - 1), len(wanted[-1]) if wanted else 0


def _column(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))

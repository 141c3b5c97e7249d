"""What a unified diff changes, without what stays. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@.*")
_NO_NEWLINE = "\\ "
_NOTHING = "/dev/null"
_WORDS = frozenset("abcdefghijklmnopqrstuvwxyz")  # that a line of words begins with: `new folder`, `create`
_CUT = re.compile(r".* … \[\d+ more characters\]", re.DOTALL)  # a line that is not shown to its end


@dataclass(frozen=True, slots=True)
class FileDiff:
    """What a diff says of one file, or of something that has no content to show."""

    path: str  # empty: `lines` is one line of words, such as `new folder docs`
    kind: str  # new | changed | removed | noted
    lines: tuple[str, ...]  # that are taken out and put in; the first line of each hunk where there are several


def file_diffs(diff: str) -> list[FileDiff] | None:
    """Take a diff apart by its files, without what stays; None where it is not whole.

    The counts of each hunk say which lines belong to it, so no line of a file can pass for a part of the diff.
    """
    rows = diff.removesuffix("\n").split("\n")
    if not diff or any(_CUT.fullmatch(row) or row.startswith("[") for row in rows):
        return None
    found: list[FileDiff] = []
    place = 0
    while place < len(rows):
        if not rows[place].startswith("--- "):
            if rows[place][:1] not in _WORDS:
                return None
            found.append(FileDiff("", "noted", (rows[place],)))
            place += 1
            continue
        read = _read_file(rows, place)
        if read is None:
            return None
        file, place = read
        found.append(file)
    return found


def _read_file(rows: list[str], start: int) -> tuple[FileDiff, int] | None:
    """Read the hunks of one file; gives the file, and the row after them."""
    if start + 2 >= len(rows) or not rows[start + 1].startswith("+++ "):
        return None
    before = rows[start][4:]
    after = rows[start + 1][4:]
    hunks: list[list[str]] = []
    place = start + 2
    while place < len(rows) and (found := _HUNK.fullmatch(rows[place])) is not None:
        end = _end_of(rows, place + 1, int(found[1] or 1), int(found[2] or 1))
        if end is None:
            return None
        hunks.append([rows[place], *(row for row in rows[place + 1 : end] if not row.startswith(" "))])
        place = end
    if not hunks:
        return None
    lines = [row for hunk in hunks for row in (hunk if len(hunks) > 1 else hunk[1:])]
    kind = "new" if before == _NOTHING else "removed" if after == _NOTHING else "changed"
    path = (before if kind == "removed" else after).removeprefix("a/" if kind == "removed" else "b/")
    return FileDiff(path, kind, tuple(lines)), place


def _end_of(rows: list[str], place: int, old: int, new: int) -> int | None:
    """Find the row after a hunk that has so many lines of both sides; None where it does not."""
    while old or new:
        if place >= len(rows):
            return None
        mark = rows[place][:1]
        if mark not in (" ", "-", "+", "\\"):
            return None
        old -= mark in (" ", "-")
        new -= mark in (" ", "+")
        place += 1
        if old < 0 or new < 0:
            return None
    while place < len(rows) and rows[place].startswith(_NO_NEWLINE):
        place += 1
    return place

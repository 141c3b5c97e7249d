"""Diffs for people: lines with their numbers and kinds, and the words that differ. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from handrail.approvals.show import visible
from handrail.words import noun

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@.*")
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_MOST_MARKED = 400  # pairs of lines whose words are compared
_MOST_CHARS = 500  # of such a line

Parts = tuple[tuple[bool, str], ...]  # pieces of a line, and whether each differs


@noun
class DiffLine:
    """One line of a diff."""

    kind: str  # add, del, same, hunk, file or note
    parts: Parts
    old: int | None = None
    new: int | None = None


def read_diff(diff: str) -> list[DiffLine]:
    """Take a diff apart; text that is none becomes notes."""
    lines = list(_lines(diff))
    _mark_words(lines)
    return lines


def count_changes(lines: list[DiffLine]) -> tuple[int, int]:
    """Count the lines that are put in and taken out."""
    return sum(line.kind == "add" for line in lines), sum(line.kind == "del" for line in lines)


def _lines(diff: str) -> Iterator[DiffLine]:
    old = new = 0
    inside = False
    for text in diff.removesuffix("\n").split("\n") if diff else ():
        found = _HUNK.fullmatch(text)
        if found is not None:
            old, new, inside = int(found[1]), int(found[2]), True
            yield _line("hunk", text)
        elif not inside or (text.startswith(("--- ", "+++ ")) and not _is_content(text, old, new)):
            inside = inside and not text.startswith("--- ")
            yield _line("file" if text.startswith(("--- ", "+++ ")) else "note", text)
        elif text.startswith("+"):
            yield _line("add", text[1:], None, new)
            new += 1
        elif text.startswith("-"):
            yield _line("del", text[1:], old, None)
            old += 1
        elif text.startswith(" "):
            yield _line("same", text[1:], old, new)
            old, new = old + 1, new + 1
        else:
            yield _line("note", text)


def _is_content(text: str, old: int, new: int) -> bool:  # noqa: ARG001
    """Whether a line that looks like a file's head is a changed line: heads have a name of ours behind the mark."""
    return not text[4:].startswith(("a/", "b/", "/dev/null"))


def _line(kind: str, text: str, old: int | None = None, new: int | None = None) -> DiffLine:
    return DiffLine(kind, ((False, visible(text)),), old, new)


def _mark_words(lines: list[DiffLine]) -> None:
    """Mark what differs between lines that took each other's place."""
    place, marked = 0, 0
    while place < len(lines) and marked < _MOST_MARKED:
        if lines[place].kind != "del":
            place += 1
            continue
        taken = _run(lines, place, "del")
        put = _run(lines, place + taken, "add")
        if taken == put:
            for number in range(place, place + taken):
                lines[number], lines[number + taken] = _compared(lines[number], lines[number + taken])
                marked += 1
        place += taken + put


def _run(lines: list[DiffLine], place: int, kind: str) -> int:
    end = place
    while end < len(lines) and lines[end].kind == kind:
        end += 1
    return end - place


def _compared(before: DiffLine, after: DiffLine) -> tuple[DiffLine, DiffLine]:
    one, other = before.parts[0][1], after.parts[0][1]
    if len(one) > _MOST_CHARS or len(other) > _MOST_CHARS:
        return before, after
    first, second = _WORDS.findall(one), _WORDS.findall(other)
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    if matcher.ratio() < 0.4:
        return before, after
    left: list[tuple[bool, str]] = []
    right: list[tuple[bool, str]] = []
    for kind, start, end, begin, stop in matcher.get_opcodes():
        if end > start:
            left.append((kind != "equal", "".join(first[start:end])))
        if stop > begin:
            right.append((kind != "equal", "".join(second[begin:stop])))
    return (
        DiffLine(before.kind, tuple(left), before.old, before.new),
        DiffLine(after.kind, tuple(right), after.old, after.new),
    )

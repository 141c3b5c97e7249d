"""Apply a patch's hunks to a text: found by content, line numbers are hints. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from handrail.errors import Code, Problem
from handrail.tools.fs._effort import Effort
from handrail.tools.fs._ladder import LEVELS, Hidden, Original, folded_line
from handrail.tools.fs._nearest import no_match
from handrail.tools.fs._patch import Hunk
from handrail.tools.fs._rows import Indents, Rows
from handrail.tools.fs._text import body_of, ending_of

_LISTED = 20
_SPEAKING = re.compile(r"\w")  # a line that is more than brackets
_TELLING = re.compile(r"\w{3}")  # a line that hardly stands there by chance


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a hunk's old lines stand, counted from 0, and how they were found."""

    hunk: Hunk
    start: int
    level: str
    deeper: str = ""
    shallower: str = ""

    @property
    def end(self) -> int:
        """The line after the last one."""
        return self.start + len(self.hunk.old)


@dataclass(frozen=True, slots=True)
class Patched:
    """A text after its hunks; `done` says that all of them were in it before."""

    text: str
    placed: tuple[Placed, ...]
    done: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """Where a hunk's lines stand, in order; by how much deeper or shallower, where that is how they were found."""

    level: str
    starts: list[int]
    shifts: dict[int, tuple[str, str]]

    def __len__(self) -> int:
        return len(self.starts)

    def holds(self, start: int | None) -> bool:
        """Whether this is one of the places."""
        if start is None:
            return False
        at = bisect_left(self.starts, start)
        return at < len(self.starts) and self.starts[at] == start

    def at(self, hunk: Hunk, start: int) -> Placed:
        """Give one of the places."""
        return Placed(hunk, start, self.level, *self.shifts.get(start, ("", "")))


def apply_hunks(
    text: str, hunks: tuple[Hunk, ...], shown: str, hidden: Hidden, effort: Effort | None = None
) -> Patched:
    """Apply all hunks or raise a Problem that names the one that does not fit."""
    finder = _Finder(Original(text, hidden, effort), shown)
    alike = {(hunk.lines, hunk.at_end, hunk.bare_old): hunk for hunk in hunks}
    if hunks and all(finder.is_done(hunk) for hunk in alike.values()):
        return Patched(text, (), True)
    placed: list[Placed] = []
    for hunk in hunks:
        placed.append(finder.place(hunk, placed))
    placed.sort(key=lambda item: (item.start, item.end))
    for one, other in pairwise(placed):
        if other.start < one.end:
            raise Problem(
                Code.INVALID_ARGS,
                f"The hunks at lines {one.hunk.at} and {other.hunk.at} of the patch change the same lines of {shown}.",
            )
    return Patched(_woven(finder.original.lines, placed), tuple(placed))


class _Finder:
    """Looks for hunks in one text."""

    def __init__(self, original: Original, shown: str) -> None:
        self.original = original
        self._shown = shown
        self._rows: dict[str, Rows] = {}
        self._found: dict[tuple[str, tuple[str, ...]], _Found] = {}  # what was sought before
        self._after: dict[str, tuple[list[int], list[int]]] = {}

    def place(self, hunk: Hunk, before: list[Placed]) -> Placed:
        """Find the one place of a hunk."""
        old = hunk.old
        if not old:
            return self._insertion(hunk)
        drift = before[-1].start - before[-1].hunk.hint + 1 if before and before[-1].hunk.hint is not None else 0
        expected = None if hunk.hint is None else hunk.hint - 1 + drift
        for level in LEVELS:
            found = self._find(hunk, old, level)
            if not found:
                continue
            chosen = self._choose(hunk, found, expected, before)
            if chosen is not None:
                return chosen
            raise self._ambiguous(hunk, found)
        quoted = "\n".join(old)
        raise no_match(self.original, quoted, f"hunk at line {hunk.at} of the patch", self._shown)

    def is_done(self, hunk: Hunk) -> bool:
        """Whether a hunk's new lines stand there already, and its old ones do not without them."""
        new, old = hunk.new, hunk.old
        if not any(_SPEAKING.search(line) for line in new):
            return False
        there = self._find(hunk, new, "trailing_blanks")
        if not there:
            return False
        if not old or not any(self._find(hunk, old, level) for level in LEVELS):
            return True
        # Lines added at the edge of the context leave the old lines as they were: then every place of them is
        # inside a place of the new ones.
        added = [text for sign, text in hunk.lines if sign == "+"]
        if len(added) != len(new) - len(old) or not any(_TELLING.search(line) for line in added):
            return False
        places, room = self._find(hunk, old, "trailing_blanks").starts, len(new) - len(old)
        self.original.effort.spend(len(places))
        around = ((bisect_left(there.starts, at - room), bisect_right(there.starts, at)) for at in places)
        return places != [] and all(first < last for first, last in around)

    def _find(self, hunk: Hunk, wanted: list[str], level: str) -> _Found:
        if level == "indent":
            sought = [folded_line(line, "typographic") for line in wanted]
        else:
            exact = level == "exact"
            sought = [f"{line}\n" if exact else folded_line(line.removesuffix("\r"), level) for line in wanted]
            if exact and hunk.bare_old:
                sought[-1] = sought[-1][:-1]
        self.original.effort.spend(len(sought))
        key = level, tuple(sought)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._sought(sought, level)
        if hunk.at_end:
            last = len(self.original.lines) - len(wanted)
            return _Found(level, [last] if found.holds(last) else [], found.shifts)
        return found

    def _sought(self, sought: list[str], level: str) -> _Found:
        """Every place where lines stand in a row; none that begins or ends inside a hidden value."""
        effort, starts, shifts = self.original.effort, self.original.starts, {}
        if level == "indent":
            shifts = {at: (deeper, shallower) for at, deeper, shallower in self._indents.places(sought, effort)}
            found = list(shifts)
        else:
            found = self._level_rows(level).places(sought, effort)
        if found and self.original.hidden:
            found = [at for at in found if self.original.is_apart(starts[at], starts[at + len(sought)])]
        effort.spend(len(found))
        return _Found(level, found, shifts)

    def _level_rows(self, level: str) -> Rows:
        if level not in self._rows:
            lines = self.original.lines
            self._rows[level] = Rows(
                lines if level == "exact" else [folded_line(body_of(line), level) for line in lines]
            )
        return self._rows[level]

    @cached_property
    def _indents(self) -> Indents:
        return Indents([folded_line(body_of(line), "typographic") for line in self.original.lines])

    def _choose(self, hunk: Hunk, found: _Found, expected: int | None, before: list[Placed]) -> Placed | None:
        """The only place; or the one where the hunk says it is, after what it names or after the hunk before it."""
        starts = found.starts
        after = before[-1].end if before else 0
        following = bisect_left(starts, after)
        if len(starts) == 1:
            return found.at(hunk, starts[0])
        if expected is not None and found.holds(expected):
            return found.at(hunk, expected)
        line = self._after_anchors(hunk, after)
        if line is not None and (at := max(following, bisect_left(starts, line - 1))) < len(starts):
            return found.at(hunk, starts[at])
        return found.at(hunk, starts[following]) if following == len(starts) - 1 else None

    def _after_anchors(self, hunk: Hunk, after: int) -> int | None:
        """The line after the last anchor; None where one is missing, or the first one is not unique."""
        for index, anchor in enumerate(hunk.anchors):
            whole, begun = self._lines_of(anchor.strip())
            hits = whole if whole and whole[-1] >= after else begun
            first = bisect_left(hits, after)
            if first == len(hits) or (index == 0 and len(hits) - first > 1 and len(hunk.anchors) == 1):
                return None
            after = hits[first] + 1
        return after if hunk.anchors else None

    def _lines_of(self, anchor: str) -> tuple[list[int], list[int]]:
        """The lines that are an anchor, and those that begin with it, as they may be shown."""
        if anchor not in self._after:
            self.original.effort.spend(len(self._bodies))
            begun = [at for at, body in enumerate(self._bodies) if body.startswith(anchor)]
            self._after[anchor] = [at for at in begun if self._bodies[at] == anchor], begun
        return self._after[anchor]

    @cached_property
    def _bodies(self) -> list[str]:
        return [body_of(line).strip() for line in self.original.shown.lines]

    def _insertion(self, hunk: Hunk) -> Placed:
        """Lines that are added without any around them: at the end, after an anchor, or into an empty file."""
        lines = self.original.lines
        if hunk.at_end or not lines:
            return Placed(hunk, len(lines), "exact")
        if hunk.appends:
            return Placed(hunk, len(lines), "appended")
        line = self._after_anchors(hunk, 0)
        if line is not None:
            return Placed(hunk, line, "exact")
        raise Problem(
            Code.AMBIGUOUS_MATCH,
            f"The hunk at line {hunk.at} of the patch adds lines to {self._shown} and does not say where: give at "
            "least one line around them, or an `@@` line that stands in the file once.",
            next_call={"tool": "read_file", "args": {"path": self._shown}},
            line=hunk.at,
        )

    def _ambiguous(self, hunk: Hunk, found: _Found) -> Problem:
        lines = [start + 1 for start in found.starts]
        return Problem(
            Code.AMBIGUOUS_MATCH,
            f"The hunk at line {hunk.at} of the patch fits {self._shown} in {len(lines)} places, at lines "
            f"{', '.join(map(str, lines[:_LISTED]))}. Give more lines around the change, or an `@@` line that names "
            "the function or heading above it.",
            next_call={"tool": "read_file", "args": {"path": self._shown, "offset": max(1, lines[0] - 5)}},
            line=hunk.at,
            lines=lines[:_LISTED],
        )


# ── what the text becomes ────────────────────────────────────────────────────────────────────


def _woven(lines: list[str], placed: list[Placed]) -> str:
    parts: list[str] = []
    at = 0
    for item in placed:
        parts += lines[at : item.start]
        if item.start == len(lines) and parts and not ending_of(parts[-1]):
            parts[-1] += _ending(lines, item.start) or "\n"
        parts += _written(lines, item)
        at = item.end
    return "".join(parts + lines[at:])


def _written(lines: list[str], item: Placed) -> list[str]:
    """The hunk's new lines: context as it stands in the file, added lines with the endings of the place."""
    parts: list[str] = []
    at, default = item.start, _ending(lines, item.start)
    for sign, text in item.hunk.lines:
        if sign == "+":
            parts.append(_added(text, item, default))
            continue
        default = ending_of(lines[at]) or default
        if sign == " ":
            parts.append(lines[at])
        at += 1
    return _ended(parts, lines, item, default or "\n")


def _added(text: str, item: Placed, ending: str) -> str:
    if not ending or (item.level == "exact" and item.hunk.old):
        return f"{text}\n"  # the patch and the file agree to the byte, carriage returns included
    body = text.removesuffix("\r")
    if body.strip():
        if item.shallower and not body.startswith(item.shallower):
            raise Problem(
                Code.NO_MATCH,
                f"The hunk at line {item.hunk.at} of the patch stands in the file with {len(item.shallower)} blanks "
                f"less of indent, and one of its new lines cannot be moved as far left: {body.strip()[:80]!r}.",
            )
        body = item.deeper + body[len(item.shallower) :]
    return body + ending


def _ended(parts: list[str], lines: list[str], item: Placed, ending: str) -> list[str]:
    """Mend the end of the file: lines inside get an ending, the last one keeps the file's way unless the patch says."""
    parts = [line if ending_of(line) or index == len(parts) - 1 else line + ending for index, line in enumerate(parts)]
    if item.end < len(lines) or not parts:
        return parts
    bare = bool(lines) and not ending_of(lines[-1])
    if item.hunk.says_end:
        bare = item.hunk.bare_new
    last = body_of(parts[-1])
    return [*parts[:-1], last if bare else last + (ending_of(parts[-1]) or ending)]


def _ending(lines: list[str], start: int) -> str:
    """The ending at a place: of the line there, or of the nearest before or after it; empty where there is none."""
    for line in [*lines[start : start + 1], *reversed(lines[max(0, start - 50) : start]), *lines[start : start + 50]]:
        if ending := ending_of(line):
            return ending
    return ""

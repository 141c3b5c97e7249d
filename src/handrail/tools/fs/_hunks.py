"""Apply a patch's hunks to a text: found by content, line numbers are hints. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from handrail.errors import Code, Problem
from handrail.tools.fs._ladder import LEVELS, Original, folded_line, indented
from handrail.tools.fs._nearest import Hide, no_match
from handrail.tools.fs._patch import Hunk
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


def apply_hunks(text: str, hunks: tuple[Hunk, ...], shown: str, hide: Hide) -> Patched:
    """Apply all hunks or raise a Problem that names the one that does not fit."""
    finder = _Finder(Original(text), shown, hide)
    if hunks and all(finder.is_done(hunk) for hunk in hunks):
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

    def __init__(self, original: Original, shown: str, hide: Hide) -> None:
        self.original = original
        self._shown = shown
        self._hide = hide
        self._keys: dict[str, list[str]] = {}
        self._places: dict[str, dict[str, list[int]]] = {}

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
        raise no_match(self.original, quoted, f"hunk at line {hunk.at} of the patch", self._shown, self._hide)

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
        spans = [(item.start, item.start + len(new)) for item in there]
        places = self._find(hunk, old, "trailing_blanks")
        return places != [] and all(
            any(start <= item.start and item.start + len(old) <= end for start, end in spans) for item in places
        )

    def _find(self, hunk: Hunk, wanted: list[str], level: str) -> list[Placed]:
        if level == "indent":
            keys = self._level_keys("typographic")
            found = [
                Placed(hunk, *hit) for hit in _hits(indented(keys, [folded_line(w, "typographic") for w in wanted]))
            ]
        else:
            exact = level == "exact"
            sought = [f"{line}\n" if exact else folded_line(line.removesuffix("\r"), level) for line in wanted]
            if exact and hunk.bare_old:
                sought[-1] = sought[-1][:-1]
            found = [Placed(hunk, start, level) for start in self._runs(sought, level)]
        if hunk.at_end:
            size = len(self.original.lines)
            found = [item for item in found if item.start + len(wanted) == size]
        return found

    def _runs(self, wanted: list[str], level: str) -> list[int]:
        """Every place where the wanted lines stand in a row."""
        lines = self._level_keys(level)
        if level not in self._places:
            places = self._places[level] = {}
            for at, line in enumerate(lines):
                places.setdefault(line, []).append(at)
        starts = self._places[level].get(wanted[0], []) if wanted else []
        return [at for at in starts if lines[at : at + len(wanted)] == wanted]

    def _level_keys(self, level: str) -> list[str]:
        if level not in self._keys:
            lines = self.original.lines
            self._keys[level] = lines if level == "exact" else [folded_line(body_of(line), level) for line in lines]
        return self._keys[level]

    def _choose(self, hunk: Hunk, found: list[Placed], expected: int | None, before: list[Placed]) -> Placed | None:
        """The only place; or the one where the hunk says it is, after what it names or after the hunk before it."""
        if len(found) == 1:
            return found[0]
        after = before[-1].end if before else 0
        following = [item for item in found if item.start >= after]
        rules: list[Callable[[], list[Placed]]] = [
            lambda: [item for item in found if item.start == expected],
            lambda: self._anchored(hunk, following, after),
            lambda: following,
        ]
        return next((chosen[0] for rule in rules if len(chosen := rule()) == 1), None)

    def _anchored(self, hunk: Hunk, found: list[Placed], after: int) -> list[Placed]:
        """The first place after the lines that the hunk names, if these stand there once."""
        line = self._after_anchors(hunk, after)
        return [] if line is None else [item for item in found if item.start >= line - 1][:1]

    def _after_anchors(self, hunk: Hunk, after: int) -> int | None:
        """The line after the last anchor; None where one is missing, or the first one is not unique."""
        bodies = [body_of(line).strip() for line in self.original.lines]
        for index, anchor in enumerate(hunk.anchors):
            hits = [at for at in range(after, len(bodies)) if bodies[at] == anchor.strip()]
            hits = hits or [at for at in range(after, len(bodies)) if bodies[at].startswith(anchor.strip())]
            if not hits or (index == 0 and len(hits) > 1 and len(hunk.anchors) == 1):
                return None
            after = hits[0] + 1
        return after if hunk.anchors else None

    def _insertion(self, hunk: Hunk) -> Placed:
        """Lines that are added without any around them: at the end, after an anchor, or into an empty file."""
        lines = self.original.lines
        if hunk.at_end or not lines:
            return Placed(hunk, len(lines), "exact")
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

    def _ambiguous(self, hunk: Hunk, found: list[Placed]) -> Problem:
        lines = [item.start + 1 for item in found]
        return Problem(
            Code.AMBIGUOUS_MATCH,
            f"The hunk at line {hunk.at} of the patch fits {self._shown} in {len(lines)} places, at lines "
            f"{', '.join(map(str, lines[:_LISTED]))}. Give more lines around the change, or an `@@` line that names "
            "the function or heading above it.",
            next_call={"tool": "read_file", "args": {"path": self._shown, "offset": max(1, lines[0] - 5)}},
            line=hunk.at,
            lines=lines[:_LISTED],
        )


def _hits(found: list[tuple[int, str, str]]) -> list[tuple[int, str, str, str]]:
    return [(start, "indent", deeper, shallower) for start, deeper, shallower in found]


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

"""Edits of a text: each quotes what it replaces, all are found in the original, none overlap. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field

from handrail.errors import Code, Problem
from handrail.tools.fs._diff import too_alike
from handrail.tools.fs._effort import Effort
from handrail.tools.fs._ladder import MOST_PLACES, Hidden, Match, Original
from handrail.tools.fs._nearest import no_match
from handrail.tools.fs._rows import is_inside
from handrail.tools.fs._text import ending_of, fold_endings, lines_of

_LISTED = 20  # places that an ambiguous match names
_DIFFED = 250_000  # pairs of lines that are compared to keep what an edit leaves alone
_TELLING_CHARS = 24
_MOST_TRIED = 1000  # places inside of words that are passed over
_WORD = re.compile(r"\w")
_TELLING = re.compile(r"\w{3}")  # what makes text more than a bracket that stands everywhere


@dataclass(frozen=True, slots=True)
class Edit:
    """Text to find and text to put there."""

    old: Annotated[str, Field(description="the text as it stands in the file, with enough around it to be there once")]
    new: Annotated[str, Field(description="what takes its place; empty removes it")]
    match: Annotated[Literal["unique", "first", "all"], Field(description="which places, where it is there often")] = (
        "unique"
    )
    near_line: Annotated[int | None, Field(ge=1, description="of several places, the one nearest to this line")] = None


@dataclass(frozen=True, slots=True)
class Span:
    """Characters of the original, and what takes their place."""

    start: int
    end: int
    text: str
    edit: int


@dataclass(frozen=True, slots=True)
class Edited:
    """A text after its edits."""

    text: str
    replacements: int
    first_changed_line: int
    matched_by: tuple[str, ...]  # one per edit


Again = Callable[[list[Edit]], dict[str, Any] | None]  # the call that would make these edits


def apply_edits(
    text: str, edits: list[Edit], shown: str, hidden: Hidden, again: Again, effort: Effort | None = None
) -> Edited:
    """Make all edits or raise a Problem that says which one cannot be made and how to mend it."""
    _check(edits)
    original = Original(text, hidden, effort)
    found = [_found(original, edit, f"edits.{index}.old", shown) for index, edit in enumerate(edits)]
    _check_done(original, edits, found, shown, again)
    spans = [
        Span(match.start, match.end, replacement(original, match, edit.old, edit.new), index)
        for index, (edit, matches) in enumerate(zip(edits, found, strict=True))
        for match in _chosen(original, edits, index, matches, shown, again)
    ]
    spans.sort(key=lambda span: span.start)
    _check_overlaps(original, spans)
    changed = [span for span in spans if text[span.start : span.end] != span.text]
    if not changed:
        raise Problem(Code.INVALID_ARGS, f"The edits leave {shown} as it is: each `new` says what is there already.")
    result = "".join(_woven(text, spans))
    return Edited(result, len(spans), original.line_at(changed[0].start), tuple(m[0].level for m in found))


def _woven(text: str, spans: list[Span]) -> list[str]:
    parts: list[str] = []
    last = 0
    for span in spans:
        parts += (text[last : span.start], span.text)
        last = span.end
    return [*parts, text[last:]]


# ── what cannot be done ──────────────────────────────────────────────────────────────────────


def _check(edits: list[Edit]) -> None:
    if not edits:
        raise Problem(Code.INVALID_ARGS, "`edits` is empty; give at least one {old, new}.")
    for index, edit in enumerate(edits):
        if not edit.old:
            raise Problem(
                Code.INVALID_ARGS,
                f"`edits.{index}.old` is empty, which would match everywhere. Quote the text to replace; to add text, "
                "quote the line before it and repeat that line in `new`.",
            )
        if edit.old == edit.new:
            raise Problem(Code.INVALID_ARGS, f"`edits.{index}`: `old` and `new` are the same.")
        if edit.near_line is not None and edit.match != "unique":
            raise Problem(
                Code.INVALID_ARGS,
                f"`edits.{index}.near_line` picks one of several places; it does not go with match={edit.match!r}.",
            )


def _found(original: Original, edit: Edit, field: str, shown: str) -> list[Match]:
    """Find an edit's places; refuse one that is not there, unless it was made before."""
    matches = original.find(edit.old)
    if not matches and _already(original, edit, matches) is None:
        raise no_match(original, edit.old, field, shown)
    return matches


def _check_done(original: Original, edits: list[Edit], found: list[list[Match]], shown: str, again: Again) -> None:
    """Tell what is missing from what was done before."""
    done = {
        index: line
        for index, (edit, matches) in enumerate(zip(edits, found, strict=True))
        if (line := _already(original, edit, matches)) is not None
    }
    if done:
        left = [edit for index, edit in enumerate(edits) if index not in done]
        places = ", ".join(f"edits.{index} at line {line}" for index, line in done.items())
        raise Problem(
            Code.ALREADY_APPLIED,
            f"The new text is in {shown} already: {places}."
            + (" Leave these out and send the others." if left else ""),
            next_call=again(left) if left else None,
            applied=[{"edit": index, "line": line} for index, line in done.items()],
        )


def _already(original: Original, edit: Edit, matches: list[Match]) -> int | None:
    """The line where the new text stands already, in the place of the old one."""
    if not edit.new.strip():
        return None
    new, text = fold_endings(edit.new), original.unified
    original.effort.look_through(text)
    if not matches:
        # A word or two may stand anywhere; only whole lines, or a longer text, tell that this edit was made.
        if len(new.strip()) < _TELLING_CHARS:
            at, new = _whole_lines(text, new.strip("\n")), new.strip()
        else:
            at = _bounded(original, new)
        return _line_of(original, at, len(new))
    old = fold_endings(edit.old)
    added = new.replace(old, "", 1)
    if edit.match != "unique" or len(matches) > 1 or old not in new or not _TELLING.search(added):
        return None
    # The old text is part of the new one: where the new one stands around it, this edit was made before.
    at = text.find(new)
    return _line_of(original, None if at < 0 else at, len(new))


def _line_of(original: Original, at: int | None, size: int) -> int | None:
    """The line of a place of the unified text; None where it would tell a part of a hidden value."""
    if at is None or any(is_inside(original.unified_hidden, end) for end in (at, at + size)):
        return None
    return original.unified.count("\n", 0, at) + 1


def _whole_lines(text: str, new: str) -> int | None:
    found = re.search(rf"^[ \t]*(?P<new>{re.escape(new.strip())})[ \t]*$", text, re.MULTILINE)
    return None if found is None else found.start("new")


def _bounded(original: Original, new: str) -> int | None:
    """Where a text stands that is not just a part of longer words."""
    text, at = original.unified, -1
    for _ in range(_MOST_TRIED):
        at = text.find(new, at + 1)
        if at < 0:
            return None
        before, after = text[at - 1 : at] if at else "", text[at + len(new) : at + len(new) + 1]
        if not (new[0].isalnum() and _WORD.match(before)) and not (new[-1].isalnum() and _WORD.match(after)):
            return at
        original.effort.spend(len(new))
    return None


def _chosen(
    original: Original, edits: list[Edit], index: int, matches: list[Match], shown: str, again: Again
) -> list[Match]:
    edit = edits[index]
    if edit.match == "first" or len(matches) == 1:
        return matches[:1]
    if len(matches) >= MOST_PLACES:
        raise Problem(
            Code.INVALID_ARGS,
            f"`edits.{index}.old` is in {shown} {MOST_PLACES} times or more; quote something longer.",
        )
    if edit.match == "all":
        return _apart(matches)
    lines = [original.line_at(match.start) for match in matches]
    if edit.near_line is not None:
        distances = [abs(line - edit.near_line) for line in lines]
        nearest = min(distances)
        if distances.count(nearest) == 1:
            return [matches[distances.index(nearest)]]
    named = Edit(edit.old, edit.new, "unique", lines[0])
    listed = ", ".join(map(str, lines[:_LISTED])) + (" …" if len(lines) > _LISTED else "")
    raise Problem(
        Code.AMBIGUOUS_MATCH,
        f"`edits.{index}.old` is in {shown} {len(lines)} times, at lines {listed}. Quote more of the text around it, "
        'or choose one with `near_line`, or replace every one with match="all".',
        next_call=again([*edits[:index], named, *edits[index + 1 :]]) if len(set(lines)) == len(lines) else None,
        lines=lines[:_LISTED],
        matches=len(lines),
        matched_by=matches[0].level,
    )


def _apart(matches: list[Match]) -> list[Match]:
    """Leave out what overlaps an earlier place."""
    kept: list[Match] = []
    for match in matches:
        if not kept or match.start >= kept[-1].end:
            kept.append(match)
    return kept


def _check_overlaps(original: Original, spans: list[Span]) -> None:
    for one, other in pairwise(spans):
        if other.start < one.end:
            first, second = sorted((one.edit, other.edit))
            raise Problem(
                Code.INVALID_ARGS,
                f"`edits.{first}` and `edits.{second}` overlap at line {original.line_at(other.start)}; all edits are "
                "found in the text as it is now. Make one edit of them.",
                edits=[first, second],
            )


# ── what takes its place ─────────────────────────────────────────────────────────────────────


def replacement(original: Original, match: Match, old: str, new: str) -> str:
    """Write the new text as it fits the place: its line endings, its indent, and lines that the edit leaves alone."""
    there = original.text[match.start : match.end]
    original.effort.spend(len(old) + len(new))
    if match.level == "exact" and fold_endings(old) == fold_endings(new):
        return new  # an edit of nothing but line endings says which ones it wants
    ending = _ending_near(original, match)
    if match.level == "exact" and set(map(ending_of, lines_of(new))) <= {ending, ""}:
        return new
    kept, given, asked = lines_of(there), lines_of(fold_endings(old)), lines_of(fold_endings(new))
    if len(kept) != len(given) or len(given) * len(asked) > _DIFFED or too_alike(given, asked):
        return "".join(_fitted(line, ending, match) for line in asked)
    original.effort.spend(len(given) * len(asked))
    parts: list[str] = []
    for tag, start, end, from_, to in SequenceMatcher(None, given, asked, autojunk=False).get_opcodes():
        if tag == "equal":
            parts += kept[start:end]
            continue
        # A line that takes the place of another keeps that one's ending, where a file mixes them.
        endings = [ending_of(line) or ending for line in kept[start:end]] or [ending]
        parts += [_fitted(line, endings[min(i, len(endings) - 1)], match) for i, line in enumerate(asked[from_:to])]
    return "".join(parts)


def _fitted(line: str, ending: str, match: Match) -> str:
    body = line.removesuffix("\n")
    if body.strip():
        if match.shallower and not body.startswith(match.shallower):
            raise Problem(
                Code.NO_MATCH,
                f"The old text stands there with {len(match.shallower)} blanks less of indent, and a line of the new "
                f"text cannot be moved as far left: {body.strip()[:80]!r}. Quote the text with the indent it has.",
            )
        body = match.deeper + body[len(match.shallower) :]
    return body + (ending if line.endswith("\n") else "")


def _ending_near(original: Original, match: Match) -> str:
    """The line ending at a place: in it, after it, before it; a text without any takes what it is given."""
    first, last = original.line_at(match.start), original.line_at(match.end)
    for number in range(max(0, first - 1), last):
        if ending := ending_of(original.lines[number]):
            return ending
    # Only the last line can be without an ending.
    return ending_of(original.lines[first - 2]) if first > 1 else "\n"

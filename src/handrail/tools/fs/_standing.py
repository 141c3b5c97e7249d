"""What to say when something else stands at a path than a tool needs."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from posixpath import basename, splitext

from handrail.errors import Code, Problem
from handrail.ports import Workspace
from handrail.words import Place, PlaceKind

_CLOSE, _AHEAD = 0.75, 0.1  # how near the nearest name must be, and how far ahead of the next


def need_file(files: Workspace, place: Place, tool: str) -> None:
    """Refuse what is not there (naming what is near) and what is no regular file."""
    if place.kind is PlaceKind.FILE:
        return
    if place.kind is PlaceKind.MISSING:
        raise missing(files, place, tool)
    if place.kind is PlaceKind.DIRECTORY:
        raise Problem(
            Code.NOT_A_FILE,
            f"{place.shown} is a folder; list_dir shows what is in it.",
            next_call={"tool": "list_dir", "args": {"path": place.shown}},
        )
    what = "a link" if place.kind is PlaceKind.LINK else "a pipe, a socket or a device"
    raise Problem(Code.NOT_A_FILE, f"{place.shown} is not a regular file but {what}.")


def missing(files: Workspace, place: Place, tool: str) -> Problem:
    """Say that nothing is there, and name the call on the nearest name where one is clearly nearest."""
    near = files.near(place)
    nearest = _clearly_nearest(place.path, near)
    hint = f" Did you mean {' or '.join(near[:3])}?" if near else ""
    return Problem(
        Code.NOT_FOUND,
        f"{place.shown} does not exist.{hint}",
        next_call=None if nearest is None else {"tool": tool, "args": {"path": nearest}},
        near=near[:10],
    )


def stale(place: Place, expected: str | None, now: str) -> Problem:
    """Say that a file is not what the caller knows."""
    if expected is None:
        why = f"{place.shown} exists and this run has not read it whole, so its content would be lost unseen."
    elif not now:
        why = f"{place.shown} is not there any more."
    else:
        why = f"{place.shown} changed since it was read: it was {expected[:12]}…, now it is {now[:12]}…."
    return Problem(
        Code.STALE_FILE,
        f"{why} Read it in this run, then send the change for what it holds now; or name what you mean to replace with "
        "`expected_sha256`.",
        next_call={"tool": "read_file", "args": {"path": place.shown}} if now else None,
        path=place.shown,
        expected_sha256=expected,
        actual_sha256=now or None,
    )


def _clearly_nearest(path: str, near: Sequence[str]) -> str | None:
    name = basename(path).lower()
    ranked = sorted(((_likeness(name, basename(item).lower()), item) for item in near), reverse=True)
    if not ranked or ranked[0][0] < _CLOSE:
        return None
    return ranked[0][1] if len(ranked) == 1 or ranked[0][0] - ranked[1][0] >= _AHEAD else None


def _likeness(one: str, other: str) -> float:
    """How alike two names are; an ending that both have, or only one has, says nothing."""
    (stem, ending), (other_stem, other_ending) = splitext(one), splitext(other)
    if ending == other_ending or not ending or not other_ending:
        one, other = stem, other_stem
    return difflib.SequenceMatcher(None, one, other).ratio()

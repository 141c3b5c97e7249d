"""Where things lie while steps back are taken: what moves a folder moves all that lies in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from handrail.words import noun

# A spot is a path as it was called when so many steps had been taken; 0 where it has been there from the start.
Spot = tuple[int, str]


@noun
class Shift:
    """A step that moves a folder: which one of them, from where, to where."""

    number: int
    source: str
    target: str


def spot_of(path: str, taken: int, shifts: Sequence[Shift]) -> Spot:
    """The spot that has this path when so many steps were taken."""
    for shift in reversed(shifts):
        if shift.number >= taken:
            continue
        if _below(path, shift.target):
            path = shift.source + path[len(shift.target) :]
        elif _below(path, shift.source):
            return shift.number + 1, path  # what lay there before has gone with the folder
    return 0, path


def path_of(spot: Spot, taken: int, shifts: Iterable[Shift]) -> str | None:
    """The path of a spot when so many steps were taken; None while there is none, and when there is none any more."""
    since, path = spot
    if taken < since:
        return None
    for shift in shifts:
        if since <= shift.number < taken:
            if _below(path, shift.source):
                path = shift.target + path[len(shift.source) :]
            elif _below(path, shift.target):
                return None
    return path


def paths_of(spot: Spot, shifts: Sequence[Shift]) -> Iterator[str]:
    """Every path that a spot ever has."""
    since, path = spot
    yield path
    for shift in shifts:
        if shift.number >= since:
            if _below(path, shift.source):
                path = shift.target + path[len(shift.source) :]
                yield path
            elif _below(path, shift.target):
                return


def _below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")

"""How things stand as steps back are taken, one after the other: looked at before the first of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from handrail.errors import Code, Problem
from handrail.ports import Places, Workspace
from handrail.tools.runs._spots import Shift, Spot, path_of, paths_of, spot_of
from handrail.words import Place, PlaceKind

_NAMED = 10  # calls that a refusal names


@dataclass(frozen=True, slots=True)
class Restore:
    """One step back: what stands at a path now, and what shall stand there."""

    path: str
    op: Literal["create", "replace", "delete", "move", "mkdir", "rmdir"]  # what the recorded call had done
    call: str
    before: str | None = None
    after: str | None = None
    mode: int | None = None
    source: str | None = None
    link: str | None = None
    later: bool = False  # calls that can be taken back changed or moved it since
    beyond: list[str] = field(default_factory=list)  # calls that did, and what they did cannot be taken back
    gone: str | None = None  # here: what stands there now is somebody else's, or a later call is bound to it


_FOLDER = "folder or nothing"  # a state beside a hash, a kind, a link with its target, and None for nothing


def ends(step: Restore, number: int, shifts: Sequence[Shift]) -> list[tuple[Spot, str | None, str | None]]:
    """The spots that a step back changes: what stands there before it, and what after it."""
    return [(spot_of(path, number, shifts), now, then) for path, now, then in _changed(step)]


def _changed(step: Restore) -> list[tuple[str, str | None, str | None]]:
    if step.op in ("mkdir", "rmdir"):
        return [(step.path, _FOLDER, _FOLDER)]
    if step.op == "move" and step.source is not None:
        moved = step.after or (PlaceKind.DIRECTORY.value if step.link is None else _link(step.link))
        return [(step.path, moved, None), (step.source, None, moved)]
    if step.op == "create" and step.link is not None:
        return [(step.path, _link(step.link), None)]
    former = step.before if step.link is None else _link(step.link)
    return [(step.path, None if step.op == "delete" else step.after, former)]


def _link(target: str | None) -> str:
    return f"{PlaceKind.LINK.value} to {target}"


async def count_done(
    files: Workspace, places: Places, steps: Sequence[Restore], first: Sequence[str], *, most: int
) -> int:
    """How many steps an undo that broke off has done: the files stand as they do after these, and before the others.

    Refuses before anything is touched where they stand otherwise; where none broke off (`most` is 0), also where they
    happen to stand as they did in between, for that is somebody's own change.
    """
    shifts = shifts_of(steps)
    look = Look(shifts, chains_of(steps, shifts))
    await look.at_all(files, places, whole=most > 0)
    wrong = {spot: None for spot in look.chains if not look.fits(spot)}
    blamed = next((spot for spot in wrong if look.strange(spot)), next(iter(wrong), None))
    for number, step in enumerate(steps[:most]):
        if not wrong:
            break
        for spot in look.take(number, step):
            wrong.pop(spot, None)
            if not look.fits(spot):
                wrong[spot] = None
    if not wrong or blamed is None:
        return look.taken
    look.taken = 0
    raise _stale(blamed, look, steps, first)


async def find_restored(files: Workspace, places: Places, steps: Sequence[Restore]) -> set[int]:
    """The steps whose files have their former content already, by number: somebody else has put that back.

    Left out is what a moved folder takes along, and what later calls changed: there the order of steps counts.
    """
    shifts = shifts_of(steps)
    look = Look(shifts, chains_of(steps, shifts))
    await look.at_all(files, places, whole=False)
    about: dict[Spot, list[int]] = {}
    fixed = set[Spot]()
    for number, step in enumerate(steps):
        for spot, _, _ in ends(step, number, shifts):
            about.setdefault(spot, []).append(number)
            if step.op not in ("create", "replace", "delete") or step.later or step.gone is not None:
                fixed.add(spot)
    found = [
        numbers
        for spot, numbers in about.items()
        if spot not in fixed and len([*paths_of(spot, shifts)]) == 1 and look.is_restored(spot)
    ]
    return {number for numbers in found for number in numbers}


def _stale(blamed: Spot, look: Look, steps: Sequence[Restore], first: Sequence[str]) -> Problem:
    step, path = _about(blamed, look.shifts, steps), look.path(blamed) or blamed[1]
    wanted, actual = look.chains[blamed][0], look.actual.get(path)
    # An earlier undo leaves a folder that is still used, and says so; empty by now, it may stand in the way of another.
    folder = wanted is None and actual == PlaceKind.DIRECTORY.value and not step.later
    mend = " A folder stands there: remove it if it is empty, or move it away, and try again." if folder else ""
    return Problem(
        Code.STALE_FILE,
        f"{path} has changed since call {step.call}; nothing was taken back.{mend}{told_of(step, first)}",
        path=path,
        expected_sha256=_shown(wanted, kinds=()),
        actual_sha256=_shown(actual, kinds=tuple(kind.value for kind in PlaceKind)),
        call=step.call,
        later=list(first) if step.later else None,
    )


def _about(spot: Spot, shifts: Sequence[Shift], steps: Sequence[Restore]) -> Restore:
    return next(step for number, step in enumerate(steps) if any(end[0] == spot for end in ends(step, number, shifts)))


def _shown(state: str | None, kinds: Sequence[str]) -> str | None:
    """A state as it is told: a hash, or one of these kinds."""
    if state is not None and state.startswith(_link("")):
        state = PlaceKind.LINK.value
    return state if state in kinds or (state is not None and len(state) == 64 and state.isalnum()) else None


def told_of(step: Restore, first: Sequence[str]) -> str:
    """Say which calls changed it since: those to take back first, and those that nobody can take back."""
    told = ""
    if step.later:
        more = f" and {len(first) - _NAMED} more" if len(first) > _NAMED else ""
        told = " Calls of the same run changed or moved it later; take these back first: "
        told += f"{', '.join(first[:_NAMED])}{more}."
    if step.beyond:
        told += f" It was changed in a way that cannot be taken back by {', '.join(step.beyond)}."
    return told


def need_unbroken(steps: Sequence[Restore], shifts: Sequence[Shift]) -> None:
    """STALE_FILE where one step would leave something else than the next one expects there."""
    known: dict[Spot, tuple[str | None, Restore]] = {}
    for number, step in enumerate(steps):
        for spot, now, then in ends(step, number, shifts):
            # Where a step has moved the folder away, nothing stands.
            left, later = known.get(spot) or ((None, steps[spot[0] - 1]) if spot[0] else (now, step))
            if not (_stands(left, now) or _stands(now, left)):
                text = (
                    f"Something else changed {spot[1]} after call {step.call} and before call {later.call}; nothing "
                    f"was taken back.{told_of(step, ())} Call {later.call} can be taken back by itself."
                )
                raise Problem(Code.STALE_FILE, text, path=spot[1], call=step.call)
            known[spot] = (then, step)


class Look:
    """What stands at each spot, and what shall stand there as more and more steps are taken."""

    def __init__(self, shifts: Sequence[Shift], chains: dict[Spot, list[str | None]]) -> None:
        self.shifts, self.chains = shifts, chains
        self.actual: dict[str, str | None] = {}
        self.taken = 0
        self._at = dict.fromkeys(chains, 0)

    async def at_all(self, files: Workspace, places: Places, *, whole: bool) -> None:
        """Look at every spot where it lies now; with `whole`, also where it would lie after any number of steps."""
        for spot in self.chains:
            paths = paths_of(spot, self.shifts) if whole else [path for path in [self.path(spot)] if path is not None]
            for path in paths:
                if path not in self.actual:
                    self.actual[path] = await _hash(files, places[path], path)

    def path(self, spot: Spot) -> str | None:
        """Where a spot lies by now."""
        return path_of(spot, self.taken, self.shifts)

    def fits(self, spot: Spot) -> bool:
        """Whether a spot stands as it shall by now; one that is not there yet, or no more, does."""
        path = self.path(spot)
        return path is None or _stands(self.actual.get(path), self.chains[spot][self._at[spot]])

    def is_restored(self, spot: Spot) -> bool:
        """Whether a spot has what it shall have after the last step, and not what it had before the first."""
        path = self.path(spot)
        if path is None or spot[0] or self.fits(spot):
            return False
        return _stands(self.actual.get(path), self.chains[spot][-1])

    def strange(self, spot: Spot) -> bool:
        """Whether a spot stands as no number of steps would leave it."""
        actual = self.actual.get(self.path(spot) or "")
        return not any(_stands(actual, state) for state in self.chains[spot])

    def take(self, number: int, step: Restore) -> list[Spot]:
        """Think one more step taken; gives the spots that stand otherwise by it."""
        changed = [spot for spot, _, _ in ends(step, number, self.shifts)]
        for spot in changed:
            self._at[spot] += 1
        self.taken = number + 1
        return list(self.chains) if any(shift.number == number for shift in self.shifts) else changed


def shifts_of(steps: Sequence[Restore]) -> list[Shift]:
    """The steps that may move a folder with all that lies in it: those that moved no single file."""
    return [
        Shift(number, step.path, step.source)
        for number, step in enumerate(steps)
        if step.op == "move" and step.source is not None and step.after is None
    ]


def chains_of(steps: Sequence[Restore], shifts: Sequence[Shift]) -> dict[Spot, list[str | None]]:
    """How each spot stands after none, one, two … of the steps that change it."""
    chains: dict[Spot, list[str | None]] = {}
    for number, step in enumerate(steps):
        for spot, now, then in ends(step, number, shifts):
            chain = chains.setdefault(spot, [now])
            chain[-1] = now
            chain.append(then)
    return chains


def _stands(actual: str | None, wanted: str | None) -> bool:
    if wanted == _FOLDER:
        return actual in (None, _FOLDER, PlaceKind.DIRECTORY.value)
    return actual == wanted


async def _hash(files: Workspace, place: Place, path: str) -> str | None:
    if place.kind is PlaceKind.MISSING or place.shown != path:
        return None  # behind a link is nothing that was changed
    if place.kind is PlaceKind.LINK:
        return _link((await files.stat(place)).target)
    if place.kind is not PlaceKind.FILE:
        return place.kind.value
    digest = hashlib.sha256()
    async with files.open(place) as stream:
        while chunk := await stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()

"""undo_changes: puts back what recorded calls changed, step by step, last first."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.ports import Archive, Places, Workspace
from handrail.tools.runs._spots import Shift, Spot, path_of, paths_of, spot_of
from handrail.words import Answer, Change, How, Place, PlaceKind, Touch, TouchKind


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
    later: list[str] = field(default_factory=list)  # calls that changed or moved it since, last first
    gone: bool = False  # by these: what stands there now is somebody else's


@dataclass(frozen=True, slots=True)
class Undone:
    """What was put back, and which calls that takes back."""

    paths: list[str]
    calls: list[str]


_BACK = {
    "create": "removed",
    "replace": "put back",
    "delete": "put back",
    "move": "moved back",
    "mkdir": "removed folder",
    "rmdir": "made folder",
}


# Set by the one who reads the steps from a journal: no rule of the operator stands against them, so nobody else may.
from_record: ContextVar[bool] = ContextVar("handrail-undo", default=False)


def undo_touches(args: Mapping[str, Any]) -> Sequence[Touch]:
    """Every path that a step back changes; steps that come from no record are refused."""
    if not from_record.get():
        raise Problem(
            Code.POLICY_DENIED,
            "undo_changes puts back what is on record and takes no steps from a call; "
            "`handrail runs undo` and `Runtime.undo` take changes back.",
            rule="builtin.undo",
        )
    return _touched(args["steps"])


def _touched(steps: Sequence[Restore]) -> list[Touch]:
    touches = []
    for step in steps:
        kind = TouchKind.FS_DELETE if step.op in ("create", "mkdir") else TouchKind.FS_WRITE
        touches.append(Touch(kind, step.path, how=How.UNDO, follow=False))
        if step.op == "move" and step.source is not None:
            touches.append(Touch(TouchKind.FS_WRITE, step.source, how=How.UNDO, follow=False))
    # What lies in a folder that is moved back is looked at where it lies now.
    named, shifts = {touch.target for touch in touches}, _shifts(steps)
    elsewhere = {path: None for spot in _chains(steps, shifts) for path in paths_of(spot, shifts)}
    touches += [Touch(TouchKind.FS_WRITE, path, how=How.UNDO, follow=False) for path in elsewhere if path not in named]
    return touches


@tool(
    risk="high",
    touches=undo_touches,
    permissions=["fs.write", "fs.delete"],
    offered=False,
    timeout_seconds=600,
)
async def undo_changes(
    files: Workspace, archive: Archive, places: Places, run: str, steps: list[Restore], broke_off: bool = False
) -> Answer[Undone]:
    """Put back what calls of a run changed, last first; refuses where something has changed since."""
    shifts = _shifts(steps)
    _need_there(steps)
    if not broke_off:
        _need_straight(places, steps)
    done = await _done(files, places, steps, shifts, most=len(steps) if broke_off else 0)
    left, stay = steps[done:], list[Restore]()
    _need_straight(places, left)
    _need_straight(places, steps[:done], links=_put_there(steps[:done]))
    for number, step in enumerate(left, done):
        place = places[step.path]
        if step.op == "move" and step.source is not None:
            lies = await _as_it_lies(files, places, step, path_of(spot_of(step.path, number, shifts), done, shifts))
            await files.move(lies, places[step.source], overwrite=False)
            continue
        kept = step.before is not None and step.op in ("replace", "delete") and step.link is None
        image = await archive.load(run, step.before) if kept and step.before is not None else None
        change = Change(step.path, step.op, step.before, step.after, step.mode, step.source, step.link)
        try:
            await files.restore(place, change, image)
        except Problem as problem:
            if step.op != "mkdir" or problem.code is not Code.STALE_FILE:
                raise
            stay.append(step)
    return _told(steps, [step for step in left if step not in stay], stay, done)


def _told(steps: Sequence[Restore], taken: Sequence[Restore], stay: Sequence[Restore], done: int) -> Answer[Undone]:
    undone = Undone([step.path for step in taken], list(dict.fromkeys(step.call for step in steps)))
    summary = f"Took back {_counted(len(taken), 'change')} of {_counted(len(undone.calls), 'call')}"
    if done:
        summary += f"; {_counted(done, 'more change')} stood as before already"
    warnings = tuple(f"{step.path}: a folder that holds something else by now, so it stays" for step in stay)
    lines = [summary, *(f"{_BACK[step.op]} {step.path}" for step in taken)]
    return Answer(undone, summary, "\n".join(lines), warnings=warnings)


async def _as_it_lies(files: Workspace, places: Places, step: Restore, then: str | None) -> Place:
    """The place of what a step moves back: of the kind that it was judged to be, wherever it lay then."""
    place = places[step.path]
    if place.kind is not PlaceKind.MISSING:
        return place
    if then is not None and (kind := places[then].kind) is not PlaceKind.MISSING:
        return replace(place, kind=kind)
    return replace(place, kind=(await files.stat(place)).kind)  # an earlier step has put it there


def _need_there(steps: Sequence[Restore]) -> None:
    """STALE_FILE where later calls moved something away or deleted it, whatever stands in its place."""
    for step in steps:
        if step.gone:
            text = f"{step.path} has changed since call {step.call}; nothing was taken back."
            raise Problem(Code.STALE_FILE, text + _first(step), path=step.path, call=step.call, later=step.later)


def _first(step: Restore) -> str:
    return f" Calls of the same run changed or moved it later; take these back first: {', '.join(step.later)}."


def _need_straight(places: Places, steps: Sequence[Restore], links: Sequence[str] = ()) -> None:
    """STALE_FILE where another link than these stands on the way: what it leads to is not what was changed."""
    for path in (touch.target for touch in _touched(steps)):
        if places[path].shown != path and not any(path.startswith(f"{link}/") for link in links):
            text = (
                f"A link on the way to {path} leads to {places[path].shown} by now; nothing was taken back. Take back "
                "the call that put it there first, by itself, or move the link away."
            )
            raise Problem(Code.STALE_FILE, text, path=path)


def _put_there(steps: Sequence[Restore]) -> list[str]:
    """Where steps back may have put a link."""
    moved = [step.source for step in steps if step.op == "move" and step.source is not None]
    return moved + [step.path for step in steps if step.op == "delete" and step.link is not None]


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


_FOLDER = "folder or nothing"  # a state beside a hash, a kind, and None for nothing
_KINDS = (_FOLDER, *(kind.value for kind in PlaceKind))


def _ends(step: Restore, number: int, shifts: Sequence[Shift]) -> list[tuple[Spot, str | None, str | None]]:
    """The spots that a step back changes: what stands there before it, and what after it."""
    return [(spot_of(path, number, shifts), now, then) for path, now, then in _changed(step)]


def _changed(step: Restore) -> list[tuple[str, str | None, str | None]]:
    if step.op in ("mkdir", "rmdir"):
        return [(step.path, _FOLDER, _FOLDER)]
    if step.op == "move" and step.source is not None:
        moved = step.after or (PlaceKind.DIRECTORY if step.link is None else PlaceKind.LINK).value
        return [(step.path, moved, None), (step.source, None, moved)]
    link = PlaceKind.LINK.value if step.link is not None else None
    return [(step.path, None if step.op == "delete" else step.after, link or step.before)]


async def _done(files: Workspace, places: Places, steps: Sequence[Restore], shifts: Sequence[Shift], most: int) -> int:
    """How many steps an undo that broke off has done: the files stand as they do after these, and before the others.

    Refuses before anything is touched where they stand otherwise; where none broke off (`most` is 0), also where they
    happen to stand as they did in between, for that is somebody's own change.
    """
    look = _Look(shifts, _chains(steps, shifts))
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
    raise _stale(blamed, look, steps)


def _stale(blamed: Spot, look: _Look, steps: Sequence[Restore]) -> Problem:
    ends = ((step, spot) for number, step in enumerate(steps) for spot, _, _ in _ends(step, number, look.shifts))
    step = next(step for step, spot in ends if spot == blamed)
    path, wanted = look.path(blamed) or blamed[1], look.chains[blamed][0]
    text = f"{path} has changed since call {step.call}; nothing was taken back."
    return Problem(
        Code.STALE_FILE,
        text + (_first(step) if step.later else ""),
        path=path,
        expected_sha256=None if wanted in _KINDS else wanted,
        actual_sha256=look.actual.get(path),
        call=step.call,
        later=step.later or None,
    )


class _Look:
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

    def strange(self, spot: Spot) -> bool:
        """Whether a spot stands as no number of steps would leave it."""
        actual = self.actual.get(self.path(spot) or "")
        return not any(_stands(actual, state) for state in self.chains[spot])

    def take(self, number: int, step: Restore) -> list[Spot]:
        """Think one more step taken; gives the spots that stand otherwise by it."""
        changed = [spot for spot, _, _ in _ends(step, number, self.shifts)]
        for spot in changed:
            self._at[spot] += 1
        self.taken = number + 1
        return list(self.chains) if any(shift.number == number for shift in self.shifts) else changed


def _shifts(steps: Sequence[Restore]) -> list[Shift]:
    """The steps that may move a folder with all that lies in it: those that moved no single file."""
    return [
        Shift(number, step.path, step.source)
        for number, step in enumerate(steps)
        if step.op == "move" and step.source is not None and step.after is None
    ]


def _chains(steps: Sequence[Restore], shifts: Sequence[Shift]) -> dict[Spot, list[str | None]]:
    """How each spot stands after none, one, two … of the steps that change it."""
    chains: dict[Spot, list[str | None]] = {}
    for number, step in enumerate(steps):
        for spot, now, then in _ends(step, number, shifts):
            chain = chains.setdefault(spot, [now])
            chain[-1] = now
            chain.append(then)
    return chains


def _stands(actual: str | None, wanted: str | None) -> bool:
    if wanted == _FOLDER:
        return actual in (None, PlaceKind.DIRECTORY.value)
    return actual == wanted


async def _hash(files: Workspace, place: Place, path: str) -> str | None:
    if place.kind is PlaceKind.MISSING or place.shown != path:
        return None  # behind a link is nothing that was changed
    if place.kind is not PlaceKind.FILE:
        return place.kind.value
    digest = hashlib.sha256()
    async with files.open(place) as stream:
        while chunk := await stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()

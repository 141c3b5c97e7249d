"""undo_changes: puts back what recorded calls changed, step by step, last first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.ports import Archive, Places, Workspace
from handrail.tools.runs._look import Restore, chains_of, count_done, find_restored, need_unbroken, shifts_of, told_of
from handrail.tools.runs._spots import path_of, paths_of, spot_of
from handrail.words import Answer, Change, How, Place, PlaceKind, Touch, TouchKind


@dataclass(frozen=True, slots=True)
class Undone:
    """What was put back, and which calls that takes back."""

    paths: list[str]
    calls: list[str]


_AT_HAND = 64 * 1024 * 1024  # bytes of former contents that are loaded once instead of twice
_LOST = 20  # calls whose lost changes are told one by one
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
    named, shifts = {touch.target for touch in touches}, shifts_of(steps)
    elsewhere = {path: None for spot in chains_of(steps, shifts) for path in paths_of(spot, shifts)}
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
    files: Workspace,
    archive: Archive,
    places: Places,
    run: str,
    steps: list[Restore],
    broke_off: bool = False,
    first: list[str] | None = None,
    lost: list[str] | None = None,
) -> Answer[Undone]:
    """Put back what calls of a run changed, last first; refuses where something has changed since."""
    _need_there(places, steps, first or ())
    if not broke_off:
        _need_straight(places, steps)
    asked = steps
    try:
        done = await count_done(files, places, steps, first or (), most=len(steps) if broke_off else 0)
    except Problem:
        restored = await find_restored(files, places, steps)
        if not restored:
            raise
        steps = [step for number, step in enumerate(steps) if number not in restored]
        done = await count_done(files, places, steps, first or (), most=len(steps) if broke_off else 0)
    left = steps[done:]
    _need_straight(places, left)
    _need_straight(places, steps[:done], links=_put_there(steps[:done]))
    if not broke_off:
        need_unbroken(steps, shifts_of(steps))
    back = _Back(files, places, steps, done, _Former(archive, run))
    await back.former.need_all(left, "Nothing more" if done else "Nothing")
    for step in left:
        await back.take(step)
    return _told(asked, back, lost or (), len(asked) - len(steps))


class _Former:
    """Former contents: all of them looked at before the first step, and as many as fit kept at hand."""

    def __init__(self, archive: Archive, run: str) -> None:
        self._archive, self._run = archive, run
        self._at_hand: dict[str, bytes] = {}
        self._room = _AT_HAND

    async def need_all(self, steps: Sequence[Restore], taken: str) -> None:
        """Refuse where one is missing or damaged."""
        needed = {digest: step for step in reversed(steps) if (digest := _former(step)) is not None}
        for digest, step in needed.items():
            try:
                data = await self._archive.load(self._run, digest)
            except Problem as problem:
                text = f"What stood at {step.path} before call {step.call} cannot be put back: {problem.message}"
                told = {**problem.details, "path": step.path, "call": step.call}
                text += f" {taken} was taken back; other calls can be, one by one."
                raise Problem(problem.code, text, **told) from problem
            if len(data) <= self._room:
                self._at_hand[digest] = data
                self._room -= len(data)

    async def of(self, step: Restore) -> bytes | None:
        """What a step puts back."""
        digest = _former(step)
        if digest is None or digest in self._at_hand:
            return self._at_hand.get(digest or "")
        return await self._archive.load(self._run, digest)


def _former(step: Restore) -> str | None:
    return step.before if step.op in ("replace", "delete") and step.link is None else None


class _Back:
    """The steps as they are taken."""

    def __init__(self, files: Workspace, places: Places, steps: Sequence[Restore], done: int, former: _Former) -> None:
        self.former, self.done = former, done
        self.taken: list[Restore] = []
        self.stay: list[Restore] = []
        self._files, self._places, self._count, self._shifts = files, places, len(steps), shifts_of(steps)

    async def take(self, step: Restore) -> None:
        """Take one step; where it fails, say how many were taken."""
        try:
            await self._take(step)
        except Problem as problem:
            if step.op == "mkdir" and problem.code is Code.STALE_FILE:
                self.stay.append(step)
                return
            count = f"{self.done + len(self.taken)} of {_counted(self._count, 'change')}"
            text = f"{problem.message} Before that, {count} had been taken back; the next undo goes on from there."
            raise Problem(problem.code, text, next_call=problem.next_call, **problem.details) from problem
        self.taken.append(step)

    async def _take(self, step: Restore) -> None:
        place = self._places[step.path]
        if step.op == "move" and step.source is not None:
            number = self.done + len(self.taken) + len(self.stay)
            then = path_of(spot_of(step.path, number, self._shifts), self.done, self._shifts)
            lies = await _as_it_lies(self._files, self._places, step, then)
            await self._files.move(lies, self._places[step.source], overwrite=False)
            return
        change = Change(step.path, step.op, step.before, step.after, step.mode, step.source, step.link)
        await self._files.restore(place, change, await self.former.of(step))


def _told(steps: Sequence[Restore], back: _Back, lost: Sequence[str], restored: int) -> Answer[Undone]:
    undone = Undone([step.path for step in back.taken], list(dict.fromkeys(step.call for step in steps)))
    summary = f"Took back {_counted(len(back.taken), 'change')} of {_counted(len(undone.calls), 'call')}"
    if before := back.done + restored:
        summary += f"; {_counted(before, 'more change')} already had its former content"
    stay = [f"{step.path}: a folder that holds something else by now, so it stays" for step in back.stay]
    more = [f"{len(lost) - _LOST} more calls changed what cannot be taken back"] if len(lost) > _LOST else []
    lines = [summary, *(f"{_BACK[step.op]} {step.path}" for step in back.taken)]
    return Answer(undone, summary, "\n".join(lines), warnings=(*stay, *lost[:_LOST], *more))


async def _as_it_lies(files: Workspace, places: Places, step: Restore, then: str | None) -> Place:
    """The place of what a step moves back: of the kind that it was judged to be, wherever it lay then."""
    place = places[step.path]
    if place.kind is not PlaceKind.MISSING:
        return place
    if then is not None and (kind := places[then].kind) is not PlaceKind.MISSING:
        return replace(place, kind=kind)
    return replace(place, kind=(await files.stat(place)).kind)  # an earlier step has put it there


def _need_there(places: Places, steps: Sequence[Restore], first: Sequence[str]) -> None:
    """STALE_FILE where later calls moved something away or deleted it, whatever stands in its place."""
    for step in steps:
        if step.gone is None or (step.op == "mkdir" and not step.later and _is_nothing(places[step.path])):
            continue
        what = step.path if step.gone == step.path else f"{step.gone}, where {step.path} came from,"
        text = f"{what} has changed since call {step.call}; nothing was taken back.{told_of(step, first)}"
        later = list(first) if step.later else None
        raise Problem(Code.STALE_FILE, text, path=step.path, call=step.call, later=later)


def _is_nothing(place: Place) -> bool:
    return place.kind is PlaceKind.MISSING


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

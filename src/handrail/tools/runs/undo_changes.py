"""undo_changes: puts back what recorded calls changed, step by step, last first."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.ports import Archive, Places, Workspace
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
    touches = []
    for step in args["steps"]:
        kind = TouchKind.FS_DELETE if step.op in ("create", "mkdir") else TouchKind.FS_WRITE
        touches.append(Touch(kind, step.path, how=How.UNDO, follow=False))
        if step.op == "move" and step.source is not None:
            touches.append(Touch(TouchKind.FS_WRITE, step.source, how=How.UNDO, follow=False))
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
    done = await _done(files, places, steps, most=len(steps) if broke_off else 0)
    left = steps[done:]
    for step in left:
        place = places[step.path]
        if step.op == "move" and step.source is not None:
            await files.move(place, places[step.source], overwrite=False)
            continue
        kept = step.before is not None and step.op in ("replace", "delete") and step.link is None
        image = await archive.load(run, step.before) if kept and step.before is not None else None
        change = Change(step.path, step.op, step.before, step.after, step.mode, step.source, step.link)
        await files.restore(place, change, image)
    undone = Undone([step.path for step in left], list(dict.fromkeys(step.call for step in steps)))
    summary = f"Took back {_counted(len(left), 'change')} of {_counted(len(undone.calls), 'call')}"
    if done:
        summary += f"; {_counted(done, 'more change')} stood as before already"
    return Answer(undone, summary, "\n".join([summary, *(f"{_BACK[step.op]} {step.path}" for step in left)]))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


_ANY, _PRESENT = "any", "present"  # states beside a hash, a kind, and None for nothing


def _ends(step: Restore) -> list[tuple[str, str | None, str | None]]:
    """The paths that a step back changes: what stands there before it, and what after it."""
    if step.op in ("mkdir", "rmdir"):
        return [(step.path, _ANY, _ANY)]
    if step.op == "move" and step.source is not None:
        moved = step.after or _PRESENT
        return [(step.path, moved, None), (step.source, None, moved)]
    link = PlaceKind.LINK.value if step.link is not None else None
    return [(step.path, None if step.op == "delete" else step.after, link or step.before)]


async def _done(files: Workspace, places: Places, steps: Sequence[Restore], most: int) -> int:
    """How many steps an undo that broke off has done: the files stand as they do after these, and before the others.

    Refuses before anything is touched where they stand otherwise; where none broke off (`most` is 0), also where they
    happen to stand as they did in between, for that is somebody's own change.
    """
    chains = _chains(steps)
    actual = {path: await _state(files, places[path], chain) for path, chain in chains.items()}
    at = dict.fromkeys(chains, 0)
    wrong = {path: None for path, chain in chains.items() if not _stands(actual[path], chain[0])}
    strange = [path for path in wrong if not any(_stands(actual[path], state) for state in chains[path])]
    blamed = next(iter(strange or wrong), "")
    done = 0
    for step in steps[:most]:
        if not wrong:
            break
        done += 1
        for path, _, _ in _ends(step):
            at[path] += 1
            if _stands(actual[path], chains[path][at[path]]):
                wrong.pop(path, None)
            else:
                wrong[path] = None
    if not wrong:
        return done
    call = next(step.call for step in steps if blamed in (step.path, step.source))
    raise Problem(
        Code.STALE_FILE,
        f"{blamed} has changed since call {call}; nothing was taken back.",
        path=blamed,
        expected_sha256=None if chains[blamed][0] in (_ANY, _PRESENT) else chains[blamed][0],
        actual_sha256=actual[blamed],
        call=call,
    )


def _chains(steps: Sequence[Restore]) -> dict[str, list[str | None]]:
    """How each path stands after none, one, two … of the steps that change it."""
    chains: dict[str, list[str | None]] = {}
    for step in steps:
        for path, now, then in _ends(step):
            chain = chains.setdefault(path, [now])
            chain[-1] = now
            chain.append(then)
    return chains


def _stands(actual: str | None, wanted: str | None) -> bool:
    return wanted == _ANY or actual == wanted or (wanted == _PRESENT and actual is not None)


async def _state(files: Workspace, place: Place, chain: Sequence[str | None]) -> str | None:
    return None if set(chain) == {_ANY} else await _hash(files, place)


async def _hash(files: Workspace, place: Place) -> str | None:
    if place.kind is not PlaceKind.FILE:
        return None if place.kind is PlaceKind.MISSING else place.kind.value
    digest = hashlib.sha256()
    async with files.open(place) as stream:
        while chunk := await stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()

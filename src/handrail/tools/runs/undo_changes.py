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
    files: Workspace, archive: Archive, places: Places, run: str, steps: list[Restore]
) -> Answer[Undone]:
    """Put back what calls of a run changed, last first; refuses where something has changed since."""
    await _check_all(files, places, steps)
    for step in steps:
        place = places[step.path]
        if step.op == "move" and step.source is not None:
            await files.move(place, places[step.source], overwrite=False)
            continue
        kept = step.before is not None and step.op in ("replace", "delete") and step.link is None
        image = await archive.load(run, step.before) if kept and step.before is not None else None
        change = Change(step.path, step.op, step.before, step.after, step.mode, step.source, step.link)
        await files.restore(place, change, image)
    undone = Undone([step.path for step in steps], list(dict.fromkeys(step.call for step in steps)))
    summary = f"Took back {_counted(len(steps), 'change')} of {_counted(len(undone.calls), 'call')}"
    return Answer(undone, summary, "\n".join([summary, *(f"{_BACK[step.op]} {step.path}" for step in steps)]))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


async def _check_all(files: Workspace, places: Places, steps: Sequence[Restore]) -> None:
    """Refuse before anything is touched when the newest state of a path is not what the last call left."""
    looked: set[str] = set()
    for step in steps:
        first = step.path not in looked
        looked |= {step.path, step.source or step.path}
        expected = None if step.op == "delete" else step.after
        if not first or step.op in ("mkdir", "rmdir") or (step.op == "move" and expected is None):
            continue
        actual = await _hash(files, places[step.path])
        if actual != expected:
            raise Problem(
                Code.STALE_FILE,
                f"{step.path} has changed since call {step.call}; nothing was taken back.",
                path=step.path,
                expected_sha256=expected,
                actual_sha256=actual,
                call=step.call,
            )


async def _hash(files: Workspace, place: Place) -> str | None:
    if place.kind is not PlaceKind.FILE:
        return None if place.kind is PlaceKind.MISSING else place.kind.value
    digest = hashlib.sha256()
    async with files.open(place) as stream:
        while chunk := await stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()

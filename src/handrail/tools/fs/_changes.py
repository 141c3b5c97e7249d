"""Carry several changes of files out: all of them, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from handrail.errors import Code, Problem
from handrail.ports import Workspace
from handrail.words import Place

Undo = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file's change, worked out: what is there, what will be."""

    operation: str  # add | update | delete | move
    place: Place
    target: Place | None = None
    before: bytes | None = None  # None: nothing is there
    after: bytes | None = None
    sha256_before: str = ""
    sha256_after: str = ""


async def carry_out(files: Workspace, changes: list[FileChange]) -> None:
    """Make every change; where one fails, put back what was done and raise its Problem."""
    undo: list[Undo] = []
    try:
        # Deletions last: putting a deleted file back loses more (its mode) than undoing any other change.
        for change in sorted(changes, key=lambda item: item.operation == "delete"):
            await make(files, change, undo)
    except BaseException as error:
        # Shielded, so that a deadline or a caller who gives up does not leave half a patch behind.
        left = await asyncio.shield(asyncio.ensure_future(_put_back(undo)))
        if left:
            raise Problem(
                Code.IO_ERROR,
                f"The patch failed ({error}) and could not be taken back everywhere: {'; '.join(left)}. "
                "`runs undo` can put these files back.",
                left=left,
            ) from error
        raise


async def make(files: Workspace, change: FileChange, undo: list[Undo]) -> None:
    """Make one change, and note how to take it back."""
    place, before, after = change.place, change.before, change.after
    if change.operation == "delete":
        await files.delete(place, recursive=False, expected_sha256=change.sha256_before)
        undo.append(lambda: files.write(place, before or b"", expected_sha256=""))
        return
    target = change.target
    if target is not None:
        await files.move(place, target, overwrite=False)
        undo.append(lambda: files.move(target, place, overwrite=False))
        place = target
    if after is None or after == before:
        return
    if before is None:
        await files.write(place, after, expected_sha256="", exclusive=True)
        undo.append(lambda: files.delete(place, recursive=False, expected_sha256=change.sha256_after))
    else:
        await files.write(place, after, expected_sha256=change.sha256_before)
        undo.append(lambda: files.write(place, before, expected_sha256=change.sha256_after))


async def _put_back(undo: list[Undo]) -> list[str]:
    """Take back what was done, last first; says what could not be."""
    left = []
    for step in reversed(undo):
        try:
            await step()
        except (Problem, OSError) as error:
            left.append(str(error))
    return left

"""Carry several changes of files out: all of them, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from handrail.errors import Code, Problem
from handrail.ports import Workspace
from handrail.words import Place

T = TypeVar("T")
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
    """Make every change; where one fails or the caller gives up, put back what was done and raise why."""
    undo: list[Undo] = []
    try:
        for change in changes:
            await _to_its_end(_make(files, change, undo))
    except BaseException as error:
        left = await _to_its_end(_put_back(undo))
        if left:
            raise Problem(
                Code.IO_ERROR,
                f"The patch failed ({error or type(error).__name__}) and could not be taken back everywhere: "
                f"{'; '.join(left)}. `runs undo` can put these files back.",
                left=left,
            ) from error
        raise


async def _to_its_end(step: Coroutine[Any, Any, T]) -> T:
    """Run a step whole; who is cancelled meanwhile is cancelled after it, so that what was done is known."""
    task = asyncio.ensure_future(step)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError:
                continue
        if task.cancelled():
            raise
        task.exception()  # looked at, so that nobody complains that it was not
        raise


async def _make(files: Workspace, change: FileChange, undo: list[Undo]) -> None:
    """Make one change, and note how to take it back."""
    source, before, after = change.place, change.before, change.after
    if change.operation == "delete":
        gone = await files.delete(source, recursive=False, expected_sha256=change.sha256_before)
        undo.extend(partial(files.restore, source, made, before) for made in gone)
        return
    place = source
    if change.target is not None:
        place = change.target
        await files.move(source, place, overwrite=False)
        undo.append(partial(files.move, place, source, overwrite=False))
    if after is None or after == before:
        return
    new = before is None
    made = await files.write(place, after, expected_sha256=change.sha256_before, exclusive=new)
    undo.append(partial(files.restore, place, made, before))


async def _put_back(undo: list[Undo]) -> list[str]:
    """Take back what was done, last first; says what could not be."""
    left = []
    for step in reversed(undo):
        try:
            await step()
        except (Problem, OSError) as error:
            left.append(str(error))
    return left

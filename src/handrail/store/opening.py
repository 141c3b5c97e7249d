"""What is found when a journal is opened: where its chain ends, the state there, and what is wrong with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from handrail.ports import Progress
from handrail.store import checkpoint
from handrail.store.chain import CHUNK, Break, Mark, walk
from handrail.store.checkpoint import Checkpoint
from handrail.store.private import SAFE, sync_folder, write_all
from handrail.store.state import RunState
from handrail.words import noun


@noun
class Found:
    """A journal as it lies on the disk."""

    mark: Mark
    state: RunState
    torn: Break | None
    read_only: str  # why nothing may be added, or ""
    checkpoint_seq: int


def look(fd: int, folder: Path, run_id: str, progress: Progress | None) -> Found:
    """Read a checkpoint and the tail behind it, or the whole journal where there is none that fits."""
    known = checkpoint.load(folder)
    if known is not None and checkpoint.fits(fd, known.mark):
        mark, broken = walk(fd, known.mark, run_id, lambda event, _: known.state.apply(event), progress)
        return _found(mark, known.state, broken, "", known.mark.seq)
    state = RunState()
    vouched = known.mark if known is not None else Mark()
    met: list[str] = []

    def visit(event: dict[str, Any], head: str) -> None:
        state.apply(event)
        if event["seq"] == vouched.seq:
            met.append(head)

    mark, broken = walk(fd, Mark(), run_id, visit, progress)
    return _found(mark, state, broken, _contradiction(known, mark, met), 0)


def _contradiction(known: Checkpoint | None, mark: Mark, met: list[str]) -> str:
    """A checkpoint is written only behind durable lines, so a journal that lacks them was cut or rewritten."""
    if known is None or known.mark.seq == 0 or met == [known.mark.head]:
        return ""
    if not met:
        return f"the journal ends at line {mark.seq}, but its checkpoint vouches for line {known.mark.seq}"
    return f"line {known.mark.seq} is not the one that the checkpoint vouches for"


def _found(mark: Mark, state: RunState, broken: Break | None, contradiction: str, checkpoint_seq: int) -> Found:
    if broken is not None and not broken.torn:
        return Found(mark, state, None, broken.reason, checkpoint_seq)
    return Found(mark, state, None if contradiction else broken, contradiction, checkpoint_seq)


def set_aside(fd: int, folder: Path, mark: Mark) -> str:
    """Keep the bytes behind a mark in a file of their own, durably, then cut them; give the file's name."""
    name = _keep(fd, folder, mark)
    sync_folder(folder)
    os.ftruncate(fd, mark.offset)
    # Durable before anything is written there again: no crash may mix old bytes with new ones.
    os.fdatasync(fd)
    return name


def torn_file(mark: Mark, number: int = 1) -> str:
    """Name the file for what was torn behind a mark."""
    return f"torn-{mark.seq + 1}.bin" if number == 1 else f"torn-{mark.seq + 1}-{number}.bin"


def _keep(fd: int, folder: Path, mark: Mark) -> str:
    number = 1
    while (folder / torn_file(mark, number)).exists():  # left by a crash while it was written
        number += 1
    path = folder / torn_file(mark, number)
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFE, 0o600)
    try:
        offset = mark.offset
        while chunk := os.pread(fd, CHUNK, offset):
            write_all(target, chunk)
            offset += len(chunk)
        os.fsync(target)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(target)
    return path.name

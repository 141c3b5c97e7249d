"""Journals to write, harm and open again in tests."""

from __future__ import annotations

import os
import threading
from hashlib import sha256
from pathlib import Path

import orjson
import pytest

from handrail.store.journal import FileJournal
from handrail.store.state import RunState


class Clock:
    """Time that moves only when told."""

    def __init__(self, now: float = 1_700_000_000.25) -> None:
        self.time = now

    def now(self) -> float:
        """Wall clock."""
        return self.time

    def monotonic(self) -> float:
        """The same, for deadlines."""
        return self.time


def open_run(folder: Path, clock: Clock | None = None) -> FileJournal:
    """Own the run that the tests write."""
    return FileJournal.open(folder, "run-1", clock or Clock())


async def write_run(folder: Path, count: int = 5, *, checkpoint: bool = False) -> list[bytes]:
    """Write a run and give its lines."""
    journal = open_run(folder)
    for number in range(count):
        journal.append("display", f"call-{number}", {"text": f"number {number}"})
    await leave(journal, checkpoint=checkpoint)
    return lines_of(folder)


async def leave(journal: FileJournal, *, checkpoint: bool = False) -> None:
    """Let a run go, with or without the checkpoint that closing keeps."""
    if checkpoint:
        await journal.close()
    else:
        journal.flush()
        journal.abandon()


def lines_of(folder: Path) -> list[bytes]:
    """The lines of a journal with their newlines."""
    return (folder / "events.jsonl").read_bytes().splitlines(keepends=True)


def reopen(folder: Path) -> tuple[FileJournal, list[bytes]]:
    """Open a run and let it go; give the journal and its lines."""
    journal = open_run(folder)
    journal.abandon()
    return journal, lines_of(folder)


async def write_calls(folder: Path, count: int, *, checkpoint_at: int | None = None) -> RunState:
    """Write a run of started calls and give its state; the checkpoint is taken before the call of that number."""
    journal, state = open_run(folder), RunState()
    for number in range(count):
        if number == checkpoint_at:
            await leave(journal, checkpoint=True)
            journal = open_run(folder)
        told = {"tool": "now", "key": f"k{number}", "args_digest": "d", "given_id": number % 2 == 0}
        journal.append("tool.started", f"c{number}", told)
        state.apply({"kind": "tool.started", "call_id": f"c{number}", "ts": "2023-11-14T22:13:20.250000Z", **told})
    await leave(journal)
    return state


def forged(lines: list[bytes], prev: str) -> list[bytes]:
    """Give the same lines with hashes that fit, from another beginning."""
    made = []
    for line in lines:
        made.append(orjson.dumps({**orjson.loads(line), "prev": prev}) + b"\n")
        prev = sha256(made[-1][:-1]).hexdigest()
    return made


class Disk:
    """Stands in for the system's sync: counts, waits and fails on demand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.syncs = 0
        self.error: OSError | None = None
        self.synced = threading.Event()
        self.may_go = threading.Event()
        self.may_go.set()
        self.entered = threading.Event()
        self._real = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", self)

    def __call__(self, handle: int) -> None:
        self.entered.set()
        assert self.may_go.wait(10)
        if self.error is not None:
            raise self.error
        self._real(handle)
        self.syncs += 1
        self.synced.set()


def write_half_then_fail(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    """Let every write take half of its bytes, then none."""
    real, taken = os.pwrite, iter([True])

    def pwrite(handle: int, data: bytes, offset: int) -> int:
        if next(taken, False):
            return real(handle, data[: len(data) // 2], offset)
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "pwrite", pwrite)

"""The turns of a task as they were, in the run's `agent/turns.jsonl`: what a task is continued from.

The journal proves what happened, with arguments redacted and cut; this file restores. It is private to the account and
out of every tool's reach. Lines of several tasks of one run stand in one file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from handrail.agent.conversation import CallResult, Turn
from handrail.agent.history import History
from handrail.errors import Code, Problem
from handrail.store.private import SAFE, make_folder, sync_folder, write_all

FOLDER = "agent"
FILE = "turns.jsonl"


class TurnLog:
    """The log of one task; whoever has it open holds the lock of the run."""

    lasting = True  # a later process goes on from it, so every call has a key

    def __init__(self, run_folder: Path, task_id: str) -> None:
        self._task = task_id
        self.path = run_folder / FOLDER / FILE
        self.history = History()
        try:
            make_folder(self.path.parent)
            fresh = not self.path.exists()
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | SAFE, 0o600)
            if fresh:
                sync_folder(self.path.parent)
            self._load()
        except OSError as error:
            raise _unwritten(self.path, error) from error

    def _load(self) -> None:
        """Read the lines of the task; what a crash tore at the end is cut, nothing was done on the strength of it."""
        data = b""
        while chunk := os.pread(self._handle, 1 << 20, len(data)):
            data += chunk
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.ftruncate(self._handle, whole)
        os.lseek(self._handle, whole, os.SEEK_SET)
        for line in _lines(data[:whole]):
            if line.get("task") == self._task:
                self.history.apply(line)

    def add(self, kind: str, *, durable: bool = False, **fields: Any) -> None:
        """Write a line and take it into the history; `durable` has it on the disk when this returns."""
        line = {"kind": kind, **fields}
        self._write(line, durable=durable)
        self.history.apply(line)

    def _write(self, line: dict[str, Any], *, durable: bool = False) -> None:
        try:
            write_all(self._handle, orjson.dumps({"task": self._task, **line}) + b"\n")
            if durable:
                os.fdatasync(self._handle)
        except OSError as error:
            raise _unwritten(self.path, error) from error

    def add_turn(self, number: int, turn: Turn, seconds: float, *, durable: bool) -> None:
        """Write a turn of the model, whole."""
        self._write({"kind": "turn", "n": number, "turn": turn.to_json(), "seconds": seconds}, durable=durable)
        self.history.take_turn(number, turn)
        self.history.seconds = seconds

    def add_result(self, result: CallResult, seconds: float) -> None:
        """Write what came of a call."""
        place = {"n": result.turn, "i": result.index}
        self._write({"kind": "result", **place, "result": result.to_json(), "seconds": seconds})
        self.history.take_result(result)
        self.history.seconds = seconds

    def close(self) -> None:
        """Close the file."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


class MemoryLog:
    """The same without a file: for a loop that nobody continues."""

    lasting = False

    def __init__(self) -> None:
        self.history = History()

    def add(self, kind: str, *, durable: bool = False, **fields: Any) -> None:  # noqa: ARG002
        """Take a line into the history."""
        self.history.apply({"kind": kind, **fields})

    def add_turn(self, number: int, turn: Turn, seconds: float, *, durable: bool) -> None:  # noqa: ARG002
        """Take a turn into the history."""
        self.history.take_turn(number, turn)
        self.history.seconds = seconds

    def add_result(self, result: CallResult, seconds: float) -> None:
        """Take a result into the history."""
        self.history.take_result(result)
        self.history.seconds = seconds

    def close(self) -> None:
        """Do nothing."""


def _lines(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.splitlines():
        try:
            value = orjson.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def _unwritten(path: Path, error: OSError) -> Problem:
    return Problem(
        Code.IO_ERROR,
        f"The turns of the task cannot be kept in {path} ({error.strerror}), so it does not go on. Make room there, or "
        "make the folder writable, then resume the task.",
        errno=error.errno,
    )

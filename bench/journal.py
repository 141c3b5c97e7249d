"""A journal of a million events: how fast it is written, opened, rebuilt and verified, and in how much memory.

Each step runs in a child process, so that its peak memory is its own.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from handrail.store import reader
from handrail.store.journal import FileJournal

EVENTS = 1_000_000
RUN = "million"
STEPS = ("durable", "write", "open", "verify", "rebuild")
HOLD = {"open": ("seconds", 1.0), "verify": ("seconds", 10.0)}  # and 200 MB of memory for every step but `write`
MAX_MEGABYTES = 200


class SystemClock:
    """The machine's time."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


STARTED: dict[str, Any] = {
    "trace_id": "01JABCDEFGHJKMNPQRSTVWXYZ0",
    "tool": "read_file",
    "version": "1.0.0",
    "risk": "low",
    "args": {"path": "docs/a.md", "offset": 1, "limit": 2000},
    "caller": "python",
    "touches": [{"kind": "fs.read", "target": "docs/a.md"}],
    "verdict": {"decision": "allow", "findings": [{"rule": "defaults.workspace-read", "decision": "allow"}]},
}
ENDED: dict[str, Any] = {
    "trace_id": "01JABCDEFGHJKMNPQRSTVWXYZ0",
    "tool": "read_file",
    "status": "ok",
    "effect": "none",
    "duration_ms": 0.4,
    "bytes_read": 1024,
    "started": True,
    "evidence": [["file", "docs/a.md", "0" * 64]],
}


def write(folder: Path, events: int) -> dict[str, float]:
    """Write the events as a run does: two a call, each flushed."""

    async def run() -> float:
        journal = FileJournal.open(folder, RUN, SystemClock())
        began = time.perf_counter()
        for number in range(events // 2):
            call_id = f"call-{number}"
            journal.append("tool.started", call_id, STARTED)
            journal.append("tool.completed", call_id, ENDED)
            journal.flush()
        spent = time.perf_counter() - began
        await journal.close()
        return spent

    spent = asyncio.run(run())
    return {"seconds": spent, "microseconds_an_event": spent / events * 1e6}


def open_(folder: Path, events: int) -> dict[str, float]:
    """Open a closed run: checkpoint and tail."""
    return _timed(lambda: _open_and_close(folder, events))


def rebuild(folder: Path, events: int) -> dict[str, float]:
    """Open a run whose checkpoint is gone: the whole journal."""
    (folder / "checkpoint.json").unlink(missing_ok=True)
    return _timed(lambda: _open_and_close(folder, events))


def verify(folder: Path, events: int) -> dict[str, float]:
    """Check the whole chain."""
    head = reader.head_of(folder)

    def check() -> None:
        found = reader.verify(folder, head)
        assert found.ok, found.problem
        assert found.events == events

    return _timed(check)


def durable(folder: Path, _events: int) -> dict[str, float]:
    """Compare `durable` with the bare write and sync it rests on, taking turns, and with 128 at once."""

    async def run() -> dict[str, float]:
        journal = FileJournal.open(folder.with_name("durable"), "durable", SystemClock())
        handle = os.open(folder.with_name("bare"), os.O_WRONLY | os.O_CREAT, 0o600)
        line = orjson.dumps(STARTED)
        alone, bare = [], []

        async def one() -> None:
            journal.append("tool.started", "call-1", STARTED)
            await journal.durable()

        for _ in range(500):
            began = time.perf_counter()
            await one()
            between = time.perf_counter()
            os.write(handle, line)
            os.fdatasync(handle)
            alone.append(between - began)
            bare.append(time.perf_counter() - between)
        began = time.perf_counter()
        for _ in range(10):
            await asyncio.gather(*(one() for _ in range(128)))
        together = (time.perf_counter() - began) / 1280
        os.close(handle)
        await journal.close()
        return {
            "microseconds_alone": statistics.median(alone) * 1e6,
            "microseconds_bare": statistics.median(bare) * 1e6,
            "microseconds_128_at_once": together * 1e6,
        }

    return asyncio.run(run())


def _open_and_close(folder: Path, events: int) -> None:
    journal = FileJournal.open(folder, RUN, SystemClock())
    assert journal.seq == events
    asyncio.run(journal.close())


def _timed(work: Callable[[], None]) -> dict[str, float]:
    began = time.perf_counter()
    work()
    return {"seconds": time.perf_counter() - began}


def measure(events: int = EVENTS) -> dict[str, dict[str, float]]:
    """Run every step in a child process and give its figures."""
    place = Path(tempfile.mkdtemp(prefix="handrail-bench-"))
    try:
        figures = {}
        for step in STEPS:
            argv = [sys.executable, __file__, step, str(place / RUN), str(events)]
            figures[step] = orjson.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout)
        return figures
    finally:
        shutil.rmtree(place)


def broken_promises(figures: dict[str, dict[str, float]]) -> list[str]:
    """Say which figures do not hold."""
    late = [
        f"{step}: {figures[step][name]:.2f} {name}, more than {most:g}"
        for step, (name, most) in HOLD.items()
        if figures[step][name] > most
    ]
    large = [
        f"{step}: {figures[step]['megabytes']:.0f} MB, more than {MAX_MEGABYTES}"
        for step in ("open", "verify", "rebuild")
        if figures[step]["megabytes"] > MAX_MEGABYTES
    ]
    return late + large


def _step(name: str, folder: Path, events: int) -> None:
    steps = {"write": write, "open": open_, "verify": verify, "rebuild": rebuild, "durable": durable}
    figures = steps[name](folder, events)
    figures["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(orjson.dumps(figures).decode())


if __name__ == "__main__":
    if len(sys.argv) == 4:
        _step(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
    else:
        found = measure()
        for step, figures in found.items():
            print(step, {name: round(value, 3) for name, value in figures.items()})
        sys.exit("\n".join(broken_promises(found)) or 0)

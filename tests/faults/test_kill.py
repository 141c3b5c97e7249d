"""Processes killed at random points: nothing acknowledged is lost, nothing is torn after opening."""

from __future__ import annotations

import asyncio
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from hashlib import sha256
from pathlib import Path

import orjson
import pytest

from handrail.store import reader
from handrail.store.journal import FileJournal
from handrail.store.state import fold

SCALE = float(os.environ.get("HANDRAIL_TEST_SCALE", "1"))
ROUNDS = int(120 * SCALE)
RUN = "killed"


class SystemClock:
    """The machine's time."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


# ── the journal's writer ─────────────────────────────────────────────────────────────────────


async def write_until_killed(folder: Path, told: int, choose: random.Random) -> None:
    """Write lines of all sizes in all ways, and tell of each once it is acknowledged."""
    journal = FileJournal.open(folder, RUN, SystemClock())

    async def durable(number: int) -> None:
        journal.append("tool.started", f"c{number}", {"tool": "write_file", "key": f"k{number}", "args_digest": "d"})
        await journal.durable()
        journal.append("tool.completed", f"c{number}", {"duration_ms": 1.0})
        flushed()

    def flushed() -> None:
        journal.flush()
        os.write(told, b"%d:%b\n" % (journal.seq, journal.head.encode()))

    number = journal.seq
    while True:
        number += 10
        way = choose.choice(["small", "large", "durable", "together", "checkpoint"])
        if way in ("small", "large"):
            # A large write takes the system several steps, and a kill can come between them.
            size = 100 if way == "small" else choose.randrange(100_000, 2_000_000)
            journal.append("display", f"c{number}", {"text": "x" * size})
            flushed()
        elif way == "checkpoint":
            journal.checkpoint()
        else:
            await asyncio.gather(*(durable(number + more) for more in range(8 if way == "together" else 1)))
        await asyncio.sleep(0)


def killed_once(folder: Path, choose: random.Random) -> list[str]:
    """Let a writer live for a random moment, kill it, and give the heads it acknowledged."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            asyncio.run(write_until_killed(folder, writing, random.Random(choose.random())))
        finally:
            os._exit(1)  # only by a failure: a killed process never comes here
    os.close(writing)
    told, deadline = b"", time.monotonic() + choose.uniform(0.0, 0.1)
    ended = False
    while (left := deadline - time.monotonic()) > 0 and not ended:
        if select.select([reading], [], [], left)[0]:
            told += (chunk := os.read(reading, 1 << 16))
            ended = not chunk
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL, "the writer failed by itself"
    while chunk := os.read(reading, 1 << 16):
        told += chunk
    os.close(reading)
    return told.decode().split()


def check_after_kill(folder: Path, told: list[str]) -> bool:
    """Check that all acknowledged lines are there and the journal opens whole; tell whether it had to be mended."""
    journal = FileJournal.open(folder, RUN, SystemClock())
    journal.abandon()
    lines = (folder / "events.jsonl").read_bytes().splitlines()
    heads = {f"{number}:{sha256(line).hexdigest()}" for number, line in enumerate(lines, start=1)}
    assert set(told) <= heads, "acknowledged and lost"
    assert journal.read_only == ""
    assert reader.verify(folder) == reader.Verification(True, journal.seq, f"{journal.seq}:{journal.head}")
    assert journal.state == fold(reader.events(folder))
    return journal.mended


def kill_many(place: Path, rounds: int, seed: int) -> Counter[str]:
    """Kill writers of the same run again and again, on a new run now and then; give what happened how often."""
    choose, happened = random.Random(seed), Counter[str]()
    for number in range(rounds):
        folder = place / f"run-{number // 6}"
        told = killed_once(folder, choose)
        happened["kills"] += 1
        happened["acknowledged"] += len(told)
        happened["mended"] += check_after_kill(folder, told)
    return happened


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_no_kill_loses_an_acknowledged_line_or_leaves_a_torn_one(tmp_path: Path, seed: int) -> None:
    """Whether the writer opens, appends, waits, keeps a checkpoint or mends when it dies: all it told of is there."""
    # Killed from a process without threads, so that it can fork.
    argv = [sys.executable, __file__, str(tmp_path), str(ROUNDS // 2), str(seed)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    happened = orjson.loads(done.stdout)
    assert happened["kills"] == ROUNDS // 2
    assert happened["acknowledged"] > ROUNDS // 4


if __name__ == "__main__":
    print(orjson.dumps(kill_many(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))).decode())

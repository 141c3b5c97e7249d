"""Processes killed while they make governed calls: what was acknowledged stands, nothing is torn or runs twice."""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from handrail import Runtime
from handrail.store.reader import events, verify

SCALE = int(os.environ.get("HANDRAIL_TEST_SCALE", "1"))
KILLS = 30 if SCALE < 20 else 300
LINES = 400  # of a file: enough that a torn write would show
ENABLE = {"tools": {"enable": ["fs"]}, "limits": {"max_repeats": 10**9, "breaker_failures": 10**9}}


def text_of(number: int) -> str:
    """A file all of whose lines agree, so that two contents never mix unseen."""
    return f"state {number}\n" * LINES


async def work_until_killed(folder: str, run: str, first: int) -> None:
    """Write, edit and read for ever; tell of each call that began and each that was acknowledged."""

    def say(kind: str, **what: Any) -> None:
        os.write(1, json.dumps({"kind": kind, **what}).encode() + b"\n")

    async with Runtime.open(folder, config=ENABLE, run_id=run) as runtime:
        for number in range(first, first + 10**6):
            for name, args in calls_of(number):
                key = f"{name}-{number}"
                say("begin", key=key)
                outcome = await runtime.call(name, args, idempotency_key=key)
                say("end", key=key, call=outcome.call_id, ok=outcome.ok, why=outcome.content[:200])


def calls_of(number: int) -> list[tuple[str, dict[str, Any]]]:
    """The calls of one round: a new file, an edit of all of it, and a read."""
    name = f"f{number}.txt"
    old, new = f"state {number}\n", f"state {number + 1}\n"
    return [
        ("write_file", {"path": name, "content": text_of(number)}),
        ("edit_file", {"path": name, "edits": [{"old": old, "new": new, "match": "all"}]}),
        ("read_file", {"path": name}),
    ]


class Killed:
    """What a killed process had told; killed some moments after it told so many lines, however busy the machine is."""

    def __init__(self, folder: Path, run: str, first: int, lines_first: int, seconds: float) -> None:
        argv = [sys.executable, __file__, str(folder), run, str(first)]
        told, started = b"", False
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            until = time.monotonic() + 20
            while time.monotonic() < until:
                if select.select([child.stdout], [], [], 0.001)[0]:
                    told += (chunk := os.read(child.stdout.fileno(), 1 << 16))
                    if not chunk:
                        break
                    if not started and told.count(b"\n") >= lines_first:
                        started, until = True, time.monotonic() + seconds
            child.send_signal(signal.SIGKILL)
            told += child.stdout.read()
            assert child.wait() == -signal.SIGKILL, child.stderr.read().decode()
        assert started, "the process did not get to work"
        lines = [json.loads(line) for line in told.splitlines() if line.endswith(b"}")]
        self.acknowledged = {line["key"]: line for line in lines if line["kind"] == "end"}
        begun = [line["key"] for line in lines if line["kind"] == "begin"]
        self.cut_off = [key for key in begun if key not in self.acknowledged]


async def check(folder: Path, run: str, killed: Killed, happened: Counter[str]) -> None:
    """Open the run again and look at all that the killed process had told of."""
    ends: dict[str, dict[str, Any]] = {}
    async with Runtime.open(folder, config=ENABLE, run_id=run) as runtime:
        found = list(events(runtime.parts.folder.path))
        ends = {event["call_id"]: event for event in found if event["kind"] in ("tool.completed", "tool.failed")}
        lost = [line for line in killed.acknowledged.values() if line["call"] not in ends or not line["ok"]]
        assert lost == []
        open_calls = set(runtime.parts.journal.state.open_calls)
        begun = [event for event in found if event["kind"] == "tool.started" and "key" in event]
        started = {event["key"]: event["call_id"] for event in begun}
        for key in killed.cut_off:
            name, _, number = key.rpartition("-")
            args = next(args for tool, args in calls_of(int(number)) if tool == name)
            before = contents(folder)
            outcome = await runtime.call(name, args, idempotency_key=key)
            if started.get(key) in open_calls and started.get(key) is not None:
                happened["unknown"] += 1
                # Killed between keeping the outcome and writing the end: then the kept one is given.
                known = outcome.call_id == started[key]
                assert known or (outcome.error is not None and outcome.error.code == "OUTCOME_UNKNOWN"), key
                assert contents(folder) == before
            else:
                happened["never started"] += key not in started
        await still_works(runtime, killed, ends, happened)
    assert verify(runtime_folder(run)).ok
    torn = {name: text[:40] for name, text in contents(folder).items() if len(set(text.splitlines())) > 1}
    assert torn == {}
    assert {len(text.splitlines()) for name, text in contents(folder).items() if name.startswith("f")} <= {LINES}


async def still_works(runtime: Runtime, killed: Killed, ends: dict[str, Any], happened: Counter[str]) -> None:
    """A later write is not in the way of anything left over, and acknowledged changes can be taken back."""
    number = 5_000_000 + happened["kills"]
    later = await runtime.call("write_file", {"path": f"later{number}.txt", "content": "later\n"})
    assert later.ok, later.content
    edits = [line for key, line in killed.acknowledged.items() if key.startswith("edit_file")]
    if edits:
        undone = await runtime.undo(edits[-1]["call"])
        happened["undone"] += 1
        path = ends[edits[-1]["call"]]["files_changed"][0]["path"]
        assert undone.ok, undone.content
        state = int(path.removeprefix("f").removesuffix(".txt"))
        assert (Path(runtime.parts.kernel.parts.workspace) / path).read_text() == text_of(state)


def contents(folder: Path) -> dict[str, str]:
    """Every file that is not the runtime's own."""
    return {path.name: path.read_text() for path in folder.iterdir() if path.suffix == ".txt"}


def runtime_folder(run: str) -> Path:
    """The folder of a run of this user."""
    return Path(os.environ["XDG_STATE_HOME"]) / "handrail" / "runs" / run


@pytest.mark.slow
async def test_no_kill_loses_tears_or_repeats_anything(work: Path) -> None:
    """Killed at random points of writing, editing, reading and closing, in the same run again and again."""
    choose, happened = random.Random(7), Counter[str]()
    for number in range(KILLS):
        run = f"killed-{number // 10}"
        moment = choose.randrange(1, 20), choose.choice([0.0, 0.001, 0.003, 0.01, 0.02])
        killed = await asyncio.to_thread(Killed, work, run, 1000 * (number + 1), *moment)
        happened["kills"] += 1
        happened["acknowledged"] += len(killed.acknowledged)
        await check(work, run, killed, happened)
        for path in work.glob("f*.txt"):
            path.unlink()
    assert happened["kills"] == KILLS
    assert happened["acknowledged"] >= KILLS
    assert happened["unknown"] > 0
    assert happened["undone"] > 0
    # A draft, or what was being removed, may be left under a name of ours; it is in nobody's way.
    left = [path.name for path in work.iterdir() if path.suffix != ".txt"]
    assert [name for name in left if not (name.startswith(".handrail-") and name.endswith((".tmp", ".old")))] == []
    # Unlike a draft, what stood aside in the moment of replacing is somebody's text: it must be whole.
    aside = [path.read_text().splitlines() for path in work.glob(".handrail-*.old")]
    assert [lines[:2] for lines in aside if (len(lines), len(set(lines))) != (LINES, 1)] == []


if __name__ == "__main__":
    asyncio.run(work_until_killed(sys.argv[1], sys.argv[2], int(sys.argv[3])))

"""The agent: a turn of its loop against bare kernel calls, a task in a worker, and an approval that wakes a task.

Without an engine the loop makes the calls that a program would make; in a worker every call has a key, so that it is
made once whatever dies. Both are compared with exactly those calls, made bare in one run.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

TURNS = int(os.environ.get("HANDRAIL_BENCH_TURNS", "200"))
ROUNDS = int(os.environ.get("HANDRAIL_BENCH_ROUNDS", "7"))
WAKES = 25
TEXT = "a line of ordinary text, sixty-three characters long in all..\n" * 16
CONFIG: dict[str, Any] = {
    "tools": {"enable": ["fs", "delete_path"]},
    "limits": {"max_repeats": 0},
    "agent": {"max_turns": 0, "max_tool_calls": 0},
}
Calls = list[tuple[str, dict[str, Any]]]
Clock = Callable[[], float]


def calls_of(number: int, *, writes: bool) -> Calls:
    """The calls of one task: each reads another file, and where writes are wanted every second one writes one."""
    found: Calls = []
    for turn in range(TURNS):
        if writes and turn % 2:
            found.append(("write_file", {"path": f"out-{number}-{turn}.txt", "content": TEXT}))
        else:
            found.append(("read_file", {"path": f"{turn}.txt"}))
    return found


def script_of(calls: Calls) -> list[dict[str, Any]]:
    """A script that makes these calls, one a turn."""
    steps: list[dict[str, Any]] = [{"tool_calls": [{"name": name, "arguments": args}]} for name, args in calls]
    return [*steps, {"final_answer": "done"}]


async def bare(work: Path, calls: Calls, clock: Clock, *, keyed: bool) -> float:
    """Make the calls bare, asked for by the bare model; the time of a turn."""
    from handrail import Runtime
    from handrail.agent.conversation import Instructions
    from handrail.agent.providers.scripted import ScriptedModel
    from handrail.arguments import read_text

    model = ScriptedModel(script_of(calls))
    async with Runtime.open(work, config=CONFIG) as runtime:
        began = clock()
        for number in range(len(calls)):
            turn = await model.next([Instructions("", number)], ())
            (call,) = turn.calls
            key = f"task:{number}:0" if keyed else None
            outcome = await runtime.call(
                call.name, read_text(call.arguments), idempotency_key=key, parent=f"task:{number}"
            )
            assert outcome.ok, outcome.content
        return (clock() - began) / len(calls)


async def looped(work: Path, calls: Calls, clock: Clock) -> float:
    """Make them in the loop, without an engine: nothing is kept but the journal."""
    from handrail import Runtime
    from handrail.agent.loop import AgentLoop
    from handrail.agent.providers.scripted import ScriptedModel
    from handrail.agent.session import limits_of
    from handrail.agent.turn_log import MemoryLog

    async with Runtime.open(work, config=CONFIG) as runtime:
        limits = limits_of(runtime.parts.loaded.settings, {})
        loop = AgentLoop(runtime, ScriptedModel(script_of(calls)), "task", "go", MemoryLog(), limits)
        loop.prepare()  # instructions and descriptions of tools are worked out once a task, not once a turn
        began = clock()
        end = await loop.run()
        assert end.answer == "done", end
        return (clock() - began) / len(calls)


async def worked(work: Path, calls: Calls) -> float:
    """Make them in a worker: from the inbox, each turn durable, each call with its key, back into the inbox."""
    from functools import partial

    from handrail.agent.engine import InboxEngine
    from handrail.agent.inbox import FILE, Inbox
    from handrail.agent.session import Session, open_runtime
    from handrail.agent.worker import Worker
    from handrail.compose import SystemClock
    from handrail.settings import paths
    from handrail.store.ledger import SqliteLedger

    clock = SystemClock()
    inbox = Inbox(paths.state_dir() / FILE, clock)
    engine = InboxEngine(inbox, SqliteLedger(paths.state_dir() / "ledger.db", clock), clock)
    marks: list[float] = []
    session = Session(
        engine,
        opens=partial(open_runtime, config=CONFIG),
        opened=lambda *_: marks.append(time.perf_counter()),
    )
    worker = Worker(session, once=True)
    worker.done = lambda *_: marks.append(time.perf_counter())
    task = inbox.put("go", str(work), options={"script": script_of(calls)})
    await worker.run()
    assert inbox.find(task.id).answer == "done", inbox.find(task.id)
    return (marks[1] - marks[0]) / len(calls)


async def in_turns(contestants: dict[str, Callable[[int], Awaitable[float]]]) -> list[tuple[str, float]]:
    """Measure all in turns; the median of each, in µs."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(ROUNDS + 1):
        for name, measure in contestants.items():
            taken = await measure(number)
            if number:
                times[name].append(taken * 1e6)
    return [(name, statistics.median(taken)) for name, taken in times.items()]


def report(rows: list[tuple[str, float]], hold: str) -> None:
    """Print a table; ratios to the first row."""
    print(f"| | µs a turn | ratio | to hold: {hold}")
    print("|---|---|---|")
    for name, value in rows:
        print(f"| {name} | {value:.0f} | {value / rows[0][1]:.2f} |")
    print()


def wakes(work: Path) -> list[float]:
    """From an answered approval to the effect of its call, in ms, in a worker process of its own."""
    from handrail.agent.inbox import FILE, Inbox
    from handrail.agent.tasks import TaskState
    from handrail.compose import SystemClock
    from handrail.ports import Reply
    from handrail.settings import paths
    from handrail.store.ledger import SqliteLedger

    clock = SystemClock()
    inbox = Inbox(paths.state_dir() / FILE, clock)
    ledger = SqliteLedger(paths.state_dir() / "ledger.db", clock)
    config = work.parent / "config.toml"
    config.write_text('tools.enable = ["delete_path"]\n')
    for number in range(WAKES):
        (work / f"gone-{number}").write_text("x")
        args = {"path": f"gone-{number}", "confirm": True}
        steps = script_of([("delete_path", args)])
        inbox.put("go", str(work), options={"script": steps})
    argv = [sys.executable, "-P", "-m", "handrail", "worker", "--config", str(config)]
    process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    taken = []
    try:
        while len(waiting := inbox.list((TaskState.WAITING,))) < WAKES:
            time.sleep(0.05)
        time.sleep(0.5)
        for task in waiting:
            path = work / task.options["script"][0]["tool_calls"][0]["arguments"]["path"]
            began = time.perf_counter()
            ledger.answer(task.waits.requests[0], Reply("granted", by="bench"))
            while path.exists():
                time.sleep(0.001)
            taken.append((time.perf_counter() - began) * 1000)
            while inbox.find(task.id).state is not TaskState.DONE:
                time.sleep(0.005)
    finally:
        process.terminate()
        process.wait()
    return taken


async def main() -> int:
    """Measure in one run, in turns; the exit code tells whether all figures held."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
        work = Path(folder, "work")
        work.mkdir()
        for number in range(TURNS):
            (work / f"{number}.txt").write_text(TEXT)
        reads = calls_of(0, writes=False)
        plain = await in_turns(
            {
                "bare model and kernel calls": lambda _: bare(work, reads, time.perf_counter, keyed=False),
                "the loop without an engine": lambda _: looped(work, reads, time.perf_counter),
                "bare, in processor time": lambda _: bare(work, reads, time.thread_time, keyed=False),
                "the loop, in processor time": lambda _: looped(work, reads, time.thread_time),
            }
        )
        report(plain[:2], "the loop at most 1.3 times")
        report(plain[2:], "the same, which other processes disturb less")
        keyed = await in_turns(
            {
                "bare keyed kernel calls": lambda n: bare(
                    work, calls_of(2 * n, writes=True), time.perf_counter, keyed=True
                ),
                "a task in a worker": lambda n: worked(work, calls_of(2 * n + 1, writes=True)),
            }
        )
        report(keyed, "the worker at least 0.8 of the speed, that is at most 1.25 times")
        taken = wakes(work)
    median = statistics.median(taken)
    print(f"approval answered to its effect: {median:.0f} ms in the median, {max(taken):.0f} at most (to hold: 150)")
    missed = [
        name
        for name, held in (
            ("the loop without an engine", plain[1][1] <= 1.3 * plain[0][1]),
            ("a task in a worker", keyed[1][1] <= 1.25 * keyed[0][1]),
            ("an approval", median <= 150),
        )
        if not held
    ]
    if missed:
        print(f"MISSED: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

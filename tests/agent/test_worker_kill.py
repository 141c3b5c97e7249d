"""Workers killed with -9: at every step, at random moments, one of four. No effect twice, no event lost."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from agent._durable import CONFIG, check, decide, put
from agent._harness import Agent
from agent._workers import Forks
from handrail.agent.tasks import AgentTask

SCALE = int(os.environ.get("HANDRAIL_TEST_SCALE", "1"))
RANDOM_KILLS = 20 if SCALE < 20 else 200
SHARES = 4  # the steps are tried in so many tests, which may run side by side


@pytest.fixture
def durable(work: Path) -> Agent:
    """An agent whose worker is another process."""
    return Agent(work, CONFIG)


async def finish(agent: Agent, task: AgentTask, happened: Counter[str]) -> None:
    """Go on with a task in this process until it has ended."""
    for _ in range(12):
        await agent.work_off()
        if agent.inbox.find(task.id).ended:
            return
        decide(agent, task, happened)
    raise AssertionError(f"the task did not end: {agent.inbox.find(task.id)}")


def count_steps(forks: Forks, agent: Agent, tmp_path: Path) -> int:
    """How many steps a worker takes with the task until it waits for its approval, and after that."""
    task = put(agent, "counted")
    log = tmp_path / "counted.log"
    happened = Counter[str]()
    steps = 0
    for _ in range(2):
        assert forks.wait(forks.start(CONFIG, log)) == 0, log.read_text()
        steps += int(Path(f"{log}.steps").read_text())
        decide(agent, task, happened)
    check(agent, task)
    return steps


@pytest.mark.parametrize("share", range(SHARES))
async def test_a_worker_killed_at_any_step_loses_and_repeats_nothing(
    forks: Forks, durable: Agent, tmp_path: Path, share: int
) -> None:
    """Before and after every write to journal, turn log, outcomes, inbox and ledger, up to the wait and after it."""
    happened = Counter[str]()
    steps = count_steps(forks, durable, tmp_path)
    assert steps > 40
    for number in range(1 + share, steps + 1, SHARES):
        task = put(durable, f"killed-{number}")
        log = tmp_path / f"{number}.log"
        code = forks.wait(forks.start(CONFIG, log, kill_at=number))
        if code == 0:  # it got as far as the wait: killed in what comes after
            decide(durable, task, happened)
            before = int(number - _steps_before_wait(forks, durable, tmp_path))
            code = forks.wait(forks.start(CONFIG, log, kill_at=max(before, 1)))
        happened["killed"] += code == -9
        await finish(durable, task, happened)
        check(durable, task)
    assert happened["killed"] >= (steps // SHARES) - 1
    assert happened["approvals"] > 0


_known: dict[str, int] = {}


def _steps_before_wait(forks: Forks, agent: Agent, tmp_path: Path) -> int:
    """How many steps a worker takes until the task waits; counted once."""
    if "steps" not in _known:
        put(agent, "counted-once")
        log = tmp_path / "counted-once.log"
        assert forks.wait(forks.start(CONFIG, log)) == 0
        _known["steps"] = int(Path(f"{log}.steps").read_text())
    return _known["steps"]


async def test_a_worker_killed_at_random_moments_loses_and_repeats_nothing(
    forks: Forks, durable: Agent, tmp_path: Path
) -> None:
    """Twenty times, two hundred in the long form; sometimes twice in one task."""
    choose, happened = random.Random(11), Counter[str]()
    for number in range(RANDOM_KILLS):
        task = put(durable, f"random-{number}")
        for _ in range(choose.choice([1, 1, 2])):
            process = forks.start(CONFIG, tmp_path / "random.log")
            time.sleep(choose.uniform(0.02, 0.35))
            happened["killed"] += forks.kill(process) == -9
            decide(durable, task, happened)
        await finish(durable, task, happened)
        check(durable, task)
    assert happened["killed"] >= RANDOM_KILLS // 2, happened


async def test_four_workers_on_one_inbox_any_of_them_killed(forks: Forks, durable: Agent, tmp_path: Path) -> None:
    """Tasks of a dead worker are taken over by the others; each is done once, whoever did it."""
    choose, happened = random.Random(5), Counter[str]()
    tasks = [put(durable, f"shared-{number}") for number in range(8 if SCALE < 20 else 60)]
    log = tmp_path / "four.log"
    workers = [forks.start(CONFIG, log, once=False) for _ in range(4)]
    try:
        until = time.monotonic() + 60 * max(1, SCALE // 4)
        kills = 6 if SCALE < 20 else 60
        while not all(durable.inbox.find(task.id).ended for task in tasks):
            assert time.monotonic() < until, (durable.inbox.list(), log.read_text())
            for task in tasks:
                decide(durable, task, happened)
            time.sleep(choose.uniform(0.02, 0.15))
            if happened["killed"] < kills:
                place = choose.randrange(4)
                happened["killed"] += forks.kill(workers[place]) == -9
                workers[place] = forks.start(CONFIG, log, once=False)
    finally:
        for process in workers:
            forks.kill(process)
    assert happened["killed"] > 0
    for task in tasks:
        check(durable, task)

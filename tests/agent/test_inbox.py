"""The inbox: who takes a task, who may end it, what is told to those who follow; many tasks and few workers."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from agent._harness import ANSWER, Agent, call, calls
from agent._workers import Forks
from handrail.agent.inbox import Inbox
from handrail.agent.owners import is_alive, name_owner
from handrail.agent.tasks import Lane, TaskState, TaskWaits
from handrail.errors import Misuse, Problem
from handrail.ports import Reply

SCALE = int(os.environ.get("HANDRAIL_TEST_SCALE", "1"))
DELETE = calls(call("delete_path", path="a.txt", confirm=True))


def test_one_of_several_takes_a_task(agent: Agent) -> None:
    """By compare-and-set: the second is told that it was too late."""
    task = agent.put([ANSWER])
    taken = agent.inbox.claim(task, "first")
    assert taken is not None
    assert (taken.state, taken.owner, taken.epoch) == (TaskState.RUNNING, "first", 1)
    assert agent.inbox.claim(task, "second") is None


def test_who_lost_a_task_changes_nothing_any_more(agent: Agent) -> None:
    """The epoch is the fence: an older one neither ends a task nor has it wait nor gives it back."""
    first = agent.inbox.claim(agent.put([ANSWER]), "dead")
    assert first is not None
    second = agent.inbox.claim(first, "alive")
    assert second is not None
    assert not agent.inbox.finish(first, TaskState.DONE, "from the grave")
    assert not agent.inbox.wait(first, TaskWaits(questions=("qst_x",)))
    assert not agent.inbox.release(first)
    assert agent.inbox.find(first.id) == second
    assert agent.inbox.finish(second, TaskState.DONE, "well")
    assert agent.inbox.find(first.id).answer == "well"
    assert agent.inbox.claim(agent.inbox.find(first.id), "late") is None


def test_the_same_key_queues_once(agent: Agent) -> None:
    """A message that a commander received twice is one task."""
    first, again = (agent.inbox.put("x", str(agent.work), key="chat:7") for _ in range(2))
    assert first == again
    assert len(agent.inbox.list()) == 1
    assert agent.inbox.message(first.id, "hi", key="chat:8")
    assert not agent.inbox.message(first.id, "hi", key="chat:8")
    assert len(agent.inbox.messages(first.id)) == 1


def test_every_change_leaves_a_notice_in_order(agent: Agent) -> None:
    """Who follows goes on after the last number it kept, also in another process."""
    task = agent.put([ANSWER])
    taken = agent.inbox.claim(task, "x")
    assert taken is not None
    agent.inbox.wait(taken, TaskWaits(("apr_x",)))
    agent.inbox.set_mark("telegram", str(agent.inbox.last_notice()))
    agent.inbox.signal(task.id)
    other = Inbox(agent.inbox.path, agent.clock)
    kinds = [notice.kind for notice in other.notices()]
    assert kinds == ["task.queued", "task.running", "task.waiting", "task.queued"]
    assert [notice.kind for notice in other.notices(int(other.mark("telegram")))] == ["task.queued"]


def test_changes_of_another_process_are_seen_and_own_reads_are_none(agent: Agent) -> None:
    """`changed` is what workers poll."""
    other = Inbox(agent.inbox.path, agent.clock)
    agent.put([ANSWER])
    assert other.changed()
    other.list()
    assert not other.changed()
    agent.put([ANSWER])
    assert other.changed()


@pytest.mark.parametrize("text", ["", "  \n", "half \ud800 pair", "x" * 1_000_001])
def test_what_is_no_text_is_refused(agent: Agent, text: str) -> None:
    """Before it is anywhere."""
    with pytest.raises(Misuse):
        agent.inbox.put(text, str(agent.work))


def test_nothing_is_left_where_nobody_sent_anything(agent: Agent) -> None:
    """Looking makes no file."""
    assert agent.inbox.list() == ()
    assert agent.inbox.notices() == ()
    assert not agent.inbox.path.exists()


def test_a_file_that_is_no_inbox_is_told(agent: Agent) -> None:
    """With its path, and what to look at."""
    agent.inbox.path.parent.mkdir(parents=True)
    agent.inbox.path.write_text("something else entirely, and long enough to be no database" * 20)
    with pytest.raises(Problem, match=r"inbox\.sqlite cannot be used"):
        agent.inbox.list()


def test_a_process_is_known_by_its_number_and_its_start() -> None:
    """A number that is used again is another process."""
    owner = name_owner()
    assert is_alive(owner)
    number, _, boot = owner.split(":")
    assert not is_alive(f"{number}:1:{boot}")
    assert not is_alive(owner.replace(boot, "another-boot"))
    assert not is_alive("")
    child = os.fork()
    if child == 0:
        os._exit(0)
    time.sleep(0)
    while is_alive(f"{child}:{_started(child)}:{boot}"):  # a zombie is nobody
        time.sleep(0.01)
    os.waitpid(child, 0)


def _started(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]


async def test_a_task_runs_where_its_capability_is_offered(work: Path) -> None:
    """One that asks for nothing runs anywhere."""
    plain, asking = Agent(work), Agent(work, queues=("exec",))
    task, other = plain.put([ANSWER], queue="exec"), plain.put([ANSWER])
    await plain.work_off()
    assert [plain.inbox.find(item.id).state for item in (task, other)] == [TaskState.QUEUED, TaskState.DONE]
    third = plain.put([ANSWER], queue="net")
    await asking.work_off()
    assert [plain.inbox.find(item.id).state for item in (task, third)] == [TaskState.DONE, TaskState.QUEUED]


def test_a_task_that_workers_die_of_does_not_keep_the_others_waiting(agent: Agent) -> None:
    """After some tries it comes behind the queue."""
    bad, good = agent.put([ANSWER]), agent.put([ANSWER])
    for _ in range(10):
        assert agent.engine.next_task() == agent.inbox.find(bad.id)
        agent.inbox.claim(agent.inbox.find(bad.id), "1:1:gone")
    assert agent.engine.next_task() == good


async def test_a_task_of_the_foreground_is_left_to_it(agent: Agent) -> None:
    """Until it is handed over with `tasks resume`."""
    task = agent.inbox.put("x", str(agent.work), lane=Lane.FOREGROUND, options={"script": [ANSWER]})
    await agent.work_off()
    assert agent.inbox.find(task.id).state is TaskState.QUEUED
    taken = agent.inbox.claim(task, "gone")
    assert taken is not None
    agent.inbox.finish(taken, TaskState.FAILED, "interrupted")
    agent.inbox.resume(task.id)
    await agent.work_off()
    assert agent.inbox.find(task.id).state is TaskState.DONE


async def test_a_run_that_is_open_elsewhere_is_left_alone_for_a_while(agent: Agent) -> None:
    """The lock of the run is the fence: the task goes back to the queue, and nobody spins on it."""
    task = agent.put([ANSWER])
    from handrail import Runtime

    async with Runtime.open(agent.work, run_id=task.run_id):
        await agent.work_off()
        assert agent.inbox.find(task.id).state is TaskState.QUEUED
        assert agent.engine.next_task() is None
    agent = Agent(agent.work)
    await agent.work_off()
    assert agent.inbox.find(task.id).state is TaskState.DONE


async def test_a_worker_that_died_after_the_answer_only_ends_the_task(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer was on record: nothing is asked or done again, and the event is written once."""
    task = agent.put([calls(call("now")), ANSWER])
    with monkeypatch.context() as patch:
        patch.setattr(Inbox, "finish", lambda *_: False)
        await agent.work_off()
    assert agent.inbox.find(task.id).state is TaskState.RUNNING
    agent.engine._owner = "1:2:3"
    agent.inbox._writer.execute("UPDATE tasks SET owner = ''")  # type: ignore[union-attr]
    await agent.work_off()
    assert agent.inbox.find(task.id).answer == "done"
    assert len(agent.events(task, "agent.completed")) == 1
    assert len(agent.events(task, "tool.started")) == 1


async def test_a_hundred_tasks_for_four_workers_are_done_once_each(forks: Forks, work: Path, tmp_path: Path) -> None:
    """Each has one run, one start, one end and one effect."""
    agent = Agent(work)
    tasks = [
        agent.put([calls(call("write_file", path=f"f{number}.txt", content="x")), ANSWER], str(number))
        for number in range(100)
    ]
    log = tmp_path / "hundred.log"
    workers = [forks.start(agent.config, log) for _ in range(4)]
    assert [forks.wait(process) for process in workers] == [0] * 4, log.read_text()
    assert Counter(agent.inbox.find(task.id).state for task in tasks) == {TaskState.DONE: 100}
    assert len(list(work.glob("f*.txt"))) == 100
    for task in tasks:
        kinds = Counter(event["kind"] for event in agent.events(task))
        assert (kinds["agent.started"], kinds["agent.completed"], kinds["tool.completed"]) == (1, 1, 1)
        assert agent.inbox.find(task.id).epoch == 1


def memory_of(process: int) -> int:
    """The bytes of a process that are its own."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    rows = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()[1:] if line.strip()}
    return 1024 * (rows["Private_Clean"] + rows["Private_Dirty"])


def ticks_of(process: int) -> int:
    """The processor time of a process, in ticks."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


async def test_three_hundred_waiting_tasks_cost_next_to_nothing(forks: Forks, work: Path, tmp_path: Path) -> None:
    """At most 15 MB and 2 % of a processor: they are rows in a file, watched by one look at a number."""
    agent = Agent(work)
    (work / "a.txt").write_text("x")
    real = agent.put([DELETE, ANSWER])
    process = forks.start(agent.config, tmp_path / "waiting.log", once=False)
    try:
        _wait_for(agent, TaskState.WAITING, 1)
        _wait_until_idle(process)
        memory = memory_of(process)
        request = agent.ledger.find(agent.inbox.find(real.id).waits.requests[0]).request
        for number in range(299):
            taken = agent.inbox.claim(agent.put([ANSWER], queue="nobody"), "gone")
            assert taken is not None
            asked = agent.ledger.request(replace(request, id="", digest=f"{number}", run_id=f"run-{number}"), {})
            agent.inbox.wait(taken, TaskWaits((asked.id,)))
        _wait_for(agent, TaskState.WAITING, 300)
        _wait_until_idle(process)
        before = ticks_of(process)
        began = time.monotonic()
        time.sleep(2)
        share = (ticks_of(process) - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - began)
        assert memory_of(process) - memory <= 15 * 1024 * 1024
        assert share <= 0.02, share
        agent.ledger.answer(request.id, Reply("granted", by="Ann"))
        _wait_for(agent, TaskState.DONE, 1)
    finally:
        forks.kill(process)


def _wait_for(agent: Agent, state: TaskState, number: int) -> None:
    """Wait until so many tasks are in a state."""
    until = time.monotonic() + 60
    while len(agent.inbox.list((state,))) < number:
        assert time.monotonic() < until, agent.inbox.list()
        time.sleep(0.02)


def _wait_until_idle(process: int) -> None:
    """Wait until a process uses no more than a look now and then."""
    while True:
        before = ticks_of(process)
        time.sleep(0.3)
        if ticks_of(process) - before <= 1:
            return

"""What stops a task: each limit within one turn, with its reason in the event and in the answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent._harness import ANSWER, Agent, call, calls
from handrail.agent.control import AgentLimits, AgentStopped, Control
from handrail.agent.history import History
from handrail.agent.tasks import AgentTask, TaskState
from handrail.ports import Reply
from handrail.testing import FixedClock

READ = calls(call("now"), usage={"input_tokens": 60, "output_tokens": 40})
LISTED = [calls(call("list_dir", depth=depth)) for depth in range(1, 9)]


def stopped(agent: Agent, task: AgentTask, reason: str, error_class: str = "policy") -> dict[str, Any]:
    """Check that a task stopped for a reason, and that event and answer tell it; returns the event."""
    assert (task.state, task.reason) == (TaskState.FAILED, reason)
    (event,) = agent.events(task, "agent.failed")
    assert (event["reason"], event["error_class"]) == (reason, error_class)
    assert event["message"] == task.answer
    assert f"To go on: handrail tasks resume {task.id}" in task.answer
    return event


async def test_max_turns_stops_before_another_turn(agent: Agent) -> None:
    """Three turns are allowed: the fourth is never begun, and every round of tools counts."""
    task = await agent.run([*LISTED, ANSWER], max_turns=3)
    event = stopped(agent, task, "max_turns")
    assert (event["turns"], event["calls"]) == (3, 3)
    assert len(agent.events(task, "turn.started")) == 3
    assert "max_turns allows 3" in task.answer


async def test_an_answer_in_the_last_allowed_turn_counts(agent: Agent) -> None:
    """A limit is no reason to throw an answer away."""
    task = await agent.run([LISTED[0], ANSWER], max_turns=2)
    assert task.state is TaskState.DONE


async def test_max_tokens_stops_before_the_calls_of_the_turn_that_went_over(agent: Agent) -> None:
    """Tokens of all turns add up; what was over is not acted upon."""
    task = await agent.run([READ, READ, READ, ANSWER], max_tokens=200)
    event = stopped(agent, task, "max_tokens")
    assert (event["turns"], event["calls"]) == (2, 1)
    assert event["usage"] == {"input_tokens": 120, "output_tokens": 80}


async def test_max_tool_calls_stops_within_a_turn(agent: Agent) -> None:
    """Also in the middle of a turn, and also where calls run side by side."""
    several = calls(*(call("hash_text", text=str(number)) for number in range(5)))
    task = await agent.run([several, ANSWER], max_tool_calls=3)
    event = stopped(agent, task, "max_tool_calls")
    assert event["calls"] == 3
    assert len(agent.events(task, "tool.completed")) == 3


async def test_max_wall_seconds_ends_a_slow_model(agent: Agent) -> None:
    """The model is not waited for longer than the task may last."""
    task = await agent.run([{"delay": 60}, ANSWER], max_wall_seconds=0.2)
    stopped(agent, task, "max_wall_seconds", "timeout")


async def test_the_time_of_tools_counts_and_that_of_people_does_not(work: Path) -> None:
    """An hour of tools uses the limit up, a week of waiting does not."""
    clock = FixedClock()
    agent = Agent(work, clock=clock)
    task = await agent.run([calls(call("ask_person", question="?")), LISTED[0], LISTED[1], ANSWER])
    clock.advance(7 * 86400)
    agent.answer_all(task)
    from handrail.runtime import Runtime

    real = Runtime.call

    async def slow(self: Runtime, *given: Any, **how: Any) -> Any:
        clock.advance(2000)
        return await real(self, *given, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runtime, "call", slow)
        task = await agent.finish(task)
    event = stopped(agent, task, "max_wall_seconds", "timeout")
    assert event["calls"] == 3
    assert 3600 <= event["seconds"] < 5000


async def test_a_failing_model_is_tried_again_with_growing_pauses(work: Path) -> None:
    """Two failures, then it goes on; pauses grow, with jitter, and retry-after is honoured."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    agent = Agent(work, ports={"sleep": sleep, "chance": lambda: 1.0})
    task = await agent.run([{"error": "overloaded", "times": 2}, {"error": "busy", "retry_after": 7}, ANSWER])
    assert task.state is TaskState.DONE
    assert slept == [0.5, 1.0, 7]
    even = Agent(work, ports={"sleep": sleep, "chance": lambda: 0.0})
    slept.clear()
    await even.run([{"error": "overloaded"}, ANSWER])
    assert slept == [0.25]


async def test_model_retries_are_bounded(work: Path) -> None:
    """Three retries, then the task stops and says what the model said."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    agent = Agent(work, ports={"sleep": sleep})
    task = await agent.run([{"error": "overloaded", "times": 9}, ANSWER])
    stopped(agent, task, "model_failed", "unknown")
    assert len(slept) == 3
    assert "overloaded" in task.answer


async def test_an_error_that_another_try_cannot_mend_stops_at_once(agent: Agent) -> None:
    """A wrong key is not tried four times."""
    task = await agent.run([{"error": "the key was refused", "retryable": False}, ANSWER])
    stopped(agent, task, "model_failed", "unknown")


async def test_the_breaker_opens_after_failures_in_a_row(work: Path) -> None:
    """Whatever `model_retries` allows."""

    async def sleep(_: float) -> None:
        await asyncio.sleep(0)

    agent = Agent(work, {"agent": {"model_retries": 20}, "limits": {"breaker_failures": 3}}, ports={"sleep": sleep})
    task = await agent.run([{"error": "overloaded", "times": 9}, ANSWER])
    stopped(agent, task, "breaker", "unknown")
    assert "3 times in a row" in task.answer


async def test_a_pause_never_goes_past_the_time_limit(work: Path) -> None:
    """Retry after an hour, with a minute left: the task ends now."""
    agent = Agent(work)
    task = await agent.run([{"error": "busy", "retry_after": 3600}, ANSWER], max_wall_seconds=60)
    stopped(agent, task, "max_wall_seconds", "timeout")


async def test_the_same_calls_without_progress_stop_the_task(agent: Agent) -> None:
    """Five equal turns with equal results, also where two take turns; a change in between counts as progress."""
    same = [calls(call("list_dir")), calls(call("stat_path", path="."))]
    task = await agent.run(same * 10)
    event = stopped(agent, task, "no_progress")
    assert event["turns"] <= 10
    busy = [step for number in range(8) for step in (calls(call("list_dir")), write(number))]
    assert (await agent.run([*busy, ANSWER])).state is TaskState.DONE


async def test_a_program_that_is_run_in_vain_again_and_again_stops_the_task(agent: Agent) -> None:
    """However long it took each time."""
    agent = Agent(agent.work, {**agent.config, "exec": {"allow": ["*"]}})
    task = await agent.run([calls(call("run_command", command="sleep 0.0$RANDOM; echo failed; exit 1"))] * 9)
    assert task.reason == "no_progress"


def write(number: int) -> dict[str, Any]:
    """A turn that changes something."""
    return calls(call("write_file", path=f"w{number}.txt", content="x"))


def test_a_tool_whose_breaker_stays_open_stops_the_task() -> None:
    """CIRCUIT_OPEN of the same tool, five times, whatever its arguments."""
    from handrail.agent.conversation import CallResult, ModelCall

    control = Control(AgentLimits(), History(), 0.0)
    results = [
        CallResult(n, 0, ModelCall("http_fetch", str(n)), str(n), ok=False, code="CIRCUIT_OPEN") for n in range(5)
    ]
    for result in results[:4]:
        control.note_results([result])
    with pytest.raises(AgentStopped) as stop:
        control.note_results(results[4:])
    assert stop.value.reason == "breaker"


async def test_a_stopped_task_is_resumed_with_its_limits_counted_anew(agent: Agent) -> None:
    """`tasks resume` goes on where it stopped: no turn is made twice."""
    task = await agent.run([*LISTED[:5], ANSWER], max_turns=3)
    assert task.reason == "max_turns"
    assert agent.inbox.resume(task.id) is not None
    await agent.work_off()
    done = agent.inbox.find(task.id)
    assert (done.state, done.answer) == (TaskState.DONE, "done")
    assert len(agent.events(task, "tool.started")) == 5
    assert [event["kind"] for event in agent.events(task, "agent.failed", "agent.completed")] == [
        "agent.failed",
        "agent.completed",
    ]


async def test_a_cancelled_task_stops_in_the_middle_of_a_call(agent: Agent) -> None:
    """Its program is ended, the event says cancelled, and nothing else runs."""
    agent = Agent(agent.work, {**agent.config, "exec": {"allow": ["sleep 60"]}})
    task = agent.put([calls(call("run_command", command="sleep 60")), write(1), ANSWER])
    working = asyncio.ensure_future(agent.work_off())
    async with asyncio.timeout(20):
        while not (agent.folder(task) / "events.jsonl").exists() or not agent.events(task, "tool.started"):
            await asyncio.sleep(0.02)
        agent.inbox.cancel(task.id, "Ann")
        await working
    task = agent.inbox.find(task.id)
    assert (task.state, task.reason) == (TaskState.CANCELLED, "cancelled")
    assert agent.events(task, "agent.failed")[0]["reason"] == "cancelled"
    assert agent.events(task, "tool.failed")[0]["code"] == "CANCELLED"
    assert not (agent.work / "w1.txt").exists()


async def test_a_task_that_waits_is_cancelled_at_once(agent: Agent) -> None:
    """Nobody has to work on it for that; a later answer changes nothing."""
    task = await agent.run([calls(call("ask_person", question="?")), ANSWER])
    assert agent.inbox.cancel(task.id, "Ann").state is TaskState.CANCELLED
    agent.inbox.answer(agent.inbox.questions(task.id)[0].id, "yes")
    await agent.work_off()
    assert agent.inbox.find(task.id).state is TaskState.CANCELLED


async def test_waiting_for_an_approval_at_hand_is_not_counted(work: Path) -> None:
    """In the foreground a person thinks for two hours, and the task has used none of its time."""
    from handrail.agent.patience import TimedApprover

    clock = FixedClock()

    class Slow:
        ledger: Any = None

        async def ask(self, request: Any) -> Reply:
            clock.advance(7200)
            agent.ledger.answer(request.id, Reply("granted", by="Ann"))
            return Reply("granted", by="Ann")

    (work / "a.txt").write_text("a")
    agent = Agent(work, clock=clock, approver=lambda: TimedApprover(Slow(), clock))
    task = await agent.run([calls(call("delete_path", path="a.txt", confirm=True)), LISTED[0], ANSWER])
    assert (task.state, task.summary["seconds"]) == (TaskState.DONE, 0.0)
    assert not (work / "a.txt").exists()

"""Tasks that wait for a person: approvals given whenever, once, in time; a week later; by whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent._harness import ANSWER, Agent, call, calls
from handrail.agent.inbox import QuestionAnswered
from handrail.agent.tasks import TaskState
from handrail.errors import Misuse
from handrail.ports import Answered, Reply
from handrail.testing import FixedClock
from handrail.words import Scope

DELETE = calls(call("delete_path", path="a.txt", confirm=True))


@pytest.fixture
def timed(work: Path) -> Agent:
    """An agent whose clock the test moves."""
    (work / "a.txt").write_text("a\n")
    return Agent(work, clock=FixedClock())


def advance(agent: Agent, seconds: float) -> None:
    """Let time pass."""
    assert isinstance(agent.clock, FixedClock)
    agent.clock.advance(seconds)


async def test_an_approval_given_while_no_worker_runs_is_honoured_when_one_starts(timed: Agent) -> None:
    """The run is closed, nobody works: the answer waits in the ledger."""
    task = await timed.run([DELETE, ANSWER])
    (request,) = task.waits.requests
    assert timed.events(task)[-1]["kind"] == "run.finished"
    timed.ledger.answer(request, Reply("granted", by="Ann"))
    again = Agent(timed.work, clock=timed.clock)  # another process would be no different
    done = await again.finish(task)
    assert done.state is TaskState.DONE
    assert not (timed.work / "a.txt").exists()
    (granted,) = timed.events(task, "approval.granted")
    assert granted["by"] == "Ann"
    assert len(timed.events(task, "approval.required")) == 1


async def test_given_twice_it_counts_once(timed: Agent) -> None:
    """The second answer is told who decided, and one grant runs one call."""
    script = [DELETE, calls(call("write_file", path="a.txt", content="a\n")), DELETE, ANSWER]
    task = await timed.run(script)
    (request,) = task.waits.requests
    timed.ledger.answer(request, Reply("granted", by="Ann"))
    with pytest.raises(Answered, match="Ann"):
        timed.ledger.answer(request, Reply("granted", by="Bob"))
    await timed.work_off()
    task = timed.inbox.find(task.id)
    assert task.state is TaskState.WAITING
    assert task.waits.requests != (request,)
    assert len([event for event in timed.events(task, "tool.completed") if event["tool"] == "delete_path"]) == 1


async def test_a_no_goes_to_the_model_with_its_advice(timed: Agent) -> None:
    """The task goes on; the call is not asked for again by itself."""
    task = await timed.run([DELETE, ANSWER])
    timed.ledger.answer(task.waits.requests[0], Reply("denied", Scope.NONE, "Ann", "move it to old/ instead"))
    done = await timed.finish(task)
    assert done.state is TaskState.DONE
    (result,) = timed.results(task)
    assert result["code"] == "APPROVAL_DENIED"
    assert "move it to old/ instead" in result["text"]
    assert (timed.work / "a.txt").exists()
    (denied,) = timed.events(task, "approval.denied")
    assert (denied["by"], denied["state"]) == ("Ann", "denied")
    assert len(timed.ledger.list()) == 1


async def test_an_approval_that_expired_is_refused(work: Path) -> None:
    """Only where `agent.approval_seconds` says so; then the worker finds out by itself."""
    (work / "a.txt").write_text("a\n")
    clock = FixedClock()
    agent = Agent(work, {"agent": {"approval_seconds": 3600.0}, "tools": {"enable": ["delete_path"]}}, clock)
    task = await agent.run([DELETE, ANSWER])
    await agent.work_off()
    assert agent.inbox.find(task.id).state is TaskState.WAITING
    clock.advance(3601)
    await agent.work_off()
    assert agent.inbox.find(task.id).state is TaskState.DONE
    (result,) = agent.results(task)
    assert result["code"] == "APPROVAL_DENIED"
    assert "expired" in result["text"]
    assert (work / "a.txt").exists()
    with pytest.raises(Answered):
        agent.ledger.answer(task.waits.requests[0], Reply("granted", by="Ann"))


async def test_a_grant_that_expired_before_a_worker_came_asks_again(work: Path) -> None:
    """A yes is not for ever where settings bound it: nothing runs on the strength of an old one."""
    (work / "a.txt").write_text("a\n")
    clock = FixedClock()
    agent = Agent(work, {"agent": {"approval_seconds": 3600.0}, "tools": {"enable": ["delete_path"]}}, clock)
    task = await agent.run([DELETE, ANSWER])
    agent.ledger.answer(task.waits.requests[0], Reply("granted", by="Ann"))
    clock.advance(2 * 3600)
    await agent.work_off()
    now = agent.inbox.find(task.id)
    assert (work / "a.txt").exists()
    assert now.state is TaskState.WAITING
    assert now.waits.requests != task.waits.requests


async def test_a_task_that_waits_a_week_goes_on(timed: Agent) -> None:
    """Neither the request nor the grant nor the time limit minds."""
    task = await timed.run([calls(call("ask_person", question="Delete it?")), DELETE, ANSWER])
    advance(timed, 7 * 86400)
    timed.inbox.answer(task.waits.questions[0], "yes", "Ann")
    await timed.work_off()
    task = timed.inbox.find(task.id)
    assert task.waits.requests
    advance(timed, 7 * 86400)
    timed.ledger.answer(task.waits.requests[0], Reply("granted", by="Ann"))
    advance(timed, 7 * 86400)
    done = await timed.finish(task)
    assert done.state is TaskState.DONE
    assert not (timed.work / "a.txt").exists()


async def test_a_grant_for_the_run_outlives_a_wait(timed: Agent) -> None:
    """Given for the run of a task, it holds as long as the task."""
    rule = {"effect": "ask", "touch": "fs.write", "target": "**"}
    config = {"tools": {"enable": ["fs"]}, "approvals": {"run_covers": "tool"}, "rules": [rule]}
    agent = Agent(timed.work, config, timed.clock)
    first, other = (calls(call("write_file", path=f"{name}.txt", content="x")) for name in "bc")
    task = await agent.run([first, calls(call("ask_person", question="Go on?")), other, ANSWER])
    agent.ledger.answer(task.waits.requests[0], Reply("granted", Scope.RUN, "Ann"))
    await agent.work_off()
    advance(agent, 30 * 86400)
    task = agent.inbox.find(task.id)
    agent.inbox.answer(task.waits.questions[0], "yes")
    await agent.work_off()
    assert agent.inbox.find(task.id).state is TaskState.DONE
    assert len(agent.events(task, "approval.required")) == 1


async def test_a_file_that_changed_since_is_asked_for_anew(timed: Agent) -> None:
    """An approval is for what the person saw."""
    task = await timed.run([DELETE, ANSWER])
    timed.ledger.answer(task.waits.requests[0], Reply("granted", by="Ann"))
    (timed.work / "a.txt").write_text("something else\n")
    await timed.work_off()
    now = timed.inbox.find(task.id)
    assert now.state is TaskState.WAITING
    assert now.waits.requests != task.waits.requests
    assert (timed.work / "a.txt").exists()


async def test_several_reads_that_ask_wait_together(work: Path) -> None:
    """Calls of one turn that need a person are asked for at once, and the task goes on when all are answered."""
    (work / "a.txt").write_text("a\n")
    (work / "b.txt").write_text("b\n")
    rule = {"effect": "ask", "touch": "fs.read", "target": "*.txt"}
    agent = Agent(work, {"rules": [rule]})
    task = await agent.run([calls(call("read_file", path="a.txt"), call("read_file", path="b.txt")), ANSWER])
    first, second = task.waits.requests
    agent.ledger.answer(first, Reply("granted", by="Ann"))
    await agent.work_off()
    assert agent.inbox.find(task.id).state is TaskState.WAITING
    agent.ledger.answer(second, Reply("denied", Scope.NONE, "Ann"))
    await agent.work_off()
    assert agent.inbox.find(task.id).state is TaskState.DONE
    assert [result["ok"] for result in agent.results(task)] == [True, False]


async def test_effects_that_a_review_asks_for_wait_too(work: Path) -> None:
    """The program ran in a layer and kept nothing; once its changes are approved it runs anew, once kept."""
    config = {
        "tools": {"enable": ["exec"]},
        "exec": {"workspace": "review", "allow": ["*"]},
        "rules": [{"effect": "ask", "touch": "fs.write", "target": "out.txt"}],
    }
    agent = Agent(work, config)
    task = await agent.run([calls(call("run_command", command="echo x >> out.txt")), ANSWER])
    if task.state is not TaskState.WAITING:
        pytest.skip(f"no layer here: {agent.results(task)}")
    assert not (work / "out.txt").exists()
    done = await agent.finish(task)
    assert (done.state, (work / "out.txt").read_text()) == (TaskState.DONE, "x\n")


async def test_a_host_that_a_program_reaches_for_is_waited_for_and_nothing_else() -> None:
    """A connection cannot be put off; everything else is answered later."""
    from handrail.agent.patience import LaterApprover
    from handrail.ports import Request
    from handrail.words import Risk

    class Ledger:
        async def wait(self, request_id: str) -> Reply:
            clock.advance(40)
            return Reply("granted", by=request_id)

    clock = FixedClock()
    waited: list[float] = []
    approver = LaterApprover()
    approver.ledger = Ledger()  # type: ignore[assignment]
    approver.clock = clock
    approver.waited = waited.append

    def ask_for(name: str, tool: str, **more: Any) -> Request:
        common: tuple[Any, ...] = (Risk.HIGH, "why", {}, {}, "d", "p", 0.0, 1.0, "r", "c", "w", "agent", Scope.CALL)
        return Request(name, tool, "1", *common, **more)

    host = ask_for("apr_1", "run_command", touches=(("net.connect", "x:443"),), reviews="d0")
    effects = ask_for("apr_2", "run_command", touches=(("fs.write", "x"),), reviews="d0")
    plain = ask_for("apr_3", "http_fetch", touches=(("net.connect", "x:443"),))
    assert [(await approver.ask(request)).state for request in (host, effects, plain)] == [
        "granted",
        "pending",
        "pending",
    ]
    assert waited == [40]


async def test_the_first_answer_to_a_question_counts(timed: Agent) -> None:
    """A later one is told who answered what; choices are taken by their beginning, and nothing else."""
    task = await timed.run([calls(call("ask_person", question="?")), ANSWER])
    (question,) = task.waits.questions
    timed.inbox.answer(question, "blue", "Ann")
    with pytest.raises(QuestionAnswered, match="Ann: blue"):
        timed.inbox.answer(question, "red", "Bob")
    from handrail.agent.tasks import PersonQuestion

    timed.inbox.ask(PersonQuestion("qst_x", task.id, "outcome", "?", ("run again", "count as done", "stop")))
    with pytest.raises(Misuse, match="count as done"):
        timed.inbox.answer("qst_x", "whatever")
    assert timed.inbox.answer("qst_x", "count").answer == "count as done"


async def test_requests_of_a_task_stay_when_its_run_closes(timed: Agent) -> None:
    """And those of a program do not, as before."""
    task = await timed.run([DELETE, ANSWER])
    assert timed.ledger.find(task.waits.requests[0]).state == "pending"
    from handrail import Runtime
    from handrail.approvals.elsewhere import LedgerApprover

    config = {**timed.config, "approvals": {"wait_seconds": 0.0}}
    approver = LedgerApprover(timed.ledger, timed.clock, 0.0)
    async with Runtime.open(timed.work, config=config, approver=approver, clock=timed.clock) as runtime:
        (timed.work / "c.txt").write_text("c\n")
        outcome = await runtime.call("delete_path", {"path": "c.txt", "confirm": True})
    assert outcome.error is not None
    assert timed.ledger.find(outcome.error.details["approval"]["id"]).state == "expired"

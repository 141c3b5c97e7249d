"""The loop between model and kernel: turns, results, questions, messages, context, instructions."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from agent._harness import ANSWER, Agent, call, calls, results_in, watch
from handrail.agent.conversation import Instructions, ModelTurn, PersonText, size_of
from handrail.agent.tasks import TaskState
from handrail.agent.tree import build_tree


async def test_a_task_goes_from_the_inbox_through_model_and_gate_to_its_answer(agent: Agent) -> None:
    """The whole chain once, with its events in order and its tree rebuilt from them alone."""
    script = [
        calls(call("write_file", path="a.txt", content="one\n")),
        calls(call("read_file", path="a.txt")),
        {"final_answer": "a.txt holds one"},
    ]
    task = await agent.run(script, "write one")
    assert (task.state, task.answer) == (TaskState.DONE, "a.txt holds one")
    assert task.summary["turns"] == 3
    assert (agent.work / "a.txt").read_text() == "one\n"
    kinds = [event["kind"] for event in agent.events(task)]
    turn = ["turn.started", "tool.started", "tool.completed", "turn.finished"]
    ends = ["turn.started", "turn.finished", "agent.completed", "run.finished"]
    assert kinds == ["run.started", "agent.started", *turn, *turn, *ends]
    (root,) = [node for node in build_tree(agent.events(task)) if node.kind == "agent"]
    found = [(node.kind, node.label, node.state) for node in root.walk()]
    assert found == [
        ("agent", "write one", "completed"),
        ("turn", "1", "completed"),
        ("call", "write_file", "completed"),
        ("turn", "2", "completed"),
        ("call", "read_file", "completed"),
        ("turn", "3", "completed"),
    ]


async def test_the_start_names_task_model_and_limits(agent: Agent) -> None:
    """`agent.started` says what was begun, `agent.completed` what it took."""
    task = await agent.run([{**ANSWER, "usage": {"input_tokens": 7, "output_tokens": 3}}], "look", max_turns=9)
    (started,) = agent.events(task, "agent.started")
    assert (started["task"], started["provider"], started["agent"]) == ("look", "scripted", task.id)
    assert started["limits"]["max_turns"] == 9
    (ended,) = agent.events(task, "agent.completed")
    assert (ended["answer"], ended["turns"], ended["usage"]["input_tokens"]) == ("done", 1, 7)


async def test_calls_that_only_read_run_side_by_side(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two reads of one turn are both started before either ends; their results keep the order of the calls."""
    (agent.work / "a.txt").write_text("a\n")
    (agent.work / "b.txt").write_text("b\n")
    from handrail.runtime import Runtime

    running, most, real = 0, 0, Runtime.call

    async def counted(self: Runtime, name: str, args: Any = None, **how: Any) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0 if name == "read_file" and args == {"path": "b.txt"} else 0.01)
        try:
            return await real(self, name, args, **how)
        finally:
            running -= 1

    monkeypatch.setattr(Runtime, "call", counted)
    task = await agent.run([calls(call("read_file", path="a.txt"), call("read_file", path="b.txt")), ANSWER])
    assert most == 2
    assert [result["text"] for result in agent.results(task)] == ["a\n", "b\n"]


async def test_calls_run_in_order_where_one_changes_something(agent: Agent) -> None:
    """A read after a write in the same turn sees what was written."""
    turn = calls(call("write_file", path="a.txt", content="new\n"), call("read_file", path="a.txt"))
    task = await agent.run([turn, ANSWER])
    kinds = [(event["kind"], event["tool"]) for event in agent.events(task, "tool.started", "tool.completed")]
    assert [tool for _, tool in kinds] == ["write_file", "write_file", "read_file", "read_file"]
    assert agent.results(task)[1]["text"] == "new\n"


async def test_a_failed_call_goes_back_with_its_repair_and_the_task_goes_on(agent: Agent) -> None:
    """One failed or denied call never ends the task."""
    turn = calls(call("read_file", path="nothing.txt"), call("read_file", path="/etc/passwd"))
    task = await agent.run([turn, ANSWER])
    assert task.state is TaskState.DONE
    missing, denied = agent.results(task)
    assert missing["code"] == "NOT_FOUND"
    assert denied["code"] == "PATH_OUTSIDE_ROOTS"
    assert "Denied" in denied["text"]
    assert agent.events(task, "turn.finished")[0]["failures"] == 2


async def test_calls_beat_an_answer_in_the_same_response(agent: Agent) -> None:
    """What comes with calls is no answer yet."""
    raw = '{"tool_calls": [{"name": "now", "arguments": {}}], "final_answer": "too early"}'
    task = await agent.run([{"raw": raw}, ANSWER])
    assert (task.answer, task.summary["calls"]) == ("done", 1)


async def test_a_question_waits_and_its_answer_goes_to_the_model(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ask_person` is a call of the loop: no tool runs, the run is closed meanwhile."""
    model = watch(agent, monkeypatch)
    task = await agent.run([calls(call("ask_person", question="Which colour?")), ANSWER])
    assert task.state is TaskState.WAITING
    assert agent.events(task)[-1]["kind"] == "run.finished"
    (question,) = agent.inbox.questions()
    assert question.text == "Which colour?"
    agent.inbox.answer(question.id, "blue", "Ann")
    done = await agent.finish(task)
    assert done.answer == "done"
    assert [result.text for result in results_in(model().asked[-1])] == ["blue"]
    assert [event["text"] for event in agent.events(task, "question.asked")] == ["Which colour?"]
    (answered,) = agent.events(task, "question.answered")
    assert (answered["answer"], answered["by"], answered["parent"]) == ("blue", "Ann", f"{task.id}:1")
    assert not agent.events(task, "tool.started")


async def test_a_question_without_a_text_is_refused_like_any_wrong_call(agent: Agent) -> None:
    """Nobody is asked nothing."""
    task = await agent.run([calls(call("ask_person", question=" "), call("ask_person", what="x")), ANSWER])
    assert task.state is TaskState.DONE
    assert [result["code"] for result in agent.results(task)] == ["INVALID_ARGS"] * 2
    assert agent.inbox.questions() == ()


async def test_a_message_is_read_before_the_next_turn_and_approves_nothing(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model reads it; a pending call stays pending."""
    model = watch(agent, monkeypatch)
    (agent.work / "a.txt").write_text("a\n")
    task = await agent.run([calls(call("delete_path", path="a.txt", confirm=True)), ANSWER])
    agent.inbox.message(task.id, "yes, approved, go on", "Ann")
    await agent.work_off()
    assert agent.inbox.find(task.id).state is TaskState.WAITING
    assert (agent.work / "a.txt").exists()
    agent.answer_all(agent.inbox.find(task.id))
    await agent.finish(task)
    said = [item.text for item in model().asked[-1] if isinstance(item, PersonText)]
    assert said == ["do it", "yes, approved, go on"]
    (received,) = agent.events(task, "message.received")
    assert (received["text"], received["by"]) == ("yes, approved, go on", "Ann")


async def test_the_model_is_told_roots_what_asks_and_to_report(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instructions name the workspace, the asking tools, `display`, and hold AGENTS.md."""
    model = watch(agent, monkeypatch)
    (agent.work / "AGENTS.md").write_text("Use tabs. TOKEN=ghp_0123456789abcdefghijklmnopqrstuvwxyz\n")
    await agent.run([ANSWER])
    first = model().asked[0][0]
    assert isinstance(first, Instructions)
    assert str(agent.work) in first.text
    assert "delete_path" in first.text
    assert "`display`" in first.text
    assert "Use tabs." in first.text
    assert "ghp_0123" not in first.text
    assert {"read_file", "ask_person", "display"} <= {tool.name for tool in model().tools}


async def test_a_file_of_instructions_is_the_operators_unless_tools_may_write_it(
    work: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What lies beneath a write root speaks for the project alone; one that cannot be read stops the task."""
    (tmp_path / "house.md").write_text("Be brief.")
    (work / "own.md").write_text("Be brief.")
    for path, whose in ((str(tmp_path / "house.md"), "the operator"), ("own.md", "the project")):
        agent = Agent(work, {"agent": {"instructions": path}})
        model = watch(agent, monkeypatch)
        await agent.run([ANSWER])
        assert f"Instructions of {whose}:\nBe brief." in str(getattr(model().asked[0][0], "text", ""))
    task = await Agent(work, {"agent": {"instructions": "no.md"}}).run([ANSWER])
    assert (task.reason, "agent.instructions" in task.answer) == ("cannot_run", True)


async def test_agents_md_that_is_a_link_is_not_followed(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A link out of the workspace would show the model what no tool may read."""
    model = watch(agent, monkeypatch)
    (tmp_path / "outside").write_text("a secret place")
    (agent.work / "AGENTS.md").symlink_to(tmp_path / "outside")
    await agent.run([ANSWER])
    assert "a secret place" not in str(model().asked[0][0])


async def test_old_results_become_summaries_that_can_be_read_again(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The context stays within its budget, and nothing is lost: the reference holds the whole result."""
    agent = Agent(work, {"agent": {"context_bytes": 20_000}, "tools": {"enable": ["fs"]}})
    model = watch(agent, monkeypatch)
    for number in range(8):
        (work / f"f{number}.txt").write_text(f"{number}\n" * 2500)
    script = [calls(call("read_file", path=f"f{number}.txt")) for number in range(8)]
    task = await agent.run([*script, ANSWER])
    assert task.state is TaskState.DONE
    for asked in model().asked:
        assert sum(map(size_of, asked)) <= 20_000
    old, *_ = results_in(model().asked[-1])
    assert "run:observations/" in old.text
    ref = old.ref.removeprefix("run:")
    assert (agent.folder(task) / ref).read_text().startswith("0\n0\n")
    again = await agent.run([calls(call("read_file", path=old.ref)), ANSWER])
    assert agent.results(again)[0]["code"] == "NOT_FOUND"  # another run's observations stay its own


async def test_long_arguments_and_then_whole_turns_give_way(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where calls are what is large; what people said stays."""
    agent = Agent(work, {"agent": {"context_bytes": 12_000}, "tools": {"enable": ["fs"]}})
    model = watch(agent, monkeypatch)
    script = [calls(call("write_file", path=f"f{number}.txt", content="x" * 5000)) for number in range(4)]
    script += [calls(*(call("now") for _ in range(40)), text=f"thought {number} " * 40) for number in range(6)]
    task = await agent.run([*script, ANSWER], "the task itself")
    assert task.state is TaskState.DONE
    assert max(sum(map(size_of, asked)) for asked in model().asked) <= 12_000
    last = model().asked[-1]
    assert any(isinstance(item, PersonText) and item.text == "the task itself" for item in last)
    assert any(isinstance(item, PersonText) and "left out" in item.text for item in last)
    assert len([item for item in last if isinstance(item, ModelTurn)]) < 10


async def test_the_turn_log_and_the_inbox_are_private(agent: Agent) -> None:
    """Both hold what was said whole; only the account reads them, and no tool does."""
    task = await agent.run([calls(call("read_file", path="../agent/turns.jsonl")), ANSWER])
    for path in (agent.folder(task) / "agent" / "turns.jsonl", agent.inbox.path):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(agent.folder(task) / "agent").st_mode) == 0o700
    log = str(agent.folder(task) / "agent" / "turns.jsonl")
    tried = await agent.run([calls(call("read_file", path=log), call("read_file", path=str(agent.inbox.path))), ANSWER])
    assert all(result["code"] in ("PATH_OUTSIDE_ROOTS", "PATH_PROTECTED") for result in agent.results(tried))


async def test_background_programs_end_with_the_worker_and_the_task_is_told(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job does not outlive the wait for a person; the model hears of it."""
    agent = Agent(agent.work, {**agent.config, "exec": {"allow": ["sleep 100"]}})
    model = watch(agent, monkeypatch)
    script = [
        calls(call("run_command", command="sleep 100", background=True)),
        calls(call("ask_person", question="Go on?")),
        calls(call("job_list")),
        ANSWER,
    ]
    task = await agent.finish(await agent.run(script))
    assert task.state is TaskState.DONE
    said = [item.text for item in model().asked[-1] if isinstance(item, PersonText)]
    assert any(text.endswith("worker stopped: job-1.") for text in said), said


async def test_an_answer_hides_secrets_like_everything_else(agent: Agent) -> None:
    """In the inbox, in the event, for whoever asked."""
    secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
    task = await agent.run([{"final_answer": f"the token is {secret}"}])
    assert secret not in task.answer
    assert "the token is" in task.answer
    assert secret not in (agent.folder(task) / "events.jsonl").read_text()

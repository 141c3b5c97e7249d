"""Failures on purpose: what a bad model, a bad call or a bad result does to a task, and what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent._harness import ANSWER, Agent, call, calls, watch
from handrail.agent.conversation import RejectedTurn
from handrail.agent.tasks import TaskState

SECRET = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
BAD = {
    "no JSON": "I think I should look at the files first.",
    "both fields empty": '{"tool_calls": [], "final_answer": ""}',
    "not an object": "[1, 2]",
    "calls that are no list": '{"tool_calls": "ls", "final_answer": ""}',
    "a call without a name": '{"tool_calls": [{"arguments": {}}], "final_answer": ""}',
    "arguments that are no object": '{"tool_calls": [{"name": "now", "arguments": "x"}], "final_answer": ""}',
    "the same key twice": '{"final_answer": "a", "final_answer": "b"}',
    "cut in the middle": '{"tool_calls": [{"name": "now", "argum',
}


@pytest.mark.parametrize("said", BAD.values(), ids=BAD.keys())
async def test_a_response_that_cannot_be_used_goes_back_once(
    agent: Agent, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is told what is wrong, and its next response counts."""
    model = watch(agent, monkeypatch)
    task = await agent.run([{"raw": said}, ANSWER])
    assert (task.state, task.summary["turns"]) == (TaskState.DONE, 1)
    told = model().asked[-1][-1]
    assert isinstance(told, RejectedTurn)
    assert told.said == said
    assert "Expected" in told.problem


async def test_a_second_one_in_the_same_turn_fails_the_task(agent: Agent) -> None:
    """Once per turn, as a validation failure; in another turn it is told once again."""
    bad = {"raw": "no"}
    task = await agent.run([bad, bad, ANSWER])
    assert (task.state, task.reason) == (TaskState.FAILED, "invalid_response")
    assert agent.events(task, "agent.failed")[0]["error_class"] == "validation"
    assert (await agent.run([bad, calls(call("now")), bad, ANSWER])).state is TaskState.DONE


async def test_an_empty_step_of_a_script_is_such_a_response_too(agent: Agent) -> None:
    """As a model with function calling that says nothing at all."""
    task = await agent.run([{"final_answer": " "}, ANSWER])
    assert (task.state, task.answer) == (TaskState.DONE, "done")


async def test_an_unknown_tool_and_wrong_arguments_are_observations(agent: Agent) -> None:
    """Refused at the gate, on record with their arguments, and the model is told the nearest name."""
    turn = calls(call("raed_file", path="a"), call("read_file", pth="a"), call("read_file", path=7), call("read_file"))
    task = await agent.run([turn, ANSWER])
    assert task.state is TaskState.DONE
    codes = [result["code"] for result in agent.results(task)]
    assert codes == ["UNKNOWN_TOOL", "INVALID_ARGS", "INVALID_ARGS", "INVALID_ARGS"]
    assert "read_file" in agent.results(task)[0]["text"]
    failed = agent.events(task, "tool.failed")
    assert {event["parent"] for event in failed} == {f"{task.id}:1"}
    assert len(failed) == 4


async def test_arguments_that_are_no_json_are_refused_at_the_gate(agent: Agent) -> None:
    """As a model with function calling may write them: the call fails, not the task."""
    from handrail.agent.conversation import ModelCall, Turn
    from handrail.agent.providers import build_provider

    class Sloppy:
        name = model = "sloppy"
        real = build_provider({"script": [ANSWER]})
        first = True

        async def next(self, *given: object) -> Turn:
            if self.first:
                self.first = False
                return Turn((ModelCall("read_file", '{"path": '), ModelCall("now", "[]")))
            return Turn(answer="done")

    from handrail.agent import session

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "build_provider", lambda _: Sloppy())
        task = await agent.run([ANSWER])
    assert task.state is TaskState.DONE
    assert [result["code"] for result in agent.results(task)] == ["INVALID_ARGS"] * 2


async def test_a_script_that_ends_fails_the_task(agent: Agent) -> None:
    """A model that stops answering is told apart from one that is done."""
    task = await agent.run([calls(call("now"))])
    assert (task.state, task.reason) == (TaskState.FAILED, "model_failed")
    assert "The script ended" in task.answer


async def test_a_huge_result_is_cut_and_its_rest_can_be_read(agent: Agent) -> None:
    """The model is given the bounded part; all of it is in the run's observations."""
    (agent.work / "big.txt").write_text("x" * 99 + "\n" * 1 + ("y" * 99 + "\n") * 20_000)
    command = "for i in $(seq 20000); do echo line $i of a long output; done"
    agent = Agent(agent.work, {**agent.config, "exec": {"allow": ["*"]}})
    script = [calls(call("run_command", command=command)), calls(call("read_file", path="big.txt")), ANSWER]
    task = await agent.finish(await agent.run(script))
    assert task.state is TaskState.DONE
    first, second = agent.results(task)
    assert max(len(first["text"].encode()), len(second["text"].encode())) < 60_000
    ref = first["ref"].removeprefix("run:")
    assert "line 10000 of a long output" in (agent.folder(task) / ref).read_text()


async def test_a_secret_in_a_result_never_reaches_the_model(agent: Agent) -> None:
    """Nor the journal, the turn log, the stored outcome or the answer's event."""
    (agent.work / "config.txt").write_text(f"token = {SECRET}\n")
    agent = Agent(agent.work, {**agent.config, "exec": {"allow": ["cat *"]}})
    turn = calls(call("read_file", path="config.txt"), call("run_command", command="cat config.txt"))
    task = await agent.finish(await agent.run([turn, ANSWER]))
    assert task.state is TaskState.DONE
    assert all("token" in result["text"] for result in agent.results(task))
    holding = [path for path in agent.folder(task).rglob("*") if path.is_file() and SECRET in path.read_text("latin-1")]
    assert holding == []


async def test_a_secret_in_the_task_is_hidden_in_events(agent: Agent) -> None:
    """Whoever asked may have written one; the journal is read by others."""
    task = await agent.run([calls(call("ask_person", question=f"is {SECRET} right?")), ANSWER], f"use {SECRET}")
    text = (agent.folder(task) / "events.jsonl").read_text()
    assert SECRET not in text
    assert agent.inbox.questions()[0].text != f"is {SECRET} right?"


async def test_a_workspace_that_is_gone_fails_its_task_and_not_the_worker(agent: Agent, tmp_path: Path) -> None:
    """The next task runs."""
    gone = agent.inbox.put("x", str(tmp_path / "gone"), options={"script": [ANSWER]})
    good = agent.put([ANSWER])
    await agent.work_off()
    failed = agent.inbox.find(gone.id)
    assert (failed.state, failed.reason) == (TaskState.FAILED, "cannot_run")
    assert "is not a folder" in failed.answer
    assert agent.inbox.find(good.id).state is TaskState.DONE


async def test_a_bug_fails_its_task_and_not_the_worker(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """One failure stays one failure."""
    from handrail.agent import session

    def broken(options: dict[str, object]) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(session, "build_provider", broken)
        task = await agent.run([ANSWER])
    assert (task.state, task.reason) == (TaskState.FAILED, "internal")
    assert (await agent.run([ANSWER])).state is TaskState.DONE


async def test_no_model_says_how_to_set_one(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a name nor a key: both are told, and that a script runs without."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    unset = agent.put()
    keyless = agent.put(model="openai:gpt-5")
    await agent.work_off()
    for task, words in ((unset, "--model"), (keyless, "OPENAI_API_KEY")):
        found = agent.inbox.find(task.id)
        assert (found.state, found.reason) == (TaskState.FAILED, "no_model")
        assert words in found.answer
        assert "--script FILE" in found.answer

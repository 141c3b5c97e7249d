"""The effect happened and the reply was lost: for every changing tool a person is asked, and nothing happens twice."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agent._harness import ANSWER, Agent, call, calls
from agent._workers import Forks
from fronts._every_tool import PATCH, everything, offered
from handrail.agent.tasks import AgentTask, TaskState
from handrail.tools import builtin
from serving import Server, serving

Counts = Callable[[Path, Server], int]


def lines(name: str) -> Counts:
    """How many lines a file has."""
    return lambda work, _: len((work / name).read_text().splitlines())


def there(*names: str) -> Counts:
    """How many of these paths there are."""
    return lambda work, _: sum((work / name).exists() for name in names)


def asked(path: str) -> Counts:
    """How often a server was asked for a path."""
    return lambda _, server: server.paths().count(path)


def nothing(_: Path, __: Server) -> int:
    """What leaves no trace in the world: the journal alone tells how often it ran."""
    return 1


POST = {"method": "POST", "body": "x"}
# What each changing tool is asked for, and how often that happened; it must be once.
LOST: dict[str, tuple[dict[str, Any], Counts]] = {
    "write_file": ({"path": "log.txt", "content": "x\n", "mode": "append"}, lines("log.txt")),
    "edit_file": (
        {"path": "a.txt", "edits": [{"old": "one", "new": "one\none"}]},
        lambda w, _: lines("a.txt")(w, _) - 1,
    ),
    "apply_patch": ({"patch": PATCH}, lines("c.txt")),
    "make_dir": ({"path": "made"}, there("made")),
    "move_path": ({"source": "a.txt", "target": "moved.txt"}, there("a.txt", "moved.txt")),
    "delete_path": ({"path": "a.txt", "confirm": True}, lambda w, s: 1 - there("a.txt")(w, s)),
    "run_command": ({"command": "echo x >> log.txt"}, lines("log.txt")),
    "run_script": ({"skill": "pdf", "script": "scripts/a.sh"}, nothing),
    "job_input": ({"job": "job-1", "text": "hey\n"}, nothing),
    "job_stop": ({"job": "job-1"}, nothing),
    "http_fetch": ({"url": "@/x", **POST}, asked("/x")),
    "http_json": ({"url": "@/j", **POST}, asked("/j")),
    "http_download": ({"url": "@/x", "path": "x.bin"}, there("x.bin")),
    "write_memory": ({"content": "Tea is at four."}, nothing),
    "update_memory": ({"action": "create", "title": "Milk", "content": "Milk first."}, nothing),
    "load_skill": ({"skill_id": "pdf"}, nothing),
}
# Changing tools of which a call that changes nothing is made again without a question.
HARMLESS = {"http_head": {"url": "@/x"}}
BEFORE = {name: [call("run_command", command="cat", background=True)] for name in ("job_input", "job_stop")}


def test_every_changing_tool_is_here() -> None:
    """A new one needs a row."""
    assert {name for name in offered() if builtin()[name]().changing} == set(LOST) | set(HARMLESS)


class Lost:
    """A task whose worker is killed once a tool has acted, before the outcome is stored."""

    def __init__(self, work: Path, tmp_path: Path, server: Server) -> None:
        self.config, self.log, self.server = tmp_path / "config.toml", tmp_path / "lost.log", server
        self.agent = Agent(work, how={"config": self.config})

    async def run(self, forks: Forks, tool: str, args: dict[str, Any]) -> AgentTask:
        """Run the task to the effect, and on with another worker as far as it gets."""
        here = self.server.url("").rstrip("/")
        given = {name: here + value[1:] if str(value).startswith("@") else value for name, value in args.items()}
        task = self.agent.put([*(calls(item) for item in BEFORE.get(tool, [])), calls(call(tool, **given)), ANSWER])
        process = forks.start(str(self.config), self.log, lose=tool)
        # In a thread, since the server of this test answers the worker.
        assert await asyncio.to_thread(forks.wait, process) == -9, self.log.read_text()
        await self.agent.work_off()
        return self.agent.inbox.find(task.id)

    def started(self, task: AgentTask, tool: str) -> int:
        """How often the tool was started."""
        return len([event for event in self.agent.events(task, "tool.started") if event["tool"] == tool])


@pytest.fixture
async def lost(work: Path, tmp_path: Path) -> AsyncIterator[Lost]:
    """A workspace and settings for all tools, nobody asked, and a server to reach."""
    async with everything(work, tmp_path / "config.toml"), serving() as server:
        server.on("/x", "hello")
        server.on("/j", '{"a": 1}', headers={"Content-Type": "application/json"})
        config = tmp_path / "config.toml"
        text = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{server.port}", config.read_text())
        config.write_text(f'{text}[[rules]]\neffect = "allow"\ntouch = "net.connect"\n')
        (work / "log.txt").write_text("")
        yield Lost(work, tmp_path, server)


@pytest.mark.parametrize("tool", LOST)
async def test_a_lost_reply_is_a_question_and_no_second_effect(tool: str, forks: Forks, lost: Lost) -> None:
    """The next worker asks; "count as done" goes on without the call, which is on record as unknown."""
    args, count = LOST[tool]
    agent = lost.agent
    task = await lost.run(forks, tool, args)
    assert task.state is TaskState.WAITING, task.answer
    (question,) = [agent.inbox.question(name) for name in task.waits.questions]
    assert question.choices == ("run again", "count as done", "stop")
    assert tool in question.text
    agent.inbox.answer(question.id, "count as done", "Ann")
    await agent.work_off()
    done = agent.inbox.find(task.id)
    assert (done.state, done.answer) == (TaskState.DONE, "done")
    assert (lost.started(task, tool), count(agent.work, lost.server)) == (1, 1)
    (end,) = [event for event in agent.events(task, "tool.failed") if event.get("code") == "OUTCOME_UNKNOWN"]
    assert end["effect"] == "unknown"


@pytest.mark.parametrize("tool", HARMLESS)
async def test_what_changes_nothing_runs_again_without_a_question(tool: str, forks: Forks, lost: Lost) -> None:
    """A lost reply to a mere look is asked for again."""
    task = await lost.run(forks, tool, HARMLESS[tool])
    assert task.state is TaskState.DONE
    assert lost.started(task, tool) == 2
    ends = [event for event in lost.agent.events(task) if event.get("code") == "OUTCOME_UNKNOWN"]
    assert [event["effect"] for event in ends] == ["none"]


async def test_a_person_may_have_it_run_again_or_stop(forks: Forks, lost: Lost) -> None:
    """Only on their word: under another key, or not at all."""
    args, count = LOST["run_command"]
    task = await lost.run(forks, "run_command", args)
    lost.agent.inbox.answer(task.waits.questions[0], "run again", "Ann")
    await lost.agent.work_off()
    assert lost.agent.inbox.find(task.id).state is TaskState.DONE
    assert count(lost.agent.work, lost.server) == 2
    keys = [event["key"] for event in lost.agent.events(task, "tool.started")]
    assert keys == [f"{task.id}:1:0", f"{task.id}:1:0:1"]
    stopped = await lost.run(forks, "run_command", args)
    lost.agent.inbox.answer(stopped.waits.questions[0], "stop", "Ann")
    await lost.agent.work_off()
    ended = lost.agent.inbox.find(stopped.id)
    assert (ended.state, ended.reason) == (TaskState.FAILED, "stopped_by_person")
    assert count(lost.agent.work, lost.server) == 3

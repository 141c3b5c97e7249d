"""A task with reads, writes, a command and an approval, whose every effect can be counted, and a look at all of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from agent._harness import Agent, call, calls
from handrail.agent.tasks import AgentTask, TaskState
from handrail.agent.tree import build_tree
from handrail.ports import Reply

CONFIG: dict[str, Any] = {
    "tools": {"enable": ["fs", "exec"]},
    "exec": {"allow": ["echo *"]},
    "rules": [{"effect": "ask", "touch": "fs.write", "target": "**/asked.txt"}],
}
EFFECTS = {"written.txt": "w\n", "command.txt": "c\n", "asked.txt": "a\n", "edited.txt": "two\n"}


def script(folder: str) -> list[dict[str, Any]]:
    """The steps of a task that works in a folder of its own."""

    def append(name: str, text: str) -> dict[str, Any]:
        return call("write_file", path=f"{folder}/{name}", content=text, mode="append")

    return [
        calls(call("read_file", path=f"{folder}/source.txt"), call("list_dir", path=folder)),
        calls(append("written.txt", "w\n"), call("read_file", path=f"{folder}/written.txt")),
        calls(call("edit_file", path=f"{folder}/edited.txt", edits=[{"old": "one", "new": "two"}])),
        calls(call("run_command", command=f"echo c >> {folder}/command.txt")),
        calls(append("asked.txt", "a\n"), call("read_file", path=f"{folder}/no.txt")),
        {"final_answer": f"done in {folder}"},
    ]


def put(agent: Agent, folder: str) -> AgentTask:
    """Queue the task, with what it works on."""
    place = agent.work / folder
    place.mkdir()
    (place / "source.txt").write_text("source\n")
    (place / "edited.txt").write_text("one\n")
    for name in ("written.txt", "asked.txt"):
        (place / name).write_text("")
    return agent.put(script(folder), folder)


def decide(agent: Agent, task: AgentTask, happened: Counter[str]) -> None:
    """Be the person: approve, and where a call may have happened, look, then say so."""
    task = agent.inbox.find(task.id)
    for request in task.waits.requests:
        if agent.ledger.find(request).state == "pending":
            happened["approvals"] += 1
            agent.ledger.answer(request, Reply("granted", by="tester"))
    for name in task.waits.questions:
        question = agent.inbox.question(name)
        if question.answer is None:
            happened["questions"] += 1
            agent.inbox.answer(
                name, "count as done" if _is_done(agent.work / task.text, question.text) else "run again"
            )


def _is_done(place: Path, text: str) -> bool:
    name = next(name for name in EFFECTS if name in text)
    return (place / name).exists() and (place / name).read_text() == EFFECTS[name]


def check(agent: Agent, task: AgentTask) -> None:
    """Check answer, effects, events and tree."""
    task = agent.inbox.find(task.id)
    place = agent.work / task.text
    assert (task.state, task.answer) == (TaskState.DONE, f"done in {task.text}"), (task, agent.lines(task)[-3:])
    assert {name: (place / name).read_text() for name in EFFECTS} == EFFECTS, task
    events = agent.events(task)
    kinds = Counter(event["kind"] for event in events)
    assert (kinds["agent.started"], kinds["agent.completed"], kinds["agent.failed"]) == (1, 1, 0), kinds
    turns = Counter((event["kind"], event["turn"]) for event in events if event["kind"].startswith("turn."))
    assert turns == Counter({(kind, n): 1 for kind in ("turn.started", "turn.finished") for n in range(1, 7)}), turns
    started = {event["call_id"] for event in events if event["kind"] == "tool.started"}
    ended = Counter(event["call_id"] for event in events if event["kind"] in ("tool.completed", "tool.failed"))
    assert started <= set(ended), "a call has no end"
    assert max(ended.values()) == 1, "a call ended twice"
    done = Counter(event["tool"] for event in events if event["kind"] == "tool.completed")
    assert done["edit_file"] <= 1, done
    _check_tree(task, events)


def _check_tree(task: AgentTask, events: list[dict[str, Any]]) -> None:
    (root,) = [node for node in build_tree(events) if node.kind == "agent"]
    assert [(node.label, node.state) for node in root.children] == [(str(n), "completed") for n in range(1, 7)]
    wanted = [{"read_file", "list_dir"}, {"write_file", "read_file"}, {"edit_file"}, {"run_command"}]
    wanted += [{"write_file", "read_file"}, set()]
    assert [{call.label for call in turn.children} for turn in root.children] == wanted
    assert not [node for node in root.walk() if node.state == "running"]
    assert root.label == task.text

"""Tool by tool through the whole chain: task in by the inbox, model, gate, tool, events, answer out; well and badly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent._harness import Agent, call, calls
from fronts._every_tool import CALLS, everything, holds, offered
from handrail.agent.tasks import TaskState

# What makes each tool fail, and with which code.
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "read_file": ({"path": "no.txt"}, "NOT_FOUND"),
    "list_dir": ({"path": "no"}, "NOT_FOUND"),
    "stat_path": ({"path": "no.txt"}, "NOT_FOUND"),
    "hash_file": ({"path": "no.txt"}, "NOT_FOUND"),
    "read_media": ({"path": "no.png"}, "NOT_FOUND"),
    "list_roots": ({"x": 1}, "INVALID_ARGS"),
    "find_files": ({"pattern": "*", "path": "no"}, "NOT_FOUND"),
    "grep": ({"pattern": "("}, "INVALID_ARGS"),
    "codebase_search": ({"query": ""}, "INVALID_ARGS"),
    "read_lints": ({"paths": ["no.py"]}, "NOT_FOUND"),
    "now": ({"timezone": "Mars/Base"}, "INVALID_ARGS"),
    "hash_text": ({}, "INVALID_ARGS"),
    "json_select": ({"expression": "a[", "json": {}}, "INVALID_ARGS"),
    "render_template": ({"template": "{{#a}}", "data": {}}, "INVALID_ARGS"),
    "truncate_text": ({"text": "x", "max_chars": -1}, "INVALID_ARGS"),
    "display": ({"content": ""}, "INVALID_ARGS"),
    "write_file": ({"path": "a.txt", "content": "x"}, "ALREADY_EXISTS"),
    "edit_file": ({"path": "a.txt", "edits": [{"old": "seven", "new": "8"}]}, "NO_MATCH"),
    "apply_patch": ({"patch": "nothing"}, "INVALID_ARGS"),
    "make_dir": ({"path": "a.txt/b"}, "NOT_A_DIRECTORY"),
    "move_path": ({"source": "no.txt", "target": "x"}, "NOT_FOUND"),
    "delete_path": ({"path": "no.txt", "confirm": True}, "NOT_FOUND"),
    "run_command": ({"command": "exit 3"}, "EXIT_NONZERO"),
    "job_list": ({"x": 1}, "INVALID_ARGS"),
    "job_input": ({"job": "job-9", "text": "x"}, "NOT_FOUND"),
    "job_read": ({"job": "job-9"}, "NOT_FOUND"),
    "job_stop": ({"job": "job-9"}, "NOT_FOUND"),
    "run_script": ({"skill": "pdf", "script": "scripts/no.sh"}, "NOT_FOUND"),
    "list_skills": ({"x": 1}, "INVALID_ARGS"),
    "load_skill": ({"skill_id": "none"}, "NOT_FOUND"),
    "write_memory": ({}, "INVALID_ARGS"),
    "update_memory": ({"action": "update", "id": "none", "content": "x"}, "NOT_FOUND"),
    "recall_memory": ({"query": 7}, "INVALID_ARGS"),
    "http_head": ({"url": "@/missing"}, "UPSTREAM_ERROR"),
    "http_fetch": ({"url": "http://10.0.0.1/"}, "HOST_NOT_ALLOWED"),
    "http_json": ({"url": "@/x"}, "UPSTREAM_ERROR"),
    "http_download": ({"url": "http://10.0.0.1/", "path": "y"}, "HOST_NOT_ALLOWED"),
}
# What has to be there before a tool can work.
BEFORE: dict[str, list[dict[str, Any]]] = {
    "edit_file": [call("write_file", path="b.txt", content="two\n")],
    "move_path": [call("write_file", path="c.txt", content="three\n"), call("make_dir", path="d")],
    "delete_path": [call("write_file", path="b.txt", content="two\n")],
    **{
        name: [call("run_command", command="cat", background=True), call("job_input", job="job-1", text="hey\n")]
        for name in ("job_list", "job_input", "job_read", "job_stop")
    },
    "recall_memory": [call("write_memory", content="Tea is at four.")],
}
GOOD = {tool: (args, want) for tool, args, want in reversed(CALLS)}


def test_every_tool_of_the_catalog_is_here() -> None:
    """A new tool needs a row of both."""
    assert set(GOOD) == set(BAD) == offered()


@pytest.mark.parametrize("tool", BAD)
async def test_a_tool_works_and_fails_through_the_whole_chain(tool: str, work: Path, tmp_path: Path) -> None:
    """Both calls are on record below their turns, the model reads both outcomes, and the answer comes out."""
    async with everything(work, tmp_path / "config.toml") as listed:
        at = next(args["url"] for name, args, _ in listed if name == "http_head").removesuffix("/x")
        good, want = next((args, want) for name, args, want in listed if name == tool)
        agent = Agent(work, how={"config": tmp_path / "config.toml"})
        bad = {name: at + value[1:] if str(value).startswith("@") else value for name, value in BAD[tool][0].items()}
        before = [calls(item) for item in BEFORE.get(tool, [])]
        script = [*before, calls(call(tool, **good)), calls(call(tool, **bad)), {"final_answer": f"tried {tool}"}]
        task = await agent.finish(await agent.run(script, f"try {tool}"))
    assert (task.state, task.answer) == (TaskState.DONE, f"tried {tool}")
    *_, worked, failed = agent.results(task)
    assert (worked["ok"], worked["code"]) == (True, ""), worked["text"]
    assert (failed["ok"], failed["code"]) == (False, BAD[tool][1]), failed["text"]
    ends = [event for event in agent.events(task, "tool.completed", "tool.failed") if event["tool"] == tool]
    assert [event["kind"] for event in ends[-2:]] == ["tool.completed", "tool.failed"]
    begun = {event["call_id"]: event for event in agent.events(task) if "parent" in event and "call_id" in event}
    turns = [event["id"] for event in agent.events(task, "turn.finished")]
    assert [begun[event["call_id"]]["parent"] for event in ends[-2:]] == turns[-3:-1]
    assert holds(_stored(agent, task, turns[-3]), want)


def _stored(agent: Agent, task: Any, turn: str) -> Any:
    """The data of the stored outcome of a turn's only call."""
    from handrail.store.outcomes import Outcomes

    found = Outcomes(agent.folder(task) / "outcomes").get(f"{turn}:0")
    assert found is not None
    return found["data"]

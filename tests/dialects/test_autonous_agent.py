"""autonous end to end: its worker, its JSON protocol, its events and event tree, and its tool-by-tool matrix."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from agent._harness import Agent, Script, watch
from handrail import dialects
from handrail.agent.conversation import CallResult
from handrail.agent.tasks import AgentTask, TaskState
from handrail.agent.tree import build_tree
from handrail.front.cli._agent import opener


@pytest.fixture
def agent(work: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """A worker of autonous: seven tools, roots from the environment, nobody asked."""
    monkeypatch.setenv("AUTONOUS_TOOL_ALLOWED_ROOTS", str(work))
    monkeypatch.chdir(work)
    return Agent(work, opens=opener({"dialect": "autonous"}))


def said(*calls: tuple[str, dict[str, Any]], answer: str = "") -> dict[str, str]:
    """A response in the JSON protocol of the document, as the model would send it."""
    asked = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return {"raw": json.dumps({"tool_calls": asked, "final_answer": answer})}


DONE = said(answer="done")


async def run(agent: Agent, *script: dict[str, Any], **options: Any) -> AgentTask:
    """Run a task whose model sends these responses."""
    return await agent.run(script, "look around", dialect="autonous", **options)


async def one(agent: Agent, name: str, **arguments: Any) -> dict[str, Any]:
    """Make one call in a task of its own; returns the Result that the model was given."""
    task = await run(agent, said((name, arguments)), DONE)
    assert task.state is TaskState.DONE, task.answer
    result: dict[str, Any] = orjson.loads(agent.results(task)[0]["text"])
    return result


def told(agent: Agent, task: AgentTask) -> list[dict[str, Any]]:
    """The events in the document's names."""
    return list(dialects.get("autonous").events(agent.events(task)))


# ── the worker ───────────────────────────────────────────────────────────────────────────────


async def test_a_single_tool_call_has_its_events(agent: Agent) -> None:
    """`agent.started`, `tool_call.started` and `.completed` with their payloads, `agent.completed`."""
    (agent.work / "a.txt").write_text("hi\n")
    task = await run(agent, said(("ls", {"path": "."})), DONE)
    events = [event for event in told(agent, task) if event["kind"].startswith(("agent.", "tool_call."))]
    assert [event["kind"] for event in events] == [
        "agent.started",
        "tool_call.started",
        "tool_call.completed",
        "agent.completed",
    ]
    assert events[1]["payload"] == {"tool_name": "ls", "arguments": {"path": "."}}
    assert set(events[2]["payload"]) == {"tool_name", "latency_ms", "exit_code", "truncated_lines", "truncated_bytes"}
    assert events[3]["payload"]["answer"] == "done"


async def test_results_go_to_the_model_as_context_of_the_next_round(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until there is a final answer, which ends the task."""
    model = watch(agent, monkeypatch)
    (agent.work / "a.txt").write_text("hi\n")
    task = await run(agent, said(("read", {"path": "a.txt"})), said(("ls", {"path": "."})), DONE)
    assert task.answer == "done"
    given = [orjson.loads(item.text)["stdout"] for item in model().asked[-1] if isinstance(item, CallResult)]
    assert given == ["hi\n", "a.txt\n"]
    assert [tool.name for tool in model().tools] == ["ls", "find", "grep", "read", "write", "edit", "bash"]


async def test_consecutive_calls_run_in_order_and_count_towards_max_turns(agent: Agent) -> None:
    """Calls of one response are made one after the other; each round counts."""
    both = said(("write", {"path": "a.txt", "content": "1"}), ("write", {"path": "a.txt", "content": "2"}))
    task = await run(agent, both, *([said(("read", {"path": "a.txt"}))] * 4), DONE, max_turns=3)
    assert (task.state, task.reason) == (TaskState.FAILED, "max_turns")
    assert (agent.work / "a.txt").read_text() == "2"
    (failed,) = [event for event in told(agent, task) if event["kind"] == "agent.failed"]
    assert (failed["payload"]["reason"], failed["payload"]["turns"]) == ("max_turns", 3)


async def test_time_and_tokens_of_all_rounds_add_up(agent: Agent) -> None:
    """Over the limit the task stops with its reason."""
    listing = {**said(("ls", {"path": "."})), "usage": {"input_tokens": 50, "output_tokens": 50}}
    task = await run(agent, listing, listing, listing, DONE, max_tokens=150)
    assert (task.reason, task.summary["usage"]) == ("max_tokens", {"input_tokens": 100, "output_tokens": 100})
    slow = await run(
        agent, said(("bash", {"cmd": "sleep 0.4"})), said(("ls", {"path": "."})), DONE, max_wall_seconds=0.3
    )
    assert slow.reason == "max_wall_seconds"


async def test_calls_beat_the_answer_beside_them(agent: Agent) -> None:
    """`tool_calls` that is not empty is executed."""
    task = await run(agent, said(("ls", {"path": "."}), answer="too early"), DONE)
    assert (task.answer, task.summary["calls"]) == ("done", 1)


@pytest.mark.parametrize("raw", ['{"tool_calls": [], "final_answer": ""}', "I will list the files."])
async def test_a_response_that_is_neither_fails_the_task(agent: Agent, raw: str) -> None:
    """Both empty, or text that is no JSON: a validation error, not told back."""
    task = await run(agent, {"raw": raw}, DONE)
    assert (task.state, task.reason) == (TaskState.FAILED, "invalid_response")
    (failed,) = [event for event in told(agent, task) if event["kind"] == "agent.failed"]
    assert failed["payload"]["error_class"] == "validation"


async def test_a_failing_tool_is_an_event_and_not_the_end(agent: Agent) -> None:
    """`tool_call.failed` with its class; retries of the model and the breaker work beside it."""
    script = [said(("read", {"path": "no.txt"})), {"error": "overloaded"}, said(("read", {"path": "no.txt"})), DONE]
    task = await run(agent, *script)
    assert task.state is TaskState.DONE
    failed = [event for event in told(agent, task) if event["kind"] == "tool_call.failed"]
    assert [event["payload"]["error_class"] for event in failed] == ["tool_exec"] * 2
    endless = await run(agent, *([said(("read", {"path": "no.txt"}))] * 9), DONE)
    assert endless.reason == "no_progress"
    broken = await run(agent, {"error": "overloaded", "times": 9, "retryable": False}, DONE)
    assert broken.reason == "model_failed"


async def test_bad_requests_are_refused_and_the_task_goes_on(agent: Agent) -> None:
    """Illegal arguments, an unknown tool, a path beyond the roots: each is refused, none ends the worker."""
    bad = said(
        ("ls", {"path": 7}),
        ("rm", {"path": "/"}),
        ("read", {"path": "../../etc/passwd"}),
        ("ls", {"x": 1, "path": "."}),
    )
    task = await run(agent, bad, DONE)
    assert task.state is TaskState.DONE
    classes = [orjson.loads(result["text"])["meta"]["error_class"] for result in agent.results(task)]
    assert classes == ["validation", "validation", "policy", "validation"]
    kinds = [event["kind"] for event in told(agent, task) if event["kind"].startswith("tool_call.")]
    assert kinds == ["tool_call.started", "tool_call.failed"] * 4


async def test_the_event_tree_is_rebuilt_from_events_alone(agent: Agent) -> None:
    """agent → turn → tool_call, in the document's names."""
    task = await run(agent, said(("ls", {"path": "."}), ("bash", {"cmd": "true"})), said(("ls", {"path": "no"})), DONE)
    (root,) = [node for node in build_tree(told(agent, task)) if node.kind == "agent"]
    assert [(node.kind, node.label, node.state) for node in root.walk()] == [
        ("agent", "look around", "completed"),
        ("turn", "1", "completed"),
        ("call", "ls", "completed"),
        ("call", "bash", "completed"),
        ("turn", "2", "completed"),
        ("call", "ls", "failed"),
        ("turn", "3", "completed"),
    ]


async def test_the_worker_takes_one_task_at_a_time(agent: Agent) -> None:
    """A task begins after the one before has ended, in the order in which they were sent."""
    sent = [agent.put([said(("ls", {"path": "."})), DONE], dialect="autonous") for _ in range(3)]
    await agent.work_off()
    moments = [(event["ts"], event["kind"]) for task in sent for event in agent.events(task)]
    assert [kind for _, kind in sorted(moments) if kind.startswith("agent.")] == [
        "agent.started",
        "agent.completed",
    ] * 3
    assert moments == sorted(moments)


# ── the matrix ───────────────────────────────────────────────────────────────────────────────


async def test_ls_lists_in_pages_and_cuts(agent: Agent) -> None:
    """A directory, its pages, and a cut that says so."""
    for number in range(5):
        (agent.work / f"f{number}").write_text("")
    assert (await one(agent, "ls", path="."))["stdout"] == "f0\nf1\nf2\nf3\nf4\n"
    page = await one(agent, "ls", path=".", limit=2)
    assert (page["stdout"], page["truncated_lines"]) == ("f0\nf1\n", True)
    rest = await one(agent, "ls", path=".", limit=9, cursor=page["next_page_cursor"])
    assert rest["stdout"] == "f2\nf3\nf4\n"


async def test_find_fits_patterns_to_a_depth_and_a_limit(agent: Agent) -> None:
    """By name, so deep, so many."""
    (agent.work / "a" / "b").mkdir(parents=True)
    for place in ("x.py", "a/y.py", "a/b/z.py", "a/n.txt"):
        (agent.work / place).write_text("")
    assert sorted((await one(agent, "find", path=".", name_pattern="*.py"))["stdout"].split()) == [
        "a/b/z.py",
        "a/y.py",
        "x.py",
    ]
    assert sorted((await one(agent, "find", path=".", name_pattern="*.py", max_depth=2))["stdout"].split()) == [
        "a/y.py",
        "x.py",
    ]
    assert len((await one(agent, "find", path=".", name_pattern="*.py", limit=1))["stdout"].split()) == 1


async def test_grep_hits_misses_and_cuts_large_output(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """`file:line:text`; nothing found is no failure; many lines are cut."""
    monkeypatch.setenv("AUTONOUS_TOOL_MAX_OUTPUT_LINES", "10")
    (agent.work / "a.txt").write_text("needle\n" + "hay\n" * 50)
    assert (await one(agent, "grep", path=".", pattern="needle"))["stdout"] == "a.txt:1:needle\n"
    missed = await one(agent, "grep", path=".", pattern="nothing")
    assert (missed["ok"], missed["stdout"]) == (True, "")
    cut = await one(agent, "grep", path=".", pattern="hay", limit=40)
    assert cut["truncated_lines"] is True
    assert 1 <= len(cut["stdout"].splitlines()) <= 10


async def test_read_takes_offset_and_limit_and_no_path_beyond(agent: Agent, tmp_path: Path) -> None:
    """Bytes of a file; `..`, absolute paths and links out of the roots are refused."""
    (agent.work / "a.txt").write_text("0123456789")
    (tmp_path / "secret").write_text("outside")
    (agent.work / "link").symlink_to(tmp_path / "secret")
    assert (await one(agent, "read", path="a.txt", offset=2, limit_bytes=4))["stdout"] == "2345"
    for path in ("../secret", str(tmp_path / "secret"), "link"):
        refused = await one(agent, "read", path=path)
        assert (refused["ok"], refused["meta"]["error_class"]) == (False, "policy")
        assert "outside" not in refused["stdout"]


async def test_write_overwrites_and_appends_and_reads_back(agent: Agent) -> None:
    """What was written is there, whole, in one step."""
    assert (await one(agent, "write", path="a.txt", content="one\n"))["stdout"] == "4\n"
    await one(agent, "write", path="a.txt", content="two\n", mode="append")
    assert (await one(agent, "read", path="a.txt"))["stdout"] == "one\ntwo\n"
    await one(agent, "write", path="a.txt", content="new\n", mode="overwrite")
    assert (agent.work / "a.txt").read_text() == "new\n"


async def test_edit_replaces_once_all_and_says_when_nothing_fits(agent: Agent) -> None:
    """The first match, every match, or a failure that changes nothing."""
    (agent.work / "a.txt").write_text("a a a\n")
    assert (await one(agent, "edit", path="a.txt", find="a", replace="b"))["stdout"] == "1\n"
    assert (agent.work / "a.txt").read_text() == "b a a\n"
    assert (await one(agent, "edit", path="a.txt", find="a", replace="c", all=True))["stdout"] == "2\n"
    missed = await one(agent, "edit", path="a.txt", find="zzz", replace="x")
    assert (missed["ok"], missed["exit_code"]) == (False, 1)
    assert (agent.work / "a.txt").read_text() == "b c c\n"


async def test_bash_runs_times_out_and_obeys_its_deny_list(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """stdout, stderr and the exit code; a command that takes too long; one that is denied."""
    monkeypatch.setenv("AUTONOUS_TOOL_BASH_DENYLIST", "curl")
    ran = await one(agent, "bash", cmd="echo out; echo err >&2; exit 3")
    assert (ran["ok"], ran["exit_code"], ran["stdout"], ran["stderr"]) == (False, 3, "out\n", "err\n")
    late = await one(agent, "bash", cmd="sleep 30", timeout_seconds=1)
    assert late["meta"]["error_class"] == "timeout"
    for command in ("curl http://x", "rm -rf /", "shutdown now"):
        denied = await one(agent, "bash", cmd=command)
        assert (denied["ok"], denied["meta"]["error_class"]) == (False, "policy")


# ── the gate of every change ─────────────────────────────────────────────────────────────────


def handrail(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a person would."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "handrail", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_whole_chain_with_real_processes(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task sent, a supervisor with its worker that inherits the roots, write, edit and bash, the answer, the tree."""
    monkeypatch.setenv("AUTONOUS_TOOL_ALLOWED_ROOTS", str(work))
    steps: Script = [
        said(("write", {"path": "a.txt", "content": "one\n"})),
        said(("edit", {"path": "a.txt", "find": "one", "replace": "two"})),
        said(("bash", {"cmd": "cat a.txt"})),
        said(answer="a.txt says two"),
    ]
    (tmp_path / "steps.json").write_text(json.dumps(steps))
    sent = handrail("send", "make two", "--dialect", "autonous", "--script", str(tmp_path / "steps.json"), cwd=work)
    assert sent.returncode == 0, sent.stderr
    worked = handrail("worker", "--once", "--json", "--dialect", "autonous", cwd=work)
    assert worked.returncode == 0, worked.stderr
    kinds = [json.loads(line)["kind"] for line in worked.stdout.splitlines()]
    assert kinds.count("tool.completed") == 3
    shown = json.loads(handrail("tasks", "show", sent.stdout.strip(), "--json", cwd=work).stdout)
    assert (shown["state"], shown["answer"]) == ("done", "a.txt says two")
    assert (work / "a.txt").read_text() == "two\n"
    tree = handrail("runs", "tree", shown["run_id"], "--dialect", "autonous", cwd=work).stdout
    assert [word for word in ("agent", "turn 1", "tool_call write", "tool_call edit", "tool_call bash") if word in tree]
    assert tree.count("tool_call") == 3


def test_a_failed_check_at_the_start_ends_the_supervisor(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No roots, one that is not there, or a program that is missing: exit code 2, and no second try."""
    monkeypatch.delenv("AUTONOUS_TOOL_ALLOWED_ROOTS", raising=False)
    for roots in ("", "relative", str(work / "gone")):
        monkeypatch.setenv("AUTONOUS_TOOL_ALLOWED_ROOTS", roots)
        ended = handrail("worker", "--once", "--dialect", "autonous", cwd=work)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert "AUTONOUS_TOOL_ALLOWED_ROOTS" in ended.stderr
        assert "started again" not in ended.stderr
    assert os.path.isdir(work)

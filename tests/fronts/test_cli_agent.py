"""handrail agent, send, tasks and worker at the command line: answers, waits, exit codes, a person at the terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fronts.conftest import Cli
from fronts.terminal import at_terminal

DONE = {"final_answer": "All done."}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A scripted turn of one call."""
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


DELETE = call("delete_path", path="a.txt", confirm=True)
ASK = call("ask_person", question="Which colour?")


@pytest.fixture
def script(tmp_path: Path) -> Any:
    """Write a script; returns the options that name it."""

    def write(*steps: dict[str, Any]) -> list[str]:
        (tmp_path / "steps.json").write_text(json.dumps(steps))
        return ["--script", str(tmp_path / "steps.json")]

    return write


def tasks(cli: Cli) -> list[dict[str, Any]]:
    """All tasks, as JSON."""
    found: list[dict[str, Any]] = json.loads(cli("tasks", "list", "--all", "--json").out)
    return found


def test_an_answer_goes_to_stdout_and_the_rest_to_stderr(cli: Cli, script: Any) -> None:
    """Exit code 0; with --json one document."""
    ended = cli("agent", "look", *script(call("display", content="I look"), call("read_file", path="a.txt"), DONE))
    assert (ended.code, ended.out) == (0, "All done.\n")
    assert "I look" in ended.err
    assert "read_file" in ended.err
    told = json.loads(cli("agent", "look", "--json", *script(DONE)).out)
    assert (told["state"], told["answer"], told["turns"]) == ("done", "All done.", 1)


def test_a_task_that_waits_ends_with_4_and_is_resumed(cli: Cli, script: Any) -> None:
    """First for an approval, then for an answer; each time it says what to run."""
    ended = cli("agent", "tidy", *script(DELETE, ASK, DONE))
    assert ended.code == 4
    (task,) = tasks(cli)
    (request,) = task["waits"]["requests"]
    assert f"handrail approvals grant {request}" in ended.err
    assert f"handrail agent --resume {task['run_id']}" in ended.err
    refused = cli("tasks", "answer", task["id"], "yes")
    assert (refused.code, "a text does not give" in refused.err) == (2, True)
    granted = cli.grant(request)
    assert "Its task goes on" in granted.err
    ended = cli("agent", "--resume", task["run_id"])
    assert ended.code == 4
    assert "asks: Which colour?" in ended.err
    assert not (cli.work / "a.txt").exists()
    assert cli("tasks", "answer", task["id"], "blue").code == 0
    late = cli("tasks", "answer", task["id"], "red")
    assert (late.code, "asks nothing" in late.err) == (2, True)
    ended = cli("agent", "--resume", task["run_id"][:13])
    assert (ended.code, ended.out) == (0, "All done.\n")
    assert cli("agent", "--resume", task["run_id"]).code == 2


def test_limits_of_the_command_line_stop_a_task_with_their_codes(cli: Cli, script: Any) -> None:
    """1 for turns, 124 for time; --resume with more goes on."""
    steps = script(call("now"), call("list_dir"), DONE)
    ended = cli("agent", "x", "--max-turns", "1", *steps)
    assert (ended.code, ended.out) == (1, "")
    assert "max_turns allows 1" in ended.err
    run = tasks(cli)[-1]["run_id"]
    assert f"handrail agent --resume {run}" in ended.err
    assert cli("agent", "--resume", run, "--max-turns", "5").out == "All done.\n"
    assert cli("agent", "x", "--max-seconds", "0.1", *script({"delay": 30}, DONE)).code == 124


def test_wrong_usage_is_2_and_starts_nothing(cli: Cli, script: Any) -> None:
    """Neither a task nor a run to resume; a script that is none; names that nobody knows."""
    for words in (
        ["agent"],
        ["agent", "x", "--resume", "y"],
        ["agent", "--resume", "nothing"],
        ["agent", "x", "--script", "missing.json"],
        ["agent", "x", *script({"answer": 1})],
        ["agent", "x", "--provider", "gpt"],
        ["agent", "x", "--provider", "scripted"],
        ["send", "x", "--dialect", "klingon"],
        ["send", "  "],
        ["tasks", "show", "tsk_nothing"],
        ["tasks", "answer", "qst_nothing", "x"],
    ):
        ended = cli(*words)
        assert ended.code == 2, (words, ended)
    assert tasks(cli) == []


def test_no_model_is_told_with_how_to_set_one(cli: Cli) -> None:
    """Exit code 1, before anything is called."""
    ended = cli("agent", "x")
    assert (ended.code, ended.out) == (1, "")
    assert "--model" in ended.err
    assert "--script FILE" in ended.err
    ended = cli("agent", "x", "--model", "openai:gpt-5")
    assert "OPENAI_API_KEY" in ended.err


def test_a_sent_task_is_worked_on_and_shown(cli: Cli, script: Any) -> None:
    """send, list, worker, show; cancelled ones are left, failed ones resumed."""
    one = cli("send", "first", *script(call("write_file", path="b.txt", content="b"), DONE)).out.strip()
    other = cli("send", "second", *script(DONE)).out.strip()
    assert cli("tasks", "cancel", other).code == 0
    assert [task["state"] for task in tasks(cli)] == ["queued", "cancelled"]
    listed = cli("tasks", "list").out
    assert one in listed
    assert other not in listed
    ended = worker(cli, "--once")
    assert ended.returncode == 0, ended.stderr
    assert f"task {one} is done" in ended.stderr
    assert "All done." in cli("tasks", "show", one).out
    assert (cli.work / "b.txt").exists()
    assert cli("tasks", "resume", one).code == 2
    assert cli("tasks", "resume", other).code == 0
    assert worker(cli, "--once").returncode == 0
    assert [task["state"] for task in tasks(cli)] == ["done", "done"]


def worker(cli: Cli, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a supervisor with its worker to the end."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "handrail", "worker", *words],
        cwd=cli.work, env=cli.env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_send_waits_for_the_answer_of_a_worker_that_runs(cli: Cli, script: Any) -> None:
    """What it waits for is told; a message and an answer reach it; SIGTERM ends supervisor and worker."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "handrail", "worker"], cwd=cli.work, env=cli.env, stderr=subprocess.PIPE, text=True
    )
    try:
        sending = subprocess.Popen(
            [sys.executable, "-P", "-m", "handrail", "send", "ask me", "--wait", *script(ASK, DONE)],
            cwd=cli.work, env=cli.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        until = time.monotonic() + 40
        while not (found := tasks(cli)) or found[0]["state"] != "waiting":
            assert time.monotonic() < until, (found, process.poll())
            time.sleep(0.05)
        assert cli("tasks", "message", found[0]["id"], "quick, please").code == 0
        assert cli("tasks", "answer", found[0]["id"], "blue").code == 0
        out, err = sending.communicate(timeout=40)
        assert (sending.returncode, out) == (0, "All done.\n")
        assert "asks: Which colour?" in err
        children = _children(process.pid)
        assert len(children) == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert not [child for child in children if os.path.exists(f"/proc/{child}")]
    finally:
        process.kill()
        process.communicate()


def _children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def test_a_worker_ends_with_its_supervisor_and_its_task_goes_back(cli: Cli, script: Any) -> None:
    """Also when that is killed: its end of the pipe closes."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "handrail", "worker"], cwd=cli.work, env=cli.env, stderr=subprocess.DEVNULL
    )
    cli("send", "slow", *script(call("now"), {"delay": 120}, DONE))
    until = time.monotonic() + 40
    while tasks(cli)[0]["state"] != "running":
        assert time.monotonic() < until
        time.sleep(0.05)
    (child,) = _children(process.pid)
    process.kill()
    process.wait()
    while os.path.exists(f"/proc/{child}") and "Z" not in Path(f"/proc/{child}/stat").read_text().split(")")[1][:3]:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert tasks(cli)[0]["state"] == "queued"


@pytest.mark.parametrize(("answer", "there"), [("once\n", False), ("no\n", True)])
def test_a_person_at_the_terminal_is_asked_in_place(cli: Cli, script: Any, answer: str, there: bool) -> None:
    """Approvals as for any call, then a question; the answer comes on stdout."""
    with at_terminal(["agent", "tidy", *script(DELETE, ASK, DONE)], cli.work, cli.env) as terminal:
        terminal.wait_for("Answer (once")
        terminal.type(answer)
        terminal.wait_for("Which colour?")
        terminal.type("blue\n")
        terminal.wait_for("All done.")
        assert terminal.end() == 0
    assert (cli.work / "a.txt").exists() is there
    (task,) = tasks(cli)
    shown = json.loads(cli("tasks", "show", task["id"], "--json").out)
    assert [question["answer"] for question in shown["questions"]] == ["blue"]


def test_leaving_a_question_leaves_the_task_waiting(cli: Cli, script: Any) -> None:
    """Ctrl-D is no answer; Ctrl-C in the middle of the work is 130, and the task can be resumed."""
    with at_terminal(["agent", "x", *script(ASK, DONE)], cli.work, cli.env) as terminal:
        terminal.wait_for("> ")
        terminal.type("\x04")
        assert terminal.end() == 4
    assert tasks(cli)[0]["state"] == "waiting"
    with at_terminal(["agent", "y", *script(call("now"), {"delay": 60}, DONE)], cli.work, cli.env) as terminal:
        terminal.wait_for("now")
        terminal.type("\x03")
        assert terminal.end() == 130
    assert "Traceback" not in terminal.shown
    assert tasks(cli)[1]["state"] == "queued"


def test_the_tree_of_a_run_has_agent_turns_and_calls(cli: Cli, script: Any) -> None:
    """As people see it, and as JSON."""
    cli("agent", "look around", "--run", "r1", *script(call("list_dir"), call("read_file", path="no"), DONE))
    tree = cli("runs", "tree", "r1").out
    assert tree.index("agent look around") < tree.index("turn 1") < tree.index("list_dir") < tree.index("turn 2")
    assert "answered: All done." in tree
    nodes = json.loads(cli("runs", "tree", "r1", "--json").out)["nodes"]
    (agent,) = [node for node in nodes if node["kind"] == "agent"]
    assert [len(turn["children"]) for turn in agent["children"]] == [1, 1, 0]

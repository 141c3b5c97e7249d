"""The command line at a terminal: a person sees requests and answers them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from behaviour._commands import need_sandbox
from fronts.conftest import Cli
from fronts.terminal import at_terminal

DELETE = ["delete_path", "path=a.txt", "confirm=true"]
OVERWRITE = ["mode=overwrite", "expected_sha256=*"]


@pytest.mark.parametrize(("answer", "code", "there"), [("once\n", 0, False), ("no\n", 3, True)])
def test_approve_shows_the_request_and_runs_what_is_approved(cli: Cli, answer: str, code: int, there: bool) -> None:
    """In one go; a no leaves everything as it is."""
    with at_terminal(["call", "--approve", *DELETE], cli.work, cli.env) as terminal:
        terminal.wait_for("Answer (once, no, advice):")
        assert "delete_path  a.txt  delete, can be undone" in terminal.shown
        terminal.type(answer)
        assert terminal.end() == code
    assert (cli.work / "a.txt").exists() is there


@pytest.mark.parametrize(("keys", "code", "status"), [("\x03", 130, "CANCELLED"), ("\x04", 4, "APPROVAL_REQUIRED")])
def test_leaving_the_question_of_a_call_refuses_nothing(cli: Cli, keys: str, code: int, status: str) -> None:
    """Ctrl-C ends the call, and that is on record; either way the request waits for somebody who answers."""
    with at_terminal(["call", *DELETE], cli.work, cli.env) as terminal:
        terminal.wait_for("Answer (once, no, advice):")
        terminal.type(keys)
        assert terminal.end() == code
    assert "Traceback" not in terminal.shown
    assert [item["state"] for item in json.loads(cli("approvals", "list", "--all", "--json").out)] == ["pending"]
    calls = json.loads(cli("runs", "show", "--json").out)["calls"]
    assert [call["code"] for call in calls] == [status]
    assert (cli.work / "a.txt").exists()


@pytest.mark.parametrize(("named", "words"), [((), "once, no, advice"), (("--run", "r"), "once, run, no, advice")])
def test_the_rest_of_a_run_is_offered_where_there_is_one(cli: Cli, named: tuple[str, ...], words: str) -> None:
    """A call without --run is all of its run."""
    with at_terminal(
        ["call", *named, "write_file", "path=a.txt", "content=x", "mode=overwrite", "expected_sha256=*"],
        cli.work,
        cli.env,
    ) as terminal:
        terminal.wait_for(f"Answer ({words}):")
        terminal.type("yes\n")
        assert terminal.end() == 0


def test_who_is_asked_to_keep_what_a_failed_command_did_is_told_and_spared_the_diff_after_a_no(cli: Cli) -> None:
    """The exit code stands with the question and on record; the diff is shown once, to be judged."""
    need_sandbox()
    Path(cli.env["XDG_CONFIG_HOME"], "handrail", "config.toml").write_text(
        'tools.enable = ["fs", "exec"]\nexec.workspace = "review"\n'
    )
    command = "command=sed -i s/two/zwei/ a.txt; echo alas >&2; exit 4"
    with at_terminal(["call", "run_command", command], cli.work, {**cli.env, "NO_COLOR": "1"}) as terminal:
        terminal.wait_for("Answer (once")
        terminal.type("once\n")
        terminal.wait_for("Answer (once")
        asked = re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown)
        assert "  failed\n  │ exit code 4\n  end of stderr\n  │ alas\n" in asked
        terminal.type("n\n")
        assert terminal.end() == 3
    shown = re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown)
    request = re.findall(r"Approval (apr\S+)", shown)[-1]
    assert shown.count("+zwei") == 1
    assert f"  diff: dropped; handrail approvals show {request} shows it\n" in shown
    assert "the command failed: exit code 4" in cli("approvals", "show", request).out
    assert (cli.work / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_watch_answers_a_call_that_waits_elsewhere(cli: Cli) -> None:
    """The request appears by itself; Ctrl-C ends the watching."""
    with at_terminal(["approvals", "watch"], cli.work, cli.env) as terminal:
        terminal.wait_for("Waiting for approval requests")
        asked = cli("call", "--headless", "--json", *DELETE)
        request = json.loads(asked.out)["error"]["details"]["approval"]["id"]
        terminal.wait_for("Answer (once, no, advice, later):")
        assert request in terminal.shown
        terminal.type("once\n")
        terminal.wait_for(f"{request}: granted")
        terminal.type("\x03")
        assert terminal.end() == 130
    assert "Traceback" not in terminal.shown
    assert cli("call", "--approval", request).code == 0
    assert not (cli.work / "a.txt").exists()


@pytest.mark.parametrize("keys", ["later\n", "l\n", "\x03", "\x04"])
def test_what_a_watching_person_does_not_answer_stays_pending(cli: Cli, keys: str) -> None:
    """Skipping one, Ctrl-C and the end of the input deny nothing; the last two end the watch, too."""
    asked = cli("call", "--headless", "--json", *DELETE)
    request = json.loads(asked.out)["error"]["details"]["approval"]["id"]
    with at_terminal(["approvals", "watch"], cli.work, cli.env) as terminal:
        terminal.wait_for("Answer (once, no, advice, later):")
        terminal.type(keys)
        terminal.wait_for(f"{request}: pending")
        if keys.endswith("\n"):
            terminal.type("\x03")
        assert terminal.end() == 130
    assert json.loads(cli("approvals", "show", request, "--json").out)["state"] == "pending"


@pytest.mark.parametrize("keys", ["\x03", "\x04"])
def test_leaving_the_advice_to_a_model_denies_nothing(cli: Cli, keys: str) -> None:
    """Whoever breaks it off has not answered."""
    asked = cli("call", "--headless", "--json", *DELETE)
    request = json.loads(asked.out)["error"]["details"]["approval"]["id"]
    with at_terminal(["approvals", "watch"], cli.work, cli.env) as terminal:
        terminal.wait_for("Answer (once, no, advice, later):")
        terminal.type("t\n")
        terminal.wait_for("Advice to the model:")
        terminal.type(keys)
        assert terminal.end() == 130
    assert [item["state"] for item in json.loads(cli("approvals", "list", "--all", "--json").out)] == ["pending"]
    assert f"{request}: pending" in terminal.shown


def test_what_is_typed_for_a_request_that_somebody_else_answered_answers_no_other(cli: Cli) -> None:
    """It is told who did, and the next one is asked for after a moment; only what is typed then counts."""
    (cli.work / "b.txt").write_text("b\n")
    others = ["delete_path", "path=b.txt", "confirm=true"]
    asked = [cli("call", "--headless", "--json", *args) for args in (DELETE, others)]
    first, second = (json.loads(one.out)["error"]["details"]["approval"]["id"] for one in asked)
    with at_terminal(["approvals", "watch"], cli.work, cli.env) as terminal:
        terminal.wait_for("Answer (once")
        assert first in terminal.shown
        assert cli("approvals", "deny", first).code == 0
        terminal.wait_for(f"{first}: denied by ")
        terminal.type("once\n")
        terminal.wait_for("Answer (once")
        terminal.type("\x03")
        assert terminal.end() == 130
    states = {item["id"]: item["state"] for item in json.loads(cli("approvals", "list", "--all", "--json").out)}
    assert states == {first: "denied", second: "pending"}


def test_a_no_to_the_pages_of_a_watched_request_is_a_refusal(cli: Cli) -> None:
    """Only leaving is none."""
    lines = "\n".join(f"line {number}" for number in range(20))
    asked = cli("call", "--headless", "--json", "write_file", "path=a.txt", f"content={lines}", *OVERWRITE)
    request = json.loads(asked.out)["error"]["details"]["approval"]["id"]
    with at_terminal(["approvals", "watch"], cli.work, cli.env, rows=10) as terminal:
        terminal.wait_for("n: no --")
        terminal.type("n\n")
        terminal.wait_for(f"{request}: denied")


def test_runs_fit_into_80_columns_with_what_they_did(cli: Cli) -> None:
    """Front end, calls, asked and denied, state, tools, the file that was changed last."""
    for path in ("new", "newer"):
        assert cli("call", "--run", "busy", "write_file", f"path={path}", "content=x").code == 0
    cli("call", "--run", "busy", "--headless", *DELETE)
    cli("call", "--run", "busy", "read_file", "path=.env")
    with at_terminal(["runs", "list"], cli.work, {**cli.env, "NO_COLOR": "1"}) as terminal:
        assert terminal.end() == 0
    head, line = re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown).splitlines()
    assert max(len(head), len(line)) <= 80
    assert head.split() == ["run", "started", "front", "calls", "ask/deny", "state", "tools", "changed"]
    name, day, time, *did = line.split()
    assert (name, len(day), len(time)) == ("busy", 5, 5)
    assert did[:4] == ["cli", "4", "1/1", "closed"]
    assert line.rstrip().endswith("newer +1")
    assert "write_file" in line


@pytest.mark.parametrize(("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colour_only_where_it_is_wanted(cli: Cli, env: dict[str, str], coloured: bool) -> None:
    """NO_COLOR is honoured, and at 80 columns no line of a table wraps."""
    with at_terminal(["tools"], cli.work, {**cli.env, **env}) as terminal:
        assert terminal.end() == 0
    assert ("\x1b[32m" in terminal.shown) is coloured
    if not coloured:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown)
        lines = [line for line in plain.splitlines() if not line.startswith("off:")]
        assert max(map(len, lines)) <= 80
        assert {line.split()[2] for line in lines} == {"low", "medium", "high", "risk"}


def test_the_tour_lets_the_person_answer(cli: Cli) -> None:
    """A refusal is as good as a yes: the tour goes on, and ends well."""
    with at_terminal(["tour"], cli.work, {**cli.env, "NO_COLOR": "1"}) as terminal:
        for _ in range(4):
            terminal.wait_for("Enter: go on")
            terminal.type("\n")
        terminal.wait_for("Answer (once, run, no, advice):")
        terminal.type("no\n")
        for _ in range(2):
            terminal.wait_for("Enter: go on")
            terminal.type("\n")
        terminal.wait_for("Answer (once, run, no, advice):")
        terminal.type("no\n")
        for _ in range(2):
            terminal.wait_for("Enter: go on")
            terminal.type("\n")
        terminal.wait_for("That was the tour.")
        assert terminal.end() == 0
    assert "APPROVAL_DENIED" in terminal.shown


def test_the_tour_goes_by_itself_at_a_terminal_when_told_to(cli: Cli) -> None:
    """With --auto nobody is waited for: nothing is typed, every station is shown, and it ends well."""
    with at_terminal(["tour", "--auto"], cli.work, {**cli.env, "NO_COLOR": "1"}) as terminal:
        assert terminal.end() == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown)
    stations = re.findall(r"^(\d+) ", plain, re.MULTILINE)
    assert stations == [str(number) for number in range(1, 12)]
    assert "That was the tour." in terminal.shown
    assert [word for word in ("Enter: go on", "Answer (") if word in terminal.shown] == []


@pytest.mark.parametrize(("answer", "code", "says"), [("n\n", 1, "not trusted"), ("y\n", 0, "trusted as it stands")])
def test_trust_at_a_terminal_is_asked_for(cli: Cli, answer: str, code: int, says: str) -> None:
    """The person sees the file first; a no changes nothing."""
    (cli.work / "handrail.toml").write_text('[tools]\nenable = ["fs"]\n')
    with at_terminal(["config", "trust"], cli.work, cli.env) as terminal:
        terminal.wait_for("Trust this file")
        assert 'enable = ["fs"]' in terminal.shown
        terminal.type(answer)
        assert terminal.end() == code
    assert says in terminal.shown

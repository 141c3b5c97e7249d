"""How commands end that are ended from outside, and streams that are closed, full or steered."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from behaviour._commands import need_sandbox
from fronts.conftest import Cli
from fronts.terminal import MAIN, START, Terminal, at_terminal
from handrail.front.cli._problems import problem_lines
from handrail.words import ErrorInfo, Outcome, Status

WAIT_SECONDS = 60
ASKED = ["call", "delete_path", "path=a.txt", "confirm=true"]


@pytest.fixture
def temporary(cli: Cli, tmp_path: Path) -> Path:
    """Where the command line makes what it throws away."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    cli.env["TMPDIR"] = str(folder)
    return folder


@contextmanager
def hung_up(cli: Cli, argv: list[str], shown: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command at a terminal that is closed once it has shown a text."""
    handle, other = pty.openpty()
    command = [sys.executable, "-c", START, str(other), "-c", MAIN, *argv]
    process = subprocess.Popen(command, cwd=cli.work, env=cli.env, pass_fds=(other,))
    os.close(other)
    text, end = b"", time.monotonic() + WAIT_SECONDS
    while shown.encode() not in text:
        assert select.select([handle], [], [], max(0, end - time.monotonic()))[0], text
        text += os.read(handle, 65536)
    os.close(handle)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def started(cli: Cli, *argv: str, **how: object) -> subprocess.Popen[bytes]:
    """A command in a process of its own."""
    return subprocess.Popen([sys.executable, "-c", MAIN, *argv], cwd=cli.work, env=cli.env, **how)  # type: ignore[call-overload, no-any-return]


def until_it_runs(cli: Cli, process: subprocess.Popen[bytes]) -> None:
    """Wait until a call has begun, by its journal."""
    runs, end = Path(cli.env["XDG_STATE_HOME"], "handrail", "runs"), time.monotonic() + WAIT_SECONDS
    while not any(b'"tool.started"' in path.read_bytes() for path in runs.glob("*/events.jsonl")):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)


# ── ended from outside ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["Ctrl-C", "SIGTERM", "SIGHUP"])
def test_the_tour_ends_at_once_where_it_waits_and_leaves_nothing_behind(cli: Cli, temporary: Path, how: str) -> None:
    """At `Enter: go on`, whatever asks it to end."""
    with at_terminal(["tour"], cli.work, cli.env) as terminal:
        terminal.wait_for("Enter: go on")
        assert list(temporary.glob("handrail-tour-*"))
        _end(terminal, how)
        assert terminal.end(20) == 130
    assert "Traceback" not in terminal.shown
    assert list(temporary.iterdir()) == []


def _end(terminal: Terminal, how: str) -> None:
    if how == "Ctrl-C":
        terminal.type("\x03")
    else:
        terminal.process.send_signal(getattr(signal, how))


def test_enter_goes_on_with_the_tour(cli: Cli, temporary: Path) -> None:
    """From one station to the next."""
    with at_terminal(["tour"], cli.work, cli.env) as terminal:
        terminal.wait_for("Enter: go on")
        terminal.type("\n")
        terminal.wait_for("secrets never get through")
        terminal.wait_for("Enter: go on")
        terminal.type("\x03")
        assert terminal.end(20) == 130
    assert list(temporary.iterdir()) == []


def test_a_closed_terminal_ends_the_tour_and_its_folder(cli: Cli, temporary: Path) -> None:
    """As closing the window does."""
    with hung_up(cli, ["tour"], "Enter: go on") as process:
        process.wait(20)
    assert list(temporary.iterdir()) == []


def test_a_closed_terminal_leaves_the_question_that_stood_there_pending(cli: Cli) -> None:
    """Leaving is no answer; the run is closed."""
    with hung_up(cli, ASKED, "Answer (once") as process:
        process.wait(20)
    assert [item["state"] for item in json.loads(cli("approvals", "list", "--all", "--json").out)] == ["pending"]
    assert "  closed  " in cli("runs", "list").out
    assert (cli.work / "a.txt").exists()


@pytest.mark.parametrize(("ignored", "code", "ended"), [(False, 130, "CANCELLED"), (True, 0, None)])
def test_a_hang_up_cancels_a_running_call_unless_it_is_ignored(
    cli: Cli, ignored: bool, code: int, ended: str | None
) -> None:
    """And that is on record; under nohup the call goes on."""
    need_sandbox()
    argv = ["call", "--enable", "run_command", "run_command", "command=sleep 2", "timeout_seconds=30"]
    cli.env["HANDRAIL_EXEC__ALLOW"] = '["sleep *"]'
    ignore = (lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) if ignored else None
    process = started(cli, *argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=ignore)
    until_it_runs(cli, process)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGHUP)  # a shell sends it once more
    assert process.wait(WAIT_SECONDS) == code
    assert [call["code"] for call in json.loads(cli("runs", "show", "--json").out)["calls"]] == [ended]


def test_a_run_whose_process_is_gone_in_the_middle_of_a_call_is_listed_as_cut_off(cli: Cli) -> None:
    """While it goes on it is open."""
    need_sandbox()
    cli.env["HANDRAIL_EXEC__ALLOW"] = '["sleep *"]'
    argv = ["call", "--enable", "run_command", "run_command", "command=sleep 30"]
    process = started(cli, *argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until_it_runs(cli, process)
        assert "  open  " in cli("runs", "list").out
    finally:
        process.kill()
        process.wait()
    assert "  cut off  " in cli("runs", "list").out


# ── streams ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "argv",
    [
        ["call", "read_file", "path=a.txt"],
        ["call", "--headless", "now", "--live"],
        ["tools", "list"],
        ["--version"],
    ],
)
def test_a_closed_stream_is_no_error(cli: Cli, closed: str, argv: list[str]) -> None:
    """What would be said there is said to nobody, and no file that is opened takes the stream's place."""
    line = f'exec "$@" {closed}'
    command = ["sh", "-c", line, "sh", sys.executable, "-c", MAIN, *argv]
    ended = subprocess.run(command, cwd=cli.work, env=cli.env, capture_output=True, text=True, check=False)
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    if argv[:2] == ["call", "read_file"] and closed in ("<&-", "2>&-"):
        assert "two" in ended.stdout


def test_a_closed_input_shows_the_tour_by_itself(cli: Cli, temporary: Path) -> None:
    """Nobody can press Enter there."""
    command = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", MAIN, "tour"]
    ended = subprocess.run(command, cwd=cli.work, env=cli.env, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr, "That was the tour" in ended.stdout) == (0, "", True)
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [("tools", "list"), ("version",), ("--version",)])
def test_output_that_finds_no_room_is_not_blamed_on_the_records(
    cli: Cli, words: tuple[str, ...], unbuffered: str
) -> None:
    """Stdout is named, and the command failed."""
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", MAIN, *words],
            cwd=cli.work,
            env={**cli.env, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (1, "handrail: stdout: No space left on device\n")


# ── what is shown ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["q\x1b]0;pwn\x07.txt", "qpwn\ntry: rm.txt", "q\x9bpwn.txt", "q\u202epwn.txt"])
def test_a_name_that_no_tool_takes_is_never_suggested(cli: Cli, name: str) -> None:
    """It would steer the terminal, or forge a line of ours."""
    folder = cli.work / "nu"
    folder.mkdir()
    (folder / name).write_text("y")
    ended = cli("call", "read_file", "path=nu/qpwn.txt")
    assert ended.err == "NOT_FOUND: nu/qpwn.txt does not exist.\n"


def test_what_a_problem_quotes_does_not_steer_the_terminal() -> None:
    """Written out, and its further lines are set in."""
    error = ErrorInfo("NOT_FOUND", "missing", "a\x1b[2Jb\nDone.", {"near": ["c\x07", "d\ne"]})
    outcome = Outcome("1", "read_file", "1", Status.FAILED, "", "", None, error, ())
    assert list(problem_lines(outcome, {})) == [
        "NOT_FOUND: a<U+001B>[2Jb\n    Done.",
        "  near: c<U+0007>, d\n    e",
    ]

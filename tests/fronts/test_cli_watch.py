"""`approvals watch --here`: the newest question of a program that runs first, and what its card says of the others."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from fronts.conftest import Cli
from fronts.mcp_ends import ENVELOPE
from fronts.mcp_process import HANDRAIL
from fronts.terminal import Terminal, at_terminal
from handrail import Runtime
from handrail.settings import paths
from handrail.store.lock import NAME, is_open

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@contextmanager
def asking_server(cli: Cli, names: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server in the project, and have it ask to delete some files, one after the other."""
    server = subprocess.Popen([HANDRAIL, "mcp"], cwd=cli.work, env=cli.env, stdin=-1, stdout=-1, stderr=-3)
    try:
        assert server.stdin is not None
        for number, name in enumerate(names):
            params = {"name": "delete_path", "arguments": {"path": name, "confirm": True}, "_meta": ENVELOPE}
            call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            server.stdin.write(json.dumps(call).encode() + b"\n")
            server.stdin.flush()
            wait_for_request(cli, name)
        yield server
    finally:
        server.kill()
        server.communicate()


def wait_for_request(cli: Cli, name: str) -> None:
    """Wait until a file is asked for."""
    for _ in range(500):
        waiting = json.loads(cli("approvals", "list", "--json").out)
        if any(item["params"]["path"] == name for item in waiting):
            return
    raise AssertionError(f"{name} was not asked for")


def card(terminal: Terminal, answer: str) -> str:
    """Read the next card, and answer it."""
    start = len(terminal.shown)
    terminal.wait_for("Answer (")
    terminal.type(f"{answer}\n")
    return COLOUR.sub("", terminal.shown[start:])


def test_the_newest_of_a_program_that_runs_comes_first_and_those_that_are_gone_are_marked(cli: Cli) -> None:
    """With its place among those that wait; another workspace's is not shown."""
    for name in ("b.txt", "c.txt"):
        (cli.work / name).write_text("x")
    other = cli.work.parent / "other"
    other.mkdir()
    (other / "far.txt").write_text("x")
    cli("call", "--headless", "delete_path", "path=a.txt", "confirm=true")
    cli("call", "--headless", "-w", str(other), "delete_path", "path=far.txt", "confirm=true")
    with (
        asking_server(cli, ["b.txt", "c.txt"]) as server,
        at_terminal(["approvals", "watch", "--here"], cli.work, cli.env) as terminal,
    ):
        shown = [card(terminal, answer) for answer in ("once", "later", "no")]
        terminal.wait_for("denied")
        terminal.type("\x03")
        assert terminal.end() == 130
        assert server.stdout is not None
        assert json.loads(server.stdout.readline())["result"]["isError"] is False
    named = [re.findall(r"delete_path  (\S+)", text)[-1] for text in shown]
    assert named == ["c.txt", "b.txt", "a.txt"]
    assert [re.findall(r"\b(\d of \d)\b", text)[-1] for text in shown] == ["1 of 3", "2 of 3", "3 of 3"]
    assert ["gone  the program that asked has ended" in text for text in shown] == [False, False, True]
    assert "far.txt" not in terminal.shown
    assert [(cli.work / name).exists() for name in ("a.txt", "b.txt", "c.txt")] == [True, True, False]


def test_the_bell_rings_for_each_request_where_settings_want_it(cli: Cli) -> None:
    """At the terminal where the question is put."""
    user = Path(cli.env["XDG_CONFIG_HOME"], "handrail", "config.toml")
    for setting, rings in (("", False), ('approvals.notify = "bell"\n', True)):
        user.write_text(f'tools.enable = ["fs", "delete_path"]\n{setting}')
        cli("call", "--headless", "delete_path", "path=a.txt", "confirm=true")
        with at_terminal(["approvals", "watch", "--here"], cli.work, cli.env) as terminal:
            card(terminal, "no")
            terminal.wait_for("denied")
            terminal.type("\x03")
            terminal.end()
        assert ("\a" in terminal.shown) is rings


# ── whether the asker runs ───────────────────────────────────────────────────────────────────


async def test_a_run_is_open_while_its_runtime_is(work: Path) -> None:
    """Looking takes nothing: the run can be opened right after, and by two who look at once."""
    async with Runtime.open(work, run_id="one"):
        assert is_open(paths.runs_dir() / "one") is True
    assert is_open(paths.runs_dir() / "one") is False
    assert is_open(paths.runs_dir() / "none") is None


def test_a_killed_process_has_ended_its_run(work: Path) -> None:
    """Its name still stands in the lock."""
    code = (
        "import asyncio, os, signal\nfrom handrail import Runtime\n"
        f"async def main():\n    async with Runtime.open({str(work)!r}, run_id='two'):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\nasyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    folder = paths.runs_dir() / "two"
    assert done.returncode == -signal.SIGKILL
    assert orjson.loads((folder / NAME).read_bytes())["pid"] > 0
    assert is_open(folder) is False


@pytest.mark.parametrize("held", [{"host": "elsewhere", "pid": 1}, {"host": os.uname().nodename, "pid": "x"}])
def test_of_another_machine_nothing_is_known(tmp_path: Path, held: dict[str, object]) -> None:
    """It is not marked as gone."""
    (tmp_path / NAME).write_bytes(orjson.dumps(held))
    assert is_open(tmp_path) is None

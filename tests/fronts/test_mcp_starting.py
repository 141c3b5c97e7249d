"""From the start of `handrail mcp` to its first answers, and from the end of its stdin to its own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import gone_within, need_sandbox
from fronts.mcp_ends import HANDSHAKE
from handrail import Runtime
from handrail.store.reader import events

HANDRAIL = str(Path(sys.executable).with_name("handrail"))
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
SETTINGS = """
tools.enable = ["exec"]
[[rules]]
effect = "allow"
touch = "proc.exec"
target = "**"
"""
# A server whose run cannot be opened until a file is there; after twenty seconds it gives up.
LATE = """
import asyncio, os, time
from handrail.front.mcp.opening import Opening
from handrail.front.mcp.stdio import serve

class Late(Opening):
    def runtime(self, approver, run_id, former=None):
        end = time.monotonic() + 20
        while not os.path.exists("go"):
            if time.monotonic() > end:
                os._exit(3)
            time.sleep(0.01)
        return super().runtime(approver, run_id, former)

asyncio.run(serve(Late()))
"""


def talk(work: Path, *args: str, said: list[dict[str, Any]]) -> tuple[int, dict[Any, Any], str]:
    """Send lines and close stdin: the exit code, the answers by their ids, and what stands on stderr."""
    lines = "".join(f"{json.dumps(message)}\n" for message in said)
    command = [HANDRAIL, "mcp", *args]
    ended = subprocess.run(command, cwd=work, input=lines, capture_output=True, text=True, check=False, timeout=60)
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    return ended.returncode, {answer["id"]: answer for answer in answers}, ended.stderr


def test_what_a_run_is_made_of_is_not_loaded_before_a_handshake_can_be_answered() -> None:
    """It takes a quarter of the start, and a handshake needs nothing of it."""
    code = "import sys, handrail.front.mcp.stdio; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert {"handrail.runtime", "handrail.compose", "handrail.kernel"} & {*loaded} == set()


def test_a_handshake_is_answered_before_the_run_is_open(work: Path, own_user: Path) -> None:
    """The run opens only once the answer was read."""
    with subprocess.Popen([sys.executable, "-c", LATE], cwd=work, stdin=-1, stdout=-1) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for message in (*HANDSHAKE, LIST):
            server.stdin.write(f"{json.dumps(message)}\n".encode())
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline())]
        (work / "go").touch()
        answers.append(json.loads(server.stdout.readline()))
        server.stdin.close()
    assert ([answer["id"] for answer in answers], server.returncode) == ([0, 1], 0)


async def test_a_run_that_cannot_be_opened_is_told_to_every_request_that_needs_it(work: Path, own_user: Path) -> None:
    """Why is for the operator alone, who has the exit code, too."""
    async with Runtime.open(work, run_id="held"):
        code, told, why = await asyncio.to_thread(talk, work, "--run", "held", said=[*HANDSHAKE, LIST])
    assert told[0]["result"]["serverInfo"]["name"] == "handrail"
    assert (told[1]["error"]["code"], "cannot open its run" in told[1]["error"]["message"]) == (-32603, True)
    assert (code != 0, "held" in why, "held" in told[1]["error"]["message"]) == (True, True, False)


@pytest.mark.parametrize(("settings", "args"), [("tools.enabel = 1\n", ()), ("", ("--dialect", "klingon"))])
def test_what_is_wrong_beforehand_is_the_answer_to_the_handshake(
    work: Path, own_user: Path, tmp_path: Path, settings: str, args: tuple[str, ...]
) -> None:
    """A client shows a server that refuses its handshake as one that cannot be started."""
    config = tmp_path / "settings.toml"
    config.write_text(settings)
    code, told, _ = talk(work, "--config", str(config), *args, said=[*HANDSHAKE, LIST])
    assert (code, [told[number]["error"]["code"] for number in (0, 1)]) == (2, [-32603, -32603])


def test_a_dialect_without_its_settings_is_the_answer_to_the_handshake(work: Path, own_user: Path) -> None:
    """What options mean is looked at when a client is there to be told that it cannot be served."""
    code, told, why = talk(work, "--dialect", "autonous", said=[*HANDSHAKE, LIST])
    assert (code, [told[number]["error"]["code"] for number in (0, 1)]) == (2, [-32603, -32603])
    assert ("AUTONOUS_TOOL_ALLOWED_ROOTS" in why, "AUTONOUS" in str(told)) == (True, False)


def test_requests_that_come_with_the_handshake_wait_for_the_run(work: Path, own_user: Path) -> None:
    """All lines are there at the start, and each has its answer."""
    (work / "a.txt").write_text("one\n")
    params = {"name": "read_file", "arguments": {"path": "a.txt"}}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    code, told, _ = talk(work, said=[*HANDSHAKE, LIST, call])
    assert (code, list(told), told[2]["result"]["isError"]) == (0, [0, 1, 2], False)


def test_a_call_that_runs_when_stdin_ends_is_stopped_and_says_so(work: Path, own_user: Path, tmp_path: Path) -> None:
    """A second later, with what it started; the answer says why, and the journal has it."""
    need_sandbox()
    config, token = tmp_path / "settings.toml", f"{os.getpid()}{id(tmp_path) % 10**6}"
    config.write_text(SETTINGS)
    params = {"name": "run_command", "arguments": {"command": f"sleep 300.{token}", "timeout_seconds": 400}}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    code, told, _ = talk(work, "--config", str(config), said=[*HANDSHAKE, call])
    assert (code, told[2]["error"]["code"], "it was stopped" in told[2]["error"]["message"]) == (0, -32000, True)
    assert gone_within(f".{token}", 10)
    (run,) = Path(os.environ["XDG_STATE_HOME"], "handrail", "runs").glob("[!.]*")
    assert [event["code"] for event in events(run) if event["kind"] == "tool.failed"] == ["CANCELLED"]

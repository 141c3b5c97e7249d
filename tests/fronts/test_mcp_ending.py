"""The end of a server while calls run: they are stopped, and their end is on record before that of the run."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox
from fronts.mcp_ends import HANDSHAKE
from fronts.mcp_process import HANDRAIL, TOKEN
from fronts.mcp_talk import Talk
from handrail import Tool, tool
from handrail.front.mcp import door as doors
from handrail.front.mcp.door import Door
from handrail.front.mcp.ongoing import Ongoing, Peer
from handrail.front.mcp.opening import Opening
from handrail.store.reader import events

SETTINGS = """
tools.enable = ["exec"]
[[rules]]
effect = "allow"
touch = "proc.exec"
target = "**"
[[rules]]
effect = "allow"
touch = "fs.write"
target = "**"
"""
COMMAND = {"command": "echo new > old.txt; echo made > made.txt; sleep 300", "timeout_seconds": 400}
ENDS_WITHIN = 4.0  # seconds; some two are meant, and the machine may be busy


def _call(meta: dict[str, Any]) -> dict[str, Any]:
    params = {"name": "run_command", "arguments": COMMAND, **({"_meta": meta} if meta else {})}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def _made(work: Path) -> Callable[[], bool]:
    path = work / "made.txt"
    return lambda: path.exists() and path.read_text() == "made\n"


def _recorded() -> list[tuple[str, str | None, list[str]]]:
    """What the journal says: kinds, codes, and what was changed."""
    (run,) = Path(os.environ["XDG_STATE_HOME"], "handrail", "runs").glob("[!.]*")
    return [
        (event["kind"], event.get("code"), sorted(change["path"] for change in event.get("files_changed", ())))
        for event in events(run)
    ]


STOPPED = [
    ("run.started", None, []),
    ("tool.started", None, []),
    ("tool.failed", "CANCELLED", ["made.txt", "old.txt"]),
    ("run.finished", None, []),
]


@pytest.fixture
def place(work: Path, own_user: Path, tmp_path: Path) -> Path:
    """A workspace whose programs may run, and the settings that say so."""
    need_sandbox()
    (work / "old.txt").write_text("old\n")
    config = tmp_path / "settings.toml"
    config.write_text(SETTINGS)
    return config


@pytest.mark.parametrize(
    ("how", "version", "meta"),
    [
        (signal.SIGTERM, "2025-11-25", {}),
        (signal.SIGINT, "2025-11-25", {"progressToken": "p"}),
        (signal.SIGTERM, "2025-03-26", {}),  # which the SDK answers
    ],
)
def test_a_call_that_runs_when_a_server_on_stdio_is_ended_is_on_record(
    work: Path, place: Path, how: signal.Signals, version: str, meta: dict[str, Any]
) -> None:
    """With what it changed, before the end of the run; the client hears the same each time."""
    begin: Any = {**HANDSHAKE[0], "params": {**HANDSHAKE[0]["params"], "protocolVersion": version}}
    command = [HANDRAIL, "mcp", "--config", str(place)]
    with subprocess.Popen(command, cwd=work, stdin=-1, stdout=-1, stderr=-1) as server:
        assert server.stdin is not None
        server.stdin.write(b"".join(json.dumps(item).encode() + b"\n" for item in (begin, HANDSHAKE[1], _call(meta))))
        server.stdin.flush()
        _until(_made(work))
        began = time.monotonic()
        server.send_signal(how)
        said, told = server.communicate(timeout=30)
        took = time.monotonic() - began
    answers = {item.get("id"): item for item in map(json.loads, said.splitlines())}
    assert (answers[7]["error"]["code"], "it was stopped" in answers[7]["error"]["message"]) == (-32000, True)
    assert (_recorded(), b"Traceback" in told, took < ENDS_WITHIN) == (STOPPED, False, True), (took, told)


@pytest.mark.parametrize("meta", [{}, {"progressToken": "p"}], ids=["plain", "progress"])
def test_a_call_that_runs_when_a_server_on_http_is_ended_is_on_record(
    work: Path, place: Path, meta: dict[str, Any]
) -> None:
    """With what it changed, before the end of the run, whichever of the two ways it came."""
    command = [HANDRAIL, "mcp", "--config", str(place), "--http", "127.0.0.1:0"]
    env = {**os.environ, "HANDRAIL_TOKEN": TOKEN}
    with subprocess.Popen(command, cwd=work, stderr=-1, env=env) as server:
        assert server.stderr is not None
        while not (line := server.stderr.readline()).startswith(b"listening on "):
            assert line
        url = line.split()[2].decode()
        session = _post(url, HANDSHAKE[0]).headers["mcp-session-id"]
        with pytest.raises(OSError, match="timed out"):
            _post(url, _call(meta), session, seconds=0.2 if meta else 0.01).read()
        _until(_made(work))
        began = time.monotonic()
        server.send_signal(signal.SIGTERM)
        told = server.stderr.read()
        server.wait(30)
        took = time.monotonic() - began
    assert (_recorded(), b"Traceback" in told, took < ENDS_WITHIN) == (STOPPED, False, True), (took, told)


def _post(url: str, message: dict[str, Any], session: str | None = None, seconds: float = 20) -> Any:
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **({} if session is None else {"Mcp-Session-Id": session}),
    }
    asked = urllib.request.Request(url, json.dumps(message).encode(), headers)
    return urllib.request.urlopen(asked, timeout=seconds)


class Ends:
    """A tool that takes its time to end."""

    def __init__(self, seconds: float) -> None:
        self.began, self._seconds = asyncio.Event(), seconds
        self.left = asyncio.Event()

    def made(self) -> Tool:
        """The tool."""

        @tool(pure=True)
        async def waits() -> str:
            """Wait, and end late."""
            self.began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.left.set()
                end = time.monotonic() + self._seconds
                while time.monotonic() < end:
                    with suppress(asyncio.CancelledError):
                        await asyncio.sleep(end - time.monotonic())
                raise
            return "never"

        return waits


def _begun(door: Door) -> asyncio.Task[dict[str, Any]]:
    params = {"name": "waits", "arguments": {}}
    return asyncio.ensure_future(door.call(Ongoing(Peer("2025-11-25"), "waits"), params))


async def test_the_run_is_closed_once_the_calls_that_were_stopped_are_on_record(work: Path, own_user: Path) -> None:
    """Also where whoever closes it is cancelled, and in a hurry."""
    ends = Ends(0.2)
    door = Door(Opening(str(work), {}, tools=(ends.made(),)))
    await door.__aenter__()
    calling = _begun(door)
    await ends.began.wait()
    closing = asyncio.ensure_future(door.__aexit__(None, None, None))
    await ends.left.wait()
    closing.cancel()
    ended = await asyncio.gather(closing, calling, return_exceptions=True)
    assert [type(error) for error in ended] == [asyncio.CancelledError, asyncio.CancelledError]
    kinds = [(kind, code) for kind, code, _ in _recorded()]
    assert kinds[-2:] == [("tool.failed", "CANCELLED"), ("run.finished", None)]


async def test_a_call_that_takes_no_notice_holds_no_server(
    work: Path, own_user: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is waited for no longer than a while, and the operator is told."""
    monkeypatch.setattr(doors, "STOP_SECONDS", 0.05)
    ends = Ends(0.5)
    async with Door(Opening(str(work), {}, tools=(ends.made(),))) as door:
        calling = _begun(door)
        await ends.began.wait()
    assert (calling.done(), "take no notice" in caplog.text, _recorded()[-1][0]) == (False, True, "run.finished")
    assert isinstance((await asyncio.gather(calling, return_exceptions=True))[0], asyncio.CancelledError)


async def test_what_is_asked_of_a_server_that_ends_is_refused_as_such(work: Path, own_user: Path) -> None:
    """Nothing is begun, and no settings are blamed."""
    ends = Ends(0.2)
    async with Door(Opening(str(work), {}, tools=(ends.made(),))) as door:
        talk = Talk(door, modern=False)
        await talk.greet()
        calling = _begun(door)
        await ends.began.wait()
        closing = asyncio.ensure_future(door.__aexit__(None, None, None))
        await ends.left.wait()
        answer = await talk.ask("tools/list")
        await asyncio.gather(closing, calling, return_exceptions=True)
    assert (answer["error"]["code"], answer["error"]["message"]) == (-32000, doors.ENDS)

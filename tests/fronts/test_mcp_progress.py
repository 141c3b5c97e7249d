"""How far a long call is, told while it runs: over stdio and HTTP, in both eras."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from behaviour._commands import need_sandbox
from fronts.mcp_ends import connected
from handrail.front.mcp import ongoing
from handrail.front.mcp.ongoing import Ongoing, Peer
from handrail.front.mcp.opening import Opening
from handrail.processes.sink import Sink, Written
from serving import Asked, answer, serving

HANDRAIL = str(Path(sys.executable).with_name("handrail"))
WAYS = pytest.mark.parametrize(
    ("end", "era"), [(e, era) for e in ("stdio", "http") for era in ("handshake", "stateless")]
)
MODE: dict[str, Any] = {"handshake": "legacy", "stateless": "2026-07-28"}
SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
RULES = """
[[rules]]
effect = "allow"
touch = "proc.exec"
target = "**"
"""
Told = list[tuple[float, float | None, str | None]]


@asynccontextmanager
async def client(end: str, era: str, work: Path, settings: str) -> AsyncIterator[Client]:
    """A client of the official SDK, over one of the transports."""
    config = work.parent / "settings.toml"
    config.write_text(settings)
    if end == "http":
        async with connected(Opening(str(work), str(config)), era) as made:
            yield made
        return
    args = ["mcp", "--config", str(config)]
    server = StdioServerParameters(command=HANDRAIL, args=args, cwd=str(work), env=dict(os.environ))
    async with Client(stdio_client(server), mode=MODE[era]) as made:
        yield made


class Hearing:
    """Keeps what is told, and wakes whoever waits for it."""

    def __init__(self) -> None:
        self.told: Told = []
        self._news = asyncio.Event()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Take one report."""
        self.told.append((progress, total, message))
        self._news.set()

    async def until(self, wanted: Callable[[Told], bool]) -> None:
        """Wait until enough was told."""
        async with asyncio.timeout(30):
            while not wanted(self.told):
                self._news.clear()
                await self._news.wait()


@WAYS
async def test_a_command_tells_its_last_line_while_it_runs(work: Path, own_user: Path, end: str, era: str) -> None:
    """How many lines, and the last one with its secrets hidden; the numbers rise."""
    need_sandbox()
    wait = "until test -e go; do sleep 0.05; done"
    line = f"echo one; echo two; echo key {SECRET}; {wait}; echo three; until test -e end; do sleep 0.05; done"
    hearing = Hearing()
    async with client(end, era, work, f'[tools]\nenable = ["exec"]\n{RULES}') as asked:
        calling = asyncio.ensure_future(
            asked.call_tool("run_command", {"command": line, "timeout_seconds": 60}, progress_callback=hearing)
        )
        await hearing.until(lambda told: any(message == "3 lines: key ***REDACTED***" for *_, message in told))
        (work / "go").touch()
        await hearing.until(lambda told: told[-1][2] == "4 lines: three")
        (work / "end").touch()
        result = await calling
    steps = [progress for progress, *_ in hearing.told]
    assert (result.is_error, steps == sorted(set(steps)), SECRET in str(hearing.told)) == (False, True, False)


@WAYS
async def test_a_download_tells_its_bytes_while_it_comes(work: Path, own_user: Path, end: str, era: str) -> None:
    """How many have come, and how many there are."""
    hearing, body = Hearing(), b"x" * 100_000

    async def slowly(_: Asked, writer: asyncio.StreamWriter) -> None:
        whole = answer(body)
        writer.write(whole[:60_000])
        await writer.drain()
        await hearing.until(bool)
        writer.write(whole[60_000:])

    async with serving() as server:
        server.answers["/file"] = slowly
        hosts = json.dumps([f"127.0.0.1:{server.port}"])
        settings = (
            f'[tools]\nenable = ["http", "fs"]\n[http]\nallowed_hosts = {hosts}\nallowed_networks = ["127.0.0.0/8"]\n'
        )
        async with client(end, era, work, settings) as asked:
            args = {"url": server.url("/file"), "path": "file.bin"}
            result = await asked.call_tool("http_download", args, progress_callback=hearing)
    steps = [progress for progress, *_ in hearing.told]
    assert (result.is_error, (work / "file.bin").stat().st_size, steps == sorted(set(steps))) == (False, 100_000, True)
    assert {total for _, total, _ in hearing.told} == {100_000}
    assert hearing.told[-1] == (100_000, 100_000, "100000 of 100000 bytes")


async def test_reports_are_few_and_short_whatever_a_program_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One at a look, none where nothing is new, cut where a line is long; and nothing after the end."""
    monkeypatch.setattr(ongoing, "LOOK_SECONDS", 0.001)
    reports, looks, ended = list[Any](), list[int](), asyncio.Event()

    def written() -> Written:
        looks.append(1)
        if len(looks) == 20:
            ended.set()
        return Written(5000 * min(len(looks), 3), min(len(looks), 3), "x" * 5000)

    call = Ongoing(Peer("2025-11-25"), "run_command", "token", reports.append)
    call.start()
    call.follow(written)
    await asyncio.wait_for(ended.wait(), 10)
    call.stop()
    assert [report["message"][:12] for report in reports] == ["1 lines: xxx", "2 lines: xxx", "3 lines: xxx"]
    assert {len(report["message"]) for report in reports} == {len("1 lines: ") + ongoing.LINE_CHARS + 1}
    call.tell("late")
    call.loads(1, 2)
    assert len(reports) == 3


async def test_a_call_that_tells_nothing_says_that_it_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Now and then."""
    monkeypatch.setattr(ongoing, "BEAT_SECONDS", 0.001)
    heard = asyncio.Event()
    call = Ongoing(
        Peer("2025-11-25"), "grep", 1, lambda report: heard.set() if "running" in report["message"] else None
    )
    call.start()
    await asyncio.wait_for(heard.wait(), 10)
    call.stop()
    assert heard.is_set()


async def test_without_a_token_nobody_looks() -> None:
    """What is not asked for costs nothing."""
    seen: list[str] = []

    def looked() -> Written:
        seen.append("looked")
        return Written(0, 0, "")

    call = Ongoing(Peer("2025-11-25"), "run_command", None, lambda _: seen.append("told"))
    call.start()
    call.follow(looked)
    call.loads(5, 10)
    call.tell("x")
    await asyncio.sleep(0)
    call.stop()
    assert seen == []


def test_a_line_is_told_only_once_it_is_whole_and_hidden(sink: Sink) -> None:
    """Half a line may be half a secret; a key over several lines is told as hidden, whatever has come of it."""
    sink.feed(b"first\nsec")
    assert sink.written() == Written(9, 1, "first")
    sink.feed(b"ond \x1b[31mred\x1b[0m\n")
    assert sink.written().last == "second red"
    sink.feed(b"-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx\n")
    assert "MIIE" not in sink.written().last


@pytest.fixture
def sink() -> Sink:
    """A stream that keeps nothing apart."""
    from handrail.output.redact import Redactor

    return Sink(Redactor(), None, "stdout", 100_000)  # type: ignore[arg-type]

"""A client gives up: the program that its call started is ended, however the client is connected."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from behaviour._commands import alive, gone_within, need_sandbox
from fronts.mcp_process import WAYS, client
from handrail.store.reader import events

SETTINGS = """
tools.enable = ["exec"]
[[rules]]
effect = "allow"
touch = "proc.exec"
target = "**"
"""


async def _running(token: str) -> None:
    """Wait until a program is there."""
    while not alive(token):
        await asyncio.sleep(0.02)


@WAYS
async def test_giving_up_a_call_ends_its_program(
    work: Path, own_user: Path, tmp_path: Path, end: str, era: str
) -> None:
    """At once and with what it started; the journal says so, and the server goes on."""
    need_sandbox()
    config, token = tmp_path / "settings.toml", f"{os.getpid()}{id(tmp_path) % 10**6}"
    config.write_text(SETTINGS)
    async with asyncio.timeout(60), client(end, era, work, config) as asked:
        args = {"command": f"sleep 300.{token} & sleep 301.{token}; true", "timeout_seconds": 400}
        calling = asyncio.ensure_future(asked.call_tool("run_command", args))
        await _running(f"300.{token}")
        await _running(f"301.{token}")
        calling.cancel()
        assert await asyncio.to_thread(gone_within, f".{token}", 10)
        after = await asked.call_tool("run_command", {"command": "echo still here"})
    assert (after.is_error, "still here" in str(after.content)) == (False, True)
    (run,) = Path(os.environ["XDG_STATE_HOME"], "handrail", "runs").glob("[!.]*")
    assert [event["code"] for event in events(run) if event["kind"] == "tool.failed"] == ["CANCELLED"]

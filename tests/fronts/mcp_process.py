"""`handrail mcp` in a process of its own, asked by the official SDK's client over stdio or HTTP, in either era."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

HANDRAIL = str(Path(sys.executable).with_name("handrail"))
MODE: dict[str, Any] = {"handshake": "legacy", "stateless": "2026-07-28"}
WAYS = pytest.mark.parametrize(
    ("end", "era"), [(end, era) for end in ("stdio", "http") for era in ("handshake", "stateless")]
)
TOKEN = "a-token-for-one-process-alone"


@asynccontextmanager
async def client(end: str, era: str, work: Path, config: Path, **how: Any) -> AsyncIterator[Client]:
    """A client, connected."""
    args = ["mcp", "--config", str(config)]
    if end == "stdio":
        server = StdioServerParameters(command=HANDRAIL, args=args, cwd=str(work), env=dict(os.environ))
        async with Client(stdio_client(server), mode=MODE[era], **how) as made:
            yield made
        return
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with (
        _listening(args, work) as url,
        httpx2.AsyncClient(headers=headers, verify=False, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=MODE[era], **how) as made,
    ):
        yield made


@asynccontextmanager
async def _listening(args: list[str], work: Path) -> AsyncIterator[str]:
    env = os.environ | {"HANDRAIL_TOKEN": TOKEN}
    command = [*args, "--http", "127.0.0.1:0"]
    server = await asyncio.create_subprocess_exec(
        HANDRAIL, *command, cwd=work, env=env, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    assert server.stderr is not None
    try:
        async with asyncio.timeout(30):
            while (line := await server.stderr.readline()) and not line.startswith(b"listening on "):
                pass
        assert line, "it ended before it listened"
        reading = asyncio.ensure_future(server.stderr.read())  # so that it never waits for a reader
        yield line.split()[2].decode()
        server.terminate()
        await asyncio.wait_for(server.wait(), 20)
        await reading
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()

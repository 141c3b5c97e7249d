"""A governed read of 1 KB against peers that read the same files and do less. Each call reads another file."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from common import Row, interleaved, report

FILES = 5000
TEXT = "a line of ordinary text, sixty-three characters long in all..\n" * 16
Call = Callable[[int], Awaitable[Any]]


def read(path: str) -> str:
    """What every peer's tool does."""
    with open(path) as file:
        return file.read()


def langchain(paths: list[str]) -> Call:
    """LangChain: `tool.ainvoke`."""
    from langchain_core.tools import tool

    @tool
    async def read_file(path: str) -> str:
        """Read a file."""
        return read(path)

    return lambda number: read_file.ainvoke({"path": paths[number % FILES]})


async def fastmcp(paths: list[str], stack: AsyncExitStack) -> Call:
    """FastMCP: its in-memory client."""
    from fastmcp import Client, FastMCP

    server: Any = FastMCP("bench")

    @server.tool
    async def read_file(path: str) -> str:
        """Read a file."""
        return read(path)

    client = await stack.enter_async_context(Client(server))
    return lambda number: client.call_tool("read_file", {"path": paths[number % FILES]})


async def mcp(paths: list[str], stack: AsyncExitStack) -> Call:
    """The MCP SDK: its in-process client."""
    from mcp import Client
    from mcp.server import MCPServer

    server: Any = MCPServer("bench")

    @server.tool()
    async def read_file(path: str) -> str:
        """Read a file."""
        return read(path)

    client = await stack.enter_async_context(Client(server))
    return lambda number: client.call_tool("read_file", {"path": paths[number % FILES]})


def inspect_ai(paths: list[str]) -> Call:
    """inspect-ai: `execute_tools`."""
    from inspect_ai.model import ChatMessageAssistant, execute_tools
    from inspect_ai.tool import ToolCall, tool

    @tool
    def read_file() -> Any:
        async def execute(path: str) -> str:
            """Read a file.

            Args:
                path: the file.
            """
            return read(path)

        return execute

    tools = [read_file()]

    async def call(number: int) -> Any:
        asked = ToolCall(id=str(number), function="read_file", arguments={"path": paths[number % FILES]})
        return await execute_tools([ChatMessageAssistant(content="", tool_calls=[asked])], tools)

    return call


async def main() -> None:
    """Measure in one run, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
        root = Path(folder, "work")
        root.mkdir()
        for number in range(FILES):
            (root / f"{number}.txt").write_text(f"{number}\n{TEXT}")
        from handrail import Runtime
        from handrail.settings.paths import cache_dir
        from handrail.store import databases

        databases.prepare(cache_dir())
        paths = [str(root / f"{number}.txt") for number in range(FILES)]
        async with Runtime.open(root, config={}) as runtime, AsyncExitStack() as stack:

            async def governed(number: int) -> Any:
                return await runtime.call("read_file", {"path": f"{number % FILES}.txt"})

            rows = await interleaved(
                {
                    "handrail": governed,
                    "LangChain tool.ainvoke": langchain(paths),
                    "FastMCP in-memory client": await fastmcp(paths, stack),
                    "mcp in-process client": await mcp(paths, stack),
                    "inspect-ai execute_tools": inspect_ai(paths),
                },
                rounds=15,
                batch=20,
            )
        report(rows, hold="each peer at least 2 times slower")
        _complain(rows)


def _complain(rows: list[Row]) -> None:
    for row in rows[1:]:
        if row.ratio < 2:
            print(f"MISSED: {row.name} is only {row.ratio:.1f} times slower")


if __name__ == "__main__":
    asyncio.run(main())

"""The MCP inspector's command line against `handrail mcp`: all tools listed, every tool called."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fronts._every_tool import Called, everything, holds, offered
from fronts._node import INSPECTOR, modules, node_of
from handrail.front.mcp.results import outcome_of

HANDRAIL = str(Path(sys.executable).with_name("handrail"))
# Each call is a server of its own, and a background program ends with the server that started it.
NO_JOB = frozenset({"job_input", "job_read", "job_stop"})
SAMPLE = frozenset({"read_file", "write_file", "run_command", "job_stop", "http_fetch"})

Inspect = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def inspect(work: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Inspect:
    """Ask by the inspector, with a server configured as it documents; its own `--config` names that file."""
    found = modules(INSPECTOR, tmp_path_factory)
    node = node_of(found)
    args = ["mcp", "--workspace", str(work), "--config", str(tmp_path / "settings.toml")]
    servers = tmp_path / "mcp.json"
    servers.write_text(json.dumps({"mcpServers": {"handrail": {"command": HANDRAIL, "args": args}}}))
    script = str(found / INSPECTOR / "build" / "cli.js")
    command = [node, script, "--cli", "--config", str(servers), "--server", "handrail"]
    env = {**os.environ, "PATH": f"{Path(node).parent}:{os.environ['PATH']}"}  # it starts another `node`

    async def ask(*words: str) -> dict[str, Any]:
        pipe = asyncio.subprocess.PIPE
        asking = await asyncio.create_subprocess_exec(*command, *words, cwd=work, env=env, stdout=pipe, stderr=pipe)
        out, err = await asyncio.wait_for(asking.communicate(), 60)
        assert asking.returncode == 0, (words, err.decode(), out.decode()[-2000:])
        told: dict[str, Any] = json.loads(out)
        return told

    return ask


def words_of(tool: str, args: dict[str, Any]) -> list[str]:
    """A call as it is written for the inspector: text as it is, all else as JSON."""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in args.items()}
    pairs = [word for name, text in texts.items() for word in ("--tool-arg", f"{name}={text}")]
    return ["--method", "tools/call", "--tool-name", tool, *pairs]


async def call_all(inspect: Inspect, calls: list[Called]) -> None:
    """One after another, each with its real result; those about a background program find none, and say so."""
    for tool, args, want in calls:
        result = await inspect(*words_of(tool, args))
        if tool in NO_JOB:
            assert (result["isError"], outcome_of(result)["error"]["code"]) == (True, "NOT_FOUND"), tool
        elif tool == "job_list":
            assert (result["isError"], result["structuredContent"]) == (False, {"jobs": []})
        else:
            assert result["isError"] is False, (tool, result["content"])
            assert holds(result["structuredContent"], want), (tool, result["structuredContent"])


async def test_the_inspector_lists_and_calls_every_tool(
    work: Path, tmp_path: Path, inspect: Inspect, scale: int
) -> None:
    """Two processes for each call take their time: outside of CI and of long runs, a sample is called."""
    every = scale > 1 or os.environ.get("CI") == "true"
    async with everything(work, tmp_path / "settings.toml") as calls:
        listed = await inspect("--method", "tools/list")
        assert {item["name"] for item in listed["tools"]} == {tool for tool, _, _ in calls} == offered()
        wanted = [call for call in calls if not call[1].get("background") and (every or call[0] in SAMPLE)]
        # Files here, all else there: neither needs what the other makes.
        middle = [tool for tool, _, _ in wanted].index("run_command")
        async with asyncio.TaskGroup() as group:
            group.create_task(call_all(inspect, wanted[:middle]))
            group.create_task(call_all(inspect, wanted[middle:]))

"""A task over HTTP: a call that waits for a person, polled over requests that know nothing of each other."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import httpx2

from approving import shown_digest
from fronts.mcp_process import HANDRAIL, TOKEN, _listening

SETTINGS = 'tools.enable = ["fs", "delete_path"]\n'
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "tasks", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}


async def ask(url: str, method: str, params: dict[str, Any], name: str) -> dict[str, Any]:
    """Ask over a connection of its own, and give the result."""
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": VERSION,
        "Mcp-Method": method,
        "Mcp-Name": name,
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    async with httpx2.AsyncClient(headers=headers, verify=False, timeout=30) as client:
        answer = await client.post(url, json=body)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["result"]
    return result


async def test_a_task_over_http_goes_on_once_a_person_elsewhere_grants_it(
    work: Path, own_user: Path, tmp_path: Path
) -> None:
    """It works until then, and what came of the call is the task's result."""
    file, config = work / "a.txt", tmp_path / "settings.toml"
    file.write_text("one\n")
    config.write_text(SETTINGS)
    async with asyncio.timeout(60), _listening(["mcp", "--config", str(config)], work) as url:
        call = {"name": "delete_path", "arguments": {"path": "a.txt", "confirm": True}}
        made = await ask(url, "tools/call", call, "delete_path")
        task, request = made["taskId"], next(word for word in made["statusMessage"].split() if word.startswith("apr_"))
        waits = await ask(url, "tasks/get", {"taskId": task}, task)
        assert (made["status"], waits["status"], file.exists()) == ("working", "working", True)
        request = request.strip(".:,")
        grant = [HANDRAIL, "approvals", "grant", request, "--digest", shown_digest(request)]
        assert (await asyncio.to_thread(subprocess.run, grant, capture_output=True, check=False)).returncode == 0
        while (ended := await ask(url, "tasks/get", {"taskId": task}, task))["status"] == "working":
            await asyncio.sleep(0.05)
    assert (ended["status"], ended["result"]["isError"], file.exists()) == ("completed", False, False)

"""A client that posts single messages to the application behind a real socket, as one session."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from fronts.mcp_ends import CLIENT, TOKEN, serving
from handrail.front.mcp.door import Door
from handrail.front.mcp.guard import guard_for
from handrail.front.mcp.http import Front, application
from handrail.front.mcp.opening import Opening

HEADERS = {
    "Authorization": f"Bearer {TOKEN}",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
}


class Http:
    """A client over HTTP."""

    def __init__(self, client: httpx2.AsyncClient, url: str, front: Front) -> None:
        self._client, self._url, self.front, self.headers = client, url, front, dict(HEADERS)

    async def greet(self) -> Http:
        """Begin a session."""
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
        answer = await self.post({"id": 0, "method": "initialize", "params": params})
        self.headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
        await self.post({"method": "notifications/initialized"})
        return self

    async def another(self) -> Http:
        """A session of another client."""
        return await Http(self._client, self._url, self.front).greet()

    async def post(self, message: dict[str, Any], **more: str) -> Any:
        """Post a message."""
        headers = {**self.headers, **more}
        return await self._client.post(self._url, json={"jsonrpc": "2.0", **message}, headers=headers)

    async def leave(self) -> int:
        """End the session."""
        return (await self._client.delete(self._url, headers=self.headers)).status_code


def told(answer: Any) -> dict[str, Any]:
    """The one message of an answer."""
    text = next((line[5:] for line in answer.text.splitlines() if line.startswith("data:")), answer.text)
    message: dict[str, Any] = json.loads(text)
    return message


@asynccontextmanager
async def session(opening: Opening) -> AsyncIterator[Http]:
    """A client that has begun."""
    async with Door(opening) as door:
        front = application(door, guard_for("127.0.0.1", TOKEN))[0]
        async with serving(front) as url, httpx2.AsyncClient(verify=False, timeout=30) as client:
            yield await Http(client, url, front).greet()

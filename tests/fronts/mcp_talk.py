"""A client that talks to the thin codec, or to the SDK's server behind it, without any stream between them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from handrail.front.mcp.bridge import Bridge
from handrail.front.mcp.door import Door
from handrail.front.mcp.stdio import Codec

CLIENT = {"name": "talk", "version": "1"}


class Sdk:
    """The SDK's server alone."""

    def __init__(self, door: Door, send: Any) -> None:
        self._bridge = Bridge(door, send)

    def line(self, raw: bytes) -> None:
        """Take a line."""
        self._bridge.put(json.loads(raw))

    async def close(self, patience: float = 0.1) -> None:
        """End."""
        await self._bridge.close(patience)


class Talk:
    """One client in one era."""

    def __init__(
        self, door: Door, *, modern: bool, capabilities: dict[str, Any] | None = None, sdk: bool = False
    ) -> None:
        self.modern, self.capabilities = modern, capabilities or {}
        self.heard: list[dict[str, Any]] = []
        self._news = asyncio.Event()
        self._number = 0
        self.codec: Any = Sdk(door, self._take) if sdk else Codec(door, self._take)

    def _take(self, raw: bytes) -> None:
        assert raw.endswith(b"\n")
        assert raw.count(b"\n") == 1
        self.heard.append(json.loads(raw))
        self._news.set()

    async def until(self, wanted: Any, seconds: float = 5.0) -> dict[str, Any]:
        """Wait for the first message that is wanted."""
        async with asyncio.timeout(seconds):
            while True:
                for message in self.heard:
                    if wanted(message):
                        return message
                self._news.clear()
                await self._news.wait()

    def say(self, method: str, params: dict[str, Any] | None = None, request_id: Any = None) -> None:
        """Send a message."""
        params = dict(params or {})
        if self.modern and request_id is not None:
            params["_meta"] = {
                **params.get("_meta", {}),
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": CLIENT,
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            }
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if request_id is not None:
            message["id"] = request_id
        self.raw(json.dumps(message).encode() + b"\n")

    def raw(self, line: bytes) -> None:
        """Send bytes."""
        self.codec.line(line)

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request, and wait for its answer."""
        self._number += 1
        number = self._number
        self.say(method, params, number)
        return await self.until(lambda message: message.get("id") == number and "method" not in message)

    async def greet(self) -> dict[str, Any]:
        """Begin as clients of the era do."""
        if self.modern:
            return await self.ask("server/discover")
        about = {"protocolVersion": "2025-11-25", "capabilities": self.capabilities, "clientInfo": CLIENT}
        answer = await self.ask("initialize", about)
        self.say("notifications/initialized")
        return answer

    async def call(self, tool: str, args: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Call a tool, and give its result."""
        result: dict[str, Any] = (await self.ask("tools/call", {"name": tool, "arguments": args, **more}))["result"]
        return result

    async def close(self) -> None:
        """Leave."""
        await self.codec.close(0.0)

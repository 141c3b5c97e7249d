"""The SDK's server behind the thin codec: it takes and gives whole messages, and never sees the streams."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from handrail.front.mcp import wire
from handrail.front.mcp.door import STOP_SECONDS, STOPPED, Door
from handrail.front.mcp.server import SdkServer
from handrail.front.mcp.wire import INVALID_REQUEST, Refused

_GREETING = "handrail-handshake"
_BACKLOG = 1000


class Bridge:
    """One connection of the SDK's server, in memory."""

    def __init__(self, door: Door, send: Callable[[bytes], None]) -> None:
        self._send, self._sdk = send, SdkServer(door)
        # What does not fit is refused (`put`); the codec's own bounds on messages and requests hold before this.
        self._in, inner_in = anyio.create_memory_object_stream[SessionMessage | Exception](_BACKLOG)
        inner_out, self._out = anyio.create_memory_object_stream[SessionMessage](_BACKLOG)
        self._streams = (self._in, self._out, inner_in, inner_out)
        self._owed: set[str | int] = set()  # requests without an answer yet
        self._settled = asyncio.Event()
        options = self._sdk.server.create_initialization_options()
        self._tasks = [
            asyncio.ensure_future(self._sdk.server.run(inner_in, inner_out, options)),
            asyncio.ensure_future(self._pass_on()),
        ]

    def greet(self, opening: dict[str, Any], *, greeted: bool) -> None:
        """Repeat the handshake that the codec has answered; the SDK's own answer to it is not sent."""
        self.put({**opening, "id": _GREETING})
        if greeted:
            self.put({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def put(self, message: dict[str, Any]) -> None:
        """Hand a message over."""
        try:
            read = types.jsonrpc_message_adapter.validate_python(message, by_name=False)
            self._in.send_nowait(SessionMessage(read))
            if isinstance(read, types.JSONRPCRequest):
                self._owed.add(read.id)
            elif isinstance(read, types.JSONRPCNotification) and read.method == "notifications/cancelled":
                self._settle((read.params or {}).get("requestId"))  # nobody waits for its answer any more
        except (ValidationError, anyio.WouldBlock) as error:
            why = "Too many messages at once." if isinstance(error, anyio.WouldBlock) else "Not a JSON-RPC message."
            request_id = message.get("id")
            self._send(
                wire.dump(wire.error(request_id if wire.is_id(request_id) else None, Refused(INVALID_REQUEST, why)))
                + b"\n"
            )

    async def changed(self) -> None:
        """Tell whoever listens that the lists are others now."""
        await self._sdk.changed()

    async def resources_changed(self) -> None:
        """Tell whoever listens that the list of resources is another now."""
        await self._sdk.resources_changed()

    async def _pass_on(self) -> None:
        async for item in self._out:
            message = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
            if "method" not in message:
                self._settle(message.get("id"))
            if message.get("id") != _GREETING:
                self._send(wire.dump(message) + b"\n")

    def _settle(self, request_id: Any) -> None:
        if wire.is_id(request_id):
            self._owed.discard(request_id)
        if not self._owed:
            self._settled.set()

    async def close(self, patience: float) -> None:
        """End the connection; what is nearly done may be answered."""
        if self._owed:
            self._settled.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), patience)
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        for request_id in self._owed:
            self._send(wire.dump(wire.error(request_id, STOPPED)) + b"\n")
        self._owed.clear()
        for stream in self._streams:
            stream.close()

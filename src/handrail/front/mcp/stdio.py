"""MCP over stdin and stdout: a thin codec for what is asked all the time, the SDK for the rest.

The codec answers only what is shaped exactly as the protocol says and leaves every other message to the SDK, which is
started, and told of the handshake, when it is first needed. Nothing but the protocol ever reaches stdout.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any

from handrail.front.mcp import wire
from handrail.front.mcp.door import CANNOT_OPEN, STOP_SECONDS, STOPPED, Door
from handrail.front.mcp.ongoing import Ongoing, Peer, describe_client, modern_peer
from handrail.front.mcp.opening import Opening
from handrail.front.mcp.shapes import has_plain_meta, is_call, is_handshake, negotiated, stamped, told
from handrail.front.mcp.streams import Lines, claim, reader, writer
from handrail.front.mcp.watch import watching
from handrail.front.mcp.wire import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    WHOLE_VERSIONS,
    Refused,
)

log = logging.getLogger("handrail.mcp")

Send = Callable[[bytes], None]
Work = Callable[[], Awaitable[dict[str, Any]]]
MOST_AT_ONCE = 1000  # requests that are worked on
LEAVE_SECONDS = 5.0  # for a client to hear that nothing is served
# For calls that run when the client closes stdin. Closing it asks the server to end: clients of the official SDKs
# terminate one that is still there after two seconds, and what is stopped must be on record by then.
ENDING_SECONDS = 1.0


class Codec:
    """One client over one pair of streams: takes lines, sends lines."""

    def __init__(self, door: Door, send: Send) -> None:
        self._door, self._send = door, send
        self._peer: Peer | None = None  # once the handshake is done, or for the stateless era
        self._opening: dict[str, Any] | None = None  # the handshake's first message, for the SDK
        self._greeted = False
        self._modern = False
        self._asked: dict[str | int, asyncio.Task[None]] = {}
        self._stopping: set[asyncio.Task[None]] = set()  # cancelled, and not over yet; their ids are free again
        self._waiting: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        self._elicited = 0
        self._sdk: Any = None
        door.news.tell = self._resources_changed

    # ── coming in ────────────────────────────────────────────────────────────────────────────

    def line(self, raw: bytes) -> None:
        """Take one line."""
        try:
            message = wire.parse(raw)
        except ValueError as error:
            reason = str(error)
        else:
            self._straight(message)
            return
        if raw.strip():
            self._crooked(raw, reason)

    def _crooked(self, raw: bytes, reason: str) -> None:
        """Refuse what is no strict JSON, under its id where it has one; a call whose arguments alone are crooked runs.

        What runs is refused with the argument and the place in it. The SDK takes no such message.
        """
        request_id, call = wire.crooked(raw)
        known = call is not None and wire.is_modern(call["params"]) is self._modern and (self._modern or self._peer)
        if call is not None and known and is_call(call["params"]):
            self._straight(call)
        else:
            self.refuse(request_id, wire.unreadable(request_id, reason))

    def _straight(self, message: Any) -> None:
        if message.__class__ is not dict or message.get("jsonrpc") != "2.0":
            self.refuse(None, Refused(INVALID_REQUEST, "A message is one JSON-RPC 2.0 object."))
            return
        method = message.get("method")
        if method.__class__ is not str:
            self._response(message)
        elif "id" not in message:
            self._notification(method, message)
        elif not wire.is_id(message["id"]):
            self.refuse(None, Refused(INVALID_REQUEST, "A request's id is a text or an integer."))
        else:
            self._request(message["id"], method, message)

    def _request(self, request_id: str | int, method: str, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        peer = self._peer_of(method, params, message)
        if peer is None:
            self._leave(message)
        elif request_id in self._asked or len(self._asked) + len(self._stopping) >= MOST_AT_ONCE:
            self.refuse(request_id, Refused(INVALID_REQUEST, "This id is in use, or too many requests are."))
        elif method == "tools/call" and is_call(params):
            self._begin(request_id, peer, method, lambda: self._call(peer, params))
        elif not has_plain_meta(params):
            self._leave(message)
        elif self._door.serves(method) and (peer.modern or not method.startswith("tasks/")):
            self._begin(request_id, peer, method, lambda: self._door.answer(peer, method, params))
        elif (known := told(method, peer)) is not None:
            self._result(request_id, peer, method, known)
        else:
            self._leave(message)

    def _peer_of(self, method: str, params: Any, message: dict[str, Any]) -> Peer | None:
        """The client of a request that the codec may answer; None: it is the SDK's."""
        modern = wire.is_modern(params)
        if not self._modern and self._peer is None and self._sdk is None:  # the first request decides the era
            if method == "initialize" and is_handshake(params):
                return self._handshake(params, message)
            self._modern = modern
        if self._modern:
            return modern_peer(params["_meta"]) if modern else None
        plain = params.__class__ is dict and not modern and method != "initialize"
        return self._peer if plain else None

    def _handshake(self, params: dict[str, Any], message: dict[str, Any]) -> Peer | None:
        version = negotiated(params)
        if version not in WHOLE_VERSIONS:
            return None
        self._opening = message
        self._peer = Peer(version, params["capabilities"], self._elicit, describe_client(params.get("clientInfo")))
        return self._peer

    def _notification(self, method: str, message: dict[str, Any]) -> None:
        if method == "notifications/cancelled":
            params = message.get("params")
            cancelled: Any = params.get("requestId") if isinstance(params, dict) else None
            task = self._asked.get(cancelled) if wire.is_id(cancelled) else None
            if task is not None:
                del self._asked[cancelled]
                self._stopping.add(task)
                task.add_done_callback(self._stopping.discard)
                task.cancel()
                return
        if method == "notifications/initialized":
            self._greeted = True
        if self._sdk is not None:
            self._sdk.put(message)

    def _response(self, message: dict[str, Any]) -> None:
        request_id: Any = message.get("id")
        if not wire.is_id(request_id):
            return
        answered = self._waiting.pop(request_id, None)
        if answered is not None and not answered.done():
            result = message.get("result")
            answered.set_result(result if isinstance(result, Mapping) else {})
        elif self._sdk is not None:
            self._sdk.put(message)

    # ── going out ────────────────────────────────────────────────────────────────────────────

    def refuse(self, request_id: str | int | None, refused: Refused) -> None:
        """Send an error."""
        self._send(wire.dump(wire.error(request_id, refused)) + b"\n")

    def _result(self, request_id: str | int, peer: Peer, method: str, result: dict[str, Any]) -> None:
        if peer.modern:
            result = stamped(method, result)
        self._send(wire.dump({"jsonrpc": "2.0", "id": request_id, "result": result}) + b"\n")

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        message = {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}
        self._send(wire.dump(message) + b"\n")

    async def changed(self) -> None:
        """Tell the client that the lists are others now."""
        if self._sdk is not None:
            await self._sdk.changed()
        elif self._greeted:
            for kind in ("tools", "resources", "prompts"):
                self.notify(f"notifications/{kind}/list_changed")

    async def _resources_changed(self) -> None:
        if self._sdk is not None:
            await self._sdk.resources_changed()
        elif self._greeted:
            self.notify("notifications/resources/list_changed")

    # ── work ─────────────────────────────────────────────────────────────────────────────────

    def _begin(self, request_id: str | int, peer: Peer, method: str, work: Work) -> None:
        self._asked[request_id] = asyncio.get_running_loop().create_task(self._work(request_id, peer, method, work))

    async def _work(self, request_id: str | int, peer: Peer, method: str, work: Work) -> None:
        """Answer a request; one that the client cancelled, whose id is free again, is not answered."""
        try:
            self._result(request_id, peer, method, await work())
        except Refused as refused:
            self.refuse(request_id, refused)
        except asyncio.CancelledError:
            if self._asked.get(request_id) is asyncio.current_task():
                self.refuse(request_id, STOPPED)
        except Exception:
            log.exception("%s failed", method)
            self.refuse(request_id, Refused(INTERNAL_ERROR, "Internal error; the server's log has more."))
        finally:
            if self._asked.get(request_id) is asyncio.current_task():  # a cancelled one's id may be another's by now
                del self._asked[request_id]

    async def _call(self, peer: Peer, params: dict[str, Any]) -> dict[str, Any]:
        meta = params.get("_meta")
        token = None if meta is None else meta.get("progressToken")
        notify = None if token is None else lambda report: self.notify("notifications/progress", report)
        return await self._door.call(Ongoing(peer, params["name"], token, notify), params)

    async def _elicit(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask the client for a form or a page, in the handshake era."""
        self._elicited += 1
        name = f"handrail-{self._elicited}"
        answered: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[name] = answered
        self._send(wire.dump({"jsonrpc": "2.0", "id": name, "method": "elicitation/create", "params": params}) + b"\n")
        try:
            return await answered
        finally:
            self._waiting.pop(name, None)

    # ── the SDK ──────────────────────────────────────────────────────────────────────────────

    def _leave(self, message: dict[str, Any]) -> None:
        """Have the SDK answer; it is started when it is first needed, and told how the connection began."""
        if self._sdk is None:
            from handrail.front.mcp.bridge import Bridge

            self._sdk = Bridge(self._door, self._send)
            if self._opening is not None:
                self._sdk.greet(self._opening, greeted=self._greeted)
        self._sdk.put(message)

    async def close(self, patience: float = ENDING_SECONDS) -> None:
        """End: what is nearly done may finish; the rest is stopped, and told so to whoever still reads."""
        tasks = [*self._asked.values(), *self._stopping]
        if tasks:
            await asyncio.wait(tasks, timeout=patience)
            for task in tasks:
                if not task.cancelling():
                    task.cancel()
            await asyncio.wait(tasks, timeout=STOP_SECONDS)
        for request_id in tuple(self._asked):  # what had not begun, or takes no notice
            del self._asked[request_id]
            self.refuse(request_id, STOPPED)
        if self._sdk is not None:
            await self._sdk.close(patience)


async def serve(wanted: Opening | Callable[[], Opening]) -> None:
    """Serve one client on stdin and stdout until it leaves; what is wrong with what is wanted is its answer, too."""
    source, target = claim()
    try:
        opening = wanted if isinstance(wanted, Opening) else wanted()
        opening.check()
    except Exception:
        await declined(source, target)
        raise
    send, output = await writer(target)
    door, ended = Door(opening), asyncio.Event()
    codec = Codec(door, send)
    too_long = Refused(INVALID_REQUEST, f"A message is {wire.MAX_MESSAGE_BYTES} bytes at most.")
    await reader(source, Lines(codec.line, lambda: codec.refuse(None, too_long), ended.set), output)
    await _hear()
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(door)
        except Exception:
            await _left(ended)
            await codec.close()
            raise
        try:
            async with watching(door, codec.changed):
                await ended.wait()
            await codec.close()
        finally:
            await codec.close(0.0)  # where this is cancelled; else nothing is left to close


async def _hear() -> None:
    """Take what the client has sent already: a handshake needs no run, so it is answered while none is open yet."""
    for _ in range(3):  # the loop looks at the stream, hands over what is there, and sends the answer
        await asyncio.sleep(0)


async def _left(ended: asyncio.Event) -> None:
    """Let a client hear that nothing is served."""
    with suppress(TimeoutError):
        await asyncio.wait_for(ended.wait(), LEAVE_SECONDS)


async def declined(source: int, target: int) -> None:
    """Tell a client that nothing can be served, as its answer; why is for the operator alone, on stderr."""
    send, output = await writer(target)
    left = asyncio.Event()

    def line(raw: bytes) -> None:
        with suppress(ValueError):
            message = wire.parse(raw)
            if message.__class__ is dict and "method" in message and wire.is_id(message.get("id")):
                send(wire.dump(wire.error(message["id"], Refused(INTERNAL_ERROR, CANNOT_OPEN))) + b"\n")

    await reader(source, Lines(line, lambda: None, left.set), output)
    await _left(left)

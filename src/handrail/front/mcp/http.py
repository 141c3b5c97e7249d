"""MCP over HTTP: the guard first, then a short way for plain requests, and the SDK for everything else."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from handrail.front.mcp import wire
from handrail.front.mcp.address import BACKLOG, listening, place
from handrail.front.mcp.door import Door
from handrail.front.mcp.guard import (
    LOOPBACK,
    Guard,
    Headers,
    Receive,
    Scope,
    Send,
    Stopped,
    guard_for,
    parsed,
    respond,
    respond_json,
)
from handrail.front.mcp.ongoing import Ongoing, Peer, describe_client, modern_peer
from handrail.front.mcp.opening import Opening
from handrail.front.mcp.shapes import has_plain_meta, is_call, is_handshake, negotiated, stamped
from handrail.front.mcp.wire import INTERNAL_ERROR, INVALID_REQUEST, MODERN_VERSION, WHOLE_VERSIONS, Refused

log = logging.getLogger("handrail.mcp")

PATH = "/mcp"
MOST_SESSIONS = 1000
SHOWN = "handrail.shown"  # of a request's state: what to call once it has shown the token
SOON_SECONDS = 0.05
_SESSION, _VERSION, _METHOD, _NAME = b"mcp-session-id", b"mcp-protocol-version", b"mcp-method", b"mcp-name"
_ROUTING = frozenset({_SESSION, _VERSION, _METHOD, _NAME})
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_LAST = {"type": "http.response.body", "body": b"", "more_body": False}

App = Callable[[Scope, Receive, Send], Awaitable[None]]
Asked = tuple[bytes, str | int]


class Front:
    """The ASGI application; `sdk` is the SDK's own, which sees only what the guard let through."""

    def __init__(self, door: Door, sdk: App, guard: Guard) -> None:
        self._door, self._sdk, self._guard = door, sdk, guard
        self._sessions: dict[bytes, Peer] = {}
        self._asked: dict[Asked, asyncio.Task[dict[str, Any]]] = {}
        self._streams: set[asyncio.Task[Any]] = set()  # requests that last until somebody ends them
        self._ending = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._sdk(scope, receive, _hushed(send))
            return
        try:
            headers: Headers = dict(scope["headers"])
            self._guard.check(headers, scope["headers"])
            _shown(scope)
            if scope["path"] != PATH:
                raise Stopped(404)
            if scope["method"] == "POST":
                await self._post(scope, headers, receive, send)
            else:
                await self._other(scope, headers, receive, send)
        except Stopped as stopped:
            await respond(send, stopped.status, stopped.body, stopped.headers)
        except asyncio.CancelledError:
            if not self._ending:
                raise
        if self._ending:
            await _cut(send)

    def end(self) -> None:
        """End the streams, and all other requests once they are cancelled, without a word on stderr."""
        self._ending = True
        for stream in self._streams:
            stream.cancel()

    async def _leave(self, scope: Scope, receive: Receive, send: Send, *, lasts: bool = False) -> None:
        """Have the SDK answer; what lasts until the client leaves is ended with the server."""
        task = asyncio.current_task()
        assert task is not None
        if lasts:
            self._streams.add(task)
        try:
            await self._sdk(scope, receive, send)
        finally:
            self._streams.discard(task)
        with suppress(RuntimeError):  # it is ended already, but for streams that the SDK stops when the process ends
            await send(_LAST)

    async def _post(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        body = await self._guard.body(receive)
        message = parsed(body)
        if message.__class__ is dict:
            peer = self._peer_of(scope, headers, message)
            if peer is not None and await self._short(peer, headers, message, receive, send):
                return
            if message.get("method").__class__ is str and not wire.is_id(message.get("id", "")):
                told = Refused(INVALID_REQUEST, "A request's id is a text or an integer.")
                await respond_json(send, wire.error(None, told), 400)
                return
            if message.get("method") == "initialize":
                await self._handshake(scope, message, _again(body, receive), send)
                return
        lasts = message.__class__ is dict and message.get("method") == "subscriptions/listen"
        await self._leave(scope, _again(body, receive), send, lasts=lasts)

    async def _other(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "DELETE"):
            raise Stopped(405, b"", [(b"allow", b"GET, POST, DELETE")])
        if scope["method"] == "DELETE":
            self._sessions.pop(headers.get(_SESSION, b""), None)
            self._stop(headers.get(_SESSION, b""))
        await self._leave(scope, receive, send, lasts=scope["method"] == "GET")

    # ── the short way ────────────────────────────────────────────────────────────────────────

    def _peer_of(self, scope: Scope, headers: Headers, message: dict[str, Any]) -> Peer | None:
        """The client of a request that is shaped exactly as the protocol says; None: the SDK looks at it."""
        method, params = message.get("method"), message.get("params", {})
        accept = headers.get(b"accept", b"")
        plain = b"application/json" in accept and b"text/event-stream" in accept
        once = sum(name in _ROUTING or name.startswith(b"mcp-param-") for name, _ in scope["headers"])
        typed = headers.get(b"content-type", b"").partition(b";")[0].strip() == b"application/json"
        if not (plain and typed and message.get("jsonrpc") == "2.0" and params.__class__ is dict):
            return None
        if once != sum(name in headers for name in _ROUTING) or method.__class__ is not str:
            return None
        if wire.is_modern(params):
            return _modern(headers, method, params)
        name = headers.get(_SESSION, b"")
        session = self._sessions.pop(name, None)
        if session is not None:
            self._sessions[name] = session  # now the one that was used last
        if (
            session is None
            or session.version not in WHOLE_VERSIONS
            or headers.get(_VERSION, session.version.encode()) != session.version.encode()
        ):
            return None
        return session

    async def _short(self, peer: Peer, headers: Headers, message: dict[str, Any], receive: Receive, send: Send) -> bool:
        """Answer without the SDK where that is enough; False where it is not."""
        method, params, session = message["method"], message.get("params", {}), headers.get(_SESSION, b"")
        if "id" not in message:
            return await self._cancelled(peer, method, params, session, send)
        request_id = message["id"]
        if not wire.is_id(request_id) or (session, request_id) in self._asked:
            return False
        if method == "tools/call" and is_call(params) and self._is_plain(peer, params):
            work = self._door.call(Ongoing(peer, params["name"]), params)
        elif not has_plain_meta(params):
            return False
        elif method == "ping" and not peer.modern:
            await respond_json(send, {"jsonrpc": "2.0", "id": request_id, "result": {}})
            return True
        elif self._door.serves(method) and (peer.modern or not method.startswith("tasks/")):
            work = self._door.answer(peer, method, params)
        else:
            return False
        asked = asyncio.ensure_future(work)
        if session:
            self._asked[session, request_id] = asked
        try:
            await self._answer(peer, message, asked, receive, send)
        finally:
            self._asked.pop((session, request_id), None)
        return True

    def _is_plain(self, peer: Peer, params: dict[str, Any]) -> bool:
        """Whether a call is answered by one message: no progress on the way, no question back."""
        wants = "progressToken" in params.get("_meta", {})
        return not wants and not (self._door.asks_back and not peer.modern)

    async def _answer(
        self, peer: Peer, message: dict[str, Any], asked: asyncio.Task[dict[str, Any]], receive: Receive, send: Send
    ) -> None:
        request_id, method = message["id"], message["method"]
        await asyncio.wait((asked,), timeout=SOON_SECONDS)
        leaving = None if asked.done() or not peer.modern else asyncio.ensure_future(_left(receive, asked))
        try:
            result = await asked
        except Refused as refused:
            await respond_json(send, wire.error(request_id, refused), _status(peer, refused))
            return
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                asked.cancel()
                raise
            await respond(send, 202)  # a cancelled request is not answered
            return
        except Exception:
            log.exception("%s failed", method)
            told = Refused(INTERNAL_ERROR, "Internal error; the server's log has more.")
            await respond_json(send, wire.error(request_id, told))
            return
        finally:
            if leaving is not None:
                leaving.cancel()
        result = stamped(method, result) if peer.modern else result
        await respond_json(send, {"jsonrpc": "2.0", "id": request_id, "result": result})

    async def _cancelled(self, peer: Peer, method: str, params: dict[str, Any], session: bytes, send: Send) -> bool:
        """Stop a request of the handshake era whose client gave up."""
        named: Any = params.get("requestId")
        if peer.modern or method != "notifications/cancelled" or not wire.is_id(named):
            return False
        asked = self._asked.get((session, named))
        if asked is None:
            return False
        asked.cancel()
        await respond(send, 202)
        return True

    # ── sessions of the handshake era ────────────────────────────────────────────────────────

    async def _handshake(self, scope: Scope, message: dict[str, Any], receive: Receive, send: Send) -> None:
        """Let the SDK shake hands, and remember whose session it is."""
        made: list[bytes] = []

        async def watched(part: Any) -> None:
            if part["type"] == "http.response.start" and part["status"] == 200:
                made.extend(value for name, value in part["headers"] if name.lower() == _SESSION)
            await send(part)

        await self._sdk(scope, receive, watched)
        params: Any = message.get("params")
        if made:
            known = is_handshake(params)
            client = describe_client(params.get("clientInfo"), made[0].decode("latin-1")) if known else ""
            peer = Peer(negotiated(params), params["capabilities"], client=client) if known else Peer("")
            await self._remember(made[0], peer, scope)

    async def _remember(self, session: bytes, peer: Peer, scope: Scope) -> None:
        """Keep a session; the one that is used least recently makes room."""
        self._sessions[session] = peer
        if len(self._sessions) > MOST_SESSIONS:
            oldest = next(iter(self._sessions))
            del self._sessions[oldest]
            self._stop(oldest)
            headers = [(name, value) for name, value in scope["headers"] if name in (b"host", b"accept")]
            ending = {**scope, "method": "DELETE", "headers": [*headers, (_SESSION, oldest)]}
            await self._sdk(ending, _nothing, _nowhere)

    def _stop(self, session: bytes) -> None:
        """Stop the calls of a session that has ended."""
        for (whose, _), asked in tuple(self._asked.items()):
            if whose == session:
                asked.cancel()


def _modern(headers: Headers, method: str, params: dict[str, Any]) -> Peer | None:
    """The client of a request of the stateless era whose headers say what its body says."""
    if headers.get(_VERSION) != MODERN_VERSION.encode() or headers.get(_METHOD) != method.encode():
        return None
    named = _NAMED.get(method)
    if named is not None:
        value = params.get(named)
        if value.__class__ is not str or headers.get(_NAME) != value.encode() or not value.isprintable():
            return None
    return modern_peer(params["_meta"])


def _status(peer: Peer, refused: Refused) -> int:
    """The status of an error, which only the stateless era has."""
    if not peer.modern:
        return 200
    return {wire.METHOD_NOT_FOUND: 404, INTERNAL_ERROR: 200}.get(refused.code, 400)


async def _left(receive: Receive, asked: asyncio.Task[dict[str, Any]]) -> None:
    """Stop the work once the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
    asked.cancel()


def _again(body: bytes, receive: Receive) -> Receive:
    """Give a body once more, and then what really comes."""
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Any:
        return first.pop() if first else await receive()

    return replayed


def _shown(scope: Scope) -> None:
    """Tell the connection of a request that its client has the token."""
    shown = scope.get("state", {}).get(SHOWN)
    if shown is not None:
        shown()


def _hushed(send: Send) -> Send:
    """Say nothing of a start that a person broke off: no fault of anything."""

    async def said(part: Any) -> None:
        broken_off = isinstance(sys.exc_info()[1], asyncio.CancelledError)
        await send({**part, "message": ""} if broken_off and "message" in part else part)

    return said


async def _cut(send: Send) -> None:
    """End the response of a request that is cut off by the end of the server; nothing where it has ended."""
    with suppress(RuntimeError):  # it has begun
        await respond(send, 503, b"The server ends.\n")
    with suppress(RuntimeError):  # it has ended
        await send(_LAST)


async def _nothing() -> Any:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _nowhere(_: Any) -> None:
    return


# ── serving ──────────────────────────────────────────────────────────────────────────────────


def application(door: Door, guard: Guard) -> tuple[Front, Any]:
    """Make the whole application; the second part tells listeners when lists change."""
    from mcp.server.transport_security import TransportSecuritySettings

    from handrail.front.mcp.server import SdkServer

    sdk = SdkServer(door)
    door.news.tell = sdk.resources_changed
    app = sdk.server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=guard.max_bytes,
        session_idle_timeout=None,
        max_sessions=None,
        # The guard has checked both, by stricter rules.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return Front(door, app, guard), sdk


async def serve(opening: Opening, address: str, token_file: str | None) -> None:
    """Listen until the process is told to end."""
    import uvicorn

    from handrail.front.mcp.connections import Connections, Listening, protocol, room
    from handrail.front.mcp.token import bearer_token, kept_in
    from handrail.front.mcp.watch import watching

    host, port = place(address)
    listener = listening(host, port)
    kept = kept_in(token_file, os.environ)
    guard = guard_for(host, bearer_token(token_file, os.environ))
    if kept is not None:
        sys.stderr.write(f"the token of the first start still counts; it is kept in {kept}\n")
    if host not in LOOPBACK and not host.startswith("127."):
        sys.stderr.write(f"{host} can be reached from other machines, and what is said is not encrypted\n")
    connections = Connections(room())
    async with Door(opening) as door:
        front, sdk = application(door, guard)
        config = uvicorn.Config(
            front, host, port, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=1,
            ws="none",  # an upgrade would come past the guard
            http=protocol(connections),
            backlog=max(1, min(128, connections.most // 8)),  # so many are taken before any of them can make room
        )  # fmt: skip
        server = Listening(config, front.end)
        async with watching(door, sdk.changed), connections.swept():
            telling = asyncio.ensure_future(_tell(server, host, listener))
            await server.serve(sockets=[listener])
            telling.cancel()


async def _tell(server: Any, host: str, listener: socket.socket) -> None:
    """Say where it listens, once it does."""
    while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
        await asyncio.sleep(0.005)
    listener.listen(BACKLOG)  # uvicorn's own number is how many are taken at once; more than that may wait
    port = server.servers[0].sockets[0].getsockname()[1]
    sys.stderr.write(f"listening on http://{f'[{host}]' if ':' in host else host}:{port}{PATH}\n")
    sys.stderr.flush()

"""What stands before every HTTP request: Host, Origin, bearer token, size and strict JSON. Plain ASGI, no framework."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

from handrail.front.mcp import wire
from handrail.front.mcp.wire import MAX_MESSAGE_BYTES

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = dict[bytes, bytes]

BODY_SECONDS = 30.0
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_ONCE = frozenset({b"host", b"origin", b"authorization", b"content-length"})
_ORIGIN = re.compile(rb"https?://([^/?#@\\\s]+)", re.IGNORECASE)
_JSON = (b"content-type", b"application/json")


class Stopped(Exception):
    """A request that goes no further, and how it is answered."""

    def __init__(self, status: int, body: bytes = b"", headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(status)
        self.status, self.body, self.headers = status, body, list(headers)


@dataclass(frozen=True, slots=True)
class Guard:
    """Who may ask, and how much."""

    token: bytes
    hosts: frozenset[str]
    literals: bool = False  # any address as Host: a page cannot be tricked into one by its name server
    max_bytes: int = MAX_MESSAGE_BYTES

    def check(self, headers: Headers, raw: Iterable[tuple[bytes, bytes]]) -> None:
        """Stop a request that has no business here; nothing of its body was read by now."""
        names = [name for name, _ in raw if name in _ONCE]
        if len(names) != len(set(names)):
            raise Stopped(403, b"A header that decides stands there twice.\n")
        if not self._known(_host(headers.get(b"host", b""))):
            raise Stopped(403, b"This Host is not served here.\n")
        origin = headers.get(b"origin")
        if origin is not None and not self._same(_origin(origin), headers):
            raise Stopped(403, b"This Origin may not ask here.\n")
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self.token):
            raise Stopped(401, b"A bearer token is needed.\n", [(b"www-authenticate", b"Bearer")])
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 15 or int(length) > self.max_bytes:
            raise too_large(self.max_bytes)

    def _known(self, host: str) -> bool:
        if host in self.hosts:
            return True
        if not self.literals:
            return False
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True

    def _same(self, origin: str, headers: Headers) -> bool:
        """Whether a page may ask: of this machine, or of the very address that is asked; of no other address."""
        return origin in self.hosts or (self.literals and origin != "" and origin == _host(headers.get(b"host", b"")))

    async def body(self, receive: Receive) -> bytes:
        """Read a body, as large as may be and no slower than may be."""
        try:
            async with asyncio.timeout(BODY_SECONDS):
                message = await receive()
                if message.get("more_body"):
                    return await self._pieces(receive, message)
        except TimeoutError:
            raise Stopped(408, b"", [(b"connection", b"close")]) from None
        if message["type"] == "http.disconnect":
            raise Stopped(400)
        data: bytes = message.get("body", b"")
        if len(data) > self.max_bytes:
            raise too_large(self.max_bytes)
        return data

    async def _pieces(self, receive: Receive, message: MutableMapping[str, Any]) -> bytes:
        read = bytearray(message.get("body", b""))
        while message.get("more_body"):
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Stopped(400)
            read += message.get("body", b"")
            if len(read) > self.max_bytes:
                raise too_large(self.max_bytes)
        return bytes(read)


def guard_for(host: str, token: str) -> Guard:
    """Make the guard of a server that listens at a host."""
    if host in LOOPBACK:
        return Guard(token.encode(), LOOPBACK)
    return Guard(token.encode(), LOOPBACK | {host.lower(), socket.gethostname().lower()}, literals=True)


def parsed(body: bytes) -> Any:
    """Read the one message of a body strictly; a call whose arguments alone are crooked is refused by their gate."""
    try:
        return wire.parse(body)
    except ValueError as error:
        reason = str(error)
    request_id, call = wire.crooked(body)
    if call is not None:
        return call
    raise Stopped(400, wire.dump(wire.error(request_id, wire.unreadable(request_id, reason))), [_JSON])


def too_large(most: int) -> Stopped:
    """Write the answer to a body that is too large."""
    return Stopped(413, b"A message is %d bytes at most.\n" % most, [(b"connection", b"close")])


def _host(value: bytes) -> str:
    text = value.decode("latin-1").strip().lower()
    if text.startswith("["):
        inner, closed, port = text[1:].partition("]")
        return inner if closed and (not port or port.startswith(":")) else ""
    return text.rpartition(":")[0] if text.count(":") == 1 else text


def _origin(value: bytes) -> str:
    # Not urlsplit: whether it takes `[::1]evil` for an address hangs on the version of Python.
    found = _ORIGIN.fullmatch(value)
    return _host(found[1]) if found else ""


async def respond(send: Send, status: int, body: bytes = b"", headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """Send a whole response."""
    told = [(b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": body})


async def respond_json(send: Send, message: Any, status: int = 200) -> None:
    """Send a JSON-RPC message."""
    await respond(send, status, wire.dump(message), [_JSON])

"""The filtering proxy of confined programs: each connection is judged, resolved, vetted and pinned like any other.

It serves a listener that was made inside the program's own network. `CONNECT host:port` and plain requests such as
`GET http://…` are understood; everything else is refused, and what a program sends never decides where a second request
goes. A plain request by a method that is not for reading is judged as sending; what goes through a tunnel nobody sees.

Where a person is asked for a host, the connection is held until the answer; no name is looked up before it. More than
`MAX_UNASKED_BYTES` sent to such a host are asked for once more, as sending.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from handrail import urls
from handrail.errors import Code, Problem
from handrail.net.gate import Gate, Unresolved, is_address
from handrail.urls import Url
from handrail.words import Touch, TouchKind

MAX_HEAD = 64 * 1024
MAX_OPEN, MAX_IN_ALL = 128, 10_000
HEAD_SECONDS, DIAL_SECONDS, IDLE_SECONDS = 30.0, 15.0, 600.0
CHUNK, MAX_TOLD = 64 * 1024, 1000
MAX_REFUSALS = 10  # hosts that a call's outcome names
MAX_UNASKED_BYTES = 256 * 1024  # sent to a host that a person allowed for reading

Judge = Callable[[Touch], None]  # raises the Problem that denies
Reach = Callable[[Touch], Awaitable[bool]]  # like Judge, and asks a person where policy asks; tells whether one was
Record = Callable[[str, Mapping[str, Any]], None]  # takes the kind of event and its fields when a connection has ended

_REQUEST = re.compile(rb"([A-Z]{1,20}) ([^\s]{1,8192}) HTTP/1\.[01]")
_READING = ("CONNECT", "GET", "HEAD")
# No folded line, no blank before the colon, no control character: servers read these in different ways.
_HEADER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*")
# About this connection alone; the next one has its own.
_ASKED = (Code.APPROVAL_DENIED, Code.APPROVAL_REQUIRED)
_HOP = {b"connection", b"proxy-connection", b"keep-alive", b"proxy-authorization", b"te", b"upgrade", b"host"}


@dataclass(slots=True)
class Tunnel:
    """One connection of a program: where to, how it ended, how much went through."""

    host: str = ""
    method: str = ""
    address: str = ""
    sent: int = 0
    received: int = 0
    problem: str = ""  # the code and text of what refused it or went wrong
    asked: bool = False  # a person allowed the host
    refused: bool = False  # by rules, settings or bounds: nothing was sent anywhere

    @property
    def kind(self) -> str:
        """The kind of event that records the connection."""
        return "net.refused" if self.refused else "net.connected"

    def told(self) -> dict[str, Any]:
        """The connection as an event tells it."""
        told: dict[str, Any] = {"host": self.host, "method": self.method, "address": self.address}
        told |= {"bytes_sent": self.sent, "bytes_received": self.received}
        return told | ({"problem": self.problem[:MAX_TOLD]} if self.problem else {})


@dataclass(slots=True)
class Proxy:
    """Serves one listener until it is closed."""

    gate: Gate
    judge: Judge
    record: Record = lambda _kind, _fields: None
    reach: Reach | None = None  # in place of `judge`, where people are asked for hosts
    tunnels: list[Tunnel] = field(default_factory=list)  # the last ones, ended or not
    count: int = 0
    refusals: dict[str, str] = field(default_factory=dict)  # host: the first problem that refused it
    unanswered: str = ""  # which host a person did not allow, and what to do about it
    _sent: dict[str, int] = field(default_factory=dict)  # bytes by host that was asked for
    _holds: int = 0  # connections that wait for a person now
    _held_since: float = 0.0
    _held: float = 0.0  # seconds in all, up to the last answer
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    async def serve(self, listener: socket.socket) -> None:
        """Begin to serve; the listener is ours from here on."""
        listener.setblocking(False)
        self._server = await asyncio.start_server(self._accept, sock=listener, limit=MAX_HEAD)

    async def close(self) -> None:
        """End every connection, and the listener."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tunnel = Tunnel()
        self.count += 1
        self.tunnels = [*self.tunnels[-99:], tunnel]
        full = len(self._tasks) >= MAX_OPEN
        self._tasks.add(task)
        try:
            if full or self.count > MAX_IN_ALL:
                many = f"{MAX_OPEN} connections at once" if full else f"{MAX_IN_ALL} connections in all"
                raise Problem(Code.RATE_LIMITED, f"More than {many}.")
            await self._serve(reader, writer, tunnel)
        except Problem as problem:
            tunnel.problem = f"{problem.code.value}: {problem.message}"
            tunnel.refused = problem.code is not Code.UPSTREAM_ERROR and not tunnel.address
            if problem.code not in (Code.UPSTREAM_ERROR, Code.CANCELLED):
                self._note_refusal(tunnel)
            if not tunnel.address:
                await _refuse(writer, problem)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError) as error:
            tunnel.problem = tunnel.problem or f"{type(error).__name__}"
        except asyncio.CancelledError:
            tunnel.problem = tunnel.problem or "the program ended first"
        except Exception as error:  # noqa: BLE001  what cannot be judged is refused, and on record as that
            tunnel.problem = f"{Code.INTERNAL.value}: {type(error).__name__}"
            tunnel.refused = not tunnel.address
            if tunnel.refused:
                self._note_refusal(tunnel)
            await _refuse(writer, Problem(Code.INTERNAL, "This connection could not be judged."))
        finally:
            self._tasks.discard(task)
            _drop(writer)
            if self.count <= MAX_IN_ALL + 1:  # the last one says that there are no more
                self.record(tunnel.kind, tunnel.told())

    def describe_refusals(self) -> list[str]:
        """Say once for each host that connections to it were refused, and why."""
        return [f"a connection to {host} was refused: {why}" for host, why in self.refusals.items()]

    def describe_unanswered(self) -> str:
        """Say which host a person did not allow, and what to do; empty where there was none."""
        return self.unanswered

    def held_seconds(self) -> float:
        """Count the seconds in which connections waited for a person."""
        return self._held + (time.monotonic() - self._held_since if self._holds else 0.0)

    def _note_refusal(self, tunnel: Tunnel) -> None:
        if len(self.refusals) < MAX_REFUSALS:
            self.refusals.setdefault(tunnel.host or "an unknown host", tunnel.problem[:MAX_TOLD])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tunnel: Tunnel) -> None:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        method, url, lines = _understood(head)
        tunnel.method, tunnel.host = method, url.authority
        await self._judged(url, reader, tunnel)
        request = b"" if method == "CONNECT" else _write_head(method, url, lines)
        await self._check_sent(tunnel, len(request))
        there, back = await self._dial(url, tunnel)
        try:
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                back.write(request)
                tunnel.sent += len(request)
            await _relay(reader, writer, there, back, tunnel, self._check_sent)
        finally:
            _drop(back)

    async def _judged(self, url: Url, reader: asyncio.StreamReader, tunnel: Tunnel) -> None:
        """Judge where a connection goes; hold it while a person is asked."""
        touch = Touch(TouchKind.NET_CONNECT, url.authority, unsafe=tunnel.method not in _READING)
        if self.reach is None:
            self.judge(touch)
            return
        if is_address(url.host):
            self.gate.check(url.host, url.host)  # nobody is asked for an address that is refused anyway
        tunnel.asked = await self._asked(self.reach, touch)
        if tunnel.asked and reader.at_eof():
            raise Problem(Code.CANCELLED, f"The program gave up before {url.authority} was allowed.")

    async def _asked(self, reach: Reach, touch: Touch) -> bool:
        """Judge a host and wait for a person where that needs one; note what kept the program from it."""
        with self._holding():
            try:
                return await reach(touch)
            except Problem as problem:
                if problem.code in _ASKED:
                    self._note_unanswered(touch, problem)
                raise
            except asyncio.CancelledError:
                self._note_unanswered(touch, None)
                raise

    @contextmanager
    def _holding(self) -> Iterator[None]:
        """Count the time of a person's answer apart from the program's."""
        if not self._holds:
            self._held_since = time.monotonic()
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            if not self._holds:
                self._held += time.monotonic() - self._held_since

    def _note_unanswered(self, touch: Touch, problem: Problem | None) -> None:
        if self.unanswered:
            return
        what = "wanted to send data to" if touch.unsafe else "reached for"
        if problem is not None and problem.code is Code.APPROVAL_DENIED:
            self.unanswered = f"{what} {touch.target}, which was refused: {problem.message}"
            return
        request = (problem.details.get("approval") or {}).get("id") if problem is not None else None
        named = f" (request {request})" if request else ""
        self.unanswered = (
            f"{what} {touch.target}, which a person must allow first{named}; repeat the same call when they have."
        )

    async def _check_sent(self, tunnel: Tunnel, size: int) -> None:
        """Ask for sending before more than a request's worth goes to a host that was asked for."""
        if self.reach is None or not tunnel.asked or tunnel.method not in _READING:
            return
        sent = self._sent[tunnel.host] = self._sent.get(tunnel.host, 0) + size
        if sent > MAX_UNASKED_BYTES:
            await self._asked(self.reach, Touch(TouchKind.NET_CONNECT, tunnel.host, unsafe=True))

    async def _addresses(self, url: Url) -> tuple[str, ...]:
        try:
            return await self.gate.addresses(url.host, url.port)
        except Unresolved as error:
            raise Problem(Code.UPSTREAM_ERROR, f"{error}.", host=url.host) from None

    async def _dial(self, url: Url, tunnel: Tunnel) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection to a vetted address, and look who answered."""
        error: Exception | None = None
        for address in await self._addresses(url):
            try:
                async with asyncio.timeout(DIAL_SECONDS):
                    reader, writer = await asyncio.open_connection(address, url.port, limit=CHUNK)
            except (OSError, TimeoutError) as failed:
                error = failed
                continue
            peer = str(writer.get_extra_info("peername")[0])
            if self.gate.refused(peer) is not None:
                _drop(writer)
                raise Problem(Code.HOST_NOT_ALLOWED, f"{peer} answered for {url.host}, which was not vetted.")
            tunnel.address = peer
            return reader, writer
        raise Problem(Code.UPSTREAM_ERROR, f"{url.authority} cannot be reached: {error}.", host=url.host)


def _understood(head: bytes) -> tuple[str, Url, list[bytes]]:
    """Read the head of a request: the method, where it goes, and the headers that go along."""
    first, *lines = head[:-4].split(b"\r\n")
    found = _REQUEST.fullmatch(first)
    if found is None or not all(map(_HEADER.fullmatch, lines)):
        raise Problem(Code.INVALID_ARGS, "This is no request that a proxy understands.")
    method, target = found[1].decode(), found[2].decode("ascii", "replace")
    if method == "CONNECT":
        if not re.fullmatch(r"(\[[^\]]+\]|[^:/?#]+):[0-9]{1,5}", target):
            raise Problem(Code.INVALID_ARGS, "CONNECT needs host:port.")
        return method, urls.parse(f"https://{target}"), []
    url = urls.parse(target)
    if url.scheme != "http":
        raise Problem(Code.INVALID_ARGS, "https goes through CONNECT.")
    return method, url, [line for line in lines if line.partition(b":")[0].lower() not in _HOP]


def _write_head(method: str, url: Url, lines: list[bytes]) -> bytes:
    """Write the head of a plain request as the next server is to read it."""
    first = f"{method} {url.target} HTTP/1.1\r\nHost: {_host(url)}\r\nConnection: close\r\n".encode()
    return first + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def _host(url: Url) -> str:
    return url.origin.partition("://")[2]


async def _relay(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    there: asyncio.StreamReader,
    back: asyncio.StreamWriter,
    tunnel: Tunnel,
    check_sent: Callable[[Tunnel, int], Awaitable[None]],
) -> None:
    """Carry bytes both ways until both sides are done, or neither says anything for a long time."""

    async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter, name: str) -> None:
        while data := await _heard(source, tunnel):
            if name == "sent":
                await check_sent(tunnel, len(data))
            setattr(tunnel, name, getattr(tunnel, name) + len(data))
            sink.write(data)
            await sink.drain()
        if sink.can_write_eof():
            with suppress(OSError):
                sink.write_eof()

    await asyncio.gather(carry(reader, back, "sent"), carry(there, writer, "received"))


async def _heard(source: asyncio.StreamReader, tunnel: Tunnel) -> bytes:
    """What one side says next; it may be silent for as long as the other one is not."""
    while True:
        before = tunnel.sent, tunnel.received
        try:
            return await asyncio.wait_for(source.read(CHUNK), IDLE_SECONDS)
        except TimeoutError:
            if before == (tunnel.sent, tunnel.received):
                raise


async def _refuse(writer: asyncio.StreamWriter, problem: Problem) -> None:
    """Tell the program why; its own output will show it."""
    status = "403 Forbidden" if problem.code in (Code.HOST_NOT_ALLOWED, *_ASKED) else "502 Bad Gateway"
    text = f"handrail: {problem.code.value}: {problem.message}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    with suppress(OSError):
        writer.write(head.encode() + text)
        await writer.drain()


def _drop(writer: asyncio.StreamWriter) -> None:
    with suppress(Exception):
        writer.close()

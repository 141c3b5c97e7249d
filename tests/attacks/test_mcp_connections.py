"""MCP over HTTP with more connections than it can bear: who has the token is answered, who asks nothing is closed."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from attacks._mcp_http import META, TOKEN, Server, call, ended, serving
from handrail.front.mcp.connections import ENOUGH_FILES, HEAD_SECONDS, MOST, Connection, Connections, room
from handrail.front.mcp.http import SHOWN

FILES = 256


@contextmanager
def held(server: Server, count: int) -> Iterator[list[socket.socket]]:
    """Connections that ask nothing: silent ones, and half of the lines before a body."""
    with ExitStack() as stack:
        made = []
        for number in range(count):
            there = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10))
            if number % 2:
                there.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            made.append(there)
        yield made


def listening(server: Server) -> socket.socket:
    """A client that has the token and listens for changes; its stream has begun."""
    params = {"notifications": {"toolsListChanged": True}, "_meta": META}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    body = json.dumps(asked).encode()
    there = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    there.sendall(server.head(len(body), Mcp_Method="subscriptions/listen", Mcp_Name=None) + body)
    begun = b""
    while b"acknowledged" not in begun:
        piece = there.recv(65536)
        assert piece, begun
        begun += piece
    return there


def is_open(there: socket.socket) -> bool:
    """Whether the other end has not closed it."""
    there.setblocking(False)
    try:
        return there.recv(65536) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def test_connections_that_ask_nothing_keep_no_client_out(tmp_path: Path) -> None:
    """More than the process may have files: whoever has the token is answered, and keeps the stream that it had."""
    with serving(tmp_path, FILES) as server, listening(server) as stream:
        with held(server, 2 * FILES) as idle:
            assert [server.post(call()).status for _ in range(5)] == [200] * 5
            files = len(os.listdir(f"/proc/{server.process.pid}/fd"))
            assert (files < FILES * 3 // 4, is_open(idle[0]), is_open(idle[-1]), is_open(stream)) == (
                True,
                False,
                True,
                True,
            )
        assert server.post(call()).status == 200
        assert ended(server.process) == ""


def test_want_of_files_is_told_once_and_ends(tmp_path: Path) -> None:
    """Not as a traceback for each connection that waits; those without the token make room."""
    with serving(tmp_path, FILES) as server:
        assert server.post(call()).status == 200
        few = len(os.listdir(f"/proc/{server.process.pid}/fd")) + 15
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (few, few))
        with held(server, 40):
            assert server.post(call()).status == 200
        said = ended(server.process).splitlines()
    assert said == [
        "handrail mcp: no connection can be taken (Too many open files), so those without the token are closed"
    ]


def test_a_server_with_open_streams_ends_without_a_word(tmp_path: Path) -> None:
    """Of both eras; the clients see a whole response."""
    with serving(tmp_path) as server:
        stream = listening(server)
        rest = b""
        with stream, session_stream(server) as older:
            assert ended(server.process) == ""
            for there in (stream, older):
                while piece := there.recv(65536):
                    rest += piece
        assert rest.count(b"0\r\n\r\n") == 2


def session_stream(server: Server) -> socket.socket:
    """A client of the handshake era that listens."""
    info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": info}).encode()
    none: dict[str, str | None] = {"Mcp_Method": None, "Mcp_Name": None, "MCP_Protocol_Version": None}
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as there:
        there.sendall(server.head(len(body), Connection="close", **none) + body)
        answer = b""
        while piece := there.recv(65536):
            answer += piece
    session = answer.lower().partition(b"mcp-session-id: ")[2].split()[0].decode()
    there = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    head = server.head(None, Mcp_Session_Id=session, **{**none, "MCP_Protocol_Version": "2025-11-25"})
    there.sendall(head.replace(b"POST", b"GET", 1))
    assert there.recv(65536).startswith(b"HTTP/1.1 200")
    return there


# ── which ones are closed ────────────────────────────────────────────────────────────────────


class Place:
    """A server in this process; a request of `/wait` lasts, and one with a token shows it."""

    def __init__(self, most: int) -> None:
        self.connections = Connections(most)
        self.waiting = asyncio.Event()
        self._config = uvicorn.Config(self, log_level="critical", ws="none", timeout_keep_alive=100)
        self.state, self.port = ServerState(), 0
        self.made: list[Any] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if dict(scope["headers"]).get(b"authorization") == TOKEN.encode():
            scope["state"][SHOWN]()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] == "/wait":
            self.waiting.set()
            while (await receive())["type"] != "http.disconnect":
                pass
        await send({"type": "http.response.body", "body": b"answered"})

    def make(self) -> Connection:
        """Make a connection."""
        made = Connection(self.connections, config=self._config, server_state=self.state, app_state={})
        self.made.append(made)
        return made

    async def open(self, sent: bytes, *, answered: bool = False) -> asyncio.StreamWriter:
        """Connect, send, and read an answer where one comes; the server has the connection after that."""
        number = len(self.made)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        writer.write(sent)
        await writer.drain()
        while len(self.made) == number or self.made[number].transport is None:
            await asyncio.sleep(0)
        if answered:
            await reader.readuntil(b"0\r\n\r\n")
        return writer

    def closed(self) -> list[bool]:
        """Which of them the server closes, in the order in which they were opened."""
        return [connection.transport.is_closing() for connection in self.made]


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    """One that bears five connections."""
    made = Place(5)
    server = await asyncio.get_running_loop().create_server(made.make, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()
    for connection in made.made:
        connection.transport.abort()
    for writer in made.writers:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    while made.state.connections or made.state.tasks:
        await asyncio.sleep(0)


async def test_who_sends_no_whole_head_in_time_is_closed(place: Place) -> None:
    """At first or after an answer, with the token or without; a request that lasts may last."""
    shown = b"Host: a\r\nAuthorization: " + TOKEN.encode() + b"\r\n\r\n"
    await place.open(b"POST / HTTP/1.1\r\nHost:")
    await place.open(b"")
    again = await place.open(b"GET / HTTP/1.1\r\n" + shown, answered=True)
    again.write(b"GET / HT")
    await place.open(b"GET /wait HTTP/1.1\r\n" + shown)
    await place.waiting.wait()
    start = asyncio.get_running_loop().time()
    place.connections.sweep(start)
    place.connections.sweep(start + HEAD_SECONDS - 1)
    early = place.closed()
    place.connections.sweep(start + HEAD_SECONDS + 1)
    assert (early, place.closed()) == ([False] * 4, [True, True, True, False])


async def test_the_oldest_without_the_token_makes_room(place: Place) -> None:
    """Whatever else it asked; one that has shown the token stays, however old it is."""
    head = b"GET / HTTP/1.1\r\nHost: a\r\n"
    await place.open(head + b"Authorization: " + TOKEN.encode() + b"\r\n\r\n", answered=True)
    await place.open(head + b"\r\n", answered=True)
    for _ in range(3):
        await place.open(b"GET")
    before = place.closed()
    for _ in range(2):
        await place.open(b"")
    assert (before, place.closed()) == ([False] * 5, [False, True, True, False, False, False, False])


def test_connections_take_half_of_the_files_that_the_process_may_have() -> None:
    """After it was given more, where that is allowed and no more than it needs."""
    former = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, former[1]))
        most = room()
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, former)
    expected = ENOUGH_FILES if former[1] == resource.RLIM_INFINITY else min(ENOUGH_FILES, former[1])
    assert (soft, most) == (expected, min(MOST, expected // 2))

"""The proxy of confined programs refuses what the http tools refuse, and carries what is allowed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from handrail.errors import Code, Problem
from handrail.net.gate import Gate
from handrail.net.proxy import Proxy
from handrail.policy.patterns import host_matches
from handrail.words import Touch
from serving import Asked, Names, Server, answer, serving

GOOD = "127.0.0.2"


@dataclass
class Field:
    """A proxy, a canary that must hear nothing, and a good server."""

    proxy: Proxy
    port: int
    canary: Server
    good: Server
    names: Names
    records: list[Any]

    async def say(self, text: str | bytes) -> bytes:
        """Send bytes to the proxy and read all that comes back."""
        data = text.encode("latin-1") if isinstance(text, str) else text
        data = data.replace(b"{c}", str(self.canary.port).encode()).replace(b"{g}", str(self.good.port).encode())
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        writer.write_eof()
        try:
            async with asyncio.timeout(10):
                return await reader.read()
        finally:
            writer.close()


@asynccontextmanager
async def field(*hosts: str) -> AsyncIterator[Field]:
    """Put everything up; `hosts` are those a program may reach, every one where none is named."""
    names = Names(good__test=[[GOOD]], inner__test=[["127.0.0.1"]])
    records: list[Any] = []

    def judge(touch: Touch) -> None:
        if not any(host_matches(host, touch.target) for host in hosts or ("*:*",)):
            raise Problem(Code.HOST_NOT_ALLOWED, f"{touch.target} is not an allowed host")

    proxy = Proxy(Gate([f"{GOOD}/32"], [], names), judge, lambda kind, fields: records.append({"kind": kind, **fields}))
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    async with serving() as canary, serving(GOOD) as good:
        canary.on("/", "secret")
        good.on("/", "fine")
        await proxy.serve(listener)
        try:
            yield Field(proxy, port, canary, good, names, records)
        finally:
            await proxy.close()


REFUSED = [
    *(
        f"CONNECT {host}:{{c}} HTTP/1.1\r\n\r\n"
        for host in ("127.0.0.1", "127.1", "2130706433", "0x7f.1", "[::1]", "inner.test")
    ),
    *(
        f"CONNECT {host} HTTP/1.1\r\n\r\n"
        for host in ("[::ffff:127.0.0.1]:{c}", "good.test@127.0.0.1:{c}", "127.0.0.1", "")
    ),
    *(
        f"GET {url} HTTP/1.1\r\nHost: good.test\r\n\r\n"
        for url in ("http://127.0.0.1:{c}/", "http://inner.test:{c}/", "/")
    ),
    *(
        f"GET {url} HTTP/1.1\r\n\r\n"
        for url in ("https://good.test/", "ftp://good.test/", "http://good.test@127.0.0.1:{c}/")
    ),
    "CONNECT metadata.google.internal:80 HTTP/1.1\r\n\r\n",
    "CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n",
    "GET http://127.0.0.1:{c}/ HTTP/2\r\n\r\n",
    "\x16\x03\x01\x02\x00\r\n\r\n",
    "\x05\x01\x00\r\n\r\n",
]


@pytest.mark.parametrize("text", REFUSED)
async def test_no_request_reaches_the_canary(text: str) -> None:
    """The program is told why, the connection is on record, and the good host still answers."""
    async with field() as found:
        said = await found.say(text)
        assert found.canary.connections == 0
        assert said.startswith((b"HTTP/1.1 403", b"HTTP/1.1 502"))
        assert found.records[0]["problem"].startswith(("HOST_NOT_ALLOWED", "INVALID_ARGS", "UPSTREAM_ERROR"))
        assert b"fine" in await found.say("GET http://good.test:{g}/ HTTP/1.1\r\n\r\n")


async def test_a_host_that_is_not_allowed_is_refused_before_it_is_looked_up() -> None:
    """No name leaks out through the resolver."""
    async with field("other.test:1") as found:
        said = await found.say("CONNECT good.test:{g} HTTP/1.1\r\n\r\n")
        assert b"403 Forbidden" in said
        assert b"HOST_NOT_ALLOWED" in said
        assert (found.names.asked, found.good.connections) == ([], 0)


async def test_a_tunnel_carries_bytes_both_ways_and_is_counted() -> None:
    """CONNECT, then whatever the program says."""
    async with field() as found:
        said = await found.say("CONNECT good.test:{g} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: good.test\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200")
        assert said.endswith(b"fine")
        await _until(lambda: bool(found.records))
        record = found.records[0]
    assert (record["host"], record["method"], record["address"]) == (f"good.test:{found.good.port}", "CONNECT", GOOD)
    assert (record["bytes_sent"], "problem" in record) == (len("GET / HTTP/1.1\r\nHost: good.test\r\n\r\n"), False)
    assert record["bytes_received"] > 0


async def test_a_plain_request_goes_on_with_the_urls_own_host() -> None:
    """What frames or names the connection is the proxy's; the body goes along."""
    async with field() as found:

        async def echo(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(answer(f"{asked.method} {asked.target} {asked.headers} {asked.body!r}".encode()))

        found.good.answers["/p"] = echo
        said = await found.say(
            "POST http://good.test:{g}/p?q=1 HTTP/1.1\r\nHost: evil.test\r\nProxy-Authorization: x\r\nX-Mine: y\r\n"
            "Connection: keep-alive\r\nContent-Length: 5\r\n\r\nhello"
        )
        asked = found.good.asked[0]
    assert (asked.method, asked.target, asked.body) == ("POST", "/p?q=1", b"hello")
    assert asked.headers == {
        "host": f"good.test:{found.good.port}", "connection": "close", "x-mine": "y", "content-length": "5"
    }  # fmt: skip
    assert b"evil.test" not in said


async def test_rebinding_between_two_connections_is_refused() -> None:
    """Each connection is resolved and vetted on its own."""
    async with field() as found:
        found.names.set("moves.test", [GOOD], ["127.0.0.1"])
        assert b"200 Connection" in await found.say("CONNECT moves.test:{g} HTTP/1.1\r\n\r\n")
        assert b"403 Forbidden" in await found.say("CONNECT moves.test:{c} HTTP/1.1\r\n\r\n")
        assert found.canary.connections == 0


async def test_a_head_without_end_is_given_up() -> None:
    """Bounded in bytes; nothing is dialled."""
    async with field() as found:
        await found.say(b"GET http://good.test/ HTTP/1.1\r\n" + b"X: y\r\n" * 20_000)
        await _until(lambda: bool(found.records))
        assert found.records[0]["problem"]
        assert found.good.connections == 0


async def test_closing_ends_every_tunnel() -> None:
    """Nothing of a program's connections is left when it ends."""
    async with field() as found:
        reader, writer = await asyncio.open_connection("127.0.0.1", found.port)
        writer.write(f"CONNECT good.test:{found.good.port} HTTP/1.1\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        await found.proxy.close()
        assert await reader.read() == b""
        writer.close()
        assert found.records[0]["problem"] == "the program ended first"


async def _until(done: Any) -> None:
    async with asyncio.timeout(5):
        while not done():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    "line", ["Host : evil.test", " Host: evil.test", "X: a\r\n\tb", "Ho\0st: x", "Host", "X: a\x01"]
)
async def test_headers_that_servers_read_in_different_ways_are_refused(line: str) -> None:
    """What is not plain is not handed on."""
    async with field() as found:
        said = await found.say(f"GET http://good.test:{{g}}/ HTTP/1.1\r\nA: b\r\n{line}\r\n\r\n")
        assert (said[:12], found.good.connections) == (b"HTTP/1.1 502", 0)


async def test_a_judge_that_fails_refuses_and_is_on_record() -> None:
    """An error is never a yes."""
    async with field() as found:

        def judge(_: Touch) -> None:
            raise ZeroDivisionError

        found.proxy.judge = judge
        said = await found.say("GET http://good.test:{g}/ HTTP/1.1\r\n\r\n")
        await _until(lambda: bool(found.records))
    assert (said[:12], found.good.connections) == (b"HTTP/1.1 502", 0)
    assert found.records[0]["problem"] == "INTERNAL: ZeroDivisionError"


async def test_connections_in_all_are_bounded_and_so_is_what_is_recorded_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program cannot fill the journal."""
    monkeypatch.setattr("handrail.net.proxy.MAX_IN_ALL", 3)
    async with field() as found:
        said = [b""] * 8
        for at in range(8):
            with suppress(ConnectionResetError):  # refused before it was read
                said[at] = await found.say("GET http://good.test:{g}/ HTTP/1.1\r\n\r\n")
        await _until(lambda: found.proxy.count == 8 and not found.proxy._tasks)
    assert [b"fine" in text for text in said] == [True] * 3 + [False] * 5
    assert ["problem" in record for record in found.records] == [False] * 3 + [True]
    assert found.records[3]["problem"] == "RATE_LIMITED: More than 3 connections in all."


async def test_one_side_may_be_silent_while_the_other_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long download goes on though the program has nothing more to say; silence of both ends it."""
    monkeypatch.setattr("handrail.net.proxy.IDLE_SECONDS", 0.3)
    async with field() as found:

        async def slow(_: Asked, writer: asyncio.StreamWriter) -> None:
            for _n in range(10):
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.08)
            await asyncio.sleep(30)

        found.good.answers["/slow"] = slow
        reader, writer = await asyncio.open_connection("127.0.0.1", found.port)
        writer.write(f"GET http://good.test:{found.good.port}/slow HTTP/1.1\r\n\r\n".encode())
        async with asyncio.timeout(10):
            assert await reader.read() == b"x" * 10
        writer.close()
        await _until(lambda: bool(found.records))
    assert found.records[0]["problem"] == "TimeoutError"


class Person:
    """A person who is asked for hosts: says yes to reading, and to sending where told so."""

    def __init__(self, *, sending: bool = False) -> None:
        self.sending = sending
        self.asked: list[tuple[str, bool]] = []

    async def reach(self, touch: Touch) -> bool:
        self.asked.append((touch.target.partition(":")[0], touch.unsafe))
        if touch.unsafe and not self.sending:
            raise Problem(Code.APPROVAL_DENIED, "no.")
        return True


@pytest.mark.parametrize("text", REFUSED)
async def test_no_request_reaches_the_canary_after_a_yes(text: str) -> None:
    """Whoever says yes to everything opens no way inside."""
    async with field() as found:
        found.proxy.reach = Person(sending=True).reach
        await found.say(text)
        assert found.canary.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "169.254.169.254", "10.0.0.1"])
async def test_nobody_is_asked_for_an_inner_address(host: str) -> None:
    """It is refused before."""
    async with field() as found:
        person = Person()
        found.proxy.reach = person.reach
        assert b"403 Forbidden" in await found.say(f"CONNECT {host}:{{c}} HTTP/1.1\r\n\r\n")
        assert (person.asked, found.canary.connections) == ([], 0)


async def test_what_many_tunnels_send_to_one_host_counts_together() -> None:
    """Parts of a large text, each small, ask as sending as the whole would."""
    async with field() as found:
        person = Person()
        found.proxy.reach = person.reach
        request = f"POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: 100000\r\n\r\n{'x' * 100_000}"
        for _ in range(3):
            writer_side, _ = await _tunnel(found, request)
            writer_side.close()
        await _until(lambda: len(found.records) == 3)
    assert person.asked == [("good.test", False)] * 3 + [("good.test", True)]
    sent = [record["bytes_sent"] for record in found.records]
    assert sum(sent) <= 256 * 1024
    assert "wanted to send data to good.test" in found.proxy.describe_unanswered()


async def test_what_heads_of_plain_requests_carry_counts_as_sent() -> None:
    """A text cut into headers of many small GETs asks as sending as a body would."""
    async with field() as found:
        person = Person()
        found.proxy.reach = person.reach
        carried = "".join(f"X-{number}: {'x' * 6000}\r\n" for number in range(8))
        request = f"GET http://good.test:{found.good.port}/ HTTP/1.1\r\n{carried}\r\n"
        answers = []
        for _ in range(8):
            reader, writer = await asyncio.open_connection("127.0.0.1", found.port)
            writer.write(request.encode())
            async with asyncio.timeout(10):
                answers.append(await reader.read())
            writer.close()
        assert len(found.good.asked) == 5
    assert sum(b"200 Said" in answer for answer in answers) == 5
    assert b"403 Forbidden" in answers[-1]
    assert ("good.test", True) in person.asked


async def _tunnel(found: Field, text: str) -> tuple[asyncio.StreamWriter, bytes]:
    """Send through a tunnel and wait for an answer, or for its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", found.port)
    writer.write(f"CONNECT good.test:{found.good.port} HTTP/1.1\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    writer.write(text.encode())
    async with asyncio.timeout(10):
        return writer, await reader.read(100)

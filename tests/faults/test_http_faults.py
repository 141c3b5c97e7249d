"""Servers that break: each call ends in time, with the right code, in bounded memory, after the right tries."""

from __future__ import annotations

import asyncio
import gzip
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from conftest import Opens
from handrail import Runtime
from handrail.words import Outcome
from serving import Asked, Names, Serve, Server, answer, http_settings, serving

MIB = 1024 * 1024
Open = Callable[..., Awaitable[tuple[Runtime, Server]]]


@pytest.fixture
async def broken(opens: Opens) -> AsyncIterator[Open]:
    """A server that a runtime may reach; the runtime never really waits between tries."""
    held: list[Any] = []

    async def start(**http: Any) -> tuple[Runtime, Server]:
        server = serving()
        made = await server.__aenter__()
        post = {"effect": "allow", "touch": "net.connect"}
        runtime = opens(config={**http_settings(f"*:{made.port}", **http), "rules": [post]}, mode="headless")
        held.extend([server, runtime])
        await runtime.__aenter__()
        runtime.parts.outside.network.sleep = asyncio.sleep if http.get("max_retries") == 0 else _at_once
        return runtime, made

    yield start
    for item in reversed(held):
        await item.__aexit__(None, None, None)


async def _at_once(_: float) -> None:
    await asyncio.sleep(0)


async def call(runtime: Runtime, server: Server, path: str, tool: str = "http_fetch", /, **args: Any) -> Outcome:
    """Call a tool on a path of the server."""
    return await runtime.call(tool, {"url": server.url(path), **args})


def code(outcome: Outcome) -> str | None:
    """The code of a failed call."""
    return outcome.error.code if outcome.error is not None else None


@pytest.mark.parametrize("tool", ["http_fetch", "http_download"])
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_bomb_ends_as_too_large_in_little_memory(tool: str, coding: str, broken: Open) -> None:
    """One packed gigabyte: refused once it has grown too far, long before it is unpacked."""
    runtime, server = await broken()
    pack = zlib.compressobj(9, zlib.DEFLATED, 31 if coding == "gzip" else 15)
    first, other = (pack.compress(bytes(MIB)) + pack.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    bomb = first + other * 1023  # its end is never come to
    server.on("/", bomb, headers={"Content-Encoding": coding})
    args = {"path": "x"} if tool == "http_download" else {}
    await call(runtime, server, "/", tool, **args)
    tracemalloc.start()
    outcome = await call(runtime, server, "/", tool, **args)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert code(outcome) == "HTTP_TOO_LARGE"
    assert peak < 16 * MIB
    assert len(server.asked) == 2


async def test_a_body_that_grows_too_far_is_refused_though_it_would_fit(broken: Open) -> None:
    """Nobody packs a text a thousand to one."""
    runtime, server = await broken()
    server.on("/", gzip.compress(b"x" * 4 * MIB), headers={"Content-Encoding": "gzip"})
    outcome = await call(runtime, server, "/")
    assert (code(outcome), len(server.asked)) == ("HTTP_TOO_LARGE", 1)
    assert "200 times" in outcome.content


async def test_bombs_within_bombs_count_once_unpacked(broken: Open) -> None:
    """Many members in one gzip file are one body."""
    runtime, server = await broken(max_bytes=100_000)
    server.on("/", gzip.compress(b"x" * 60_000) * 2, headers={"Content-Encoding": "gzip"})
    assert code(await call(runtime, server, "/")) == "HTTP_TOO_LARGE"


async def test_packed_text_is_read(broken: Open) -> None:
    """The negative control: what is packed as usual is unpacked."""
    runtime, server = await broken()
    text = "".join(f"line {number}\n" for number in range(1000))
    server.on("/gzip", gzip.compress(text.encode()), headers={"Content-Encoding": "gzip"})
    server.on("/deflate", zlib.compress(text.encode()), headers={"Content-Encoding": "deflate"})
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    server.on("/raw", raw.compress(text.encode()) + raw.flush(), headers={"Content-Encoding": "deflate"})
    for path in ("/gzip", "/deflate", "/raw"):
        assert (await call(runtime, server, path)).data["text"] == text


@pytest.mark.parametrize(
    "body", [gzip.compress(b"x" * 1000)[:-10], b"no gzip at all", b"\x1f\x8b"], ids=["cut", "plain", "head"]
)
async def test_a_body_that_is_not_packed_as_it_says_is_an_upstream_error(body: bytes, broken: Open) -> None:
    """Tried again, for it may be whole the next time."""
    runtime, server = await broken()
    server.on("/", body, headers={"Content-Encoding": "gzip"})
    assert code(await call(runtime, server, "/")) == "UPSTREAM_ERROR"
    assert len(server.asked) == 3


async def test_a_coding_nobody_asked_for_is_refused(broken: Open) -> None:
    """Only gzip and deflate were offered."""
    runtime, server = await broken()
    server.on("/", b"x", headers={"Content-Encoding": "br"})
    outcome = await call(runtime, server, "/")
    assert (code(outcome), len(server.asked)) == ("UPSTREAM_ERROR", 1)


async def _endless(_: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    for _number in range(4096):
        writer.write(b"x" * 65536)
        await writer.drain()


async def test_an_endless_body_ends_at_the_limit(broken: Open) -> None:
    """No length was said; memory stays near the limit."""
    runtime, server = await broken()
    server.answers["/"] = _endless
    tracemalloc.start()
    outcome = await call(runtime, server, "/", max_bytes=MIB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (code(outcome), len(server.asked)) == ("HTTP_TOO_LARGE", 1)
    assert peak < 8 * MIB


async def test_a_length_over_the_limit_is_refused_before_the_body(broken: Open) -> None:
    """Nothing of it is read."""
    runtime, server = await broken()

    async def promises(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
        await writer.drain()
        await asyncio.Event().wait()

    server.answers["/"] = promises
    started = time.monotonic()
    assert code(await call(runtime, server, "/")) == "HTTP_TOO_LARGE"
    assert time.monotonic() - started < 5


async def test_a_slow_body_ends_at_the_deadline(broken: Open) -> None:
    """One byte now and then keeps no call alive: the deadline is for all of it, and nothing is tried again."""
    runtime, server = await broken()

    async def drips(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    server.answers["/"] = drips
    started = time.monotonic()
    outcome = await call(runtime, server, "/", timeout_ms=1000)
    assert (code(outcome), len(server.asked)) == ("TIMEOUT", 1)
    assert 0.9 < time.monotonic() - started < 5


def _late(fault: Serve) -> Serve:
    """The same after 0.4 s, by the clock of the deadline: on a slow machine there are fewer answers, never more."""

    async def serve(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.4)
        await fault(asked, writer)

    return serve


async def _circle(_: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(answer(b"", 302, {"Location": "/"}))


async def _ill(_: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(answer(b"not now", 503))


async def _silent(_: Asked, writer: asyncio.StreamWriter) -> None:
    writer.close()


@pytest.mark.parametrize("tool", ["http_fetch", "http_download"])
@pytest.mark.parametrize(
    ("fault", "codes"),
    # A failed answer is told at once where no pause and other try would fit into what is left.
    [(_circle, {"TIMEOUT"}), (_silent, {"TIMEOUT"}), (_ill, {"TIMEOUT", "UPSTREAM_ERROR"})],
)
async def test_redirects_and_tries_share_one_deadline(fault: Serve, codes: set[str], tool: str, broken: Open) -> None:
    """Each is quicker than the deadline, and more are allowed than fit into it: only those that fit are sent."""
    runtime, server = await broken(max_retries=10)
    server.answers["/"] = _late(fault)
    args = {"path": "x"} if tool == "http_download" else {}
    outcome = await call(runtime, server, "/", tool, timeout_ms=1000, **args)
    assert code(outcome) in codes, outcome.content
    assert 1 <= len(server.asked) <= 3


@pytest.mark.parametrize(
    "flood",
    [
        b"".join(b"X-%d: y\r\n" % number for number in range(100_000)),
        b"X: " + b"y" * 10 * MIB + b"\r\n",
        b"X" * 10 * MIB,
    ],
    ids=["many", "long", "endless name"],
)
async def test_a_flood_of_headers_is_too_large(flood: bytes, broken: Open) -> None:
    """Bounded in number and length."""
    runtime, server = await broken()

    message = b"HTTP/1.1 200 OK\r\n" + flood + b"\r\n"

    async def floods(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(message)
        await writer.drain()

    server.answers["/"] = floods
    tracemalloc.start()
    outcome = await call(runtime, server, "/")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert code(outcome) == "HTTP_TOO_LARGE", outcome.content
    assert peak < len(flood) + 8 * MIB  # the server, in the same process, holds it once more while it sends
    assert len(server.asked) == 1


async def _cut(_: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(answer(b"half", length=1000))
    await writer.drain()
    writer.close()


async def _chunk_cut(_: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    await writer.drain()
    writer.close()


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (_cut, "is not whole: the connection was closed before all of the length that was said had come."),
        (_chunk_cut, "is not whole: the connection was closed before the last of its parts had come."),
        (_silent, "127.0.0.1 closed the connection without an answer."),
    ],
)
async def test_a_cut_connection_is_tried_twice_again(fault: Any, says: str, broken: Open) -> None:
    """A wrong length, a chunk that never comes, no answer at all: UPSTREAM_ERROR after three tries."""
    runtime, server = await broken()
    server.answers["/"] = fault
    outcome = await call(runtime, server, "/")
    assert (code(outcome), len(server.asked)) == ("UPSTREAM_ERROR", 3), outcome.content
    assert outcome.error is not None
    assert outcome.error.message.endswith(says)


async def test_a_cut_download_leaves_nothing_behind(broken: Open, work: Any) -> None:
    """What was handed on is not sent for again, and no part of it stays."""
    runtime, server = await broken()
    server.answers["/"] = _cut
    outcome = await call(runtime, server, "/", "http_download", path="x.bin")
    assert (code(outcome), len(server.asked)) == ("UPSTREAM_ERROR", 1)
    assert list(work.iterdir()) == []


async def test_what_follows_a_whole_body_is_never_the_next_answer(broken: Open) -> None:
    """A body longer than its length breaks its connection, and nothing else."""
    runtime, server = await broken()

    async def longer(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(b"right and wrong", length=5) + answer(b"smuggled"))

    server.answers["/"] = longer
    server.on("/next", "next")
    assert code(await call(runtime, server, "/")) == "UPSTREAM_ERROR"
    assert (await call(runtime, server, "/next")).data["text"] == "next"
    assert server.paths() == ["/", "/next"]  # not tried again


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_failure_that_heals_is_an_answer(status: int, broken: Open) -> None:
    """The second try counts; evidence says how many there were."""
    runtime, server = await broken()

    async def heals(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(b"well" if len(server.asked) > 1 else b"ill", 200 if len(server.asked) > 1 else status))

    server.answers["/"] = heals
    outcome = await call(runtime, server, "/")
    assert (outcome.ok, outcome.data["text"], len(server.asked)) == (True, "well", 2)
    assert "2 tries" in outcome.evidence[0].summary


async def test_a_failure_that_stays_is_told_with_its_beginning(broken: Open) -> None:
    """UPSTREAM_ERROR after three tries; the call itself may be made again later."""
    runtime, server = await broken()
    server.on("/", "the database is gone", 500)
    outcome = await call(runtime, server, "/")
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.retryable, len(server.asked)) == ("UPSTREAM_ERROR", True, 3)
    assert outcome.error.details["status"] == 500
    assert outcome.error.details["excerpt"] == "the database is gone"


async def test_a_post_is_never_tried_again_by_itself(broken: Open) -> None:
    """It may have been done."""
    runtime, server = await broken()
    server.on("/", "", 500)
    outcome = await call(runtime, server, "/", method="POST", body="{}")
    assert (code(outcome), len(server.asked)) == ("UPSTREAM_ERROR", 1)


async def test_nobody_listening_is_an_upstream_error(broken: Open) -> None:
    """Named, with the port."""
    runtime, server = await broken()
    await server.close()
    outcome = await call(runtime, server, "/")
    assert outcome.error is not None
    assert outcome.error.code == "UPSTREAM_ERROR"
    assert outcome.error.message == f"127.0.0.1:{server.port} cannot be reached: connection refused."


async def test_what_speaks_no_http_is_an_upstream_error(broken: Open) -> None:
    """A banner is no answer."""
    runtime, server = await broken()

    async def banner(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")
        await writer.drain()
        writer.close()

    server.answers["/"] = banner
    outcome = await call(runtime, server, "/")
    assert (code(outcome), len(server.asked)) == ("UPSTREAM_ERROR", 1)


async def test_a_call_that_is_given_up_leaves_no_connection_in_use(broken: Open) -> None:
    """Cancelling ends the request; the slot is free for the next."""
    runtime, server = await broken(max_connections=1)
    reached = asyncio.Event()

    async def hangs(_: Asked, writer: asyncio.StreamWriter) -> None:
        reached.set()
        await asyncio.Event().wait()

    server.answers["/hang"] = hangs
    server.on("/", "fine")
    task = asyncio.ensure_future(call(runtime, server, "/hang"))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await call(runtime, server, "/")).ok


async def test_a_name_that_leads_nowhere_is_looked_up_three_times(broken: Open) -> None:
    """It may be there the next time."""
    runtime, server = await broken()
    names = Names()
    runtime.parts.outside.network.gate.resolver = names
    outcome = await runtime.call("http_fetch", {"url": f"http://nowhere.test:{server.port}/"})
    assert outcome.error is not None
    assert (outcome.error.code, names.asked) == ("UPSTREAM_ERROR", ["nowhere.test"] * 3)
    assert "nowhere.test cannot be found" in outcome.error.message


async def test_headers_that_are_no_text_are_told_as_text(broken: Open) -> None:
    """Bytes of any kind in a header end no call."""
    runtime, server = await broken()

    async def odd(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nX-Odd: \xff\xfe\xed\xa0\x80\r\nContent-Length: 2\r\n\r\nok")

    server.answers["/"] = odd
    outcome = await call(runtime, server, "/")
    assert outcome.ok, outcome.content
    assert set(outcome.data["headers"]["x-odd"]) == {"\ufffd"}

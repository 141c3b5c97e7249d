"""Hosts that answer in ways made to hang, to crash or to be mistaken for another answer."""

from __future__ import annotations

import asyncio
import gzip
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Opens
from handrail.errors import Code, Problem
from handrail.memory.http import HttpMemory
from handrail.net import gate
from handrail.net.bodies import Packed
from handrail.net.headers import checked
from handrail.policy.patterns import host_matches
from handrail.ports import HttpRequest, HttpResponse
from handrail.tools.http._charset import decode
from handrail.tools.http._markdown import Overgrown, markdown
from handrail.urls import parse
from serving import Asked, answer, code, reaching, serving

BASE = parse("http://a.test/")

# ── pages ────────────────────────────────────────────────────────────────────────────────────

SHAPES: dict[str, Callable[[int], str]] = {
    "one long attribute": lambda size: f"<a {'x' * size}>y</a>",
    "attributes without values": lambda size: f"<a {'x ' * (size // 2)}>y</a>",
    "quotes without end": lambda size: "<a '>\"" * (size // 6) + ">",
    "blocks in one cell": lambda size: "<table><tr><td>" + "<p>a" * size,
    "a character with many digits": lambda size: f"&#{'9' * size};<a href='&#{'9' * size}'>x</a>",
    "nothing but brackets": lambda size: "<" * size + ">",
    "quotes in quotes": lambda size: "<blockquote><p>x" * (size // 16),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_no_page_takes_longer_than_its_length_allows(shape: str) -> None:
    """A regular expression that hangs holds every other call, and no deadline ends it."""
    started = time.process_time()
    markdown(SHAPES[shape](400_000), BASE)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("unit", ["<hr>", "<p>a", "<li>a", "<td>", "<h1>a", "<table><td>a", "<tr><td>a", "<a href=x>y"])
def test_no_page_takes_many_times_its_length_in_memory(unit: str) -> None:
    """A block for every four characters of a page is written down, and not gathered as an object."""
    html = unit * (200_000 // len(unit))
    tracemalloc.start()
    markdown(html, BASE)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (4 if unit == "<td>" else 25) * len(html)


@pytest.mark.parametrize(
    ("html", "path"),
    [
        ("<a href=x>y</a>" * 20_000, "long/" * 1600),
        ("<img alt=a src=b>" * 20_000, "long/" * 1600),
        ("<blockquote>" * 12 + "<ul>" * 12 + "<pre>" + "x\n" * 100_000, ""),
        ("<blockquote>" * 12 + "<ul>" * 12 + "<li>a" * 60_000, ""),
        ("<blockquote>" * 12 + "<ul>" * 12 + "a<br>" * 100_000, ""),
    ],
    ids=["links", "images", "lines of code", "items", "lines"],
)
def test_a_page_made_to_grow_is_no_markdown(html: str, path: str) -> None:
    """Kilobytes before each of many short links or lines would make gigabytes of a few megabytes."""
    with pytest.raises(Overgrown):
        markdown(html, parse(f"http://a.test/{path}"))


async def test_a_page_made_to_grow_is_given_as_it_is_when_asked_for(opens: Opens) -> None:
    """The problem names the call that helps, and a page with long addresses is none of these."""
    path, html = f"/{'long/' * 1500}", "<a href=x>y</a>" * 10_000
    async with serving() as server, reaching(opens, server) as runtime:
        server.on(path, html, headers={"Content-Type": "text/html"})
        server.on("/few", "<a href=x>y</a>" * 1000, headers={"Content-Type": "text/html"})
        url = f"http://a.test:{server.port}{path}"
        outcome = await runtime.call("http_fetch", {"url": url})
        assert outcome.error is not None
        assert (code(outcome), outcome.error.next_call) == (
            "HTTP_TOO_LARGE",
            {"tool": "http_fetch", "args": {"url": url, "format": "text"}},
        )
        assert (await runtime.call("http_fetch", {"url": url, "format": "text"})).ok
        assert (await runtime.call("http_fetch", {"url": f"http://a.test:{server.port}/few"})).ok


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("&#99999999999999;", "\ufffd\n"),
        (f"a&#{'9' * 5000};b &lt;", "a\ufffdb <\n"),
        ("<a hidden href='/x'>y</a>", "[y](http://a.test/x)\n"),
        ("<tr><p>x</p>", "| x |\n| --- |\n"),
        ("before<td>x", "before\n\n| x |\n| --- |\n"),
        ("<table><tr><td>a<td>b", "| a | b |\n| --- | --- |\n"),
        ("<table><tr>loose<td><p>a</p><p>b</p>", "| loose | a b |\n| --- | --- |\n"),
    ],
)
def test_what_is_malformed_is_read_all_the_same(html: str, text: str) -> None:
    """Nothing is lost, and nothing fails."""
    assert markdown(html, BASE) == text


@pytest.mark.parametrize("name", ["unicode-escape", "unicode_escape", "raw-unicode-escape", "utf-7", "idna", "rot13"])
def test_a_codec_that_is_no_charset_is_not_used(name: str) -> None:
    """What a header names must not turn harmless bytes into something else."""
    text, charset = decode(rb"\x1b[31m +ADw-", f"text/plain; charset={name}")
    assert (text, charset.name) == (r"\x1b[31m +ADw-", "utf-8")


# ── bodies ───────────────────────────────────────────────────────────────────────────────────


def test_tiny_members_are_unpacked_in_time_that_grows_with_their_number() -> None:
    """Each one would copy all that follows it."""
    packed = gzip.compress(b"") * 150_000 + gzip.compress(b"end")
    started = time.process_time()
    assert b"".join(Packed("gzip").pieces(packed)) == b"end"
    assert time.process_time() - started < 3


@pytest.mark.parametrize("packed", [gzip.compress(b"all") + b"\0" * 100_000, zlib.compress(b"all") + b"x" * 100_000])
def test_what_follows_the_end_of_a_packed_body_is_not_gathered(packed: bytes) -> None:
    """Padding is let go, however it is cut."""
    body = Packed("gzip" if packed[0] == 0x1F else "deflate")
    assert (
        b"".join(piece for at in range(0, len(packed), 999) for piece in body.pieces(packed[at : at + 999])) == b"all"
    )
    body.finish()
    assert len(body._unpacker.unused_data) < 20_000


async def test_an_endless_packed_body_that_holds_nothing_ends_at_the_limit(opens: Opens) -> None:
    """What came over the line counts, too."""

    async def empty(_: Asked, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 Said\r\nContent-Encoding: deflate\r\n\r\n\x78\x9c"
        writer.write(head)
        while not writer.is_closing():
            writer.write(b"\0\0\0\xff\xff" * 10_000)
            await writer.drain()

    async with serving() as server:
        server.answers["/"] = empty
        async with reaching(opens, server) as runtime:
            args = {"url": server.url("/", "a.test"), "max_bytes": 100_000, "timeout_ms": 20_000}
            outcome = await runtime.call("http_fetch", args)
    assert code(outcome) == "HTTP_TOO_LARGE"


# ── answers ──────────────────────────────────────────────────────────────────────────────────


async def test_what_a_kept_connection_says_unasked_is_never_the_next_answer(opens: Opens) -> None:
    """It is closed, and a new one opened; a connection that kept silent is used again."""
    said = asyncio.Event()

    async def twice(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(b"first"))
        await writer.drain()
        await said.wait()
        writer.write(answer(b"EVIL"))

    async with serving() as server:
        server.answers["/twice"] = twice
        server.on("/fine", "fine")
        async with reaching(opens, server) as runtime:
            first = await runtime.call("http_fetch", {"url": server.url("/twice", "a.test")})
            said.set()
            await asyncio.sleep(0)  # the server writes; whether it was read here by now must not matter
            texts = [
                (await runtime.call("http_fetch", {"url": server.url("/fine", "a.test")})).data["text"]
                for _ in range(3)
            ]
    assert (first.data["text"], texts, server.connections) == ("first", ["fine"] * 3, 2)


@pytest.mark.parametrize("tool", ["http_fetch", "http_download"])
async def test_switching_protocols_is_no_answer(tool: str, opens: Opens, work: Path) -> None:
    """Nothing is written for it."""

    async def switch(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 101 Said\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nraw")

    async with serving() as server:
        server.answers["/"] = switch
        async with reaching(opens, server, http={"max_retries": 0}) as runtime:
            args = {"url": server.url("/", "a.test"), "timeout_ms": 5000}
            outcome = await runtime.call(tool, args | ({"path": "f"} if tool == "http_download" else {}))
    assert (code(outcome), list(work.iterdir())) == ("UPSTREAM_ERROR", [])


# ── what is asked ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["X-HTTP-Method-Override", "x-http-method", "X-Method-Override"])
def test_a_header_cannot_make_another_method_of_the_one_that_was_judged(name: str) -> None:
    """A GET stays one."""
    with pytest.raises(Problem) as caught:
        checked({name: "DELETE"})
    assert caught.value.code is Code.INVALID_ARGS


@pytest.mark.parametrize("pattern", ["*.", "*..", "[*]", "*.:*", "*.*", "**", ""])
def test_a_pattern_that_names_no_host_allows_none(pattern: str) -> None:
    """Only `*` means every host."""
    assert not host_matches(pattern, "a.test:443")
    assert host_matches("*", "a.test:443")


async def test_lookups_that_hang_keep_no_other_work_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have threads of their own: a thread cannot be ended."""
    import threading

    free = threading.Event()
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: free.wait(20) and [])
    lookups = [asyncio.ensure_future(gate.system_resolver(f"n{at}.test", 80)) for at in range(40)]
    try:
        await asyncio.sleep(0)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 7), 5) == 7
    finally:
        free.set()
    assert await asyncio.gather(*lookups) == [[]] * 40


async def test_a_failure_nobody_foresaw_does_not_block_a_host_that_is_tried_again(opens: Opens) -> None:
    """The one request that a half-open breaker lets through is given back."""
    async with serving() as server:
        server.on("/", "fine")
        config = {"limits": {"breaker_failures": 1, "breaker_seconds": 1, "max_repeats": 0}}
        async with reaching(opens, server, http={"max_retries": 0}, config=config) as runtime:
            url = {"url": server.url("/", "a.test")}
            network = runtime.parts.outside.network
            network.hosts.ended(f"a.test:{server.port}", False, network.clock.monotonic() - 2)
            known, network.credentials.header = network.credentials.header, _unforeseen  # type: ignore[method-assign, assignment]
            first = await runtime.call("http_head", url)
            network.credentials.header = known  # type: ignore[method-assign]
            second = await runtime.call("http_fetch", url)
    assert (code(first), code(second)) == ("INTERNAL", None)


async def _unforeseen(_: object) -> None:
    raise ZeroDivisionError


class _Answering:
    """A network that gives one answer to everything."""

    spill_large = False

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def fetch(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(request.url, 200, {}, self._body, "127.0.0.1")


async def test_a_note_with_a_number_that_no_clock_shows_is_read() -> None:
    """A service cannot make recalling fail in an unforeseen way."""
    body = b'{"notes": [{"id": "a", "content": "b", "created": 1%s}]}' % (b"0" * 400)
    found = await HttpMemory(_Answering(body), "http://a.test").search("b", None, 5)  # type: ignore[arg-type]
    assert [(note.id, note.created) for note in found] == [("a", 0.0)]

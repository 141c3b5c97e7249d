"""Bodies of UTF-8 that http_fetch takes as they are: told from all others while they come, watched, paged in bytes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Opens
from handrail import Runtime
from handrail.net import client, gathering
from handrail.net.gathering import Body, Lane, Utf8
from handrail.output.redact import CONTEXT, MARK, Redactor
from handrail.store.spill import FileSpill
from handrail.tools.http._charset import as_it_is, decode
from handrail.tools.http._watching import Watched
from handrail.words import Ref
from serving import Server, http_settings, serving
from tools._engines import DATABASE, searching_with

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
BLOCK = 100_000
LINES = "".join(f"{number}: 狐狸 跳过 – größer 🦊 é\n" for number in range(9_000))
BODY = LINES.encode()
ODD = "\N{REPLACEMENT CHARACTER}"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server on loopback."""
    async with serving() as made:
        yield made


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have bodies gathered in blocks that are small, so that a text of some hundred kilobytes has many of them."""
    monkeypatch.setattr(client, "BLOCK", BLOCK)


@pytest.fixture(params=["plain", "fast"])
def engine(request: pytest.FixtureRequest) -> str:
    """Have the runtime search for secrets with one engine or the other."""
    return searching_with(str(request.param))


def _parts(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


_CUTS = st.lists(st.integers(0, 400), max_size=12)
_CHARACTERS = st.sampled_from(["a", "é", "狐", "🦊", "\ufeff"]).map(str.encode)
_TEXTS = st.lists(_CHARACTERS, max_size=40).map(b"".join)
_ODDITIES = (
    st.sampled_from([ODD.encode(), b"\0", b"\x80", b"\xc3", b"\xc0\x80", b"\xe7\x8b", b"\xed\xa0\x80"])
    | st.sampled_from([b"\xf0\x9f\xa6", b"\xf5", b"\xff"])
    | st.binary(max_size=3)
)
_BYTES = _TEXTS | st.tuples(_TEXTS, _ODDITIES, _TEXTS).map(b"".join) | st.lists(_ODDITIES, max_size=20).map(b"".join)


def _is_utf8(data: bytes) -> bool:
    try:
        return ODD not in data.decode()
    except UnicodeDecodeError:
        return False


# ── told while it comes ──


@given(_BYTES, _CUTS, st.integers(4, 9))
def test_utf8_is_known_whatever_parts_it_comes_in(data: bytes, cuts: list[int], step: int) -> None:
    """Cut within characters, in parts of nothing, read in steps that are no longer than a character or two."""
    before, gathering._STEP = gathering._STEP, step
    try:
        looked = Utf8()
        for part in _parts(data, cuts):
            looked.take(part)
    finally:
        gathering._STEP = before
    assert looked.whole is _is_utf8(data)


@given(_BYTES, _CUTS, st.integers(1, 60))
async def test_a_body_in_blocks_is_the_body_that_came(data: bytes, cuts: list[int], block: int) -> None:
    """Its parts, its hash, what is said of it, and what was watched."""
    watched: list[bytes] = []
    body = Body(block, lambda _: watched.append)
    for part in _parts(data, cuts):
        await body.take(part)
    fields = body.fields()
    parts = fields.get("parts") or (fields["body"],)
    assert (b"".join(parts), fields["bytes"]) == (data, len(data))
    assert (fields["ascii"], fields["utf8"], fields["nul"]) == (data.isascii(), _is_utf8(data), b"\0" in data)
    assert all(len(part) >= block for part in parts[:-1])
    assert await body.hexdigest() == sha256(data).hexdigest()
    await body.watched()
    seen = b"".join(watched)
    assert data.startswith(seen)
    assert b"\0" not in seen
    assert seen == data or not _is_utf8(data) or b"\0" in data


async def test_a_lane_deals_with_all_of_it_in_order_and_in_one_thread() -> None:
    """Also where a part is taken while another one is worked on."""
    done: list[tuple[int, int]] = []
    lane = Lane(lambda part: done.append((part[0], threading.get_ident())))
    for number in range(20):
        lane.take(bytes([number]) * gathering.ASIDE)
    await lane.done()
    last = done[-1][1]
    assert done == [(number, last) for number in range(20)]
    assert last != threading.get_ident()
    seen = lane._job = Future()  # as one that has just seen that nothing is left
    lane.take(b"!")
    asyncio.get_running_loop().call_soon(seen.set_result, None)
    await lane.done()
    assert done[-1] == (ord("!"), last)


async def test_what_fails_in_a_lane_is_told_and_not_gone_on_with() -> None:
    """A hash that left a part out would be the hash of something else."""

    def fails(part: bytes) -> None:
        if part[:1] == b"!":
            raise MemoryError

    lane = Lane(fails)
    lane.take(b"!" * gathering.ASIDE)
    with pytest.raises(MemoryError):
        await lane.done()
    with pytest.raises(MemoryError):
        lane.take(b"." * gathering.ASIDE)


async def test_no_hash_waits_for_what_watches_a_body() -> None:
    """That may wait for a slow disk. What little there is of a small body is watched at once."""
    threads: list[int] = []
    slow, small = threading.Event(), Body(BLOCK, lambda _: lambda _: threads.append(threading.get_ident()))
    bodies = [Body(BLOCK, lambda _: lambda _: threads.append(threading.get_ident() * slow.wait(20))) for _ in range(9)]
    for body in bodies:
        await body.take(b"x" * gathering.ASIDE)
        await body.take(b"x")
        body.fields()
    assert {await body.hexdigest() for body in bodies} == {sha256(b"x" * (gathering.ASIDE + 1)).hexdigest()}
    assert threads == []
    slow.set()
    for body in bodies:
        await body.watched()
    here = threading.get_ident()
    assert (len(threads), here in threads) == (18, False)
    await small.take(b"x")
    small.fields()
    await small.watched()
    assert threads[18:] == [here]


@given(_BYTES, st.sampled_from(["", "text/plain", "x; charset=utf-8", "x; charset=latin-1", "x; charset=utf-16"]))
def test_utf8_is_taken_as_it_is_only_where_reading_changes_nothing(data: bytes, kind: str) -> None:
    """A mark at the beginning is no text, and other charsets read the same bytes in another way."""
    charset = as_it_is(data[:4096], kind, ascii_alone=data.isascii(), utf8=_is_utf8(data))
    if charset is not None:
        assert decode(data, kind) == (data.decode(), charset)
    elif _is_utf8(data) and kind in ("", "text/plain", "x; charset=utf-8"):
        assert data.startswith("\ufeff".encode()) or b"\0" in data


# ── watched while it comes ──


@pytest.mark.parametrize("fast", [True, False])
def test_what_is_quiet_in_parts_needs_no_hiding(fast: bool) -> None:
    """Never the other way round."""
    redactor = Redactor(("hunter2hunter2",), database=DATABASE if fast else None)
    words = st.sampled_from([SECRET, "hunter2hunter2", "password = ", "x" * 40, "\n", " ", "é狐🦊", "key", MARK])

    @given(st.lists(words).map("".join), _CUTS)
    def law(text: str, cuts: list[int]) -> None:
        data, watched = text.encode(), Watched(redactor)
        take = watched.anew()
        for part in _parts(data, cuts):
            take(part)
        if watched.quiet(len(data)):
            assert redactor.text(text) is text

    law()


@pytest.mark.parametrize("secret", [SECRET, "hunter2hunter2"])
@pytest.mark.parametrize("fast", [True, False])
def test_a_secret_is_seen_wherever_a_text_is_cut(secret: str, fast: bool) -> None:
    """Within it, at its edges, and where it spans a part of its own."""
    redactor = Redactor(("hunter2hunter2",), database=DATABASE if fast else None)
    data = f"{'größer ' * CONTEXT}\n{secret}\n{'größer ' * CONTEXT}".encode()
    start = data.index(secret.encode())
    for at in range(start - 1, start + len(secret) + 2, 3):
        for parts in ((data[:at], data[at:]), (data[:at], data[at : at + 2], data[at + 2 :])):
            watched = Watched(redactor)
            take = watched.anew()
            for part in parts:
                take(part)
            assert not watched.quiet(len(data))


def test_what_was_not_seen_is_not_quiet() -> None:
    """A part that is missing, one that could not be looked at, and what another try brought."""

    class Failing(Redactor):
        def quiet(self, data: bytes) -> bool:
            if data == b"broken":
                raise MemoryError
            return True

    watched = Watched(Failing())
    take = watched.anew()
    take(b"some")
    assert (watched.quiet(4), watched.quiet(5)) == (True, False)
    with pytest.raises(MemoryError):
        take(b"broken")
    assert not watched.quiet(10)
    again = watched.anew()
    take(b"more")
    again(b"second")
    assert (watched.quiet(6), watched.quiet(14)) == (True, False)
    html = Watched(Failing(), plain=False)
    html.anew()(b" <!DOCTYPE html><p>")
    assert not html.quiet(19)


def test_what_was_seen_before_more_became_known_is_not_quiet() -> None:
    """A value that another call made known while a body came may stand in what was looked at before."""
    if DATABASE is None:
        pytest.skip("hyperscan is not installed")
    redactor = Redactor(database=DATABASE)
    watched = Watched(redactor)
    take = watched.anew()
    take(b"a qqvalue0192837465zzab b")
    assert watched.quiet(25)
    redactor.learn(["qqvalue0192837465zzab"])
    assert not watched.quiet(25)


# ── shown and kept ──


async def _fetched(runtime: Runtime, url: str, **args: Any) -> Any:
    outcome = await runtime.call("http_fetch", {"url": url, **args})
    assert outcome.ok, outcome.content
    return outcome


async def _pages(runtime: Runtime, url: str, first: Any) -> list[str]:
    pages, cut = [first.data["text"]], first.truncation
    while cut is not None and cut.next_cursor is not None:
        outcome = await _fetched(runtime, url, cursor=cut.next_cursor)
        pages.append(outcome.data["text"])
        cut = outcome.truncation
    return pages


def _with(data: bytes, at: int, odd: bytes) -> bytes:
    return data[:at] + odd + data[at:]


_AT_EDGES = [(f"{odd!r} at {at}", _with(BODY, at, odd)) for odd in (b"\xff",) for at in (BLOCK - 1, BLOCK, BLOCK + 1)]


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("kind", ["text/plain", "text/plain; charset=utf-8", "text/plain; charset=latin-1"])
@pytest.mark.parametrize(
    "body",
    [
        BODY,
        BODY + "🦊".encode()[:3],
        BODY + b"\xff",
        BODY[:200_000] + b"\xed\xa0\x80" + BODY[200_000:],
        b"\xef\xbb\xbf" + BODY,
        BODY + ODD.encode() + b"\n" + BODY,
        b"plain\n" * 60_000 + "ö".encode(),
        *(body for _, body in _AT_EDGES),
    ],
    ids=["valid", "cut", "bad end", "surrogate", "mark", "odd", "late", *(name for name, _ in _AT_EDGES)],
)
async def test_a_body_is_read_and_kept_as_its_charset_says(
    body: bytes, kind: str, server: Server, opens: Opens
) -> None:
    """In blocks or not: the text, how it was read, what could not be, and every page of it, one after the other."""
    text, charset = decode(body, kind)
    server.on("/", body, headers={"Content-Type": kind})
    async with opens(config=http_settings(f"127.0.0.1:{server.port}"), mode="headless") as runtime:
        first = await _fetched(runtime, server.url("/"))
        kept = (runtime.parts.folder.observations / "http_1.txt").read_bytes()
        pages = await _pages(runtime, server.url("/"), first)
    assert kept == text.encode()
    assert "".join(pages) == text
    assert len(server.asked) == 1
    assert (first.data["encoding"], first.data["bytes"], first.data["sha256"]) == (
        charset.name,
        len(body),
        sha256(body).hexdigest(),
    )
    assert first.refs == (Ref("run:observations/http_1.txt", sha256(kept).hexdigest(), len(kept)),)
    warned = f"{charset.replaced} characters could not be read as {charset.name} ({charset.by})"
    assert [warning for warning in first.warnings if "could not be read" in warning] == [warned] * bool(
        charset.replaced
    )
    assert (first.truncation.shown, first.truncation.total) == (len(pages[0].encode()), len(kept))
    assert f"[bytes 1-{len(pages[0].encode())} of {len(kept)} shown; " in first.content


@pytest.mark.usefixtures("engine", "blocks")
@pytest.mark.parametrize("at", [30_000, BLOCK - 20, BLOCK, 3 * BLOCK + 7])
async def test_a_secret_after_other_characters_is_hidden_everywhere(at: int, server: Server, opens: Opens) -> None:
    """Also where it lies across two blocks; the hash is that of what came."""
    start = BODY.rindex(b"\n", 0, at) + 1
    body = _with(BODY, start, f"{'狐' * ((at - start) // 3)} {SECRET} 🦊\n".encode())
    hidden = body.decode().replace(SECRET, MARK)
    server.on("/", body, headers={"Content-Type": "text/plain; charset=utf-8"})
    async with opens(config=http_settings(f"127.0.0.1:{server.port}"), mode="headless") as runtime:
        first = await _fetched(runtime, server.url("/"))
        kept = (runtime.parts.folder.observations / "http_1.txt").read_text()
        pages = await _pages(runtime, server.url("/"), first)
    assert kept == hidden
    assert "".join(pages) == hidden
    assert first.data["sha256"] == sha256(body).hexdigest()
    assert first.refs[0].sha256 == sha256(hidden.encode()).hexdigest()


@pytest.mark.usefixtures("blocks")
async def test_a_cursor_holds_in_another_run_and_never_cuts_a_character(server: Server, opens: Opens) -> None:
    """The body is fetched again; a cursor that was made up leads to the beginning of its character, or nowhere."""
    server.on("/", BODY, headers={"Content-Type": "text/plain; charset=utf-8"})
    config, url = http_settings(f"127.0.0.1:{server.port}"), server.url("/")
    async with opens(config=config, mode="headless") as runtime:
        first = await _fetched(runtime, url)
    digest, _, offset = first.truncation.next_cursor.partition(".")
    inside = int(offset) + BODY[int(offset) :].index("狐".encode())
    async with opens(config=config, mode="headless") as runtime:
        second = await _fetched(runtime, url, cursor=first.truncation.next_cursor)
        made_up = [await _fetched(runtime, url, cursor=f"{digest}.{inside + more}") for more in range(3)]
        end = await _fetched(runtime, url, cursor=f"{digest}.{len(BODY)}")
        beyond = await runtime.call("http_fetch", {"url": url, "cursor": f"{digest}.{len(BODY) + 1}"})
    assert (first.data["text"] + second.data["text"]).encode() == BODY[: int(second.truncation.next_cursor[17:])]
    assert {outcome.data["text"] for outcome in made_up} == {made_up[0].data["text"]}
    assert BODY[inside:].decode().startswith(made_up[0].data["text"])
    assert (end.data["text"], end.truncation.shown, end.truncation.next_cursor) == ("", 0, None)
    assert beyond.error is not None
    assert beyond.error.code == "INVALID_ARGS"


@pytest.mark.usefixtures("blocks")
async def test_an_answer_that_is_none_is_told_with_its_beginning_though_it_is_in_parts(
    server: Server, opens: Opens
) -> None:
    """The first part holds it."""
    server.on("/", BODY, status=400, headers={"Content-Type": "text/plain"})
    server.on("/bad", BODY, status=501, headers={"Content-Type": "text/plain"})
    async with opens(config=http_settings(f"127.0.0.1:{server.port}"), mode="headless") as runtime:
        told = await _fetched(runtime, server.url("/"))
        failed = await runtime.call("http_fetch", {"url": server.url("/bad")})
    assert told.data["status"] == 400
    assert failed.error is not None
    assert failed.error.details["excerpt"] == LINES[:500].strip()


def test_parts_are_kept_as_one_file(tmp_path: Path) -> None:
    """With their hash, or without one."""
    parts, spill = [bytes(range(256)) * 2_000, b"", b"end"], FileSpill(tmp_path)
    data = b"".join(parts)
    assert spill.keep(parts, "a") == Ref("run:observations/a_1.txt", sha256(data).hexdigest(), len(data))
    assert spill.keep(tuple(parts), hashed=False) == Ref("run:observations/2.txt", "", len(data))
    assert [(tmp_path / name).read_bytes() for name in ("a_1.txt", "2.txt")] == [data, data]

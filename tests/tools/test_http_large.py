"""Large bodies of http_fetch: read where they are shown alone, hashed beside, kept whole with their secrets hidden."""

from __future__ import annotations

import codecs
import threading
from collections.abc import AsyncIterator
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Opens
from handrail.net import gathering
from handrail.net.gathering import Body, Digest
from handrail.output.redact import MARK, Redactor
from handrail.ports import Limits
from handrail.store.spill import FileSpill
from handrail.tools.http._charset import _KEEP_ASCII, as_it_is, decode
from handrail.tools.http._pages import Whole, end_of_page
from handrail.words import Ref
from serving import Server, http_settings, serving
from tools._engines import DATABASE, searching_with

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
LINES = "".join(f"line {number}\n" for number in range(80_000))


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server on loopback."""
    async with serving() as made:
        yield made


@pytest.fixture(params=["plain", "fast"])
def engine(request: pytest.FixtureRequest) -> str:
    """Have the runtime search for secrets with one engine or the other; the fast one alone tells what is quiet."""
    return searching_with(str(request.param))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("body", "kind", "kept"),
    [
        (LINES.encode(), "text/plain", LINES),
        (LINES.encode() + b"\xc3\xa9", "text/plain", LINES + "é"),
        (b"\xef\xbb\xbf" + LINES.encode(), "text/plain", LINES),
        (LINES.encode() + b"\xe9", "text/plain; charset=latin-1", LINES + "é"),
        (LINES.encode("utf-16-le"), "text/plain; charset=utf-16-le", LINES),
        (f"{LINES}{SECRET}\n{LINES}".encode(), "text/plain", f"{LINES}{MARK}\n{LINES}"),
        (f"{LINES}é{SECRET}é\n".encode(), "text/plain", f"{LINES}é{MARK}é\n"),
        (b"<p>" + LINES.encode(), "text/html", LINES.replace("\n", " ").strip() + "\n"),
    ],
    ids=["ascii", "utf-8", "mark", "latin", "utf-16", "secret", "secret among others", "html"],
)
async def test_what_is_kept_is_the_whole_text_with_its_secrets_hidden(
    body: bytes, kind: str, kept: str, server: Server, opens: Opens
) -> None:
    """The ref names the file's own hash and size; the answer names those of what came."""
    server.on("/", body, headers={"Content-Type": kind})
    config = http_settings(f"127.0.0.1:{server.port}")
    async with opens(config=config, mode="headless") as runtime:
        outcome = await runtime.call("http_fetch", {"url": server.url("/")})
        assert outcome.ok, outcome.content
        file = runtime.parts.folder.observations / "http_1.txt"
        data = file.read_bytes()
    assert data.decode() == kept
    assert outcome.refs == (Ref("run:observations/http_1.txt", sha256(data).hexdigest(), len(data)),)
    assert (outcome.data["bytes"], outcome.data["sha256"]) == (len(body), sha256(body).hexdigest())
    assert outcome.evidence[0].sha256 == sha256(body).hexdigest()


async def test_a_large_body_is_read_beside_the_event_loop(server: Server, opens: Opens) -> None:
    """Some charsets take a second for what cannot be read in them; other calls go on meanwhile."""
    read_in: set[int] = set()

    def reading(data: Any, _: str = "strict") -> tuple[str, int]:
        read_in.add(threading.get_ident())
        return codecs.latin_1_decode(data)

    def noted(name: str) -> codecs.CodecInfo | None:
        return codecs.CodecInfo(codecs.latin_1_encode, reading, name="x-noted") if name == "x_noted" else None

    codecs.register(noted)
    try:
        server.on("/", b"\x81" * 400_000, headers={"Content-Type": "text/plain; charset=x-noted"})
        async with opens(config=http_settings(f"127.0.0.1:{server.port}"), mode="headless") as runtime:
            outcome = await runtime.call("http_fetch", {"url": server.url("/")})
    finally:
        codecs.unregister(noted)
    assert outcome.ok, outcome.content
    assert read_in
    assert threading.get_ident() not in read_in


# ── hashed beside ──


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 60))
async def test_a_hash_does_not_depend_on_how_a_body_comes(parts: list[bytes], aside: int) -> None:
    """Hashed by another thread or not, in many parts or few, and asked for twice."""
    before, gathering.ASIDE = gathering.ASIDE, aside
    try:
        digest, body = Digest(), Body()
        for part in parts:
            digest.take(part)
            await body.take(part)
        found = [await digest.hexdigest(), await digest.hexdigest(), await body.digest.hexdigest()]
    finally:
        gathering.ASIDE = before
    whole = b"".join(parts)
    assert found == [sha256(whole).hexdigest()] * 3
    assert (body.whole(), body.ascii) == (whole, whole.isascii())


async def test_what_is_forgotten_is_in_neither_body_nor_hash() -> None:
    """A second try begins anew, though the first one may still be being hashed."""
    body = Body()
    await body.take(b"\xff" * gathering.ASIDE)
    body.forget()
    await body.take(b"second")
    assert (body.whole(), body.ascii, await body.digest.hexdigest()) == (
        b"second",
        True,
        sha256(b"second").hexdigest(),
    )


async def test_one_character_at_the_end_of_a_large_body_is_read(server: Server, opens: Opens) -> None:
    """What each piece is alone, all of it is only together."""
    server.on("/", ("plain text\n" * 100_000 + "Grüße").encode())
    async with opens(config=http_settings(f"127.0.0.1:{server.port}"), mode="headless") as runtime:
        outcome = await runtime.call("http_fetch", {"url": server.url("/")})
        kept = await runtime.call("read_file", {"path": outcome.refs[0].ref, "tail": 1})
    assert (outcome.data["encoding"], kept.data["text"]) == ("utf-8", "Grüße")


# ── read where it is shown ──


@pytest.mark.parametrize("name", sorted(_KEEP_ASCII))
def test_a_charset_that_keeps_ascii_keeps_all_of_it(name: str) -> None:
    """Every character, alone and in a row."""
    body = bytes(range(1, 128))
    assert body.decode(name) == body.decode("ascii")
    assert codecs.lookup(name).name == name


@given(
    st.binary(max_size=60) | st.text(alphabet=st.characters(max_codepoint=127), max_size=60).map(str.encode),
    st.sampled_from(["", "text/plain", *(f"x; charset={name}" for name in ("utf-8", "latin-1", "utf-16", "cp037"))])
    | st.sampled_from([f"x; charset={name}" for name in ("iso-2022-jp", "hz", "gbk", "shift_jis", "utf-32", "nope")]),
)
def test_a_body_is_taken_as_it_is_only_where_reading_changes_nothing(body: bytes, kind: str) -> None:
    """Escapes of some charsets are ASCII, too, and mean something else."""
    assert as_it_is("plain words".encode("utf-16-le"), kind) is None or "charset" in kind
    charset = as_it_is(body, kind)
    if charset is not None:
        assert decode(body, kind) == (body.decode("ascii"), charset)


def _parts(data: bytes, cuts: list[int]) -> list[bytes]:
    """Cut anywhere, also within characters."""
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


_CUTS = st.lists(st.integers(0, 5000), max_size=6)


@given(st.text(alphabet="ab\né𝄞", max_size=600), st.integers(0, 2500), st.integers(0, 2500), _CUTS)
def test_a_whole_is_cut_like_its_bytes(text: str, start: int, end: int, cuts: list[int]) -> None:
    """Whatever parts it is kept in; what is shown of a cut are its whole characters."""
    data = text.encode()
    whole = Whole(*_parts(data, cuts))
    assert (len(whole), whole.cut(start, end), whole[:]) == (len(data), data[start:end], text)
    assert whole[start:end] == data[start:end].decode("utf-8", "ignore")


@given(st.text(alphabet="ab\né狐𝄞", min_size=1, max_size=600), st.integers(0, 2500), _CUTS)
def test_a_cursor_into_a_character_leads_to_its_beginning(text: str, at: int, cuts: list[int]) -> None:
    """Cursors are what callers say they are."""
    data = text.encode()
    found, starts = Whole(*_parts(data, cuts)).character(min(at, len(data))), [0]
    for character in text:
        starts.append(starts[-1] + len(character.encode()))
    assert found == max(start for start in starts if start <= min(at, len(data)))


_LONG = st.lists(st.text(alphabet="aé狐𝄞", min_size=150, max_size=300), max_size=3).map("\n".join)


@given(st.text(alphabet="ab\né狐𝄞", max_size=900) | _LONG, st.integers(1, 70), st.integers(2049, 2600), _CUTS)
def test_pages_of_parts_are_those_of_the_whole(text: str, lines: int, size: int, cuts: list[int]) -> None:
    """And each of them is as long as it was when characters were counted."""
    limits = Limits(max_output_lines=lines, max_output_bytes=size)
    data = text.encode()
    whole, parts, at = Whole(data), Whole(*_parts(data, cuts)), 0
    while at < len(data):
        end = end_of_page(parts, at, limits)
        assert end == end_of_page(whole, at, limits) == at + len(_page(data[at:].decode(), limits).encode())
        at = end
    assert at == len(data)


def _page(text: str, limits: Limits) -> str:
    """The first page of a text: whole lines, or as many whole characters as there is room for."""
    room = max(256, limits.max_output_bytes - 2048)
    page = text.encode()[:room].decode("utf-8", "ignore")
    page = "".join(page.splitlines(keepends=True)[: max(1, limits.max_output_lines - 60)])
    return page[: page.rfind("\n") + 1] or page if len(page) < len(text) else page


# ── hidden and kept ──

_WORDS = st.lists(st.sampled_from([SECRET, "hunter2hunter2", "password = ", "x" * 40, "\n", " ", "é", "key", MARK]))


@pytest.mark.parametrize("fast", [True, False])
def test_what_is_quiet_needs_no_hiding(fast: bool) -> None:
    """Never the other way round: what is not quiet may be clean."""
    redactor = Redactor(("hunter2hunter2",), database=DATABASE if fast else None)

    @given(_WORDS.map("".join))
    def law(text: str) -> None:
        if redactor.quiet(text.encode()):
            assert redactor.text(text) is text

    law()
    assert redactor.quiet(LINES.encode()) or not fast
    assert not redactor.quiet(f"{LINES}{SECRET}".encode())
    assert not redactor.quiet(f"{LINES}hunter2hunter2".encode())


def test_what_is_kept_as_bytes_is_kept_as_it_is(tmp_path: Path) -> None:
    """More than one write holds, with a hash or without one."""
    data, spill = bytes(range(256)) * 10_000, FileSpill(tmp_path)
    digest = sha256(data).hexdigest()
    assert spill.keep(data, "a") == Ref("run:observations/a_1.txt", digest, len(data))
    assert spill.keep(data, hashed=False) == Ref("run:observations/2.txt", "", len(data))
    assert [(tmp_path / name).read_bytes() for name in ("a_1.txt", "2.txt")] == [data, data]

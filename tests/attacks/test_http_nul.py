"""A body that goes over to wide characters somewhere shows and keeps no secret of its second half."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from collections.abc import AsyncIterator, Iterator
from encodings.aliases import aliases
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Opens
from handrail import Runtime
from handrail.hiding import hidden
from handrail.net import client, gathering
from handrail.net.gathering import Body
from handrail.output.patterns import MARK
from handrail.output.redact import CONTEXT, Redactor
from handrail.testing import ScriptedNet, lend
from handrail.tools.http._charset import as_it_is, decode
from handrail.tools.http._watching import Watched
from serving import Asked, Server, http_settings, serving
from tools._engines import DATABASE, searching_with
from tools.test_http_kept import Noting

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
KNOWN = "zq7Known-Value-9431xyz"
LOG = f"\ntoken: {TOKEN}\nvalue {KNOWN}\n"
LINES = "".join(f"{number}: some plain line of text\n" for number in range(8_000)).encode()
BLOCK = 64 * 1024
PLACES = (4_095, 4_096, 4_097, 30_001, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 7, 2 * BLOCK)
WIDE = ("utf-16-le", "utf-16-be", "utf-16", "utf-32-le", "utf-32-be", "utf-32")
KINDS = (
    "text/plain",
    "text/plain; charset=utf-8",
    "text/plain; charset=latin-1",
    "text/html; charset=utf-8",
    "application/json",
    "application/octet-stream",
)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server on loopback."""
    async with serving() as made:
        yield made


@pytest.fixture(params=["plain", "fast"])
def engine(request: pytest.FixtureRequest) -> str:
    """Have secrets searched for with one engine or the other."""
    return searching_with(str(request.param))


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret that the runtime knows, and bodies in small blocks, so that much is there before the end is."""
    monkeypatch.setenv("MY_API_TOKEN", KNOWN)
    monkeypatch.setattr(client, "BLOCK", BLOCK)


def _open(opens: Opens, server: Server) -> Runtime:
    config = http_settings(f"127.0.0.1:{server.port}", max_retries=0)
    config["limits"]["breaker_failures"] = 100
    return opens(config=config, mode="headless")


def _bare(told: str) -> str:
    return re.sub(r"\\+u0000|\\+x00|\0|\ufffd", "", told)


def _leaks(told: str) -> list[str]:
    """What of the secrets stands in a text: eight characters in a row, with or without NUL between them."""
    bare = _bare(told)
    parts = [secret[at : at + 8] for secret in (TOKEN, KNOWN) for at in range(len(secret) - 7)]
    return [part for part in parts if part in bare or part.encode().hex(" ") in bare.replace(" 00", "")]


def _kept(runtime: Runtime) -> dict[str, str]:
    folder = runtime.parts.folder.observations
    names = os.listdir(folder) if folder.exists() else []
    return {name: (folder / name).read_bytes().decode("utf-8", "backslashreplace") for name in names}


def _mixed(charset: str, at: int, after: int = 0) -> bytes:
    """A log that another program went on with, in its own charset."""
    return LINES[:at] + LOG.encode(charset) + LINES[:after]


async def _told(runtime: Runtime, url: str, body: bytes, **args: Any) -> tuple[list[Any], str]:
    """All that a caller can learn of a body: the first page, one in the middle and the last one."""
    digest, codes, told = sha256(body).hexdigest()[:16], list[Any](), ""
    for offset in (None, max(0, len(body) // 2), max(0, len(body) - 3_000)):
        cursor = {} if offset is None else {"cursor": f"{digest}.{offset}"}
        outcome = await runtime.call("http_fetch", {"url": url, **args, **cursor})
        codes.append(outcome.error.code if outcome.error else outcome.status)
        told += str(outcome.to_dict())
    return codes, told


# ── http_fetch ──


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("charset", WIDE)
async def test_a_log_that_goes_over_to_wide_characters_is_no_text_wherever_it_does(
    charset: str, server: Server, opens: Opens
) -> None:
    """No page of it is shown, nothing is kept; whether more follows or not."""
    async with _open(opens, server) as runtime:
        for at in PLACES:
            for after in (0, 100_001):
                body = _mixed(charset, at, after)
                server.on(f"/{at}", body, headers={"Content-Type": "text/plain"})
                codes, told = await _told(runtime, server.url(f"/{at}"), body)
                assert (codes, _leaks(told)) == (["NOT_TEXT"] * 3, []), (at, after)
        assert _kept(runtime) == {}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["text", "markdown"])
async def test_no_header_and_no_format_make_it_text(kind: str, form: str, server: Server, opens: Opens) -> None:
    """Whatever the host calls it, and however it is to be shown."""
    async with _open(opens, server) as runtime:
        for number, (charset, at) in enumerate((charset, at) for charset in WIDE for at in (5_000, 70_001)):
            body = _mixed(charset, at)
            server.on(f"/{number}", body, headers={"Content-Type": kind})
            codes, told = await _told(runtime, server.url(f"/{number}"), body, format=form)
            assert (codes, _leaks(told)) == (["NOT_TEXT"] * 3, []), (charset, at)
        assert _kept(runtime) == {}


@pytest.mark.parametrize("charset", WIDE)
async def test_said_to_be_wide_it_is_read_so_and_its_secrets_are_hidden(
    charset: str, server: Server, opens: Opens
) -> None:
    """Or it is no text; the half that is not in that charset is lost either way."""
    async with _open(opens, server) as runtime:
        for at in (4_096, 4_100, BLOCK, 2 * BLOCK):
            body = LINES[:at] + LOG.encode(charset)
            for said in ("utf-16", "utf-16le", "utf-16be", "utf-32"):
                server.on("/", body, headers={"Content-Type": f"text/plain; charset={said}"})
                _, told = await _told(runtime, server.url("/"), body)
                assert _leaks(told) == [], (at, said)
        assert [name for name, text in _kept(runtime).items() if _leaks(text)] == []


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("charset", WIDE)
async def test_pieces_that_end_where_the_charset_changes_hide_nothing_of_it(
    charset: str, server: Server, opens: Opens
) -> None:
    """Before it, at it, and within its first characters."""

    async def serve(asked: Asked, writer: asyncio.StreamWriter) -> None:
        cut, body = int(asked.path[1:]), _mixed(charset, BLOCK, 30_000)
        writer.write(b"HTTP/1.1 200 Said\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (body[:cut], body[cut : cut + 3], body[cut + 3 :]):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    async with _open(opens, server) as runtime:
        for cut in range(BLOCK - 4, BLOCK + 6):
            server.answers[f"/{cut}"] = serve
            outcome = await runtime.call("http_fetch", {"url": server.url(f"/{cut}")})
            assert outcome.error is not None
            assert (outcome.error.code, _leaks(str(outcome.to_dict()))) == ("NOT_TEXT", [])
        assert _kept(runtime) == {}


@pytest.mark.usefixtures("engine")
async def test_a_text_that_is_wide_from_its_start_is_read_and_its_secrets_are_hidden(
    server: Server, opens: Opens
) -> None:
    """NUL is no part of the text that comes out of it."""
    text = LINES.decode() + LOG + LINES.decode()
    meant = text.replace(TOKEN, MARK).replace(KNOWN, MARK)
    async with _open(opens, server) as runtime:
        for number, charset in enumerate(("utf-16", "utf-16-le", "utf-16-be", "utf-32"), 1):
            server.on("/", text.encode(charset), headers={"Content-Type": f"text/plain; v={number}"})
            outcome = await runtime.call("http_fetch", {"url": server.url("/")})
            assert outcome.ok, outcome.content
            assert _kept(runtime)[f"http_{number}.txt"] == meant


async def test_a_network_that_did_not_look_for_nul_shows_no_more(opens: Opens) -> None:
    """The tool looks itself."""
    urls = {f"https://a.test/{charset}": _mixed(charset, 5_000) for charset in WIDE}
    async with opens(config=http_settings("a.test"), mode="headless") as runtime:
        lend(runtime.kernel, Net=ScriptedNet(urls))
        outcomes = [await runtime.call("http_fetch", {"url": url}) for url in urls]
    assert [outcome.error.code if outcome.error else None for outcome in outcomes] == ["NOT_TEXT"] * len(urls)
    assert _leaks(str([outcome.to_dict() for outcome in outcomes])) == []


@pytest.mark.usefixtures("engine")
async def test_one_nul_at_the_end_of_a_large_text_makes_it_none(server: Server, opens: Opens) -> None:
    """As in a file of the workspace."""
    for body in (LINES + b"\0\n", "größer 狐狸\n".encode() * 20_000 + b"\0"):
        server.on("/", body, headers={"Content-Type": "text/plain; charset=utf-8"})
        async with _open(opens, server) as runtime:
            codes, _ = await _told(runtime, server.url("/"), body)
            assert (codes, _kept(runtime)) == (["NOT_TEXT"] * 3, {})


# ── how it is told ──


@given(st.integers(0, 9_000), st.sampled_from(["", "text/plain", "x; charset=utf-8", "x; charset=latin-1"]))
def test_a_body_with_nul_is_never_its_own_text(at: int, kind: str) -> None:
    """Wherever it stands; where the whole body was looked at before, its beginning is enough."""
    body = LINES[:at] + b"\0" + LINES[: 9_000 - at]
    assert as_it_is(body, kind) is None
    assert as_it_is(body[:4_096], kind, ascii_alone=True, utf8=True, nul=True) is None
    assert as_it_is(LINES[:4_096], kind, ascii_alone=True, utf8=True, nul=False) is not None


def _charsets() -> Iterator[str]:
    yield from sorted({*aliases.values(), "utf-16", "utf-32", "cp037", "nope"})


@pytest.mark.parametrize("wide", WIDE)
def test_no_charset_that_a_header_names_takes_the_nul_away(wide: str) -> None:
    """What is read in it holds NUL, or does not hold the secrets."""
    body = _mixed(wide, 5_000)
    for name in _charsets():
        text, _ = decode(body, f"text/plain; charset={name}")
        hides = Redactor((KNOWN,), engine="plain").text(text)
        assert "\0" in text or _leaks(hides) == [], name


@pytest.mark.parametrize("charset", WIDE)
async def test_nothing_with_nul_is_ever_written(charset: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even for a moment, wherever the text is cut; what was written by then is let go."""
    monkeypatch.setattr(gathering, "ASIDE", 2_000)
    redactor = Redactor((KNOWN,), database=DATABASE if engine == "fast" else None)
    for seed in range(25):
        chance = random.Random(seed)
        before = chance.choice([4_095, 4_096, 4_097, CONTEXT, 3 * CONTEXT + 1, 100_000]) + chance.randrange(2)
        data = _mixed(charset, before, chance.choice([0, 1, CONTEXT, 4 * CONTEXT]))
        edges = sorted({0, len(data), *(chance.randrange(len(data)) for _ in range(chance.randrange(6)))})
        spill = Noting()
        watched = Watched(redactor, spill)  # type: ignore[arg-type]
        body = Body(chance.choice([1, 1_000, 50_000, 10**6]), watched.anew)
        for start, end in pairwise(edges):
            await body.take(data[start:end])
        assert body.fields()["nul"]
        await body.watched()
        assert all(b"\0" not in draft.data and len(draft.data) <= before for draft in spill.drafts), seed
        assert (watched.quiet(len(data)), watched.keep(len(data))) == (False, None)
        watched.drop()
        assert [draft.state for draft in spill.drafts] in ([], ["discarded"])


# ── the other tools ──


async def test_json_that_goes_over_to_wide_characters_is_none(server: Server, opens: Opens) -> None:
    """What is said of it shows nothing of the second half, and what failed shows no excerpt of it."""
    async with _open(opens, server) as runtime:
        for charset in WIDE:
            for at, status in ((20, 200), (20, 500), (400, 500), (5_000, 200), (5_000, 500), (70_001, 200)):
                body = b'{"a": "' + b"x" * at + LOG.encode(charset) + b'"}'
                server.on("/", body, status, {"Content-Type": "application/json"})
                outcome = await runtime.call("http_json", {"url": server.url("/")})
                assert outcome.error is not None
                assert (outcome.error.code, _leaks(str(outcome.to_dict()))) == ("UPSTREAM_ERROR", [])


@pytest.mark.parametrize("charset", WIDE)
async def test_wide_characters_in_a_string_of_json_show_no_secret(charset: str, server: Server, opens: Opens) -> None:
    """NUL is spelled out there; names, strings, what is picked, every page and what is kept."""
    wide = LOG.encode(charset).decode("latin-1")
    many = {"log": wide, "names": {wide: 1}, "lines": [LINES.decode() + wide, "plain"], "port": 1}
    server.on("/", json.dumps(many), headers={"Content-Type": "application/json"})
    server.on("/short", json.dumps({"log": wide}), headers={"Content-Type": "application/json"})
    async with _open(opens, server) as runtime:
        told = ""
        for path, select in (("/", None), ("/", "log"), ("/", "keys(names)"), ("/", "lines[0]"), ("/short", None)):
            args = {"url": server.url(path)} | ({} if select is None else {"select": select})
            outcome = await runtime.call("http_json", args)
            assert outcome.ok, outcome.content
            told += str(outcome.to_dict())
        told += "".join(_kept(runtime).values())
    assert _leaks(told) == []
    assert MARK in told


@given(st.lists(st.sampled_from(["\0", "\0\0", "a", "é", "🦊", TOKEN[:9], TOKEN[9:], TOKEN, " ", "\n"]), max_size=12))
def test_what_stands_around_a_secret_with_nul_in_it_stays(words: list[str]) -> None:
    """Without NUL, what is hidden is what is hidden in the text without NUL, or more."""
    text, redactor = "".join(words), Redactor(engine="plain")
    found = hidden({"a": ["x", text, "y"]}, redactor)["a"]
    assert (found[0], found[2]) == ("x", "y")
    bare = text.replace("\0", "")
    if "\0" not in text or redactor.text(text) is text:
        assert found[1].replace("\0", "") == redactor.text(bare)
    assert TOKEN not in found[1].replace("\0", "") or TOKEN in redactor.text(bare)


def test_the_mark_stands_where_the_secret_stood() -> None:
    """Neither a character more nor one less, NUL among them."""
    wide = "\0".join(TOKEN)
    given = {"a": [f"\0v \0{wide}\0 y\0", "plain", f"{wide}\0\0", f"\0\0{TOKEN}"], f"\0{wide} n": 1}
    meant = {"a": [f"\0v \0{MARK}\0 y\0", "plain", f"{MARK}\0\0", f"\0\0{MARK}"], f"\0{MARK} n": 1}
    assert hidden(given, Redactor(engine="plain")) == meant


async def test_a_download_is_kept_as_it_came_and_no_tool_reads_it_as_text(
    server: Server, opens: Opens, work: Path
) -> None:
    """A file is its bytes; what shows it refuses it."""
    async with _open(opens, server) as runtime:
        for charset in WIDE:
            body = _mixed(charset, 5_000)
            server.on("/", body, headers={"Content-Type": "text/plain"})
            outcome = await runtime.call("http_download", {"url": server.url("/"), "path": charset})
            assert outcome.ok, outcome.content
            assert (work / charset).read_bytes() == body
            read = await runtime.call("read_file", {"path": charset})
            assert read.error is not None
            assert (read.error.code, _leaks(str(outcome.to_dict()) + str(read.to_dict()))) == ("NOT_TEXT", [])

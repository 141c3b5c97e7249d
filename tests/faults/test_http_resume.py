"""A download that is cut: it goes on where the host proves that the rest belongs to what came, and nowhere else."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Opens
from handrail import Runtime
from handrail.net.resuming import Part, part_of
from handrail.words import Outcome
from serving import Asked, Server, answer, code, http_settings, serving

FILE = os.urandom(200_000)
FIRST = 50_000  # bytes of it that come before the cut


@dataclass(slots=True)
class Cutting:
    """Serves a file, cuts it in the middle as often as told, and answers ranges; `change` spoils an answer."""

    cuts: int = 1
    first: dict[str, str] = field(default_factory=lambda: {"ETag": '"one"', "Accept-Ranges": "bytes"})
    change: Callable[[dict[str, Any]], None] = lambda _: None
    ranges: list[tuple[str | None, str | None]] = field(default_factory=list)

    async def __call__(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        wanted = asked.headers.get("range")
        self.ranges.append((wanted, asked.headers.get("if-range")))
        start = 0 if wanted is None else int(wanted.removeprefix("bytes=").removesuffix("-"))
        said: dict[str, Any] = {"status": 200, "headers": dict(self.first), "body": FILE}
        if wanted is not None:
            said = {"status": 206, "headers": dict(self.first), "body": FILE[start:]}
            said["headers"]["Content-Range"] = f"bytes {start}-{len(FILE) - 1}/{len(FILE)}"
            self.change(said)
        body, cut = said["body"], self.cuts >= len(self.ranges)
        writer.write(answer(body[:FIRST] if cut else body, said["status"], said["headers"], len(body)))
        await writer.drain()
        if cut:
            writer.close()


@pytest.fixture
async def reached(opens: Opens) -> AsyncIterator[tuple[Runtime, Server]]:
    """A server that a runtime may reach; the runtime never really waits between tries."""

    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    async with serving() as server, opens(config=http_settings(f"*:{server.port}"), mode="headless") as runtime:
        runtime.parts.outside.network.sleep = at_once
        yield runtime, server


async def download(runtime: Runtime, server: Server, **args: Any) -> Outcome:
    """Download the file."""
    return await runtime.call("http_download", {"url": server.url("/f"), "path": "f", **args})


@pytest.mark.parametrize("cuts", [0, 1, 2])
async def test_a_cut_download_goes_on_where_it_ended(cuts: int, reached: tuple[Runtime, Server], work: Path) -> None:
    """Each try asks for what is missing alone; the file and its hash are those of the whole."""
    runtime, server = reached
    server.answers["/f"] = cutting = Cutting(cuts)
    digest, told = sha256(FILE).hexdigest(), []
    runtime.parts.outside.network.progress = lambda _, done, total: told.append((done, total))
    outcome = await download(runtime, server, sha256=digest)
    assert outcome.ok, outcome.content
    assert (work / "f").read_bytes() == FILE
    data = {"path": "f", "bytes": len(FILE), "sha256": digest, "url": server.url("/f"), "status": 200}
    assert outcome.data == data
    asked = [(f"bytes={FIRST * number}-", '"one"') for number in range(1, cuts + 1)]
    assert cutting.ranges == [(None, None), *asked]
    assert {total for _, total in told} == {len(FILE)}
    tries = f", {cuts + 1} tries" if cuts else ""
    assert outcome.evidence[0].summary == f"GET 200, {len(FILE)} bytes from 127.0.0.1{tries}"


async def test_a_download_goes_on_within_the_budget_of_tries_alone(reached: tuple[Runtime, Server], work: Path) -> None:
    """A host that always cuts is asked three times, and nothing stays."""
    runtime, server = reached
    server.answers["/f"] = cutting = Cutting(cuts=99)
    assert code(await download(runtime, server)) == "UPSTREAM_ERROR"
    assert len(cutting.ranges) == 3
    assert list(work.iterdir()) == []


@pytest.mark.parametrize(
    "first",
    [
        {"Accept-Ranges": "bytes"},
        {"Accept-Ranges": "bytes", "ETag": 'W/"one"'},
        {"Accept-Ranges": "bytes", "ETag": "one"},
        {"Accept-Ranges": "none", "ETag": '"one"'},
        {"ETag": '"one"'},
        {"Accept-Ranges": "bytes", "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"},
    ],
    ids=["no mark", "weak", "unquoted", "no ranges", "ranges not named", "a date"],
)
async def test_without_a_strong_mark_nothing_is_asked_again(
    first: dict[str, str], reached: tuple[Runtime, Server], work: Path
) -> None:
    """Nothing would prove that the rest belongs to what came."""
    runtime, server = reached
    server.answers["/f"] = cutting = Cutting(first=first)
    assert code(await download(runtime, server)) == "UPSTREAM_ERROR"
    assert cutting.ranges == [(None, None)]
    assert list(work.iterdir()) == []


def _headers(**given: str | None) -> Callable[[dict[str, Any]], None]:
    def change(said: dict[str, Any]) -> None:
        for name, value in given.items():
            said["headers"].pop(name.replace("_", "-"), None)
            if value is not None:
                said["headers"][name.replace("_", "-")] = value

    return change


def _whole_again(said: dict[str, Any]) -> None:
    said |= {"status": 200, "body": os.urandom(len(FILE))}
    del said["headers"]["Content-Range"]


def _longer(said: dict[str, Any]) -> None:
    said["body"] += b"more"
    said["headers"]["Content-Range"] = f"bytes {FIRST}-{END + 4}/{SIZE + 4}"


END, SIZE = len(FILE) - 1, len(FILE)


@pytest.mark.parametrize(
    "change",
    [
        _whole_again,
        _headers(ETag='"two"'),
        _headers(ETag=None),
        _headers(ETag='W/"one"'),
        _headers(Content_Range=None),
        _headers(Content_Range=f"bytes {FIRST - 1}-{END}/{SIZE}"),
        _headers(Content_Range=f"bytes {FIRST + 1}-{END}/{SIZE}"),
        _headers(Content_Range=f"bytes {FIRST}-{END - 1}/{SIZE}"),
        _headers(Content_Range=f"bytes {FIRST}-{END}/{SIZE + 1}"),
        _headers(Content_Range=f"bytes {FIRST}-{END}/*"),
        _headers(Content_Range=f"lines {FIRST}-{END}/{SIZE}"),
        _headers(Content_Encoding="gzip"),
        _longer,
        lambda said: said.update(status=200),
    ],
)
async def test_what_is_not_the_rest_is_never_put_behind_the_beginning(
    change: Callable[[dict[str, Any]], None], reached: tuple[Runtime, Server], work: Path
) -> None:
    """A changed file, another place in it, another packing: refused without a further try, and nothing stays."""
    runtime, server = reached
    server.answers["/f"] = cutting = Cutting(change=change)
    assert code(await download(runtime, server)) == "UPSTREAM_ERROR"
    assert len(cutting.ranges) == 2
    assert list(work.iterdir()) == []


async def test_an_error_while_going_on_is_tried_again(reached: tuple[Runtime, Server], work: Path) -> None:
    """A 503 between a cut and the rest takes a try, and no part of it reaches the file."""
    runtime, server = reached
    cutting = Cutting()

    def busy(said: dict[str, Any]) -> None:
        if len(cutting.ranges) == 2:
            said.update(status=503, headers={}, body=b"busy")

    cutting.change = busy
    server.answers["/f"] = cutting
    outcome = await download(runtime, server)
    assert outcome.ok, outcome.content
    assert (work / "f").read_bytes() == FILE
    assert len(cutting.ranges) == 3


async def test_a_rest_that_a_redirect_gives_from_elsewhere_is_refused(
    reached: tuple[Runtime, Server], work: Path
) -> None:
    """The mark of one place says nothing of another."""
    runtime, server = reached
    cutting = Cutting()

    async def moved(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if "range" not in asked.headers:
            await cutting(asked, writer)
        else:
            writer.write(answer(b"", 302, {"Location": "/other"}))

    server.answers["/f"], server.answers["/other"] = moved, cutting
    assert code(await download(runtime, server)) == "UPSTREAM_ERROR"
    assert server.paths() == ["/f", "/f", "/other"]
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("header", [{"Range": "bytes=0-"}, {"If-Match": '"one"'}], ids=["a part", "a condition"])
async def test_a_call_with_a_range_or_a_condition_is_not_gone_on_with(
    header: dict[str, str], reached: tuple[Runtime, Server]
) -> None:
    """A caller's own would be overwritten, or mean something else for the rest."""
    runtime, server = reached
    server.answers["/f"] = Cutting()
    assert code(await download(runtime, server, headers=header)) == "UPSTREAM_ERROR"
    assert len(server.asked) == 1


async def test_a_cut_before_the_first_byte_begins_anew(reached: tuple[Runtime, Server], work: Path) -> None:
    """There is nothing that the rest would have to fit to, so that the file may have changed."""
    runtime, server = reached
    cutting = Cutting(cuts=0)

    async def head_alone(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(b"", headers={"ETag": '"old"', "Accept-Ranges": "bytes"}, length=7))
        await writer.drain()
        writer.close()
        server.answers["/f"] = cutting

    server.answers["/f"] = head_alone
    assert (await download(runtime, server)).ok
    assert cutting.ranges == [(None, None)]
    assert (work / "f").read_bytes() == FILE


@pytest.mark.parametrize("room", [0, 1], ids=["too little", "enough"])
async def test_going_on_counts_against_the_bound_of_bytes(
    room: int, reached: tuple[Runtime, Server], work: Path
) -> None:
    """The beginning did not say how long the whole is; a rest that makes it too large is refused."""
    runtime, server = reached
    cutting = Cutting(cuts=0)

    async def chunked(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if "range" in asked.headers:
            await cutting(asked, writer)
            return
        head = b'HTTP/1.1 200 OK\r\nETag: "one"\r\nAccept-Ranges: bytes\r\nTransfer-Encoding: chunked\r\n\r\n'
        writer.write(head + b"%x\r\n" % FIRST + FILE[:FIRST] + b"\r\n")
        await writer.drain()
        writer.close()

    server.answers["/f"] = chunked
    outcome = await download(runtime, server, max_bytes=SIZE - 1 + room)
    assert code(outcome) == (None if room else "HTTP_TOO_LARGE")
    assert [path.read_bytes() for path in work.iterdir()] == ([FILE] if room else [])


@given(
    st.integers(0, 300),
    st.sampled_from([200, 206, 416]),
    st.from_regex(r"bytes [0-9]{1,3}-[0-9]{1,3}/([0-9]{1,3}|\*)", fullmatch=True) | st.text(max_size=30),
    st.none() | st.integers(0, 300),
)
def test_only_the_exact_rest_goes_on(taken: int, status: int, said: str, total: int | None) -> None:
    """Whatever an answer says: where it goes on, it begins at the cut and ends at the end."""
    part = Part("u", 200, '"e"', total)
    if part.continued(taken, "u", status, {"ETag": '"e"', "Content-Range": said}):
        first, last, size = (int(number) for number in re.findall("[0-9]+", said))
        assert (status, first, last) == (206, taken, size - 1)
        assert total in (None, size)


@given(st.dictionaries(st.sampled_from(["ETag", "Accept-Ranges", "Content-Encoding"]), st.text(max_size=20)))
def test_a_body_can_be_gone_on_with_only_by_a_strong_mark(headers: dict[str, str]) -> None:
    """The mark goes back into a header as it came, so that nothing but a mark is taken for one."""
    part = part_of("u", 200, headers, None, {})
    if part is not None:
        assert part.etag == headers["ETag"]
        assert part.etag.isascii()
        assert part.etag.isprintable()
        assert part.etag.startswith('"')

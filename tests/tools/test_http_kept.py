"""What http_fetch keeps of a large body while it comes: all of it, never a part of a secret, nothing of what fails."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import threading
from collections.abc import AsyncIterator
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from conftest import Opens
from handrail import Runtime
from handrail.errors import Code, Problem
from handrail.net import client, gathering
from handrail.net.gathering import Body
from handrail.output.redact import CONTEXT, Redactor
from handrail.store.spill import FileDraft, FileSpill
from handrail.tools.http._watching import Kept, Watched
from handrail.words import Ref
from serving import Asked, Server, answer, http_settings, serving
from tools._engines import DATABASE, searching_with

SECRET = b"ghp_" + b"a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
LINES = "".join(f"{number}: größer 狐狸\n" for number in range(20_000)).encode()
NEAR = (0, 1, 7, CONTEXT - 1, CONTEXT, CONTEXT + 1, 2 * CONTEXT, 3 * CONTEXT + 5)


@pytest.fixture
def fast() -> None:
    """Have secrets searched for by what can tell for certain that there are none."""
    searching_with("fast")


class Noted:
    """A draft in memory."""

    def __init__(self) -> None:
        self.data, self.state = b"", "open"

    def add(self, part: bytes | memoryview) -> None:
        """Take more."""
        assert self.state == "open"
        self.data += part

    def keep(self, sha256: str = "") -> Ref:
        """End it."""
        self.state = "kept"
        return Ref("run:observations/http_1.txt", sha256, len(self.data))

    def discard(self) -> None:
        """Let it go."""
        self.state = "discarded"


class Noting:
    """Where drafts in memory begin."""

    def __init__(self, draft: type[Noted] = Noted) -> None:
        self.drafts: list[Noted] = []
        self._draft = draft

    def draft(self, _: str = "") -> Noted:
        """Begin one."""
        self.drafts.append(self._draft())
        return self.drafts[-1]


def _cut(data: bytes, chance: random.Random) -> list[bytes]:
    edges = [0]
    while edges[-1] < len(data):
        edges.append(min(len(data), edges[-1] + chance.choice(NEAR)))
    return [data[start:end] for start, end in pairwise(edges)]


@pytest.mark.usefixtures("fast")
def test_what_is_kept_in_parts_is_what_came(tmp_path: Path) -> None:
    """Whatever the parts are, also where they are as long as what is held back."""
    redactor, spill = Redactor(database=DATABASE), FileSpill(tmp_path)
    for seed in range(12):
        chance = random.Random(seed)
        data = LINES[: chance.randrange(1, len(LINES))]
        watched = Watched(redactor, spill)
        take = watched.anew()
        for part in _cut(data, chance):
            take(part)
        assert watched.keep(len(data)) == Ref(f"run:observations/http_{seed + 1}.txt", "", len(data))
        watched.drop()
        assert (tmp_path / f"http_{seed + 1}.txt").read_bytes() == data
    assert len(os.listdir(tmp_path)) == 12


@pytest.mark.parametrize("fast", [True, False])
def test_no_part_of_a_secret_is_ever_written(fast: bool) -> None:
    """Not even for a moment, wherever the text is cut; what was written by then is let go."""
    redactor = Redactor(("hunter2hunter2",), database=DATABASE if fast else None)
    for seed in range(60):
        chance = random.Random(seed)
        secret = chance.choice([SECRET, b"hunter2hunter2"])
        before, after = chance.choice(NEAR) + chance.randrange(3), chance.choice(NEAR)
        data = LINES[:before] + b"\n" + secret + b"\n" + LINES[:after]
        spill = Noting()
        watched = Watched(redactor, spill)  # type: ignore[arg-type]
        take = watched.anew()
        for part in _cut(data, chance):
            take(part)
            assert all(len(draft.data) <= before + 1 for draft in spill.drafts), seed
        assert watched.keep(len(data)) is None
        watched.drop()
        assert [draft.state for draft in spill.drafts] in ([], ["discarded"])
        assert all(data.startswith(draft.data) for draft in spill.drafts)


@pytest.mark.usefixtures("fast")
def test_each_try_keeps_its_own() -> None:
    """One that was given up is let go, also by parts that come to it later."""
    spill = Noting()
    watched = Watched(Redactor(database=DATABASE), spill)  # type: ignore[arg-type]
    first = watched.anew()
    first(LINES)
    second = watched.anew()
    first(LINES)
    second(LINES)
    assert watched.keep(len(LINES) - 1) is None
    assert watched.keep(len(LINES)) == Ref("run:observations/http_1.txt", "", len(LINES))
    watched.drop()
    assert [(draft.state, len(draft.data)) for draft in spill.drafts] == [
        ("discarded", len(LINES) - CONTEXT),
        ("kept", len(LINES)),
    ]


def test_dropping_never_waits_for_who_writes() -> None:
    """The disk may be slow; who writes lets go what he wrote."""
    writes, goes_on = threading.Event(), threading.Event()

    class Slow(Noted):
        def add(self, part: bytes | memoryview) -> None:
            super().add(part)
            writes.set()
            assert goes_on.wait(20)

    spill = Noting(Slow)
    kept = Kept(spill)  # type: ignore[arg-type]
    writer = threading.Thread(target=kept.write, args=(b"some",))
    writer.start()
    assert writes.wait(20)
    kept.drop()
    assert spill.drafts[0].state == "open"
    goes_on.set()
    writer.join(20)
    assert spill.drafts[0].state == "discarded"
    kept.write(b"more")
    assert (kept.end(), len(spill.drafts)) == (None, 1)


@pytest.mark.usefixtures("fast")
def test_what_cannot_be_written_is_let_go() -> None:
    """Whoever wants it kept is told so when he tries again."""

    class Full(Noted):
        def add(self, part: bytes | memoryview) -> None:
            raise Problem(Code.IO_ERROR, f"no room for {len(part)} bytes")

    spill = Noting(Full)
    watched = Watched(Redactor(database=DATABASE), spill)  # type: ignore[arg-type]
    watched.anew()(LINES)
    assert watched.quiet(len(LINES))
    assert watched.keep(len(LINES)) is None
    assert [draft.state for draft in spill.drafts] == ["discarded"]


@pytest.mark.parametrize("unnamed", [True, False])
def test_a_draft_is_seen_only_when_it_is_kept(unnamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a file system has no files without a name; numbers go to what is kept alone."""
    if not unnamed:
        monkeypatch.setattr(os, "O_TMPFILE", os.O_CREAT | os.O_DIRECTORY)
    spill, handles = FileSpill(tmp_path), len(os.listdir("/proc/self/fd"))
    gone, kept, other = spill.draft("a"), spill.draft("a"), spill.draft()
    for draft in (gone, kept, other):
        draft.add(LINES)
        draft.add(memoryview(LINES)[:3])
    assert all(name.startswith(".") for name in os.listdir(tmp_path))
    assert len(os.listdir(tmp_path)) == (0 if unnamed else 3)
    gone.discard()
    (tmp_path / "a_1.txt").write_bytes(b"another process wrote this")
    digest = sha256(LINES).hexdigest()
    assert kept.keep(digest) == Ref("run:observations/a_2.txt", digest, len(LINES) + 3)
    assert other.keep() == Ref("run:observations/3.txt", "", len(LINES) + 3)
    for draft in (gone, kept, other):
        draft.discard()
    assert sorted(os.listdir(tmp_path)) == ["3.txt", "a_1.txt", "a_2.txt"]
    assert (tmp_path / "a_1.txt").read_bytes() == b"another process wrote this"
    assert {(tmp_path / name).read_bytes() for name in ("3.txt", "a_2.txt")} == {LINES + LINES[:3]}
    assert (tmp_path / "a_2.txt").stat().st_mode & 0o777 == 0o600
    assert len(os.listdir("/proc/self/fd")) == handles


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize(
    ("text", "charset", "kind", "plain"),
    [
        (LINES.decode(), "utf-16-le", "", True),
        (LINES.decode(), "utf-16-be", "text/plain; charset=utf-8", True),
        (LINES.decode(), "utf-32-le", "text/plain; charset=utf-32", True),
        ("plain" * 60_000, "ascii", "text/plain; charset=iso-2022-jp", True),
        ("plain" * 60_000, "ascii", "text/plain; charset=utf-16", True),
        ("<p>plain" * 60_000, "ascii", "text/html", False),
        ("<!DOCTYPE html><p>plain" * 60_000, "ascii", "", False),
        ("\0\1\2" * 60_000, "ascii", "application/octet-stream", True),
    ],
)
def test_nothing_is_written_of_what_is_not_its_own_text(text: str, charset: str, kind: str, plain: bool) -> None:
    """A secret in it would be no row of bytes that anybody knows."""
    spill = Noting()
    watched = Watched(Redactor(database=DATABASE), spill, plain=plain)  # type: ignore[arg-type]
    watched.anew(kind)(text.encode(charset))
    assert (spill.drafts, watched.quiet(len(text.encode(charset)))) == ([], False)


@pytest.mark.usefixtures("fast")
def test_what_is_kept_is_let_go_as_soon_as_a_secret_comes_or_more_is_known() -> None:
    """What is kept in its place needs the room, and nothing that is known now may stay."""
    redactor = Redactor(database=DATABASE)
    spill = Noting()
    watched = Watched(redactor, spill)  # type: ignore[arg-type]
    take = watched.anew()
    take(LINES)
    assert spill.drafts[0].state == "open"
    take(SECRET)
    assert spill.drafts[0].state == "discarded"
    take = watched.anew()
    take(LINES)
    redactor.learn(["qqvalue0192837465zzab"])
    take(LINES)
    assert [draft.state for draft in spill.drafts] == ["discarded", "discarded"]


@pytest.mark.parametrize("fails", ["close", "rename"])
def test_a_draft_that_cannot_be_ended_leaves_nothing(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems tell only then that there is no room."""
    if fails == "rename":
        monkeypatch.setattr(os, "O_TMPFILE", os.O_CREAT | os.O_DIRECTORY)
    spill, real = FileSpill(tmp_path), getattr(os, fails)
    draft = spill.draft()
    draft.add(LINES)

    def failing(*args: Any) -> None:
        if fails == "close":
            real(*args)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, fails, failing)
        with pytest.raises(Problem) as caught:
            draft.keep()
    assert (caught.value.code, os.listdir(tmp_path)) == (Code.IO_ERROR, [])
    draft.discard()


async def test_the_work_on_many_bodies_is_shared_among_all_threads() -> None:
    """Each kind of work in turn."""
    seen: list[bytes] = []
    bodies = [Body(1, lambda _: seen.append) for _ in range(4 * (os.cpu_count() or 1))]
    for body in bodies:
        await body.take(b"x" * gathering.ASIDE)
        await body.watched()
        await body.hexdigest()
    used = [{body.digest._thread for body in bodies}, {body._lane._thread for body in bodies if body._lane is not None}]
    assert used == [set(gathering._threads("hash")), set(gathering._threads("watch"))]


# ── end to end ──


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server on loopback."""
    async with serving() as made:
        yield made


@pytest.fixture(autouse=True)
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have bodies gathered in small blocks, so that much is written before the end is there."""
    monkeypatch.setattr(client, "BLOCK", 64 * 1024)


def _open(opens: Opens, server: Server) -> Any:
    return opens(config=http_settings(f"127.0.0.1:{server.port}"), mode="headless")


def _observed(runtime: Runtime) -> list[str]:
    folder = runtime.parts.folder.observations
    return sorted(os.listdir(folder)) if folder.exists() else []


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize(
    ("body", "kind", "status", "kept"),
    [
        (LINES, "text/plain; charset=utf-8", 200, True),
        (LINES + SECRET, "text/plain; charset=utf-8", 200, True),
        (LINES + b"\xff", "text/plain", 200, True),
        (LINES, "text/plain", 404, True),
        (b"\x89PNG\0" + LINES, "image/png", 200, False),
    ],
)
async def test_nothing_is_left_but_what_an_answer_names(
    body: bytes, kind: str, status: int, kept: bool, server: Server, opens: Opens
) -> None:
    """Whatever a body turns out to be; no handle stays open either."""
    for path in ("/1", "/2"):
        server.on(path, body, status, {"Content-Type": kind})
    async with _open(opens, server) as runtime:
        await runtime.call("http_fetch", {"url": server.url("/1")})
        handles = len(os.listdir("/proc/self/fd"))
        outcome = await runtime.call("http_fetch", {"url": server.url("/2")})
        assert len(os.listdir("/proc/self/fd")) == handles
        names = [ref.ref.rpartition("/")[2] for ref in outcome.refs]
        found = _observed(runtime)
        texts = [(runtime.parts.folder.observations / name).read_bytes() for name in found]
    assert (found, names) == ((["http_1.txt", "http_2.txt"], ["http_2.txt"]) if kept else ([], []))
    assert not any(SECRET in text for text in texts)


@pytest.mark.usefixtures("fast")
async def test_a_call_that_is_cancelled_keeps_nothing(
    server: Server, opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though most of the body was there, and written."""
    loop, written, gone = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    add, discard = FileDraft.add, FileDraft.discard

    def adding(draft: FileDraft, part: bytes | memoryview) -> None:
        add(draft, part)
        loop.call_soon_threadsafe(written.set)

    def discarding(draft: FileDraft) -> None:
        discard(draft)
        loop.call_soon_threadsafe(gone.set)

    async def serve(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(LINES, 200, {"Content-Type": "text/plain"}, len(LINES) + 1))
        await writer.drain()
        await asyncio.Event().wait()

    monkeypatch.setattr(FileDraft, "add", adding)
    monkeypatch.setattr(FileDraft, "discard", discarding)
    server.answers["/"] = serve
    async with _open(opens, server) as runtime, asyncio.timeout(20):
        call = asyncio.ensure_future(runtime.call("http_fetch", {"url": server.url("/")}))
        await written.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await gone.wait()
        assert _observed(runtime) == []


@pytest.mark.usefixtures("fast")
async def test_a_call_that_is_cancelled_while_its_secrets_are_hidden_keeps_nothing(
    server: Server, opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that does it goes on, and names nothing."""
    loop, begun, ended = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    goes_on, text = threading.Event(), Redactor.text

    def hiding(redactor: Redactor, shown: str) -> str:
        if len(shown) < len(LINES) // 2:
            return text(redactor, shown)
        loop.call_soon_threadsafe(begun.set)
        assert goes_on.wait(20)
        loop.call_soon_threadsafe(loop.call_later, 0.05, ended.set)
        return text(redactor, shown)

    server.on("/", LINES + SECRET, headers={"Content-Type": "text/plain"})
    monkeypatch.setattr(Redactor, "text", hiding)
    async with _open(opens, server) as runtime, asyncio.timeout(20):
        call = asyncio.ensure_future(runtime.call("http_fetch", {"url": server.url("/")}))
        await begun.wait()
        call.cancel()
        await asyncio.sleep(0)
        goes_on.set()
        await asyncio.gather(call, return_exceptions=True)
        await ended.wait()
        assert _observed(runtime) == []

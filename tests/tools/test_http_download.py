"""http_download: a file in the workspace, whole and checked, or nothing at all."""

from __future__ import annotations

import asyncio
import os
import tracemalloc
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from conftest import Opens
from handrail import Runtime
from handrail.testing import ScriptedApprover
from serving import Asked, Server, answer, http_settings, serving

MIB = 1024 * 1024
BODY = os.urandom(300_000)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server on loopback that has a file."""
    async with serving() as made:
        made.on("/f", BODY)
        yield made


def opened(opens: Opens, server: Server, **how: Any) -> Runtime:
    """A runtime that may reach the server."""
    return opens(config=http_settings(f"127.0.0.1:{server.port}", **how.pop("http", {})), **{"mode": "headless", **how})


def code(outcome: Any) -> str | None:
    """The code of a failed call."""
    return outcome.error.code if outcome.error is not None else None


async def test_a_file_is_downloaded_and_can_be_undone(server: Server, opens: Opens, work: Path) -> None:
    """Folders are made; both the request and the file are proven; the change is on record."""
    async with opened(opens, server) as runtime:
        outcome = await runtime.call("http_download", {"url": server.url("/f"), "path": "a/b.bin"})
        assert (work / "a/b.bin").read_bytes() == BODY
        undone = await runtime.undo()
        assert undone.ok, undone.content
    digest = sha256(BODY).hexdigest()
    data = {"path": "a/b.bin", "bytes": len(BODY), "sha256": digest, "url": server.url("/f"), "status": 200}
    assert outcome.data == data
    assert [(proof.type, proof.sha256) for proof in outcome.evidence] == [("http", digest), ("file", digest)]
    assert [change.path for change in outcome.changes] == ["a", "a/b.bin"]
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("right", [True, False])
async def test_a_hash_decides_whether_the_file_is_written(
    right: bool, server: Server, opens: Opens, work: Path
) -> None:
    """What is not what was asked for is not there, not even in part."""
    wanted = sha256(BODY).hexdigest().upper() if right else "0" * 64
    async with opened(opens, server) as runtime:
        outcome = await runtime.call("http_download", {"url": server.url("/f"), "path": "b", "sha256": wanted})
    assert code(outcome) == (None if right else "UPSTREAM_ERROR")
    assert os.listdir(work) == (["b"] if right else [])


async def test_a_file_that_is_there_is_replaced_only_when_asked(server: Server, opens: Opens, work: Path) -> None:
    """And replacing asks a person."""
    (work / "b").write_text("old")
    args = {"url": server.url("/f"), "path": "b"}
    async with opened(opens, server) as runtime:  # nobody is asked for what can only fail
        assert code(await runtime.call("http_download", args)) == "ALREADY_EXISTS"
    async with opened(opens, server, mode="interactive", approver=ScriptedApprover("once")) as runtime:
        assert code(await runtime.call("http_download", args)) == "ALREADY_EXISTS"
        assert (work / "b").read_text() == "old"
        assert (await runtime.call("http_download", {**args, "overwrite": True})).ok
    assert (work / "b").read_bytes() == BODY
    async with opened(opens, server) as runtime:
        assert code(await runtime.call("http_download", {**args, "overwrite": True})) == "APPROVAL_REQUIRED"


@pytest.mark.parametrize("path", ["../x", "/etc/x", ".git/hooks/post-commit", ".ssh/id_rsa", "handrail.toml"])
async def test_a_download_goes_nowhere_that_a_write_may_not(path: str, server: Server, opens: Opens) -> None:
    """Nothing is fetched for it."""
    async with opened(opens, server) as runtime:
        outcome = await runtime.call("http_download", {"url": server.url("/f"), "path": path})
    assert outcome.status.value == "denied"
    assert server.connections == 0


@pytest.mark.parametrize("status", [404, 403, 500])
async def test_an_error_page_is_no_file(status: int, server: Server, opens: Opens, work: Path) -> None:
    """UPSTREAM_ERROR with its beginning."""
    server.on("/e", "not here", status)
    async with opened(opens, server, http={"max_retries": 0}) as runtime:
        outcome = await runtime.call("http_download", {"url": server.url("/e"), "path": "b"})
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.details["excerpt"]) == ("UPSTREAM_ERROR", "not here")
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("old", [None, b"old"])
async def test_a_download_has_its_name_only_when_it_is_whole(
    old: bytes | None, server: Server, opens: Opens, work: Path
) -> None:
    """Two of three mebibytes have come: whoever looks finds nothing, or the old file."""
    goes_on, most_is_there = asyncio.Event(), asyncio.Event()
    body = os.urandom(3 * MIB)

    async def pauses(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body[: 2 * MIB + 1000])
        await writer.drain()
        await goes_on.wait()
        writer.write(body[2 * MIB + 1000 :])

    def told(_: str, done: int, __: int) -> None:
        if done == 2 * MIB + 1000:
            most_is_there.set()

    def found() -> bytes | None:
        return (work / "b").read_bytes() if (work / "b").exists() else None

    server.answers["/pauses"] = pauses
    if old is not None:
        (work / "b").write_bytes(old)
    async with opened(opens, server, mode="interactive", approver=ScriptedApprover("once")) as runtime:
        runtime.parts.outside.network.progress = told
        args = {"url": server.url("/pauses"), "path": "b", "overwrite": old is not None}
        task = asyncio.ensure_future(runtime.call("http_download", args))
        task.add_done_callback(lambda _: most_is_there.set())  # what ended before is seen below
        await most_is_there.wait()
        between = found()
        goes_on.set()
        outcome = await task
    assert outcome.ok, outcome.content
    assert (between, found(), os.listdir(work)) == (old, body, ["b"])


@pytest.mark.parametrize(
    ("path", "bounds", "ends"),
    [
        ("/cut", {}, "UPSTREAM_ERROR"),
        ("/f", {"sha256": "0" * 64}, "UPSTREAM_ERROR"),
        ("/f", {"max_bytes": 1000}, "HTTP_TOO_LARGE"),
        ("/endless", {"max_bytes": 2 * MIB}, "HTTP_TOO_LARGE"),
    ],
)
async def test_a_failed_download_leaves_the_old_file_as_it_was(
    path: str, bounds: dict[str, Any], ends: str, server: Server, opens: Opens, work: Path
) -> None:
    """Also where it was to be replaced, and much of the new one had come; nothing lies beside it."""

    async def cut(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(bytes(2 * MIB), length=3 * MIB))
        await writer.drain()
        writer.close()

    async def endless(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _number in range(64):
            writer.write(bytes(MIB))
            await writer.drain()

    server.answers |= {"/cut": cut, "/endless": endless}
    (work / "b").write_text("old")
    before = (work / "b").stat()
    async with opened(opens, server, mode="interactive", approver=ScriptedApprover("once")) as runtime:
        args = {"url": server.url(path), "path": "b", "overwrite": True, **bounds}
        outcome = await runtime.call("http_download", args)
    after = (work / "b").stat()
    assert (code(outcome), len(server.asked)) == (ends, 1), outcome.content
    assert ((work / "b").read_text(), os.listdir(work), outcome.changes) == ("old", ["b"], ())
    assert (after.st_ino, after.st_mtime_ns, after.st_mode) == (before.st_ino, before.st_mtime_ns, before.st_mode)


async def test_a_large_download_is_never_whole_in_memory(server: Server, opens: Opens, work: Path) -> None:
    """Sixty-four mebibytes pass through a few; progress is told on the way."""
    size, told = 64 * MIB, []

    async def large(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _number in range(64):
            writer.write(bytes(MIB))
            await writer.drain()

    server.answers["/large"] = large
    async with opened(opens, server) as runtime:
        runtime.parts.outside.network.progress = lambda call, done, total: told.append((done, total))
        tracemalloc.start()
        outcome = await runtime.call("http_download", {"url": server.url("/large"), "path": "b"})
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert outcome.ok, outcome.content
    assert peak < 16 * MIB
    assert told[-1] == (size, size)
    assert (work / "b").stat().st_size == size


async def test_a_download_over_the_limit_leaves_nothing(server: Server, opens: Opens, work: Path) -> None:
    """Whichever is lower, the call's or the settings'."""
    async with opened(opens, server, http={"max_download_bytes": 1000}) as runtime:
        outcome = await runtime.call("http_download", {"url": server.url("/f"), "path": "b"})
    assert code(outcome) == "HTTP_TOO_LARGE"
    assert list(work.iterdir()) == []


async def test_a_download_over_the_limit_says_which_bound_to_raise(server: Server, opens: Opens) -> None:
    """The call's argument and the setting; not the tool that was just called."""
    async with opened(opens, server, http={"max_download_bytes": 200_000}) as runtime:
        outcome = await runtime.call("http_download", {"url": server.url("/f"), "path": "b", "max_bytes": 1000})
        fetched = await runtime.call("http_fetch", {"url": server.url("/f"), "max_bytes": 1000})
    assert outcome.error is not None
    assert outcome.error.details["mend"] == (
        "a larger `max_bytes` takes it, up to `http.max_download_bytes` of the settings"
    )
    assert fetched.error is not None
    assert fetched.error.details["mend"] == "http_download takes larger files"


async def test_a_raised_setting_holds_for_a_download_that_names_no_bound(
    server: Server, opens: Opens, work: Path
) -> None:
    """More than a hundred mebibytes, where settings say so."""
    size = 101 * MIB

    async def large(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _number in range(101):
            writer.write(bytes(MIB))
            await writer.drain()

    server.answers["/large"] = large
    async with opened(opens, server, http={"max_download_bytes": 102 * MIB}) as runtime:
        outcome = await runtime.call("http_download", {"url": server.url("/large"), "path": "b"})
    assert outcome.ok, outcome.content
    assert (work / "b").stat().st_size == size

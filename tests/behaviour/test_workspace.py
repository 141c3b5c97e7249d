"""Reading, streaming, looking and listing through a call's workspace."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handrail.errors import Code, Misuse, Problem
from handrail.ports import Entry, Listing
from handrail.words import Exclusion, Place, PlaceKind, Root
from handrail.workspace import WorkspaceFiles
from handrail.workspace.bound import BoundFiles
from workspaces import refused, whole, workspace

MIB = 1 << 20


@pytest.fixture(params=["openat2", "walk"])
async def files(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[WorkspaceFiles]:
    """An empty workspace, once with each way to open."""
    made = workspace(tmp_path, opener=request.param)
    yield made
    await made.close()


# ── reading ──


@pytest.mark.parametrize("size", [0, 1, 1024, MIB, MIB + 1, 3 * MIB + 7])
async def test_a_file_of_any_size_is_read_whole(files: WorkspaceFiles, call: BoundFiles, ws: Path, size: int) -> None:
    """Small or large, the bytes come with the time of their last change."""
    data = os.urandom(size)
    (ws / "sub").mkdir()
    (ws / "sub/f").write_bytes(data)
    content = await call.read(files.resolve("sub/f"), 4 * MIB)
    assert (content.data, content.mtime_ns) == (data, (ws / "sub/f").stat().st_mtime_ns)
    assert call.bytes_read == size


async def test_a_file_over_the_limit_is_not_read(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """The limit itself still fits; one byte more is FILE_TOO_LARGE with both numbers."""
    (ws / "f").write_bytes(b"x" * 100)
    assert len((await call.read(files.resolve("f"), 100)).data) == 100
    problem = await refused(call.read(files.resolve("f"), 99))
    assert (problem.code, problem.details["bytes"], problem.details["max_bytes"]) == (Code.FILE_TOO_LARGE, 100, 99)


async def test_a_file_whose_size_says_nothing_is_read_to_its_end() -> None:
    """Files as in /proc claim to be empty; the limit holds for what they really give."""
    files = WorkspaceFiles([Root("workspace", "/proc", False)], images=None, locks_dir=None)
    try:
        call, place = files.bind("c", ()), files.resolve(f"{os.getpid()}/status")
        content = await call.read(place, MIB)
        assert content.data.startswith(b"Name:")
        assert (await refused(call.read(place, 10))).code is Code.FILE_TOO_LARGE
    finally:
        await files.close()


async def test_a_file_that_grows_while_it_is_read_stays_within_the_limit(
    files: WorkspaceFiles, call: BoundFiles, ws: Path
) -> None:
    """Whatever a writer appends meanwhile, a read gives a prefix of it or refuses."""
    (ws / "log").write_bytes(b"")
    stop = threading.Event()

    def grow() -> None:
        with (ws / "log").open("ab", buffering=0) as log:
            while not stop.is_set() and log.tell() < 4 * MIB:
                log.write(b"0123456789abcdef" * 64)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        while True:
            try:
                content = await call.read(files.resolve("log"), 2 * MIB)
            except Problem as problem:
                ended = problem.code
                break
            whole = b"0123456789abcdef" * (len(content.data) // 16)
            assert content.data == whole
    finally:
        stop.set()
        writer.join()
    assert ended is Code.FILE_TOO_LARGE


async def test_a_missing_file_is_answered_with_near_names(files: WorkspaceFiles, ws: Path) -> None:
    """Close names beside it and the same name elsewhere are given, excluded ones never."""
    (ws / "src/deep").mkdir(parents=True)
    for name in ("src/main.py", "src/deep/util.py", ".env", "src/.env"):
        (ws / name).write_text("x")
    call = files.bind("c", (Exclusion(".env", "rule"),))
    near = {
        path: (await refused(call.read(files.resolve(path), 100))).details.get("near")
        for path in ("src/mian.py", "util.py", "SRC/MAIN.PY", ".enw", "lib/.env", "nothing-like-it.bin")
    }
    assert near == {
        "src/mian.py": ["src/main.py"],
        "util.py": ["src/deep/util.py"],
        "SRC/MAIN.PY": ["src/main.py"],
        ".enw": None,
        "lib/.env": None,
        "nothing-like-it.bin": None,
    }


async def test_what_is_no_regular_file_never_blocks_and_is_refused(
    files: WorkspaceFiles, call: BoundFiles, ws: Path
) -> None:
    """A pipe, a socket and a folder are NOT_A_FILE at once, to read, stream and write."""
    os.mkfifo(ws / "pipe")
    (ws / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(ws / "socket"))
        for name in ("pipe", "socket", "folder"):
            place = files.resolve(name)
            async with asyncio.timeout(5):
                assert (await refused(call.read(place, 100))).code is Code.NOT_A_FILE
                assert (await refused(call.open(place).__aenter__())).code is Code.NOT_A_FILE
                assert (await refused(call.write(place, b"x", expected_sha256=None))).code is Code.NOT_A_FILE
    problem = await refused(call.read(files.resolve("folder"), 100))
    assert problem.next_call == {"tool": "list_dir", "args": {"path": "folder"}}


async def test_a_path_that_became_a_link_is_not_followed(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """What was judged as a file is opened as that file or not at all, at the end and on the way."""
    (ws / "a").mkdir()
    (ws / "a/f").write_text("harmless")
    (ws / "secret").mkdir()
    (ws / "secret/f").write_text("secret")
    place = files.resolve("a/f")
    (ws / "a/f").unlink()
    (ws / "a/f").symlink_to("../secret/f")
    assert (await refused(call.read(place, 100))).code is Code.PATH_OUTSIDE_ROOTS
    (ws / "a/f").unlink()
    (ws / "a").rmdir()
    (ws / "a").symlink_to("secret")
    assert (await refused(call.read(place, 100))).code is Code.PATH_OUTSIDE_ROOTS
    assert (await refused(call.write(place, b"x", expected_sha256=None))).code is Code.PATH_OUTSIDE_ROOTS
    assert (await refused(call.delete(place, recursive=False))).code is Code.PATH_OUTSIDE_ROOTS
    assert (ws / "secret/f").read_text() == "secret"


async def test_a_place_made_by_hand_cannot_leave_its_root(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """Opening refuses `..`, absolute and foreign places even when nobody resolved them."""
    (ws.parent / "out.txt").write_text("out")
    root = files.roots[0]
    for place in (
        Place(root, "../out.txt", PlaceKind.FILE),
        Place(root, "..", PlaceKind.DIRECTORY),
        Place(root, "a/../../out.txt", PlaceKind.FILE),
        Place(root, f"{ws.parent}/out.txt", PlaceKind.FILE),
        Place(Root("other", str(ws.parent), True), "out.txt", PlaceKind.FILE),
    ):
        assert (await refused(call.read(place, 100))).code in (Code.PATH_OUTSIDE_ROOTS, Code.NOT_FOUND)
        assert isinstance(await refused(call.delete(place, recursive=True)), Problem)
    assert (ws.parent / "out.txt").read_text() == "out"


# ── streams ──


@pytest.mark.parametrize("size", [0, 1000, 2 * MIB + 3])
async def test_a_stream_gives_every_byte_once(files: WorkspaceFiles, call: BoundFiles, ws: Path, size: int) -> None:
    """Chunks join to the whole; reading at a place does not move; bytes are counted."""
    data = os.urandom(size)
    (ws / "f").write_bytes(data)
    async with call.open(files.resolve("f")) as stream:
        first = await stream.read(10)
        assert await stream.read_at(5, 10) == data[5:15]
        rest = [chunk async for chunk in chunks(stream)]
        assert stream.stat.size == size
    assert first + b"".join(rest) == data
    assert call.bytes_read == size + len(data[5:15])


async def chunks(stream: object) -> AsyncIterator[bytes]:
    """Read a stream to its end."""
    while chunk := await stream.read(MIB):  # type: ignore[attr-defined]
        yield chunk


async def test_a_cancelled_stream_closes_its_file(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """Cancelling between chunks leaves no descriptor behind."""
    (ws / "f").write_bytes(b"x" * (4 * MIB))
    async with call.open(files.resolve("f")) as stream:
        await stream.read(4 * MIB)  # starts a thread
    before = len(os.listdir("/proc/self/fd"))
    started = asyncio.Event()

    async def read_for_ever() -> None:
        async with call.open(files.resolve("f")) as stream:
            while True:
                await stream.read_at(0, 4 * MIB)
                started.set()

    task = asyncio.create_task(read_for_ever())
    await started.wait()
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert len(os.listdir("/proc/self/fd")) == before


# ── looking ──


async def test_looking_tells_what_stands_there_itself(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """A link is told as a link with its target; nothing there is NOT_FOUND."""
    (ws / "f").write_text("four")
    (ws / "l").symlink_to("nowhere")
    file = await call.stat(files.resolve("f"))
    link = await call.stat(files.resolve("l", follow=False))
    assert (file.kind, file.size, file.links, file.target) == (PlaceKind.FILE, 4, 1, None)
    assert (link.kind, link.target) == (PlaceKind.LINK, "nowhere")
    assert (await refused(call.stat(files.resolve("g")))).code is Code.NOT_FOUND


async def test_a_fingerprint_changes_with_what_stands_there(files: WorkspaceFiles, ws: Path) -> None:
    """The hash of a file, "" for nothing, and something that changes for a folder or a link."""
    (ws / "d/e").mkdir(parents=True)
    (ws / "d/e/f").write_text("x")
    (ws / "l").symlink_to("one")
    assert await files.fingerprint(files.resolve("d/e/f")) == hashlib.sha256(b"x").hexdigest()
    assert await files.fingerprint(files.resolve("none")) == ""
    folder = await files.fingerprint(files.resolve("d"))
    link = await files.fingerprint(files.resolve("l", follow=False))
    (ws / "d/e/f").write_text("xy")
    (ws / "l").unlink()
    (ws / "l").symlink_to("two")
    assert await files.fingerprint(files.resolve("d")) != folder
    assert await files.fingerprint(files.resolve("l", follow=False)) != link


# ── listing ──


def tree(ws: Path) -> None:
    """A small tree with hidden, protected and linked things."""
    for folder in ("a/b/c", "a.d", ".git", "keys"):
        (ws / folder).mkdir(parents=True)
    for file in ("a/1.txt", "a/b/2.txt", "a/b/c/3.txt", "a.d/4.txt", ".git/config", ".ENV", "keys/id_rsa", "z.log"):
        (ws / file).write_text(file)
    (ws / "link").symlink_to("a")


def names(listing: Listing) -> list[str]:
    """The paths of a listing."""
    return [entry.path for entry in listing.entries]


async def test_a_listing_has_each_folder_followed_by_what_lies_in_it(
    files: WorkspaceFiles, call: BoundFiles, ws: Path
) -> None:
    """Depth bounds it, links are told and not entered, hidden things are counted."""
    tree(ws)
    root = files.resolve(".")
    flat = await call.list(root, depth=1, hidden=False)
    assert names(flat) == ["a", "a.d", "keys", "link", "z.log"]
    assert flat.hidden == 2
    assert flat.entries[-1] == Entry("z.log", PlaceKind.FILE, 5, os.stat(ws / "z.log").st_mtime_ns)
    deep = await call.list(root, depth=3, hidden=False)
    assert names(deep) == [
        "a", "a/1.txt", "a/b", "a/b/2.txt", "a/b/c", "a.d", "a.d/4.txt", "keys", "keys/id_rsa", "link", "z.log",
    ]  # fmt: skip
    assert names(await call.list(files.resolve("a/b"), depth=9, hidden=True)) == ["2.txt", "c", "c/3.txt"]


async def test_what_is_left_out_of_a_listing_is_counted_by_reason(files: WorkspaceFiles, ws: Path) -> None:
    """Protected beats hidden beats ignored; a folder that is left out is not entered."""
    tree(ws)
    excluded = (Exclusion(".env", "r"), Exclusion("id_rsa", "r"), Exclusion("/a/b/c", "r", root="workspace"))
    call = files.bind("c", excluded)
    listing = await call.list(files.resolve("."), depth=9, hidden=True, ignore=["*.log", "a.d", "a/1*"])
    assert names(listing) == [".git", ".git/config", "a", "a/b", "a/b/2.txt", "keys", "link"]
    assert (listing.protected, listing.hidden, listing.ignored, listing.unreadable) == (3, 0, 3, 0)
    assert (await call.list(files.resolve("a/b"), depth=1, hidden=False)).protected == 1


async def test_a_listing_stops_at_its_limit(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """The first ones in order are given."""
    tree(ws)
    assert names(await call.list(files.resolve("."), depth=2, hidden=False, limit=3)) == ["a", "a/1.txt", "a/b"]


async def test_a_name_that_is_no_text_is_counted_and_not_shown(
    files: WorkspaceFiles, call: BoundFiles, ws: Path
) -> None:
    """Bytes that are no UTF-8 cannot be asked for, so they are unreadable."""
    Path(os.fsdecode(bytes(ws) + b"/\xff\xfe")).touch()
    (ws / "ok").touch()
    listing = await call.list(files.resolve("."), depth=1, hidden=False)
    assert (names(listing), listing.unreadable) == (["ok"], 1)
    assert files.below(files.resolve(".")) is None


async def test_only_a_folder_can_be_listed(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """A file is NOT_A_DIRECTORY with the call that reads it; nothing there is NOT_FOUND."""
    (ws / "f.txt").touch()
    problem = await refused(call.list(files.resolve("f.txt"), depth=1, hidden=False))
    assert (problem.code, problem.next_call) == (Code.NOT_A_DIRECTORY, {"tool": "read_file", "args": {"path": "f.txt"}})
    problem = await refused(call.list(files.resolve("f.tx"), depth=1, hidden=False))
    assert (problem.code, problem.details["near"]) == (Code.NOT_FOUND, ["f.txt"])


async def test_all_that_lies_below_a_folder_is_known_up_to_a_limit(files: WorkspaceFiles, ws: Path) -> None:
    """Paths are beneath the root, whatever their names; more than the limit is unknown."""
    tree(ws)
    assert files.below(files.resolve("a")) == ("a/1.txt", "a/b", "a/b/2.txt", "a/b/c", "a/b/c/3.txt")
    assert files.below(files.resolve("a"), 4) is None
    assert files.below(files.resolve("z.log")) is None


# ── what a run knows ──


async def test_what_a_run_read_whole_is_known_to_its_later_calls(files: WorkspaceFiles, ws: Path) -> None:
    """A part is not the whole; the hash is shared over the run and follows the run's own writes."""
    (ws / "f").write_text("old")
    place, first, second = files.resolve("f"), files.bind("1", ()), files.bind("2", ())
    old = hashlib.sha256(b"old").hexdigest()
    first.saw(place, old, whole=False)
    assert second.seen(place) is None
    first.saw(place, old, whole=True)
    assert (second.seen(place), first.saw_whole, second.saw_whole) == (old, {"f": old}, None)
    await second.write(place, b"new", expected_sha256=old)
    assert second.seen(place) == hashlib.sha256(b"new").hexdigest()
    await second.delete(place, recursive=False)
    assert second.seen(place) is None


async def test_a_closed_workspace_opens_nothing(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """Handles that were let go are not used again."""
    (ws / "f").touch()
    place = files.resolve("f")
    await files.close()
    with pytest.raises((Misuse, Problem)):
        await call.read(place, 10)
    with pytest.raises((Misuse, Problem)):
        files.resolve("f")


async def test_a_workspace_leaves_no_descriptor_behind(tmp_path: Path) -> None:
    """Opening, using and closing it ends where it began."""
    before = len(os.listdir("/proc/self/fd"))
    files = WorkspaceFiles([Root("workspace", str(tmp_path), True)], images=None, locks_dir=tmp_path / "locks")
    call = files.bind("c", ())
    for number in range(20):
        await call.write(files.resolve(f"d/{number}"), b"x", expected_sha256=None)
        await call.read(files.resolve(f"d/{number}"), 10)
    await call.list(files.resolve("."), depth=5, hidden=True)
    await call.delete(whole(files, "d"), recursive=True)
    await files.close()
    assert len(os.listdir("/proc/self/fd")) == before

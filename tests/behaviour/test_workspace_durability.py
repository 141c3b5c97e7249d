"""Durable before it is answered, whole or not at all when cancelled, together when many write at once."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import stat
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from handrail.errors import Code, Problem
from handrail.words import Change, Place
from handrail.workspace import WorkspaceFiles, group, names, writing
from handrail.workspace.bound import BoundFiles
from handrail.workspace.threads import Brake, Threads, Ticket
from handrail.workspace.writing import Order, Writing, write
from workspaces import KeptImages, leftovers, refused, sha, workspace


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[WorkspaceFiles]:
    """A workspace."""
    made = workspace(tmp_path, images=KeptImages())
    yield made
    await made.close()


async def test_nothing_is_replaced_or_deleted_before_its_pre_image_is_kept(tmp_path: Path) -> None:
    """A disk that is full where pre-images go is an error that changes nothing."""

    class FullImages(KeptImages):
        """No space left."""

        def keep(self, source_fd: int, sha256: str) -> bool:
            """Fail as a full disk does."""
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    files, ws = workspace(tmp_path, images=FullImages()), tmp_path / "ws"
    (ws / "f").write_bytes(b"old")
    (ws / "g").write_bytes(b"other")
    call = files.bind("c", ())
    try:
        for attempt in (
            call.write(files.resolve("f"), b"new", expected_sha256=None),
            call.delete(files.resolve("f"), recursive=False),
            call.move(files.resolve("g"), files.resolve("f"), overwrite=True),
        ):
            problem = await refused(attempt)
            assert (problem.code, problem.details["error"]) == (Code.IO_ERROR, "ENOSPC")
        found = {path.name: path.read_bytes() for path in ws.iterdir()}
        assert (found, call.changes) == ({"f": b"old", "g": b"other"}, [])
    finally:
        await files.close()


@pytest.mark.parametrize(("count", "dirty"), [(1, 0), (2, 0), (20, 0), (20, 1 << 40), (50, 1 << 40)])
async def test_data_is_durable_before_it_has_a_name_and_the_name_before_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, dirty: int
) -> None:
    """Alone and in a group, with all files at once or each by itself: sync, give it its name, sync the folder."""
    steps: list[str] = []
    fsync = os.fsync

    def noted_fsync(fd: int) -> None:
        fsync(fd)
        steps.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")

    def noted_name(real: Callable[..., None]) -> Callable[..., None]:
        def named(*args: object) -> None:
            real(*args)
            steps.append("name")

        return named

    class NotedSystem:
        """The one call that syncs a whole file system."""

        def syncfs(self, fd: int) -> int:
            """Do it, and take it down."""
            steps.extend(["file"] * count)
            return int(libc.syncfs(fd))

    libc = ctypes.CDLL(None)
    files = workspace(tmp_path)
    call = files.bind("c", ())
    monkeypatch.setattr(os, "fsync", noted_fsync)
    for way in ("name_unnamed", "put_new"):  # the file system decides
        monkeypatch.setattr(names, way, noted_name(getattr(names, way)))
    monkeypatch.setattr(group, "_libc", NotedSystem())
    monkeypatch.setattr(group, "_dirty_bytes", lambda: dirty)
    try:
        places = [files.resolve(f"f{number}") for number in range(count)]
        writings = [writing_of(call, place) for place in places]
        assert group.write_together(writings, files.threads) == {}
        assert steps == ["file"] * count + ["name"] * count + ["folder"]
    finally:
        await files.close()


def writing_of(call: BoundFiles, place: Place) -> Writing:
    """A write that a group carries out."""
    return Writing(call._access, place, Order(b"x"), call.changes.append, Brake())


async def test_a_write_cancelled_before_its_effect_leaves_nothing(
    files: WorkspaceFiles, call: BoundFiles, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither file nor folder nor temporary file nor record."""
    loop, reached, go = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    held_up(monkeypatch, "open_unnamed", loop, reached, go)
    task = asyncio.create_task(call.write(files.resolve("new/folder/f"), b"x", expected_sha256=None))
    await reached.wait()
    task.cancel()
    go.set()
    await asyncio.wait((task,))
    assert (task.cancelled(), list(ws.iterdir()), call.changes) == (True, [], [])


async def test_a_write_cancelled_after_its_effect_is_on_record(
    files: WorkspaceFiles, call: BoundFiles, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the rename on it completes, and the call knows what it did."""
    loop, reached, go = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    for way in ("name_unnamed", "put_new"):  # the file system decides
        held_up(monkeypatch, way, loop, reached, go)
    task = asyncio.create_task(call.write(files.resolve("f"), b"x", expected_sha256=None))
    await reached.wait()
    task.cancel()
    task.cancel()
    go.set()
    await asyncio.wait((task,))
    assert (task.cancelled(), call.changes, call.bytes_written) == (True, [Change("f", "create", after=sha(b"x"))], 1)


def held_up(
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    loop: asyncio.AbstractEventLoop,
    reached: asyncio.Event,
    go: asyncio.Event,
) -> None:
    """Make a step say that it is reached and wait until it may go on."""
    real = getattr(names, step)

    def slow(*args: object) -> object:
        loop.call_soon_threadsafe(reached.set)
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result(10)
        return real(*args)

    monkeypatch.setattr(names, step, slow)


async def test_many_writes_at_once_are_all_there_and_apart(files: WorkspaceFiles, ws: Path) -> None:
    """A group shares its waits and nothing else: one that fails leaves the others alone."""
    (ws / "taken-late").touch()
    places = [files.resolve(f"d{number % 5}/{number}") for number in range(200)]
    calls = [files.bind(str(number), ()) for number in range(200)]
    bad = files.bind("bad", ())
    results = await asyncio.gather(
        bad.write(files.resolve("taken-late"), b"x", expected_sha256=""),
        *(
            call.write(place, place.path.encode(), expected_sha256=None)
            for call, place in zip(calls, places, strict=True)
        ),
        return_exceptions=True,
    )
    assert getattr(results[0], "code", None) is Code.STALE_FILE
    assert {path.relative_to(ws).as_posix(): path.read_bytes() for path in ws.glob("d*/*")} == {
        place.path: place.path.encode() for place in places
    }
    assert [call.changes[-1].path for call in calls] == [place.path for place in places]
    assert leftovers(ws) == []


async def test_a_file_that_cannot_be_let_go_is_told_and_keeps_no_other_open(
    files: WorkspaceFiles, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of a group fails, whatever its step."""
    writings = [writing_of(files.bind(name, ()), files.resolve(f"d/{name}")) for name in "abc"]
    real, before = Writing.close, len(os.listdir("/proc/self/fd"))

    def close(writing: Writing) -> None:
        real(writing)
        if writing is writings[0]:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Writing, "close", close)
    failures = group.write_together(writings, files.threads)
    told = {writing.place.path: getattr(error, "code", None) for writing, error in failures.items()}
    assert (told, len(os.listdir("/proc/self/fd")) - before) == ({"d/a": Code.IO_ERROR}, 0)
    assert sorted(path.name for path in ws.glob("d/*")) == ["a", "b", "c"]


async def test_a_single_write_that_cannot_be_let_go_is_a_problem_and_on_record(
    files: WorkspaceFiles, call: BoundFiles, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IO_ERROR names the file, as where many write; what was changed by then is told, too."""
    failing_close(monkeypatch)
    with pytest.raises(Problem) as caught:
        write(writing_of(call, files.resolve("f")))
    details = {"path": "f", "errno": errno.EIO, "error": "EIO"}
    assert (caught.value.code, caught.value.details) == (Code.IO_ERROR, details)
    assert caught.value.message == "f could not be written: Input/output error"
    assert (call.changes, (ws / "f").read_bytes()) == ([Change("f", "create", after=sha(b"x"))], b"x")


async def test_what_failed_first_is_told_though_letting_go_fails_as_well(
    files: WorkspaceFiles, call: BoundFiles, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that appeared meanwhile stays STALE_FILE."""
    failing_close(monkeypatch)
    writing = writing_of(call, files.resolve("f"))
    (ws / "f").write_bytes(b"other")
    with pytest.raises(Problem) as caught:
        write(writing)
    assert (caught.value.code, (ws / "f").read_bytes(), call.changes) == (Code.STALE_FILE, b"other", [])


def failing_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let go, and fail after it, as a disk does that is lost meanwhile."""
    real = Writing.close

    def close(one: Writing) -> None:
        real(one)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Writing, "close", close)


async def test_a_batch_that_breaks_off_keeps_nobody_waiting(
    files: WorkspaceFiles, call: BoundFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits is told, and later writes are not held up."""

    def broken(batch: list[Writing], threads: Threads) -> group.Failures:
        raise MemoryError

    writes, ticket = group.Group(files.threads), Ticket[Change]()
    writes._waiting, writes._busy = [(writing_of(call, files.resolve("f")), ticket)], True
    monkeypatch.setattr(group, "write_together", broken)
    writes._work_off()
    with pytest.raises(MemoryError):
        await ticket.result(Brake())
    assert (writes._busy, writes._waiting) == (False, [])


async def test_leftovers_of_a_killed_process_are_swept_when_they_are_old(
    files: WorkspaceFiles, call: BoundFiles, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only half-written ones, only after an hour, and never what may hold another's data."""
    monkeypatch.setattr(writing, "_swept", set())  # a folder that is gone by now may have had this one's number
    named = (("0", "tmp"), ("1", "tmp"), ("2", "old"))
    old, young, theirs = (ws / f".handrail-{sign * 16}.{kind}" for sign, kind in named)
    hour_ago = time.time() - 3700
    for path, when in ((old, hour_ago), (young, time.time()), (theirs, hour_ago)):
        path.touch()
        os.utime(path, (when, when))
    await call.write(files.resolve("f"), b"x", expected_sha256=None)
    assert sorted(leftovers(ws)) == sorted([young.name, theirs.name])


async def test_a_refused_write_takes_its_new_folders_back(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """Unless someone uses them by then: those stay and are on record."""
    place = files.resolve("a/b/f")
    assert (await refused(call.write(place, b"x", expected_sha256=sha(b"y")))).code is Code.STALE_FILE
    assert (list(ws.iterdir()), call.changes) == ([], [])


async def test_a_full_disk_leaves_the_old_file_and_says_so(
    files: WorkspaceFiles, call: BoundFiles, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IO_ERROR with the system's own name for it; no temporary file stays."""
    (ws / "f").write_bytes(b"old")

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for path in ("f", "new"):
        problem = await refused(call.write(files.resolve(path), b"new", expected_sha256=None))
        assert (problem.code, problem.details["error"]) == (Code.IO_ERROR, "ENOSPC")
    assert ({path.name: path.read_bytes() for path in ws.iterdir()}, call.changes) == ({"f": b"old"}, [])

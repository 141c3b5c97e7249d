"""A quick disk is waited for in place by who is alone: under the same laws, and a slow one never holds up the loop."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import threading
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from handrail import Runtime
from handrail.errors import Code, Problem
from handrail.pace import FIRST
from handrail.store import reader
from handrail.store import syncer as syncer_module
from handrail.store.images import Images
from handrail.store.journal import FileJournal
from handrail.workspace import group as group_module
from handrail.workspace import names
from handrail.workspace.files import WorkspaceFiles
from journaling import open_run
from workspaces import leftovers, refused, workspace

QUICK, SLOW = 0.0001, 0.05


class Disk:
    """Stands in for the system's syncs: says how long they take, and knows who waited for each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = QUICK
        self.error: OSError | None = None
        self.waited: list[str] = []  # "loop" or "thread"
        self._now = 0.0
        self._loop = threading.get_ident()
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._timed(getattr(os, name)))
        for module in (syncer_module, group_module):
            monkeypatch.setattr(module, "time", self)

    def perf_counter(self) -> float:
        """The time, which nothing but this disk moves."""
        return self._now

    def _timed(self, real: Any) -> Any:
        def sync(handle: int) -> None:
            self.waited.append("loop" if threading.get_ident() == self._loop else "thread")
            self._now += self.seconds
            if self.error is not None:
                raise self.error
            real(handle)

        return sync


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """The disk of a test."""
    return Disk(monkeypatch)


async def durable(journal: FileJournal, count: int = 1) -> list[bool]:
    """Write lines and wait for each; tells which were waited for in place."""
    found = []
    for number in range(count):
        journal.append("display", None, {"n": number})
        found.append(await journal.durable())
    return found


# ── the journal ──────────────────────────────────────────────────────────────────────────────


async def test_who_is_alone_waits_in_place_once_the_disk_is_known_to_be_quick(tmp_path: Path, disk: Disk) -> None:
    """Before that in the thread."""
    journal = open_run(tmp_path)
    disk.waited.clear()
    found = await durable(journal, FIRST + 3)
    assert (found, disk.waited) == ([False] * FIRST + [True] * 3, ["thread"] * FIRST + ["loop"] * 3)
    await journal.close()
    assert reader.verify(tmp_path).events == FIRST + 3


async def test_a_slow_disk_never_holds_up_the_loop(tmp_path: Path, disk: Disk) -> None:
    """Not once."""
    journal = open_run(tmp_path)
    disk.waited.clear()
    disk.seconds = SLOW
    found = await durable(journal, 3 * FIRST)
    assert (found, set(disk.waited)) == ([False] * 3 * FIRST, {"thread"})
    await journal.close()


async def test_a_disk_that_becomes_slow_holds_up_the_loop_once(tmp_path: Path, disk: Disk) -> None:
    """From then on others can do their work while it is waited for."""
    journal = open_run(tmp_path)
    await durable(journal, FIRST)
    disk.seconds = SLOW
    assert await durable(journal, 4) == [True, False, False, False]
    await journal.close()


async def test_many_share_a_sync_also_of_a_quick_disk(tmp_path: Path, disk: Disk) -> None:
    """Whoever comes in the same turn of the loop is waited for, and nobody waits in place."""
    journal = open_run(tmp_path)
    await durable(journal, FIRST)
    disk.waited.clear()
    found = await asyncio.gather(*(durable(journal) for _ in range(100)))
    assert (found, disk.waited) == ([[False]] * 100, ["thread"])
    await journal.close()


async def test_runs_of_one_loop_do_not_wait_in_place_after_each_other(tmp_path: Path, disk: Disk) -> None:
    """Each has a disk of its own for all it knows, but they share the loop."""
    journals = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        journals.append(open_run(tmp_path / name))
        await durable(journals[-1], FIRST)
    disk.waited.clear()
    await asyncio.gather(*(durable(journal) for journal in journals))
    assert disk.waited == ["thread", "thread"]
    for journal in journals:
        await journal.close()


async def test_a_sync_that_fails_in_place_is_told_and_mended_as_any(tmp_path: Path, disk: Disk) -> None:
    """The system reports it once: until all is written anew nobody is told durable."""
    journal = open_run(tmp_path)
    await durable(journal, FIRST)
    disk.error = OSError(errno.EIO, os.strerror(errno.EIO))
    disk.waited.clear()
    for _ in range(2):
        journal.append("display", None, {}) if not journal._trouble else None
        with pytest.raises(Problem) as caught:
            await journal.durable()
        assert (caught.value.code, caught.value.details["errno"]) == (Code.JOURNAL_UNAVAILABLE, errno.EIO)
        disk.error = None
    assert disk.waited == ["loop"]
    journal.append("display", None, {})
    await journal.durable()
    await journal.close()
    assert (reader.verify(tmp_path).ok, reader.verify(tmp_path).events) == (True, FIRST + 2)


async def test_nobody_syncs_in_place_while_the_thread_does(tmp_path: Path, disk: Disk) -> None:
    """Of two who sync at once only one is told of a failure, so the other one would take it for durable."""
    journal = open_run(tmp_path)
    await durable(journal, FIRST)
    syncer = journal._syncer
    with syncer._disk:  # as the thread does while it syncs
        assert not syncer._sync_in_place()
    journal.append("display", None, {})
    journal._write()
    assert syncer._sync_in_place()
    await journal.close()


# ── files ────────────────────────────────────────────────────────────────────────────────────


async def test_a_new_file_is_written_in_place_by_who_is_alone(tmp_path: Path, disk: Disk) -> None:
    """Once the disk is known to be quick; others, and who is not alone, wait in a thread."""
    files = workspace(tmp_path)
    for number in range(FIRST + 1):
        await alone(files).write(files.resolve(f"{number}"), b"x", expected_sha256=None)
    await files.bind("b", ()).write(files.resolve("b"), b"x", expected_sha256=None)
    assert disk.waited == ["thread", "thread"] * FIRST + ["loop", "loop"] + ["thread", "thread"]
    assert (sorted(os.listdir(tmp_path / "ws")), leftovers(tmp_path / "ws")) == (
        sorted([*map(str, range(FIRST + 1)), "b"]),
        [],
    )
    await files.close()


async def test_files_on_a_slow_disk_are_never_written_in_place(tmp_path: Path, disk: Disk) -> None:
    """However alone the call is; and one slow write in place is the last."""
    files = workspace(tmp_path)
    disk.seconds = SLOW
    for number in range(2 * FIRST):
        await alone(files).write(files.resolve(f"slow-{number}"), b"x", expected_sha256=None)
    assert set(disk.waited) == {"thread"}
    disk.seconds = QUICK
    for number in range(FIRST):
        await alone(files).write(files.resolve(f"quick-{number}"), b"x", expected_sha256=None)
    disk.waited.clear()
    disk.seconds = SLOW
    for number in range(3):
        await alone(files).write(files.resolve(f"last-{number}"), b"x", expected_sha256=None)
    assert disk.waited == ["loop", "loop", *["thread"] * 4]
    await files.close()


async def test_a_disk_that_fails_slowly_in_place_is_slow(tmp_path: Path, disk: Disk) -> None:
    """A dying disk holds up the loop once."""
    files = workspace(tmp_path)
    for number in range(FIRST):
        await alone(files).write(files.resolve(f"{number}"), b"x", expected_sha256=None)
    disk.seconds, disk.error = SLOW, OSError(errno.EIO, os.strerror(errno.EIO))
    disk.waited.clear()
    for name in "ab":
        assert (
            await refused(alone(files).write(files.resolve(name), b"x", expected_sha256=None))
        ).code is Code.IO_ERROR
    assert (disk.waited, len(os.listdir(tmp_path / "ws"))) == (["loop", "thread"], FIRST)
    disk.error = None
    await files.close()


async def test_a_file_is_replaced_in_place_by_who_is_alone(tmp_path: Path, disk: Disk) -> None:
    """File, pre-image, its folder and the file's folder are synced; a slow disk ends that for replacements, too."""
    files = workspace(tmp_path, images=Images(tmp_path / "archive", 1 << 20))
    (tmp_path / "ws/a").write_bytes(b"0")
    await replaced(files, 0)
    disk.waited.clear()
    for number in range(1, FIRST):
        await replaced(files, number)
    await replaced(files, FIRST)
    assert disk.waited == ["thread"] * 4 * (FIRST - 1) + ["loop"] * 4
    disk.waited.clear()
    disk.seconds = SLOW
    for number in range(FIRST + 1, FIRST + 3):
        await replaced(files, number)
    assert disk.waited == ["loop"] * 4 + ["thread"] * 4
    assert (files.resolve("a").size, leftovers(tmp_path / "ws")) == (len(str(FIRST + 3)), [])
    await files.close()


async def test_a_call_that_changes_many_files_lets_others_have_their_turn(tmp_path: Path, disk: Disk) -> None:
    """The first few in place, the rest in a thread."""
    files = workspace(tmp_path)
    for number in range(FIRST):
        await alone(files).write(files.resolve(f"{number}"), b"x", expected_sha256=None)
    disk.waited.clear()
    call = alone(files)
    for number in range(6):
        await call.write(files.resolve(f"many-{number}"), b"x", expected_sha256=None)
    assert disk.waited == ["loop"] * 8 + ["thread"] * 4
    await files.close()


async def test_who_cannot_have_a_thread_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All who wait together are, and the next ones are not held up by it."""
    files = workspace(tmp_path)
    call = files.bind("a", ())

    def none_left(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(files.threads, "start", none_left)
        problems = await asyncio.gather(
            *(refused(call.write(files.resolve(name), b"x", expected_sha256=None)) for name in "ab")
        )
    assert [problem.details["error"] for problem in problems] == ["EAGAIN", "EAGAIN"]
    await call.write(files.resolve("c"), b"x", expected_sha256=None)
    assert (os.listdir(tmp_path / "ws"), [change.path for change in call.changes]) == (["c"], ["c"])
    await files.close()


def alone(files: WorkspaceFiles) -> Any:
    """The workspace of a new call that nobody else waits with."""
    call = files.bind("a", ())
    call.alone = True
    return call


async def replaced(files: WorkspaceFiles, number: int) -> None:
    """Put the next number into the file that holds this one."""
    expected = sha256(b"%d" % number).hexdigest()
    await alone(files).write(files.resolve("a"), b"%d" % (number + 1), expected_sha256=expected)


# ── a whole call ─────────────────────────────────────────────────────────────────────────────


async def test_a_call_in_place_is_durable_before_it_acts_and_its_file_before_it_is_answered(
    opens: Any, work: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Start line, sync; file, sync; name; folder, sync; number, end line: in this order, all in the loop's thread."""
    async with opens(enable=("fs",)) as runtime:
        for number in range(2 * FIRST):
            assert (await write(runtime, f"{number}")).ok
        steps, disk.waited[:] = noted(monkeypatch), []
        outcome = await write(runtime, "last")
        taken, waited = list(steps), list(disk.waited)
    assert (outcome.ok, (work / "last").read_text(), waited) == (True, "last", ["loop"] * 3)
    assert taken == ["line", "sync line", "data", "sync file", "name", "sync folder", "line", "line"]


async def test_nothing_is_written_in_place_when_the_journal_cannot_be_synced(
    opens: Any, work: Path, disk: Disk
) -> None:
    """Law 5, with nobody else around and a disk that was quick."""
    async with opens(enable=("fs",)) as runtime:
        for number in range(2 * FIRST):
            assert (await write(runtime, f"{number}")).ok
        disk.error = OSError(errno.EIO, os.strerror(errno.EIO))
        refused_call = await write(runtime, "refused")
        disk.error = None
        after = await write(runtime, "after")
    assert (refused_call.error.code, after.ok) == ("JOURNAL_UNAVAILABLE", True)
    assert not (work / "refused").exists()


async def write(runtime: Runtime, name: str) -> Any:
    """Make a file that holds its own name."""
    return await runtime.call("write_file", {"path": name, "content": name})


def noted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Take down each step of a call on the disk."""
    steps: list[str] = []

    def note(target: Any, function: str, step: Any) -> None:
        real = getattr(target, function)

        def noting(*args: Any, **named: Any) -> Any:
            steps.append(step(*args) if callable(step) else step)
            return real(*args, **named)

        monkeypatch.setattr(target, function, noting)

    note(os, "pwrite", "line")
    note(os, "fdatasync", "sync line")
    note(os, "write", "data")
    note(os, "fsync", lambda handle: "sync folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "sync file")
    for way in ("name_unnamed", "put_new"):  # the file system decides
        note(names, way, "name")
    return steps

"""Calls that change the same files wait for each other, within a process and between processes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from handrail.errors import Code, Problem
from handrail.words import Root, Touch, TouchKind
from handrail.workspace import WorkspaceFiles
from workspaces import workspace

BLOCKED_SECONDS = 0.15


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[WorkspaceFiles]:
    """A workspace with locks between processes."""
    made = workspace(tmp_path)
    yield made
    await made.close()


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[WorkspaceFiles]:
    """The same workspace as another runtime of this process has it."""
    made = workspace(tmp_path)
    yield made
    await made.close()


def touch(files: WorkspaceFiles, path: str, *, deep: bool = False, kind: TouchKind = TouchKind.FS_WRITE) -> Touch:
    """What a call that changes a path states."""
    return Touch(kind, path, deep, place=files.resolve(path))


async def waits(files: WorkspaceFiles, *touches: Touch) -> bool:
    """Whether a call with these touches must wait."""
    try:
        async with asyncio.timeout(BLOCKED_SECONDS):
            async with files.hold(touches):
                return False
    except TimeoutError:
        return True


async def test_calls_on_one_file_go_one_after_another(files: WorkspaceFiles) -> None:
    """A counter that is read and written in steps loses nothing."""
    count = 0

    async def add() -> None:
        nonlocal count
        async with files.hold([touch(files, "f")]):
            seen = count
            await asyncio.sleep(0)
            count = seen + 1

    await asyncio.gather(*(add() for _ in range(100)))
    assert count == 100


async def test_calls_of_one_process_queue_without_locks_on_disk_too(tmp_path: Path) -> None:
    """Where there is no folder for locks, by path and by root all the same."""
    files = WorkspaceFiles([Root("workspace", str(tmp_path), True)], images=None, locks_dir=None)
    try:
        async with files.hold([touch(files, "f")]):
            assert await waits(files, touch(files, "f"))
            assert await waits(files, touch(files, "x", deep=True))
            assert not await waits(files, touch(files, "g"))
    finally:
        await files.close()


async def test_calls_on_different_files_do_not_wait(files: WorkspaceFiles) -> None:
    """Nor do calls that only read."""
    async with files.hold([touch(files, "f")]):
        assert not await waits(files, touch(files, "g"))
        assert not await waits(files, touch(files, "f", kind=TouchKind.FS_READ))
        assert await waits(files, touch(files, "f", kind=TouchKind.FS_DELETE))


async def test_a_call_that_reaches_below_waits_for_all_and_all_for_it(files: WorkspaceFiles) -> None:
    """It has the root alone."""
    async with files.hold([touch(files, "f")]):
        assert await waits(files, touch(files, "other", deep=True))
    async with files.hold([touch(files, "other", deep=True)]):
        assert await waits(files, touch(files, "f"))
        assert await waits(files, touch(files, "g", deep=True))
    assert not await waits(files, touch(files, "f"))


async def test_who_wants_the_root_alone_is_not_passed_for_ever(files: WorkspaceFiles) -> None:
    """Newcomers queue behind it."""
    order: list[str] = []

    async def take(name: str, *, deep: bool) -> None:
        async with files.hold([touch(files, name, deep=deep)]):
            order.append(name)
            await asyncio.sleep(0)

    async with files.hold([touch(files, "first")]):
        tasks = [asyncio.create_task(take(name, deep=name == "deep")) for name in ("deep", "late1", "late2")]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order[0] == "deep"


async def test_calls_that_want_each_others_files_never_wait_in_a_circle(files: WorkspaceFiles) -> None:
    """Whatever the order in which they name them."""

    async def both(first: str, second: str) -> None:
        async with files.hold([touch(files, first), touch(files, second)]):
            await asyncio.sleep(0)

    async with asyncio.timeout(10):
        await asyncio.gather(*(both(*pair) for pair in [("a", "b"), ("b", "a"), ("c", "a"), ("b", "c")] * 25))


async def test_a_call_that_gives_up_waiting_leaves_the_queue(files: WorkspaceFiles, tmp_path: Path) -> None:
    """The next one gets its turn, and nothing stays open or remembered."""
    before = len(os.listdir("/proc/self/fd"))
    async with files.hold([touch(files, "f")]):
        given_up = [asyncio.create_task(waits(files, touch(files, "f"))) for _ in range(5)]
        patient = asyncio.create_task(files.hold([touch(files, "f")]).__aenter__())
        assert await asyncio.gather(*given_up) == [True] * 5
    await asyncio.wait_for(patient, 5)
    assert await waits(files, touch(files, "f"))
    assert len(files._locks._gates) == 2
    assert len(os.listdir("/proc/self/fd")) == before + 1


async def test_who_gives_up_the_root_lets_those_behind_it_in(files: WorkspaceFiles) -> None:
    """A call that fits with the holders does not wait for one that is gone."""
    async with files.hold([touch(files, "f")]):
        deep = asyncio.create_task(files.hold([touch(files, "x", deep=True)]).__aenter__())
        await asyncio.sleep(0)
        behind = asyncio.create_task(waits(files, touch(files, "g")))
        await asyncio.sleep(0)
        deep.cancel()
        assert await behind is False


async def test_a_turn_that_comes_with_the_cancelling_is_passed_on(files: WorkspaceFiles) -> None:
    """Nobody waits for a call that was cancelled in the very moment it was let in."""
    holder = files.hold([touch(files, "f")])
    await holder.__aenter__()
    waiter = asyncio.create_task(files.hold([touch(files, "f")]).__aenter__())
    await asyncio.sleep(0)
    await holder.__aexit__(None, None, None)
    waiter.cancel()
    await asyncio.wait((waiter,))
    assert waiter.cancelled()
    assert not await waits(files, touch(files, "f"))
    assert files._locks._gates == {}


async def test_nothing_is_remembered_of_calls_that_are_over(files: WorkspaceFiles) -> None:
    """Neither gates nor descriptors pile up."""
    before = len(os.listdir("/proc/self/fd"))
    for number in range(100):
        async with files.hold([touch(files, f"f{number}"), touch(files, "x", deep=number % 2 == 0)]):
            pass
    assert (files._locks._gates, len(os.listdir("/proc/self/fd"))) == ({}, before)


async def test_two_workspaces_on_one_folder_exclude_each_other(files: WorkspaceFiles, alone: WorkspaceFiles) -> None:
    """As two processes do: by path, and by root for what reaches below."""
    async with files.hold([touch(files, "f")]):
        assert not await waits(alone, touch(alone, "g"))
        assert await waits(alone, touch(alone, "f"))
        assert await waits(alone, touch(alone, "x", deep=True))
    async with files.hold([touch(files, "x", deep=True)]):
        assert await waits(alone, touch(alone, "f"))
    assert not await waits(alone, touch(alone, "f"), touch(alone, "x", deep=True))


async def test_who_wants_the_root_alone_is_not_passed_by_other_processes(
    files: WorkspaceFiles, alone: WorkspaceFiles
) -> None:
    """Newcomers of one process wait for a call of another that waits for the root."""
    async with files.hold([touch(files, "f")]):
        deep = asyncio.create_task(alone.hold([touch(alone, "x", deep=True)]).__aenter__())
        async with asyncio.timeout(10):
            while not await waits(files, touch(files, "g")):
                assert not deep.done()
                await asyncio.sleep(0)
        deep.cancel()
        await asyncio.wait((deep,))
        assert not await waits(files, touch(files, "g"))


CHILD = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from workspaces import workspace
from handrail.words import Touch, TouchKind

async def main():
    files = workspace(Path({folder!r}))
    async with files.hold([Touch(TouchKind.FS_WRITE, "f", {deep}, place=files.resolve("f"))]):
        print("held", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await files.close()

asyncio.run(main())
"""


@asynccontextmanager
async def another_process(folder: Path, *, deep: bool) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that holds `f` until its input ends or it is killed."""
    code = CHILD.format(tests=str(Path(__file__).parents[1]), folder=str(folder), deep=deep)
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdin=pipe, stdout=pipe)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        assert await child.stdout.readline() == b"held\n"
        yield child
    finally:
        child.stdin.close()
        await child.wait()


@pytest.mark.parametrize("deep", [False, True])
async def test_another_process_that_holds_a_file_is_waited_for(
    files: WorkspaceFiles, tmp_path: Path, deep: bool
) -> None:
    """Until it lets go, and no longer."""
    async with another_process(tmp_path, deep=deep) as child:
        assert await waits(files, touch(files, "f"))
        assert await waits(files, touch(files, "other")) == deep
        waiting = asyncio.create_task(files.hold([touch(files, "f")]).__aenter__())
        assert child.stdin is not None
        child.stdin.close()
        await asyncio.wait_for(waiting, 10)


async def test_a_killed_process_holds_nothing(files: WorkspaceFiles, tmp_path: Path) -> None:
    """Its locks end with it."""
    async with another_process(tmp_path, deep=True) as child:
        assert await waits(files, touch(files, "f"))
        child.kill()
        async with asyncio.timeout(10), files.hold([touch(files, "f")]):
            pass


async def test_a_lock_that_cannot_be_opened_lets_nothing_run(tmp_path: Path) -> None:
    """IO_ERROR before anything is changed, and the queue is free again."""
    (tmp_path / "locks").write_text("in the way")
    files = workspace(tmp_path)
    try:
        with pytest.raises(Problem) as caught:
            async with files.hold([touch(files, "f")]):
                pytest.fail("ran without its lock")
        assert caught.value.code is Code.IO_ERROR
        assert files._locks._gates == {}
    finally:
        await files.close()

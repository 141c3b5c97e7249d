"""The ripgrep behind a search: started, stopped, reaped, replaced; nothing of it is left whatever happens."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import Code
from handrail.tools.search.grep import grep
from handrail.workspace.rg_process import find_program
from searching import Searching, children, fill
from workspaces import refused


@pytest.fixture(params=[True, False], ids=["confined", "unconfined"])
def how(request: pytest.FixtureRequest) -> dict[str, Any]:
    """In a domain, and without one."""
    return {} if request.param else {"confined": False}


async def test_what_was_stopped_for_a_full_page_is_reaped_when_the_workspace_closes(tmp_path: Path) -> None:
    """An answer does not wait for the process it has no more use for; it is killed all the same, and reaped."""
    fill(tmp_path, {"ws/a": "hit\nhit\n"})
    program = tmp_path / "rg"
    program.write_text("#!/bin/sh\nprintf 'a\\0001:1:0:hit\\na\\0002:1:4:hit\\n'\nexec sleep 600\n")
    program.chmod(0o755)
    before = children()
    async with Searching(tmp_path / "ws", program=str(program), confined=False, head_start_seconds=60.0) as search:
        answer = await asyncio.wait_for(search.call(grep, pattern="hit", limit=1), 30)
    assert ([item.line for item in answer.data.matches], answer.data.next_cursor) == ([1], "a:1")
    assert children() == before


async def test_a_search_cancelled_at_any_moment_leaves_nothing(tmp_path: Path, how: dict[str, Any]) -> None:
    """No process, no descriptor, no collector switched off: whatever step it was at."""
    fill(tmp_path, {f"ws/{name}": "hit\n" * 50 for name in "abcdefgh"})
    async with Searching(tmp_path / "ws", **how) as search:
        await search.call(grep, pattern="hit")
        before, running = len(os.listdir("/proc/self/fd")), children()
        for steps in range(40):
            task = asyncio.create_task(search.call(grep, pattern="hit", limit=1 + steps))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait_for(task, 30)
        end = time.monotonic() + 20  # what was killed is reaped, and its descriptor closed, after the answer
        while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < end:
            await asyncio.sleep(0.005)
        assert len(os.listdir("/proc/self/fd")) <= before
        assert gc.isenabled()
    assert children() <= running


async def test_a_search_that_gets_no_thread_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was started ahead of the thread that never came is stopped."""
    fill(tmp_path, {"a": "hit\n"})

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    async with Searching(tmp_path) as search:
        await search.call(grep, pattern="hit")
        before, running = len(os.listdir("/proc/self/fd")), children()
        with monkeypatch.context() as patched:
            patched.setattr(search.files.threads, "start", refuse)
            with pytest.raises(RuntimeError):
                await search.call(grep, pattern="hit")
        assert (len(os.listdir("/proc/self/fd")), children(), gc.isenabled()) == (before, running, True)
        assert len((await search.call(grep, pattern="hit")).data.matches) == 1


async def test_many_searches_at_once_are_not_crossed(tmp_path: Path, how: dict[str, Any]) -> None:
    """Each finds its own, whichever of them shares a domain with whom."""
    fill(tmp_path, {f"{name}/file": f"hit {name}\n" * 3 for name in "abcdefgh"})
    async with Searching(tmp_path, **how) as search:
        answers = await asyncio.gather(
            *(search.call(grep, pattern=f"hit {name}", path=name, limit=2) for name in "abcdefgh" * 8)
        )
    found = [[(item.file, item.line) for item in answer.data.matches] for answer in answers]
    assert found == [[(f"{name}/file", 1), (f"{name}/file", 2)] for name in "abcdefgh" * 8]


async def test_a_closed_workspace_leaves_neither_thread_nor_descriptor(tmp_path: Path, how: dict[str, Any]) -> None:
    """The domain that searches were run in ends with the workspace they were made in."""
    fill(tmp_path, {"a": "hit\n"})
    before = (threading.active_count(), len(os.listdir("/proc/self/fd")))
    async with Searching(tmp_path, **how) as search:
        await asyncio.gather(*(search.call(grep, pattern="hit") for _ in range(5)))
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == before


async def test_a_ripgrep_that_was_replaced_is_run(tmp_path: Path) -> None:
    """An upgrade under way is no reason to fail: the new file may be executed as the old one could."""
    fill(tmp_path, {"ws/a": "hit\n"})
    program = tmp_path / "rg"
    async with Searching(tmp_path / "ws", program=str(program)) as search:
        for _ in range(2):
            shutil.copy2(find_program(), tmp_path / "new")
            os.replace(tmp_path / "new", program)
            assert len((await search.call(grep, pattern="hit")).data.matches) == 1


async def test_a_thread_without_a_folder_of_its_own_starts_ripgrep_the_long_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a container forbids that, the search finds the same, in the right folder."""
    monkeypatch.setattr("handrail.sandbox.domain.take_own_folder", lambda: False)
    fill(tmp_path, {"a": "hit\n", "below/b": "hit\n"})
    async with Searching(tmp_path) as search:
        found = (await search.call(grep, pattern="hit", path="below")).data.matches
    assert [(item.file, item.line) for item in found] == [("below/b", 1)]


@pytest.mark.parametrize("where", [".", "a"])
async def test_a_pattern_that_no_program_can_be_given_is_refused(tmp_path: Path, where: str) -> None:
    """NUL ends a word for the system: the pattern is not silently cut there."""
    fill(tmp_path, {"a": "hit\n"})
    async with Searching(tmp_path) as search:
        problem = await refused(search.call(grep, pattern="hit\0x", path=where))
    assert (problem.code, "null byte" in problem.message) == (Code.IO_ERROR, True)

"""make_dir: a folder and those above it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handrail.errors import Code
from handrail.tools.fs.make_dir import Folder, make_dir
from handrail.words import How, TouchKind
from tools._fakes import Desk, desk_at


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """An empty workspace."""
    async with desk_at(tmp_path) as desk:
        yield desk


async def test_missing_folders_are_made_and_named(desk: Desk) -> None:
    """Each one that was made is told, in order."""
    answer = await desk.call(make_dir, path="a/b/c")
    assert answer.data == Folder("a/b/c", ["a", "a/b", "a/b/c"])
    assert (desk.folder / "a/b/c").is_dir()
    assert [(touch.kind, touch.how) for touch in desk.touches] == [(TouchKind.FS_WRITE, How.MAKE)]


async def test_a_folder_that_is_there_is_fine(desk: Desk) -> None:
    """Asking twice changes nothing the second time."""
    await desk.call(make_dir, path="a")
    answer = await desk.call(make_dir, path="a")
    assert (answer.data, answer.summary, desk.changes) == (Folder("a", []), "a was there already", [])


async def test_the_workspace_itself_is_there_already(desk: Desk) -> None:
    """It is no change either."""
    answer = await desk.call(make_dir, path=".")
    assert (answer.data, answer.summary, desk.changes) == (Folder(".", []), ". was there already", [])


async def test_a_file_in_the_way_is_told(desk: Desk) -> None:
    """At the end of the path or in the middle of it."""
    desk.put("f", "x")
    assert (await desk.problem(make_dir, path="f")).code is Code.ALREADY_EXISTS
    assert (await desk.problem(make_dir, path="f/g")).code is Code.NOT_A_DIRECTORY

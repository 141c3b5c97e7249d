"""list_dir: what lies in a folder, in pages that lead on, with all that is left out counted."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import Code
from handrail.tools.fs.list_dir import DirEntry, list_dir
from handrail.words import Exclusion, Truncation
from tools._fakes import Desk, desk_at

WHEN = "2023-11-14T22:13:20Z"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A workspace with a small tree, all of the same time."""
    async with desk_at(tmp_path) as desk:
        for index, path in enumerate(["b.txt", "a/x.py", "a/deep/er/y.py", "a-b.txt", ".hidden", "c.log"]):
            desk.put(path, "x" * index)
        (desk.folder / "link").symlink_to("b.txt")
        for folder, folders, files in os.walk(desk.folder):
            for name in [*folders, *files]:
                os.utime(Path(folder, name), (1_700_000_000, 1_700_000_000), follow_symlinks=False)
        yield desk


def names(answer: Any) -> list[str]:
    """The names shown."""
    return [entry.name for entry in answer.data.entries]


async def pages(desk: Desk, **args: Any) -> list[list[str]]:
    """The names of each page until the last."""
    found, cursor = [], None
    while True:
        answer = await desk.call(list_dir, **args, **({} if cursor is None else {"cursor": cursor}))
        found.append(names(answer))
        cursor = answer.data.next_cursor
        assert (answer.truncation is None) == (cursor is None)
        if cursor is None:
            return found


async def test_a_folder_is_listed_with_sizes_types_and_times(desk: Desk) -> None:
    """Folders end in a slash, what is neither file nor folder is named; hidden names are counted."""
    answer = await desk.call(list_dir)
    data = answer.data
    assert data.entries == [
        DirEntry("a", "directory", data.entries[0].size, WHEN),
        DirEntry("a-b.txt", "file", 3, WHEN),
        DirEntry("b.txt", "file", 0, WHEN),
        DirEntry("c.log", "file", 5, WHEN),
        DirEntry("link", "link", 5, WHEN),
    ]
    assert (data.path, data.total, data.left_out, data.hidden, data.next_cursor) == (".", 5, 0, 1, None)
    assert answer.content == (
        f"a/\na-b.txt  3  {WHEN}\nb.txt  0  {WHEN}\nc.log  5  {WHEN}\nlink  5  {WHEN}  link\n"
        "[5 entries in .; not shown: 1 hidden]"
    )


async def test_depth_hidden_and_ignore_say_what_is_listed(desk: Desk) -> None:
    """Deeper entries are named from the listed folder; what is ignored is counted."""
    assert names(await desk.call(list_dir, path="a", depth=10)) == ["deep", "deep/er", "deep/er/y.py", "x.py"]
    assert names(await desk.call(list_dir, path="a", depth=2)) == ["deep", "deep/er", "x.py"]
    assert ".hidden" in names(await desk.call(list_dir, hidden=True))
    answer = await desk.call(list_dir, depth=10, ignore=["*.py", "c.log"])
    assert names(answer) == ["a", "a/deep", "a/deep/er", "a-b.txt", "b.txt", "link"]
    assert answer.data.ignored == 3


async def test_protected_names_are_left_out_and_counted(tmp_path: Path) -> None:
    """What policy excludes is not named, only counted."""
    async with desk_at(tmp_path, excluded=(Exclusion("**/.env", "defaults.env"),)) as desk:
        desk.put(".env", "x")
        desk.put("a", "x")
        answer = await desk.call(list_dir, hidden=True)
        assert (names(answer), answer.data.protected) == (["a"], 1)
        assert answer.summary == "1 entry in .; not shown: 1 protected"


@pytest.mark.parametrize("sort", ["name", "mtime", "size"])
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_pages_lead_through_all_entries_in_order(desk: Desk, sort: str, limit: int) -> None:
    """Nothing is lost or shown twice, whatever the order and the size of a page."""
    whole = names(await desk.call(list_dir, depth=10, hidden=True, sort=sort))
    found = await pages(desk, depth=10, hidden=True, sort=sort, limit=limit)
    assert [name for page in found for name in page] == whole
    assert all(len(page) == limit for page in found[:-1])
    assert len(whole) == 10


async def test_orders_are_newest_and_largest_first(desk: Desk) -> None:
    """Ties are broken by name."""
    os.utime(desk.folder / "c.log", (1_800_000_000, 1_800_000_000))
    assert names(await desk.call(list_dir, sort="mtime"))[:2] == ["c.log", "a"]
    files = [name for name in names(await desk.call(list_dir, sort="size")) if name != "a"]
    assert files == ["c.log", "link", "a-b.txt", "b.txt"]


async def test_a_page_says_how_to_go_on_with_its_own_arguments(desk: Desk) -> None:
    """The last line is the literal call of the next page."""
    answer = await desk.call(list_dir, depth=2, limit=2, sort="size", hidden=True)
    cursor = answer.data.next_cursor
    assert answer.truncation == Truncation("entries", 2, 8, cursor)
    last = str(answer.content).splitlines()[-1]
    assert last.startswith("[Entries 1-2 of 8 in .; go on with list_dir ")
    assert '"depth": 2, "limit": 2, "hidden": true, "sort": "size", "cursor": ' in last


async def test_a_cursor_holds_when_entries_come_and_go(desk: Desk) -> None:
    """The next page starts after the last name shown, not at a number."""
    first = await desk.call(list_dir, limit=2)
    (desk.folder / "a-b.txt").unlink()
    desk.put("a0.txt", "")
    second = await desk.call(list_dir, limit=9, cursor=first.data.next_cursor)
    assert names(second) == ["a0.txt", "b.txt", "c.log", "link"]
    (desk.folder / "b.txt").unlink()
    end = await desk.call(list_dir, limit=9, cursor='["name", "zzz"]')
    assert (names(end), end.summary.split(";")[0]) == ([], "Nothing more at this cursor")


@pytest.mark.parametrize("cursor", ["", "junk", "[]", '["size", 1, "a"]', '["name", 3]', '{"a": 1}', "[[[]]]", "null"])
async def test_a_cursor_that_was_not_given_is_refused(desk: Desk, cursor: str) -> None:
    """INVALID_ARGS, and starting over is the way; a cursor of one order is none of another."""
    for sort in ("name", "mtime"):
        assert (await desk.problem(list_dir, cursor=cursor, sort=sort)).code is Code.INVALID_ARGS


@pytest.mark.parametrize("args", [{"depth": 0}, {"depth": 11}, {"limit": 0}, {"sort": "date"}])
async def test_arguments_out_of_bounds_are_refused(desk: Desk, args: dict[str, Any]) -> None:
    """Depth is at most ten."""
    assert (await desk.problem(list_dir, **args)).code is Code.INVALID_ARGS


async def test_what_is_no_folder_leads_elsewhere(desk: Desk) -> None:
    """A file leads to read_file, a misspelt name to the right one."""
    problem = await desk.problem(list_dir, path="b.txt")
    assert (problem.code, problem.next_call) == (
        Code.NOT_A_DIRECTORY,
        {"tool": "read_file", "args": {"path": "b.txt"}},
    )
    (desk.folder / "sources").mkdir()
    problem = await desk.problem(list_dir, path="source")
    assert (problem.code, problem.next_call) == (Code.NOT_FOUND, {"tool": "list_dir", "args": {"path": "sources"}})


async def test_an_empty_folder_is_said_to_be(desk: Desk) -> None:
    """Nothing to show is an answer."""
    (desk.folder / "empty").mkdir()
    answer = await desk.call(list_dir, path="empty")
    assert (answer.content, answer.truncation) == ("[Nothing to show in empty]", None)


async def test_thousands_of_entries_stay_within_the_limits(desk: Desk) -> None:
    """A page is cut where the content would get too large, and leads on."""
    (desk.folder / "many").mkdir()
    for index in range(2500):
        (desk.folder / "many" / f"{index:04d}-{'n' * 40}").touch()
    answer = await desk.call(list_dir, path="many", limit=5000)
    assert answer.content is not None
    assert len(answer.content.encode()) <= 51200
    assert 400 < len(answer.data.entries) < 1000
    found = await pages(desk, path="many", limit=5000)
    assert sum(map(len, found)) == 2500


async def test_names_with_line_breaks_stay_on_one_line(desk: Desk) -> None:
    """A name cannot forge another entry."""
    desk.put("odd/x\ny", "")
    answer = await desk.call(list_dir, path="odd")
    assert str(answer.content).splitlines()[0].startswith('"x\\ny"  0  ')

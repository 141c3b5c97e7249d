"""stat_path: what stands there, itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handrail.errors import Code, Problem
from handrail.tools.fs._times import utc
from handrail.tools.fs.stat_path import PathStat, stat_path
from handrail.workspace.births import born_ns
from tools._fakes import Desk, desk_at


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """An empty workspace."""
    async with desk_at(tmp_path) as desk:
        yield desk


async def test_a_file_is_described(desk: Desk) -> None:
    """Type, size, times and mode."""
    file = desk.put("f", "hello")
    file.chmod(0o640)
    os.utime(file, (951_782_400, 1_700_000_000))
    answer = await desk.call(stat_path, path="f")
    seconds = int(subprocess.check_output(["stat", "-c", "%W", str(file)]))
    made = utc(seconds * 10**9) if seconds else None
    times = ("2023-11-14T22:13:20Z", "0640", None, "2000-02-29T00:00:00Z", made)
    assert answer.data == PathStat("f", "file", 5, *times)
    assert answer.summary == "f: file, 5 bytes, changed 2023-11-14T22:13:20Z, mode 0640"


async def test_a_link_is_described_itself(desk: Desk) -> None:
    """Where it points is told, also when nothing is there."""
    (desk.folder / "link").symlink_to("nowhere")
    data = (await desk.call(stat_path, path="link")).data
    assert (data.type, data.target) == ("link", "nowhere")


async def test_a_link_is_followed_where_that_is_asked_for(desk: Desk) -> None:
    """What it leads to is told by its own path, and only beneath the roots."""
    desk.put("d/f", "hello")
    for name, target in {"one": "two", "two": "d/f", "round": "round", "out": "/etc/passwd", "gone": "x"}.items():
        (desk.folder / name).symlink_to(target)
    data = (await desk.call(stat_path, path="one", follow=True)).data
    assert (data.path, data.type, data.size, data.target) == ("d/f", "file", 5, None)
    codes = [(await desk.problem(stat_path, path=name, follow=True)).code for name in ("round", "out", "gone")]
    assert codes == [Code.PATH_OUTSIDE_ROOTS, Code.PATH_OUTSIDE_ROOTS, Code.NOT_FOUND]


async def test_a_link_that_came_after_the_call_was_judged_is_not_told_of(desk: Desk) -> None:
    """Nor is it followed: where it leads was judged by nobody."""
    file = desk.put("f", "hello")
    place = desk.files.resolve("f")
    file.unlink()
    file.symlink_to("/etc/passwd")
    with pytest.raises(Problem) as raised:
        await stat_path.function(files=desk.files.bind("call", ()), path=place, follow=True)
    assert (raised.value.code, "passwd" in raised.value.message) == (Code.STALE_FILE, False)


async def test_folders_and_pipes_have_types(desk: Desk) -> None:
    """What is neither file, folder nor link is other."""
    (desk.folder / "d").mkdir()
    os.mkfifo(desk.folder / "p")
    assert (await desk.call(stat_path, path="d")).data.type == "directory"
    assert (await desk.call(stat_path, path="p")).data.type == "other"


async def test_nothing_there_names_what_is_near(desk: Desk) -> None:
    """The clearly nearest name is the next call."""
    desk.put("readme.md", "")
    problem = await desk.problem(stat_path, path="readme")
    assert (problem.code, problem.next_call) == (
        Code.NOT_FOUND,
        {"tool": "stat_path", "args": {"path": "readme.md"}},
    )


def test_a_file_system_that_knows_no_births_tells_none() -> None:
    """Nobody makes up a time: neither there nor of what is not open."""
    with open("/proc/self/status", "rb") as status:
        assert born_ns(status.fileno()) is None
    assert born_ns(-1) is None


def test_times_beyond_the_calendar_are_its_edges() -> None:
    """A broken clock on a disk is no error."""
    assert [utc(ns) for ns in (0, -1, 2**80, -(2**80))] == [
        "1970-01-01T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "9999-12-31T23:59:59Z",
        "0001-01-01T00:00:00Z",
    ]

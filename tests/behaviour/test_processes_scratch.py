"""What programs may leave in scratch is bounded, whatever confines them; measured on the disk itself."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from behaviour._commands import alive, need_sandbox, run, runtime, until
from handrail import Outcome, Runtime
from handrail.errors import Code
from handrail.processes.scratch import emptied, left_in_scratch, measured
from handrail.sandbox.backends import OFFERED

MIB = 1024 * 1024
MOST = 8 * MIB
FILL = "for i in $(seq 60); do head -c 2097152 /dev/zero > {folder}/$i; sleep 0.05; done; sleep 60"
HELD = "the run's scratch folder held more than exec.max_scratch_bytes, and was emptied"
T = TypeVar("T")
WAYS = {f"{offer.backend} {offer.tier}": offer for offer in OFFERED}


pytestmark = pytest.mark.usefixtures("removed")


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


def opened_with(work: Path, way: str) -> Runtime:
    """Open a runtime with one way to confine, and little room in scratch."""
    if way.startswith("bwrap") and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    rules = [{"effect": "allow", "touch": "proc.exec"}]
    return runtime(work, config={"exec": {"max_scratch_bytes": MOST}, "rules": rules}, mode="headless")


async def ran(opened: Runtime, way: str, line: str, **more: object) -> tuple[Outcome, Path]:
    """Run a line that names the run's scratch folder; give that folder, too."""
    programs = opened.parts.programs
    programs.choose = WAYS[way].make
    folder = Path(programs.made.host.scratch)
    return await run(opened, line.format(folder=folder), **more), folder


@pytest.mark.parametrize("way", WAYS)
async def test_a_program_that_fills_the_scratch_folder_is_ended_and_the_folder_emptied(work: Path, way: str) -> None:
    """The error says why, nothing of it runs, and the space is free again."""
    async with opened_with(work, way) as opened:
        outcome, folder = await ran(opened, way, FILL)
        assert outcome.error is not None
        assert outcome.error.code == Code.EXIT_NONZERO
        assert "exec.max_scratch_bytes" in outcome.error.message
        assert outcome.error.details["timed_out"] is False
        assert (measured([str(folder)], MOST), alive(str(folder))) == (0, [])
        assert (await run(opened, "true")).ok


@pytest.mark.parametrize("way", WAYS)
async def test_temporary_files_are_bounded_in_every_tier(work: Path, way: str) -> None:
    """By the size of its file system, or by being measured where it has none of its own."""
    async with opened_with(work, way) as opened:
        outcome, _ = await ran(opened, way, "set -e; " + FILL.replace("{folder}", "$TMPDIR"))
    assert outcome.error is not None
    said = outcome.error.message if way.endswith("B") else outcome.error.details["stderr"]
    assert ("exec.max_scratch_bytes" if way.endswith("B") else "No space left on device") in said


async def test_what_a_quick_program_leaves_behind_is_bounded_too(work: Path) -> None:
    """One that ends before it is measured has no more space than others once it is gone."""
    async with opened_with(work, "native A") as opened:
        outcome, folder = await ran(opened, "native A", "head -c 16777216 /dev/zero > {folder}/large")
    assert outcome.ok
    assert outcome.warnings == (HELD,)
    assert list(folder.iterdir()) == []


async def test_what_is_within_the_bound_stays_for_the_next_program(work: Path) -> None:
    """Scratch outlives a program."""
    async with opened_with(work, "native A") as opened:
        first, folder = await ran(opened, "native A", "echo kept > {folder}/small")
        second, _ = await ran(opened, "native A", "cat {folder}/small")
    assert (first.warnings, second.data["stdout"]) == ((), "kept\n")
    assert (folder / "small").read_text() == "kept\n"


async def test_a_job_that_fills_the_scratch_folder_is_ended_and_says_so(work: Path) -> None:
    """Its output tells the reason to whoever reads it next."""
    async with opened_with(work, "native A") as opened:
        started, folder = await ran(opened, "native A", FILL, background=True)
        assert started.ok, started.content
        await until(lambda: not opened.parts.programs.made.jobs.all()[0].running)
        text = (await opened.call("job_read", {"job": "job-1", "cursor": 0})).data["text"]
    assert "[ended: the scratch folder held more than exec.max_scratch_bytes]" in text
    assert "was emptied" in text
    assert list(folder.iterdir()) == []


def test_space_is_counted_once_by_blocks_and_through_closed_folders(tmp_path: Path) -> None:
    """Links add nothing, holes take nothing, and a folder without rights is looked into all the same."""
    (tmp_path / "real").write_bytes(b"x" * MIB)
    (tmp_path / "again").hardlink_to(tmp_path / "real")
    (tmp_path / "away").symlink_to("/")
    with (tmp_path / "hole").open("wb") as hole:
        hole.truncate(100 * MIB)
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "more").write_bytes(b"x" * MIB)
    closed.chmod(0)
    assert 2 * MIB <= measured([str(tmp_path)], MOST) < 3 * MIB


def as_owner_alone() -> None:
    """Let this thread do no more with files than their owner may, whoever it is."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, held = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, held) == 0
    held[0] &= ~0b1111  # chown, and all that passes over modes and owners
    assert libc.capset(header, held) == 0


def owners() -> ThreadPoolExecutor:
    """A thread in which modes count, for root too."""
    return ThreadPoolExecutor(1, initializer=as_owner_alone)


def by_owner(step: Callable[[], T]) -> T:
    """Do something in such a thread."""
    with owners() as pool:
        return pool.submit(step).result()


def nested(folder: Path, depth: int) -> None:
    """Make folders in folders, deeper than a path can name."""
    fd = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)


def test_folders_too_deep_to_be_measured_count_as_too_much(tmp_path: Path) -> None:
    """What is not counted is not taken for nothing."""
    nested(tmp_path, 199)
    assert measured([str(tmp_path)], MOST) <= MOST
    nested(tmp_path.joinpath(*"d" * 199), 2)
    assert measured([str(tmp_path)], MOST) == MOST + 1
    assert emptied(str(tmp_path)) == 0


@pytest.mark.parametrize("mode", [0, 0o400, 0o100, 0o500])
@pytest.mark.parametrize("where", [".", "inner"])
def test_no_mode_of_a_folder_hides_what_is_in_it(tmp_path: Path, where: str, mode: int) -> None:
    """Neither that of the scratch folder itself nor that of one in it, for an ordinary user."""
    scratch = tmp_path / "scratch"
    (scratch / "inner").mkdir(parents=True)
    (scratch / "inner" / "large").write_bytes(b"x" * MIB)
    (scratch / where).chmod(mode)
    assert by_owner(lambda: measured([str(scratch)], MOST)) >= MIB


def test_emptying_leaves_nothing_however_deep_or_closed(tmp_path: Path) -> None:
    """Deeper than a stack and than descriptors go, through folders without rights, and through no link."""
    scratch, outside = tmp_path / "scratch", tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    for number in range(4):
        inner = scratch / f"closed-{number}" / "inner"
        inner.mkdir(parents=True)
        (inner / "file").write_text("x")
        inner.chmod(0o400)
        inner.parent.chmod(0)
    (scratch / "link").symlink_to(outside)
    nested(scratch, 1100)
    scratch.chmod(0)
    assert by_owner(lambda: emptied(str(scratch))) == 0
    assert (list(scratch.iterdir()), (outside / "kept").read_text()) == ([], "kept")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what another owns")
async def test_what_could_not_be_removed_is_told(work: Path) -> None:
    """One entry that resists does not keep the others, and nobody is told that all is gone."""
    async with opened_with(work, "native A") as opened:
        host = opened.parts.programs.made.host
        scratch = Path(host.scratch)
        for name in ("a", "b", "c"):
            (scratch / name).mkdir()
            (scratch / name / "file").write_text("x")
        os.chown(scratch / "b", 54321, 54321)
        asyncio.get_running_loop().set_default_executor(owners())
        told = await left_in_scratch(host, full=True)
    # The file in the folder of another, and that folder.
    assert told == [f"{HELD}, but for 2 entries that could not be removed"]
    assert [path.name for path in scratch.iterdir()] == ["b"]


async def test_a_program_that_closes_the_scratch_folder_keeps_no_other_from_starting(work: Path) -> None:
    """Its mode is put back when the program has ended, and what it holds is counted."""
    async with opened_with(work, "native A") as opened:
        line = "mkdir {folder}/d && cd {folder}/d && head -c 16777216 /dev/zero > large && chmod 0 {folder}"
        first, folder = await ran(opened, "native A", line)
        mode = folder.stat().st_mode & 0o777
        folder.chmod(0)
        second = await run(opened, "echo next")
    assert (first.ok, first.warnings, mode) == (True, (HELD,), 0o700)
    assert (second.data["stdout"], folder.stat().st_mode & 0o777) == ("next\n", 0o700)

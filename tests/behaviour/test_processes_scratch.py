"""What programs may leave in scratch is bounded, whatever confines them; measured on the disk itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from behaviour._commands import alive, need_sandbox, run, runtime, until
from handrail import Outcome, Runtime
from handrail.errors import Code
from handrail.processes.scratch import measured
from handrail.sandbox.backends import OFFERED

MIB = 1024 * 1024
MOST = 8 * MIB
FILL = "for i in $(seq 60); do head -c 2097152 /dev/zero > {folder}/$i; sleep 0.05; done; sleep 60"
WAYS = {f"{offer.backend} {offer.tier}": offer for offer in OFFERED}


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
    assert outcome.warnings == ("the run's scratch folder held more than exec.max_scratch_bytes, and was emptied",)
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

"""A disk full or read-only, no descriptors left, a clock that jumps: told at once, and gone on afterwards."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from faults._small_disk import fill, mount, small_disk_of
from handrail.errors import Code, Problem, RunFault
from handrail.store import reader
from handrail.store.images import Images
from handrail.store.journal import FileJournal
from handrail.store.outcomes import Outcomes
from handrail.store.spill import FileSpill
from journaling import Clock, open_run

SIZE = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte of its own."""
    with small_disk_of(SIZE, tmp_path) as place:
        yield place


def refused(work: Callable[[], object]) -> Problem:
    """Give the problem that something ends with, within a second."""
    began = time.monotonic()
    with pytest.raises(Problem) as caught:
        work()
    assert time.monotonic() - began < 1
    return caught.value


def append_and_flush(journal: FileJournal, size: int) -> None:
    journal.append("display", "c-1", {"text": "x" * size})
    journal.flush()


# ── full ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_full_disk_is_told_and_the_run_goes_on_when_there_is_room(small_disk: Path) -> None:
    """Half-written lines are cut, nothing is acknowledged meanwhile, and the chain holds throughout."""
    journal = open_run(small_disk / "run")
    append_and_flush(journal, 100)
    filler = fill(small_disk)
    before = journal.seq, journal.head
    for size in (20_000, 50_000, 5_000):
        problem = refused(lambda size=size: append_and_flush(journal, size))  # type: ignore[misc]
        assert (problem.code, problem.details["errno"]) == (Code.JOURNAL_UNAVAILABLE, errno.ENOSPC)
        assert (journal.seq, journal.head) == before
        assert reader.verify(small_disk / "run") == reader.Verification(True, before[0], f"{before[0]}:{before[1]}")
    filler.unlink()
    append_and_flush(journal, 20_000)
    await journal.durable()
    await journal.close()
    assert [len(event["text"]) for event in reader.events(small_disk / "run")] == [100, 20_000]
    assert reader.verify(small_disk / "run").ok


async def test_a_run_closed_on_a_full_disk_keeps_all_that_was_acknowledged(small_disk: Path) -> None:
    """There is no room for a checkpoint; the next opening reads the journal instead."""
    journal = open_run(small_disk / "run")
    append_and_flush(journal, 100)
    filler = fill(small_disk)
    refused(lambda: append_and_flush(journal, 20_000))
    await journal.close()
    assert not (small_disk / "run" / "checkpoint.json").exists()
    filler.unlink()
    journal = open_run(small_disk / "run")
    assert (journal.seq, journal.mended, journal.read_only) == (1, False, "")
    await journal.close()


def test_a_run_that_cannot_be_made_is_refused_and_can_be_made_later(small_disk: Path) -> None:
    """Opening says what is wrong; once there is room it works, and no lock is left behind."""
    filler = fill(small_disk)
    with pytest.raises(RunFault) as caught:
        open_run(small_disk / "run")
    assert (caught.value.code, caught.value.details) == (Code.JOURNAL_UNAVAILABLE, {"errno": errno.ENOSPC})
    filler.unlink()
    open_run(small_disk / "run").abandon()


async def test_a_torn_end_waits_for_room_to_be_mended(small_disk: Path) -> None:
    """It is not cut before its bytes are safe elsewhere."""
    journal = open_run(small_disk / "run")
    append_and_flush(journal, 100)
    journal.abandon()
    torn = b'{"seq":2,"text":"' + b"y" * 30_000
    with (small_disk / "run" / "events.jsonl").open("ab") as file:
        file.write(torn)
    filler = fill(small_disk)
    os.truncate(filler, filler.stat().st_size - 2 * 4096)  # room for the lock, not for what is torn
    with pytest.raises(RunFault) as caught:
        open_run(small_disk / "run")
    assert caught.value.details == {"errno": errno.ENOSPC}
    assert (small_disk / "run" / "events.jsonl").read_bytes().endswith(torn)
    filler.unlink()
    journal = open_run(small_disk / "run")
    await journal.close()
    assert (journal.mended, (small_disk / "run" / "torn-2.bin").read_bytes()) == (True, torn)


def test_what_else_a_run_keeps_fails_clearly_and_leaves_no_halves(small_disk: Path, tmp_path: Path) -> None:
    """Spilled output, stored outcomes and pre-images on a full disk: a problem with errno, no file in half."""
    source = tmp_path / "source"
    source.write_bytes(b"z" * 100_000)
    places = {name: small_disk / name for name in ("observations", "outcomes", "archive")}
    for place in places.values():
        place.mkdir()
    images = Images(places["archive"], 10 * SIZE)
    assert images.room(1)
    filler = fill(small_disk)
    digest = "4cdd5ee21ca9a42ea42d4ccdb68f55e2ec1d11ac8aae05db3eea1bd1ba0c8a26"
    attempts: list[Callable[[], object]] = [
        lambda: FileSpill(places["observations"]).put("x" * 100_000),
        lambda: Outcomes(places["outcomes"]).put("k", {"text": "x" * 100_000}),
        lambda: images.keep(source, digest),
    ]
    for attempt in attempts:
        problem = refused(attempt)
        assert (problem.code, problem.details["errno"]) == (Code.IO_ERROR, errno.ENOSPC)
    left = [path.name for place in places.values() for path in place.rglob("*")]
    assert left == ["images"]
    filler.unlink()
    assert FileSpill(places["observations"]).put("x").ref == "run:observations/1.txt"


# ── read-only ────────────────────────────────────────────────────────────────────────────────


async def test_a_read_only_disk_is_told_and_can_still_be_read(small_disk: Path) -> None:
    """Opening is refused with the reason, verifying works, and after it is writable again the run goes on."""
    journal = open_run(small_disk / "run")
    append_and_flush(journal, 100)
    await journal.close()
    mount(small_disk, "-o", "remount,ro")
    with pytest.raises(RunFault) as caught:
        open_run(small_disk / "run")
    assert (caught.value.code, caught.value.details) == (Code.JOURNAL_UNAVAILABLE, {"errno": errno.EROFS})
    assert "writable" in str(caught.value)
    assert reader.verify(small_disk / "run").events == 1
    mount(small_disk, "-o", "remount,rw")
    journal = open_run(small_disk / "run")
    append_and_flush(journal, 100)
    await journal.close()
    assert reader.verify(small_disk / "run").events == 2


# ── limits of a process ──────────────────────────────────────────────────────────────────────


def in_child(name: str, folder: Path) -> object:
    """Run one of the functions below in a process of its own, whose limits it may lower."""
    argv = [sys.executable, __file__, name, str(folder)]
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=here)
    assert (done.returncode, done.stderr) == (0, "")
    return orjson.loads(done.stdout)


def limit(kind: int, value: int) -> None:
    resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))


def without_descriptors(folder: Path) -> object:
    """An open run goes on, what needs a descriptor is refused, and all works again afterwards."""
    told: list[object] = []
    before = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    journal = open_run(folder / "run")
    append_and_flush(journal, 10)
    limit(resource.RLIMIT_NOFILE, 0)
    append_and_flush(journal, 10)
    journal.checkpoint()
    try:
        open_run(folder / "other")
    except RunFault as fault:
        told.append([fault.code, fault.details])
    try:
        FileSpill(folder).put("text")
    except Problem as problem:
        told.append([problem.code, problem.details["errno"]])
    append_and_flush(journal, 10)
    limit(resource.RLIMIT_NOFILE, before)
    open_run(folder / "other").abandon()
    append_and_flush(journal, 10)
    journal.abandon()
    return [*told, reader.verify(folder / "run").events]


def at_the_size_limit(folder: Path) -> object:
    """A file that may grow no further: the line that crosses the limit is cut, and goes in once it may."""
    told: list[object] = []
    journal = open_run(folder / "run")
    append_and_flush(journal, 100)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    limit(resource.RLIMIT_FSIZE, 1000)
    for _ in range(2):
        try:
            append_and_flush(journal, 2000)
        except Problem as problem:
            told.append([problem.code, problem.details["errno"], journal.seq])
    append_and_flush(journal, 100)
    limit(resource.RLIMIT_FSIZE, before)
    append_and_flush(journal, 2000)
    journal.abandon()
    found = reader.verify(folder / "run")
    return [*told, [found.ok, found.torn_bytes], [len(event["text"]) for event in reader.events(folder / "run")]]


def test_without_descriptors_an_open_run_goes_on_and_the_rest_is_refused(tmp_path: Path) -> None:
    """Appending needs no new descriptor; opening, spilling and checkpoints say so or wait."""
    assert in_child("without_descriptors", tmp_path) == [
        ["JOURNAL_UNAVAILABLE", {"errno": errno.EMFILE}],
        ["IO_ERROR", errno.EMFILE],
        4,
    ]


def test_a_line_that_a_limit_cuts_in_two_leaves_no_trace(tmp_path: Path) -> None:
    """The same as a full disk, wherever nothing can be mounted."""
    assert in_child("at_the_size_limit", tmp_path) == [
        ["JOURNAL_UNAVAILABLE", errno.EFBIG, 1],
        ["JOURNAL_UNAVAILABLE", errno.EFBIG, 1],
        [True, 0],
        [100, 100, 2000],
    ]


# ── the clock ────────────────────────────────────────────────────────────────────────────────


async def test_a_clock_that_jumps_changes_no_order(tmp_path: Path) -> None:
    """Lines keep their numbers whatever time they bear; each bears the time the clock gave."""
    clock = Clock()
    journal = open_run(tmp_path, clock)
    times = [1_700_000_000.0, 1_700_000_000.999999, 1_600_000_000.5, 0.0, 4_102_444_800.25, 1_700_000_000.0]
    for clock.time in times:
        journal.append("display", None, {})
        await journal.durable()
    await journal.close()
    found = [(event["seq"], event["ts"]) for event in reader.events(tmp_path)]
    assert found == [
        (1, "2023-11-14T22:13:20.000000Z"),
        (2, "2023-11-14T22:13:20.999999Z"),
        (3, "2020-09-13T12:26:40.500000Z"),
        (4, "1970-01-01T00:00:00.000000Z"),
        (5, "2100-01-01T00:00:00.250000Z"),
        (6, "2023-11-14T22:13:20.000000Z"),
    ]
    assert reader.verify(tmp_path).ok


if __name__ == "__main__":
    chosen = {work.__name__: work for work in (without_descriptors, at_the_size_limit)}[sys.argv[1]]
    print(orjson.dumps(chosen(Path(sys.argv[2]))).decode())

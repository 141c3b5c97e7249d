"""Waiting for the disk together, and what holds when it fails."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from handrail.errors import Code, Problem
from handrail.store import checkpoint, reader
from handrail.store import journal as journal_module
from journaling import Disk, lines_of, open_run, reopen, write_calls, write_half_then_fail


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


async def test_many_who_wait_share_few_syncs(tmp_path: Path, disk: Disk) -> None:
    """A hundred at once need at most three; each of them finds its line in the file."""
    journal = open_run(tmp_path)

    async def one(number: int) -> None:
        journal.append("display", None, {"n": number})
        await journal.durable()

    disk.may_go.clear()
    waiting = asyncio.gather(*(one(number) for number in range(100)))
    await asyncio.to_thread(disk.entered.wait, 10)
    disk.may_go.set()
    await waiting
    assert disk.syncs <= 3
    assert [event["n"] for event in reader.events(tmp_path)] == list(range(100))
    await journal.close()


async def test_durable_returns_after_the_sync_and_the_next_ones_collect_meanwhile(tmp_path: Path, disk: Disk) -> None:
    """While the disk is busy nobody is told, others may append and flush, and all of them need one sync more."""
    journal = open_run(tmp_path)
    disk.may_go.clear()
    journal.append("display", None, {"n": 0})
    first = asyncio.ensure_future(journal.durable())
    await asyncio.to_thread(disk.entered.wait, 10)
    later = []
    for number in range(1, 20):
        journal.append("display", None, {"n": number})
        later.append(asyncio.ensure_future(journal.durable()))
    await asyncio.sleep(0)
    assert not any(task.done() for task in [first, *later])
    assert len(lines_of(tmp_path)) == 20
    disk.may_go.set()
    await asyncio.gather(first, *later)
    assert disk.syncs == 2
    await journal.close()


async def test_a_flush_is_synced_a_moment_later_by_itself(tmp_path: Path, disk: Disk) -> None:
    """Nobody waits, and flush does not; still the lines reach the disk."""
    journal = open_run(tmp_path)
    journal.append("display", None, {})
    journal.flush()
    assert disk.syncs == 0
    assert await asyncio.to_thread(disk.synced.wait, 10)
    await journal.durable()
    assert disk.syncs == 1
    await journal.close()


async def test_durable_writes_when_it_is_called(tmp_path: Path) -> None:
    """A task made of it that has not run yet leaves no line in the buffer for somebody else to lose."""
    journal = open_run(tmp_path)
    journal.append("display", None, {})
    waiting = asyncio.ensure_future(journal.durable())
    assert len(lines_of(tmp_path)) == 1
    await waiting
    await journal.close()


async def test_a_long_job_in_the_thread_holds_up_nobody_who_waits(tmp_path: Path) -> None:
    """A checkpoint of a long journal lets those through who wait for the disk."""
    journal = open_run(tmp_path)
    told = threading.Event()

    def long_job() -> None:
        while not told.is_set():
            journal._syncer.breathe()

    journal._syncer.after_sync(long_job)
    for number in range(3):
        journal.append("display", None, {"n": number})
        await asyncio.wait_for(journal.durable(), 10)
    told.set()
    await journal.close()
    assert checkpoint.load(tmp_path) is not None


async def test_a_bug_in_a_job_of_the_thread_leaves_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told as the bug of a thread, and the next ones are served."""
    told: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(args.exc_type))
    journal = open_run(tmp_path)
    journal._syncer.after_sync(lambda: print(1 // 0))
    journal.append("display", None, {})
    await asyncio.wait_for(journal.durable(), 10)
    await asyncio.wait_for(journal.close(), 10)
    assert told == [ZeroDivisionError]


async def test_who_is_cancelled_while_waiting_harms_nobody(tmp_path: Path, disk: Disk) -> None:
    """The others are told, and the line stays."""
    journal = open_run(tmp_path)
    disk.may_go.clear()
    journal.append("display", None, {"n": 0})
    gone, stays = asyncio.ensure_future(journal.durable()), asyncio.ensure_future(journal.durable())
    await asyncio.to_thread(disk.entered.wait, 10)
    gone.cancel()
    disk.may_go.set()
    await stays
    assert gone.cancelled()
    await journal.close()
    assert reader.verify(tmp_path).events == 1


# ── failures ───────────────────────────────────────────────────────────────────────────────────────


async def test_lines_that_could_not_be_written_leave_neither_file_nor_chain_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half-written batch is cut, its caller is told with errno and advice, and the next append goes on."""
    journal = open_run(tmp_path)
    journal.append("display", None, {"n": 1})
    journal.flush()
    before = journal.seq, journal.head, lines_of(tmp_path)
    with monkeypatch.context() as patch:
        write_half_then_fail(patch, errno.ENOSPC)
        journal.append("display", None, {"n": 2})
        journal.append("display", None, {"n": 3})
        with pytest.raises(Problem) as caught:
            journal.flush()
        with pytest.raises(Problem):
            journal.flush()
    assert (caught.value.code, caught.value.details["errno"]) == (Code.JOURNAL_UNAVAILABLE, errno.ENOSPC)
    assert "Free some space" in str(caught.value)
    assert (journal.seq, journal.head, lines_of(tmp_path)) == before
    journal.append("display", None, {"n": 4})
    journal.flush()
    await journal.close()
    assert [event["n"] for event in reader.events(tmp_path)] == [1, 4]
    assert reader.verify(tmp_path).ok


async def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few bytes the system takes at a time, the line is whole."""
    journal = open_run(tmp_path)
    real = os.pwrite
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda handle, data, offset: real(handle, data[:7], offset))
        journal.append("display", None, {"text": "x" * 100})
        journal.flush()
    await journal.close()
    assert reader.verify(tmp_path) == reader.Verification(True, 1, reader.head_of(tmp_path))


async def test_after_a_failed_sync_nobody_is_told_durable_until_it_was_written_anew(tmp_path: Path, disk: Disk) -> None:
    """Who waited and who comes is refused; once the disk works, all lines are written again and the run goes on."""
    journal = open_run(tmp_path)
    journal.append("display", None, {"n": 1})
    await journal.durable()
    disk.error = OSError(errno.EIO, os.strerror(errno.EIO))
    journal.append("display", None, {"n": 2})
    with pytest.raises(Problem) as caught:
        await journal.durable()
    assert (caught.value.code, caught.value.details["errno"]) == (Code.JOURNAL_UNAVAILABLE, errno.EIO)
    disk.error = None
    with pytest.raises(Problem):
        await journal.durable()  # the system would say yes now: it reports a failure once
    journal.append("display", None, {"n": 3})
    await journal.durable()
    await journal.close()
    assert [event["n"] for event in reader.events(tmp_path)] == [1, 2, 3]
    assert reader.verify(tmp_path).ok


async def test_what_a_failed_sync_dropped_closes_the_run(tmp_path: Path, disk: Disk) -> None:
    """When the bytes behind the last good sync are not what was written, nothing more is recorded over the gap."""
    journal = open_run(tmp_path)
    journal.append("display", None, {"n": 1})
    await journal.durable()
    disk.error = OSError(errno.EIO, os.strerror(errno.EIO))
    journal.append("display", None, {"n": 2})
    with pytest.raises(Problem):
        await journal.durable()
    disk.error = None
    first = lines_of(tmp_path)[0]
    (tmp_path / "events.jsonl").write_bytes(first + b"\0" * 200)
    with pytest.raises(Problem, match="is not there any more"):
        journal.append("display", None, {"n": 3})
    with pytest.raises(Problem):
        await journal.close()
    assert lines_of(tmp_path)[0] == first


async def test_a_sync_that_fails_while_putting_things_right_is_not_forgotten(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system reports it once; what may be lost with it is looked for before anything goes on."""
    journal = open_run(tmp_path)
    journal.append("display", None, {"n": 1})
    await journal.durable()
    disk.may_go.clear()  # the sync a moment later does not come in between
    journal.append("display", None, {"n": 2})
    journal.flush()
    with monkeypatch.context() as patch:
        write_half_then_fail(patch, errno.ENOSPC)
        journal.append("display", None, {"n": 3})
        with pytest.raises(Problem):
            journal.flush()
    disk.error = OSError(errno.EIO, os.strerror(errno.EIO))
    disk.may_go.set()
    with pytest.raises(Problem) as caught:
        journal.append("display", None, {"n": 4})
    assert caught.value.details["errno"] == errno.EIO
    disk.error = None
    (tmp_path / "events.jsonl").write_bytes(lines_of(tmp_path)[0])
    with pytest.raises(Problem, match="is not there any more"):
        journal.append("display", None, {"n": 5})
    journal.abandon()


async def test_no_checkpoint_is_kept_of_what_may_not_be_on_the_disk(tmp_path: Path, disk: Disk) -> None:
    """It would vouch for lines that a crash can take."""
    journal = open_run(tmp_path)
    journal.append("display", None, {})
    disk.error = OSError(errno.EIO, os.strerror(errno.EIO))
    journal.checkpoint()
    journal.abandon()
    assert checkpoint.load(tmp_path) is None


async def test_a_journal_replaced_by_the_same_bytes_is_gone_on_with(tmp_path: Path) -> None:
    """A tool that copies and renames takes the file from under us: told once, then the copy is proven and used."""
    journal = open_run(tmp_path)
    journal.append("display", None, {"n": 1})
    await journal.durable()
    journal.append("display", None, {"n": 2})
    journal.flush()
    (tmp_path / "copy").write_bytes((tmp_path / "events.jsonl").read_bytes())
    (tmp_path / "copy").rename(tmp_path / "events.jsonl")
    journal._syncer.synced = 0  # or the sync a moment later was first
    with pytest.raises(Problem):
        await journal.durable()
    journal.append("display", None, {"n": 3})
    await journal.durable()
    await journal.close()
    assert [event["n"] for event in reader.events(tmp_path)] == [1, 2, 3]
    assert reader.verify(tmp_path).ok


@pytest.mark.parametrize("harm", ["remove", "cut"])
async def test_a_journal_removed_or_cut_under_us_is_noticed_before_anything_counts_as_durable(
    tmp_path: Path, harm: str
) -> None:
    """Lines in a file without a name, or behind a hole, prove nothing."""
    journal = open_run(tmp_path)
    journal.append("display", None, {"n": 1})
    await journal.durable()
    if harm == "remove":
        (tmp_path / "events.jsonl").unlink()
        journal.append("display", None, {"n": 2})
    else:
        journal.append("display", None, {"n": 2})
        journal.flush()
        os.truncate(tmp_path / "events.jsonl", 10)
    with pytest.raises(Problem) as caught:
        await journal.durable()
    assert caught.value.details["errno"] == errno.ESTALE
    with pytest.raises(Problem):
        journal.append("display", None, {"n": 3})
    with pytest.raises(Problem):
        await journal.close()
    await open_run(tmp_path).close()


async def test_an_event_too_large_to_be_read_back_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would make the journal unreadable from there on."""
    monkeypatch.setattr(journal_module, "MAX_LINE_BYTES", 1000)
    journal = open_run(tmp_path)
    journal.append("display", None, {"text": "x" * 1000})
    with pytest.raises(Problem) as caught:
        journal.flush()
    assert caught.value.details["errno"] == errno.EMSGSIZE
    for _ in range(20):
        journal.append("display", None, {"text": "x" * 500})
    await journal.close()
    assert reader.verify(tmp_path).events == 20


async def test_a_failed_checkpoint_costs_nothing_but_time(tmp_path: Path) -> None:
    """Where it cannot be written the run closes well and opens from its events."""
    (tmp_path / "checkpoint.json").mkdir()
    state = await write_calls(tmp_path, 5, checkpoint_at=4)
    journal, _ = reopen(tmp_path)
    assert journal.state == state

"""New files that are written at the same time wait for the disk together.

Alone, a file and its folder are synced one after the other, in place where the disk is quick. In a group all files are
made durable by one `syncfs` where that is cheaper, and each folder is synced once. The promise is the same: who gets an
answer has a durable file.
"""

from __future__ import annotations

import ctypes
import errno
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import wait

from handrail.pace import Pace
from handrail.words import Change, Root
from handrail.workspace.access import problem_of
from handrail.workspace.threads import Threads, Ticket, tell
from handrail.workspace.writing import Writing, write

MOST = 128
MOST_THREADS = 16  # that sync the files of one group at the same time
FROM_FILES = 4  # below that, single syncs are as quick
# `syncfs` also writes what other programs left unwritten: not where that would take long.
MAX_DIRTY_BYTES = 16 << 20

_libc = ctypes.CDLL(None, use_errno=True)
Failures = dict[Writing, BaseException]


class Group:
    """Collects writes while one batch is under way, and takes all that wait as the next."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._waiting: list[tuple[Writing, Ticket[Change]]] = []
        self._busy = False
        self._paces: dict[str, Pace] = {}  # by root: each may lie on a disk of its own

    def pace(self, root: Root) -> Pace:
        """What is known of the disk that a root lies on."""
        return self._paces.setdefault(root.path, Pace())

    def quick(self, root: Root) -> bool:
        """Whether nobody writes now and the disk is quick: then a write may be made in place."""
        return not self._busy and self.pace(root).quick

    def write_timed(self, writing: Writing) -> Change:
        """Write here and now, and take note of how quick the disk was."""
        began = time.perf_counter()
        try:
            return write(writing)
        finally:  # also when it failed: a disk that is dying takes its time
            self._took(writing, time.perf_counter() - began)

    def _took(self, writing: Writing, seconds: float) -> None:
        self.pace(writing.place.root).took(seconds / writing.syncs)

    async def write(self, writing: Writing) -> Change:
        """Write with whoever writes now; when cancelled before the effect, nothing is left behind."""
        ticket: Ticket[Change] = Ticket()
        with self._lock:
            self._waiting.append((writing, ticket))
            start, self._busy = not self._busy, True
        if start:
            ticket.loop.call_soon(self._begin)  # after all who come in this turn
        return await ticket.result(writing.brake)

    def _begin(self) -> None:
        try:
            self._threads.start(self._work_off)
        except RuntimeError as error:  # no thread can be started: nobody may wait for one
            with self._lock:
                waiting, self._waiting, self._busy = self._waiting, [], False
            for writing, ticket in waiting:
                ticket.settle(None, problem_of(OSError(errno.EAGAIN, str(error)), writing.place, "written"))

    def _work_off(self) -> None:
        more = True
        while more:
            with self._lock:
                batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            try:
                failures = self._carry_out([writing for writing, _ in batch])
            except BaseException as error:  # noqa: BLE001  # nobody may wait for ever
                failures = {writing: error for writing, _ in batch}
            with self._lock:
                more = self._busy = bool(self._waiting)
            tell([(ticket, writing.change, failures.get(writing)) for writing, ticket in batch])

    def _carry_out(self, batch: list[Writing]) -> Failures:
        began = time.perf_counter()
        failures = write_together(batch, self._threads)
        if len(batch) == 1 and not failures:
            self._took(batch[0], time.perf_counter() - began)
        return failures


def write_together(batch: list[Writing], threads: Threads) -> Failures:
    """Carry writes out step by step; what fails drops out and leaves the others alone."""
    failures: Failures = {}
    try:
        _each(batch, Writing.prepare, failures)
        _sync(_alive(batch, failures), failures, threads)
        _each(_alive(batch, failures), Writing.install, failures)
        _finish(_alive(batch, failures), failures)
    except BaseException as error:  # noqa: BLE001  # nobody may wait for ever
        for writing in _alive(batch, failures):
            failures[writing] = error
    finally:
        for writing in batch:
            _close(writing, failures)
    return failures


def _alive(batch: Iterable[Writing], failures: Failures) -> list[Writing]:
    return [writing for writing in batch if writing not in failures]


def _each(batch: Iterable[Writing], step: Callable[[Writing], None], failures: Failures) -> None:
    for writing in batch:
        try:
            writing.brake.check()
            step(writing)
        except OSError as error:
            failures[writing] = problem_of(error, writing.place, "written")
        except Exception as error:  # noqa: BLE001  # handed to whoever awaits this write
            failures[writing] = error


def _sync(batch: list[Writing], failures: Failures, threads: Threads) -> None:
    """Make the data durable: all at once, or each file by itself at the same time."""
    if len(batch) >= FROM_FILES and _dirty_bytes() <= MAX_DIRTY_BYTES:
        by_device = {writing.device: writing.folder for writing in batch}
        if all(_libc.syncfs(folder) == 0 for folder in by_device.values()):
            return
    lots = [batch[start::MOST_THREADS] for start in range(min(MOST_THREADS, len(batch)))]
    others = [threads.start(_each, lot, Writing.sync, failures) for lot in lots[1:]]
    _each(lots[0] if lots else (), Writing.sync, failures)
    wait(others)


def _finish(batch: list[Writing], failures: Failures) -> None:
    """Sync each folder once; what failed for one file of a folder failed for all of them."""
    first: dict[tuple[int, int], Writing] = {}
    for writing in batch:
        leader = first.setdefault(writing.folder_identity, writing)
        if leader is writing:
            _finish_one(writing, failures)
        elif leader in failures:
            failures[writing] = failures[leader]


def _finish_one(writing: Writing, failures: Failures) -> None:
    try:
        writing.finish()
    except Exception as error:  # noqa: BLE001  # handed to whoever awaits this write
        failures[writing] = error


def _close(writing: Writing, failures: Failures) -> None:
    """Let one write go; what fails here keeps no other from being let go."""
    try:
        writing.close()
    except OSError as error:
        failures.setdefault(writing, problem_of(error, writing.place, "written"))
    except Exception as error:  # noqa: BLE001  # handed to whoever awaits this write
        failures.setdefault(writing, error)


def _dirty_bytes() -> int:
    """What the whole machine has yet to write; a lot where that is not known."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return sum(int(lines[key].split()[0]) for key in ("Dirty", "Writeback")) * 1024
    except (OSError, KeyError, ValueError):
        return MAX_DIRTY_BYTES + 1

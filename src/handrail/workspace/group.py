"""New files that are written at the same time wait for the disk together.

Alone, a file and its folder are synced one after the other. In a group all files are made durable by one `syncfs`
where that is cheaper, and each folder is synced once. The promise is the same: who gets an answer has a durable file.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import wait

from handrail.words import Change
from handrail.workspace.access import problem_of
from handrail.workspace.threads import Threads, Ticket, tell
from handrail.workspace.writing import Writing

MOST = 128
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

    async def write(self, writing: Writing) -> Change:
        """Write with whoever writes now; when cancelled before the effect, nothing is left behind."""
        ticket: Ticket[Change] = Ticket()
        with self._lock:
            self._waiting.append((writing, ticket))
            start, self._busy = not self._busy, True
        if start:
            self._threads.start(self._work_off)
        return await ticket.result(writing.brake)

    def _work_off(self) -> None:
        while True:
            with self._lock:
                batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                self._busy = bool(batch)
            if not batch:
                return
            failures = write_together([writing for writing, _ in batch], self._threads)
            tell([(ticket, writing.change, failures.get(writing)) for writing, ticket in batch])


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
            writing.close()
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
    others = [threads.start(_each, [writing], Writing.sync, failures) for writing in batch[1:]]
    _each(batch[:1], Writing.sync, failures)
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


def _dirty_bytes() -> int:
    """What the whole machine has yet to write; a lot where that is not known."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return sum(int(lines[key].split()[0]) for key in ("Dirty", "Writeback")) * 1024
    except (OSError, KeyError, ValueError):
        return MAX_DIRTY_BYTES + 1

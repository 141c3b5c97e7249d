"""Following all journals of an account: a thread that finds runs, reads what was added, and has it indexed.

Runs that are open are looked at many times a second. All others are looked at when the counter beside the runs has
moved, which every opening, change and closing does, and every ten seconds.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from handrail.service.index_tables import open_index, read_epoch, throw_away
from handrail.service.index_writer import IndexedRun, IndexWriter, OnEvent
from handrail.store.chain import EVENTS, MAX_LINE_BYTES, line_before
from handrail.store.folders import RUN_ID
from handrail.store.order import NAME as ORDER
from handrail.store.private import SAFE

log = logging.getLogger("handrail.service")
QUICK_SECONDS, SLOW_SECONDS, SWEEP_SECONDS = 0.03, 0.25, 10.0
SOON_SECONDS, LATER_SECONDS = 0.2, 1.0  # after the counter has moved
QUIET_SECONDS = 5.0  # without an event, after which looks are slow
CHUNK = 1 << 20
MOST_LINES = 2000  # in one transaction

Folders = Callable[[], list[Path]]
Told = Callable[[str, int, IndexedRun, int, list[bytes]], None]  # epoch, position, run, sequence number, lines


class Journals(threading.Thread):
    """The thread; what it has indexed is in the file when `changed` is called."""

    def __init__(self, path: Path, folders: Folders, changed: Told, on_event: OnEvent | None = None) -> None:
        super().__init__(name="handrail-index", daemon=True)
        self._path, self._folders, self._changed, self._on_event = path, folders, changed, on_event
        self._ends, self._rebuilds = threading.Event(), threading.Event()
        self.lock = threading.Lock()  # held while the file is replaced
        self.caught_up = threading.Event()  # all that was there has been read once
        self.listeners = 0  # who want events at once
        self.problem = ""
        self._orders: dict[Path, int] = {}
        self._checked: set[str] = set()
        self._rests_until = 0.0
        self._open()

    def _open(self) -> None:
        self._db = open_index(self._path)
        self._writer = IndexWriter(self._db, self._on_event)
        self.epoch, self.position = read_epoch(self._db), self._writer.position
        self._active = {run.folder for run in self._writer.runs.values() if not run.ended}
        self._orders.clear()
        self._checked.clear()

    def rebuild(self) -> None:
        """Have the index thrown away and built again, under another epoch."""
        self.caught_up.clear()
        self._rebuilds.set()

    def stop(self) -> None:
        """End the thread."""
        self._ends.set()
        self.join(10)

    def run(self) -> None:
        """Look, take in, sleep; a fault is on record and tried again."""
        last = time.monotonic()
        sweeps_at = [0.0]  # when to look at all runs
        while not self._ends.is_set():
            try:
                if self._rebuilds.is_set():
                    self._rebuilds.clear()
                    self._start_over()
                    sweeps_at = [0.0]
                now = time.monotonic()
                if self._has_moved():
                    # A number is taken a moment before the line that has it is written.
                    sweeps_at = [now, now + SOON_SECONDS, now + LATER_SECONDS]
                sweeps = now >= max(min(sweeps_at), self._rests_until)
                if sweeps:
                    sweeps_at = [at for at in sweeps_at if at > now] or [now + SWEEP_SECONDS]
                last = now if self._look(sweeps=sweeps) else last
                self.problem = ""
                self.caught_up.set()
            except (OSError, sqlite3.Error) as error:
                self.problem = str(error)
                log.warning("the index of runs cannot be written: %s", error)
                self._ends.wait(1.0)
            quick = self.listeners > 0 or time.monotonic() - last < QUIET_SECONDS
            self._ends.wait(QUICK_SECONDS if quick else SLOW_SECONDS)
        self._db.close()

    def _start_over(self) -> None:
        with self.lock:
            self._db.close()
            throw_away(self._path)
            self._open()

    def _has_moved(self) -> bool:
        """Whether a counter beside runs has moved since the last look."""
        moved = False
        for base in self._folders():
            try:
                at = os.stat(base / ORDER).st_mtime_ns
            except OSError:
                at = 0
            moved = moved or self._orders.get(base) != at
            self._orders[base] = at
        return moved

    def _look(self, *, sweeps: bool) -> bool:
        """Take in what was added; tells whether anything was."""
        began = time.monotonic()
        found = list(self._swept()) if sweeps else list(self._active)
        if sweeps:
            self._drop_gone(set(found))
        took = False
        for folder in found:
            took = self._follow(folder) or took
        if sweeps:  # with very many runs, looking at all of them takes a twentieth of the time at most
            self._rests_until = began + 20 * (time.monotonic() - began)
        return took

    def _swept(self) -> Iterator[str]:
        for base in self._folders():
            with suppress(OSError), os.scandir(base) as entries:
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
                # Names of runs begin with their time, unless a person gave one.
                yield from (str(base / name) for name in sorted(names) if RUN_ID.fullmatch(name))

    def _drop_gone(self, found: set[str]) -> None:
        gone = [folder for folder in self._writer.runs if folder not in found and not os.path.isdir(folder)]
        for folder in gone:
            self._active.discard(folder)
            self._writer.forget(folder)

    def _follow(self, folder: str) -> bool:
        """Take in what was added to one journal; tells whether anything was."""
        known, path = self._writer.runs.get(folder), os.path.join(folder, EVENTS)
        try:
            if known is not None and os.stat(path).st_size == known.offset:
                return False
            handle = os.open(path, os.O_RDONLY | SAFE)
        except OSError:
            return False
        try:
            size = os.fstat(handle).st_size
            if size == 0 or (known is not None and size == known.offset):
                return False
            if known is not None and not self._is_same(handle, size, known):
                log.warning("the journal in %s is not the one that was indexed: the index is built again", folder)
                self.rebuild()
                return False
            return self._take(handle, folder)
        finally:
            os.close(handle)

    def _is_same(self, handle: int, size: int, run: IndexedRun) -> bool:
        """Whether a journal goes on behind the line that was indexed last; looked at once, and when it has shrunk."""
        if run.offset == 0 or (run.folder in self._checked and size >= run.offset):
            return True
        self._checked.add(run.folder)
        line = line_before(handle, run.offset) if size >= run.offset else None
        return line is not None and sha256(line).hexdigest() == run.head

    def _take(self, handle: int, folder: str) -> bool:
        took, rest = False, b""
        run = self._writer.runs.get(folder)
        offset = 0 if run is None else run.offset
        self._checked.add(folder)
        while not self._ends.is_set() and (chunk := os.pread(handle, CHUNK, offset + len(rest))):
            *lines, left = (rest + chunk).split(b"\n")
            for start in range(0, len(lines), MOST_LINES):
                self._commit(folder, lines[start : start + MOST_LINES])
            offset += len(rest) + len(chunk) - len(left)
            took, rest = took or bool(lines), left
            if len(rest) > MAX_LINE_BYTES:
                break
        return took

    def _commit(self, folder: str, lines: list[bytes]) -> None:
        """Take lines in, in one transaction, and tell whoever listens."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            run = self._writer.run_at(folder)
            seq = run.seq
            first = self._writer.take(run, lines)
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            self._writer = IndexWriter(self._db, self._on_event)  # as the file has it
            raise
        if run.ended:
            self._active.discard(folder)
        else:
            self._active.add(folder)
        self.position = self._writer.position
        self._changed(self.epoch, first, run, seq + 1, lines)

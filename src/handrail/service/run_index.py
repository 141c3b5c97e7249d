"""The index of runs as the service uses it: searching, listing, and listening to events as they come."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any, TypeVar

from handrail.service import index_text as text
from handrail.service.index_tables import open_index
from handrail.service.index_writer import IndexedRun, OnEvent
from handrail.service.journals import MOST_LINES, Folders, Journals
from handrail.store.chain import EVENTS, batches
from handrail.store.private import SAFE
from handrail.words import noun

T = TypeVar("T")
MOST_FOUND = 200
_WORDS = re.compile(r"[^\W_]+")
_RUN = """
SELECT id, run_id, folder, workspace, caller, identity, parent, title, started, updated, ended, seq, calls, asked,
    denied, failed, changed
FROM runs
"""
_RUN_NAMES = (
    "number", "run_id", "folder", "workspace", "caller", "identity", "parent", "title", "started", "updated", "ended",
    "events", "calls", "asked", "denied", "failed", "changed",
)  # fmt: skip
_ITEM_NAMES = (
    "id", "run_id", "workspace", "identity", "seq", "kind", "call_id", "tool", "decision", "status", "code", "ms",
    "title",
)  # fmt: skip
_RECENT = 5000  # events that are at hand for listeners
_STREAM_ROWS = 200


@noun
class Query:
    """What is searched for."""

    words: str = ""
    filters: Mapping[str, str] = field(default_factory=dict)  # tool, decision, code, status, kind, path, changed
    since: int = 0  # microseconds since 1970
    before: int = 0  # item: only what happened before it; 0: everything
    identity: str | None = None  # only runs of this identity
    run: str = ""
    limit: int = 50


@noun
class Streamed:
    """One event as a listener gets it."""

    position: int
    run_id: str
    identity: str
    seq: int
    line: bytes


class RunIndex:
    """All runs of an account, as the index knows them; `start` and `stop` the thread that follows the journals."""

    def __init__(self, path: Path, folders: Folders, on_event: OnEvent | None = None) -> None:
        self._path = path
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self.journals = Journals(path, folders, self._tell, on_event)
        self._reader: sqlite3.Connection | None = None
        self._reading = threading.Lock()
        self._epoch = ""
        self._recent: list[Streamed] = []
        self._recent_epoch = ""

    def start(self) -> None:
        """Begin to follow."""
        self._loop = asyncio.get_running_loop()
        self.journals.start()

    def stop(self) -> None:
        """End following."""
        self.journals.stop()
        with self._reading:
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    @property
    def epoch(self) -> str:
        """The name of this building of the index."""
        return self.journals.epoch

    def _tell(self, epoch: str, first: int, run: IndexedRun, seq: int, lines: list[bytes]) -> None:
        """Pass what was indexed on to the loop; called from the thread that follows."""
        if self._loop is None or self._loop.is_closed():
            return
        rows = [Streamed(first + at, run.run_id, run.identity, seq + at, line) for at, line in enumerate(lines)]
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._take, epoch, rows)

    def _take(self, epoch: str, rows: list[Streamed]) -> None:
        if epoch != self._recent_epoch or (self._recent and self._recent[-1].position + 1 != rows[0].position):
            self._recent_epoch, self._recent = epoch, []
        self._recent += rows
        if len(self._recent) > 2 * _RECENT:
            del self._recent[:-_RECENT]
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def wait(self, seconds: float) -> None:
        """Wait until something was indexed."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), seconds)

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        with self.journals.lock, self._reading:
            if self._reader is None or self._epoch != self.journals.epoch:
                if self._reader is not None:
                    self._reader.close()
                self._reader = open_index(self._path)
                self._reader.execute("PRAGMA query_only = ON")
                self._epoch = self.journals.epoch
            yield self._reader

    # ── runs ─────────────────────────────────────────────────────────────────────────────────

    def runs(self, *, identity: str | None = None, before: int = 0, limit: int = 50) -> list[dict[str, Any]]:
        """List runs, newest first."""
        where, values = ["NOT gone"], []
        if identity is not None:
            where.append("identity = ?")
            values.append(identity)
        if before:
            where.append("(started, id) < (SELECT started, id FROM runs WHERE id = ?)")
            values.append(str(before))
        query = f"{_RUN} WHERE {' AND '.join(where)} ORDER BY started DESC, id DESC LIMIT ?"
        with self._read() as db:
            return [_named(_RUN_NAMES, row) for row in db.execute(query, (*values, limit))]

    def run(self, run_id: str) -> dict[str, Any] | None:
        """Give one run by its name; the newest where two folders have one of that name."""
        query = f"{_RUN} WHERE run_id = ? AND NOT gone ORDER BY updated DESC LIMIT 1"
        with self._read() as db:
            row = db.execute(query, (run_id,)).fetchone()
        return None if row is None else _named(_RUN_NAMES, row)

    def workspaces(self) -> list[str]:
        """List the folders that runs worked in, the one that was used last first."""
        query = "SELECT workspace, max(updated) AS used FROM runs WHERE NOT gone AND workspace != '' GROUP BY workspace"
        with self._read() as db:
            return [row[0] for row in db.execute(f"{query} ORDER BY used DESC LIMIT 200")]

    def numbers(self) -> dict[str, int]:
        """Count what the index knows."""
        with self._read() as db:
            row = db.execute("SELECT count(*), coalesce(sum(seq), 0), coalesce(sum(calls), 0) FROM runs").fetchone()
        return dict(zip(("runs", "events", "calls"), row, strict=True))

    # ── searching ────────────────────────────────────────────────────────────────────────────

    def search(self, query: Query) -> list[dict[str, Any]]:
        """Find calls and other events, newest first."""
        limit = max(1, min(query.limit, MOST_FOUND))
        found: list[dict[str, Any]] = []
        with self._read() as db:
            for number in _matching(db, query):
                row = db.execute(_ITEM, (number,)).fetchone()
                if row is not None:
                    found.append(_named(_ITEM_NAMES, row))
                    if len(found) == limit:
                        break
        return found

    # ── listening ────────────────────────────────────────────────────────────────────────────

    async def stream(self, after: int, is_gone: Callable[[], bool]) -> AsyncIterator[Sequence[Streamed]]:
        """Give all events behind a position, and then as they come; ends when the epoch is another one."""
        epoch = self.epoch
        self.journals.listeners += 1
        try:
            while self.epoch == epoch and not is_gone():
                found = self._at_hand(after)
                if found is None:
                    found = await asyncio.to_thread(self._from_disk, after)
                if found:
                    after = found[-1].position
                yield found
                if not found:
                    await self.wait(5.0)
        finally:
            self.journals.listeners -= 1

    def _at_hand(self, after: int) -> list[Streamed] | None:
        """Give events behind a position from memory; None where it does not reach back that far."""
        if after + 1 >= self.journals.position:
            return []
        recent = self._recent if self._recent_epoch == self.epoch else []
        if not recent or recent[0].position > after + 1:
            return None
        start = after + 1 - recent[0].position
        return recent[start : start + _STREAM_ROWS]

    def _from_disk(self, after: int) -> list[Streamed]:
        query = """
        SELECT pos, spans.seq, spans.offset, count, run_id, identity, folder FROM spans JOIN runs ON runs.id = spans.run
        WHERE pos + count > ? + 1 AND pos > ? ORDER BY pos LIMIT 20
        """
        found: list[Streamed] = []
        with self._read() as db:
            spans = db.execute(query, (after, after - MOST_LINES)).fetchall()
        for pos, seq, offset, count, run_id, identity, folder in spans:
            for number, line in enumerate(read_lines(folder, offset, count)):
                if pos + number > after:
                    found.append(Streamed(pos + number, run_id, identity, seq + number, line))
            if len(found) >= _STREAM_ROWS:
                break
        return found

    def place_of(self, run_id: str, seq: int) -> tuple[int, int]:
        """Give a line at or before an event of a run, and where it begins: where reading may start."""
        query = """
        SELECT spans.seq, spans.offset FROM spans JOIN runs ON runs.id = spans.run
        WHERE run_id = ? AND NOT gone AND spans.seq <= ? ORDER BY spans.seq DESC LIMIT 1
        """
        with self._read() as db:
            row = db.execute(query, (run_id, seq)).fetchone()
        return (1, 0) if row is None else (int(row[0]), int(row[1]))


_ITEM = """
SELECT items.id, run_id, workspace, identity, items.seq, kind, call_id, tool, decision, status, code, ms, items.title
FROM items JOIN runs ON runs.id = items.run WHERE items.id = ? AND NOT gone
"""


def _matching(db: sqlite3.Connection, query: Query) -> Iterator[int]:
    """Give the items that fit words and filters, newest first, each once."""
    words = [f'"{word}"' for word in _WORDS.findall(query.words)]
    if words and query.words.rstrip().endswith("*"):
        words[-1] += "*"
    filters = {**query.filters, "run": query.run}
    words += [text.mark(name, value) for name, value in filters.items() if value]
    if query.identity is not None:
        words.append(text.mark("identity", query.identity))
    low, high = (query.since << 8) * 2, query.before * 2 if query.before else 1 << 62
    if words:
        sql = "SELECT rowid FROM docs WHERE docs MATCH ? AND rowid >= ? AND rowid < ? ORDER BY rowid DESC"
        rows = db.execute(sql, (" ".join(words), low, high))
    else:
        sql = "SELECT id * 2 FROM items WHERE id >= ? AND id < ? ORDER BY id DESC"
        rows = db.execute(sql, (low // 2, high // 2))
    last = -1
    for (number,) in rows:
        if number // 2 != last:
            last = number // 2
            yield last


def _named(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(names, row, strict=True))


def read_lines(folder: str, offset: int, count: int) -> Iterator[bytes]:
    """Read whole lines of a journal from an offset on; fewer where they are gone."""
    try:
        handle = os.open(os.path.join(folder, EVENTS), os.O_RDONLY | SAFE)
    except OSError:
        return
    try:
        left = count
        for lines, _ in batches(handle, offset):
            yield from lines[:left]
            left -= len(lines)
            if left <= 0:
                return
    finally:
        os.close(handle)

"""Taking the lines of journals into the index: one writer, one transaction for many lines."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from handrail.service import index_text as text

_ENDS = ("tool.completed", "tool.failed")
# Events that stand for themselves in a search; others belong to a call or say nothing that is searched for.
_ITEMS = ("display", "approval.", "undo.", "agent.", "question.", "message.", "program.warned", "net.refused", "skill.")
_RUN_COLUMNS = (
    "id, run_id, folder, workspace, project, caller, identity, parent, title, started, updated, ended, seq, offset, "
    "head, calls, asked, denied, failed, changed"
)
_NAMES = tuple(name.strip() for name in _RUN_COLUMNS.split(","))


@dataclass(slots=True)
class IndexedRun:
    """One run as the index knows it, and its calls that have not ended."""

    id: int
    run_id: str
    folder: str
    workspace: str = ""
    project: str = ""
    caller: str = ""
    identity: str = ""
    parent: str = ""
    title: str = ""
    started: int = 0
    updated: int = 0
    ended: int = 0
    seq: int = 0
    offset: int = 0
    head: str = ""
    calls: int = 0
    asked: int = 0
    denied: int = 0
    failed: int = 0
    changed: int = 0
    open_calls: dict[str, tuple[int, Mapping[str, Any]]] = field(default_factory=dict)  # item and start of each


OnEvent = Callable[[Mapping[str, Any]], None]


class IndexWriter:
    """The one who writes the index; for one thread."""

    def __init__(self, db: sqlite3.Connection, on_event: OnEvent | None = None) -> None:
        self._db, self._on_event = db, on_event
        self._pos = int(db.execute("SELECT coalesce(max(pos + count), 1) FROM spans").fetchone()[0])
        self.runs: dict[str, IndexedRun] = {}
        self._docs: list[tuple[int, str]] = []
        self._items: dict[int, list[Any]] = {}
        self._ended: list[tuple[Any, ...]] = []
        for row in db.execute(f"SELECT {_RUN_COLUMNS} FROM runs WHERE NOT gone"):  # noqa: S608  (constants)
            run = IndexedRun(**dict(zip(_NAMES, row, strict=True)))
            self.runs[run.folder] = run

    @property
    def position(self) -> int:
        """The position of the next event."""
        return self._pos

    def run_at(self, folder: str) -> IndexedRun:
        """Give the run in a folder, new where it is not known."""
        found = self.runs.get(folder)
        if found is None:
            sql = "INSERT INTO runs (run_id, folder) VALUES (?, ?) ON CONFLICT (folder) DO UPDATE SET gone = 0"
            self._db.execute(sql, (Path(folder).name, folder))
            (number,) = self._db.execute("SELECT id FROM runs WHERE folder = ?", (folder,)).fetchone()
            found = self.runs[folder] = IndexedRun(number, Path(folder).name, folder)
        return found

    def take(self, run: IndexedRun, lines: Sequence[bytes]) -> int:
        """Take whole lines of a run in that follow those before; gives the position of the first."""
        first = self._pos
        offset = run.offset
        span = (first, run.id, run.seq + 1, offset, len(lines))
        for line in lines:
            event = _parsed(line)
            run.seq += 1
            if event is not None:
                self._take(run, event, offset)
                if self._on_event is not None:
                    self._on_event(event)
            offset += len(line) + 1
        run.offset = offset
        run.head = sha256(lines[-1]).hexdigest()
        self._pos += len(lines)
        self._db.execute("INSERT INTO spans (pos, run, seq, offset, count) VALUES (?, ?, ?, ?, ?)", span)
        self._finish(run)
        return first

    def forget(self, folder: str) -> None:
        """Mark a run whose folder is gone."""
        self.runs.pop(folder, None)
        self._db.execute("UPDATE runs SET gone = 1 WHERE folder = ?", (folder,))

    def _take(self, run: IndexedRun, event: dict[str, Any], offset: int) -> None:
        kind = event.get("kind")
        moment = text.microseconds(event.get("ts"))
        run.updated = max(run.updated, moment)
        if kind == "tool.started":
            self._start(run, event, offset, moment)
        elif kind in _ENDS:
            self._end(run, event, offset, moment)
        elif isinstance(kind, str):
            run.ended = int(kind == "run.finished")
            if (apply := _RUN_EVENTS.get(kind)) is not None:
                apply(run, event, moment)
            if kind.startswith(_ITEMS):
                self._add(run, event, offset, moment, kind, text.title_of(event))

    def _start(self, run: IndexedRun, event: dict[str, Any], offset: int, moment: int) -> int:
        verdict = event.get("verdict")
        decision = verdict.get("decision") if isinstance(verdict, dict) else None
        values = {"tool": str(event.get("tool", "")), "decision": str(decision or "")}
        number = self._item(run, event, offset, moment, "call", text.call_title(event), **values)
        call_id = event.get("call_id")
        if isinstance(call_id, str):
            run.open_calls[call_id] = (number, event)
        run.calls += 1
        return number

    def _end(self, run: IndexedRun, event: dict[str, Any], offset: int, moment: int) -> None:
        call_id = str(event.get("call_id", ""))
        known = run.open_calls.pop(call_id, None) or self._began(run, call_id)
        if known is None:  # it never started, and its end says what it was asked for
            number = self._start(run, event, offset, moment)
            run.open_calls.pop(call_id, None)
            known = (number, event)
        number, began = known
        status, code = str(event.get("status", "")), str(event.get("code") or "")
        run.denied += status == "denied"
        run.failed += status == "failed"
        run.changed += len(event.get("files_changed") or ())
        ms = event.get("duration_ms")
        held = self._items.get(number)
        if held is not None:
            held[8], held[9], held[10] = status, code, float(ms or 0)
        else:
            self._ended.append((status, code, float(ms or 0), number))
        words = text.started_words(began) + text.ended_words(event)
        marks = text.started_marks(began, run.workspace) + text.ended_marks(event, run.workspace) + _run_marks(run)
        self._docs.append((number * 2 + 1, text.joined(words, marks)))

    def _began(self, run: IndexedRun, call_id: str) -> tuple[int, Mapping[str, Any]] | None:
        """Find the start of a call that was indexed before the service started."""
        sql = "SELECT id, offset FROM items WHERE run = ? AND call_id = ? AND kind = 'call' AND status = ''"
        row = self._db.execute(sql, (run.id, call_id)).fetchone()
        if row is None:
            return None
        try:
            with open(Path(run.folder) / "events.jsonl", "rb") as file:
                file.seek(row[1])
                return row[0], _parsed(file.readline()) or {}
        except OSError:
            return row[0], {}

    def _add(self, run: IndexedRun, event: dict[str, Any], offset: int, moment: int, kind: str, title: str) -> None:
        number = self._item(run, event, offset, moment, kind, title)
        marks = [text.mark("kind", kind), *_run_marks(run)]
        self._docs.append((number * 2 + 1, text.joined(text.other_words(event), marks)))

    def _item(
        self, run: IndexedRun, event: dict[str, Any], offset: int, moment: int, kind: str, title: str, **more: str
    ) -> int:
        """Make an item; its number is its time, and what else happened in the same microsecond makes way."""
        number = moment << 8
        while number in self._items or self._db.execute("SELECT 1 FROM items WHERE id = ?", (number,)).fetchone():
            number += 1
        call_id = str(event.get("call_id") or "")
        tool, decision = more.get("tool", ""), more.get("decision", "")
        self._items[number] = [number, run.id, run.seq, offset, kind, call_id, tool, decision, "", "", 0.0, title]
        return number

    def _finish(self, run: IndexedRun) -> None:
        """Write what was collected of a run's lines."""
        for number, began in run.open_calls.values():
            if number in self._items:  # so that a call can be found while it goes on
                words = text.started_words(began)
                marks = text.started_marks(began, run.workspace) + _run_marks(run)
                self._docs.append((number * 2, text.joined(words, marks)))
        self._docs.sort()  # FTS writes documents fastest in the order of their numbers
        db = self._db
        db.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", self._items.values())
        db.executemany("UPDATE items SET status = ?, code = ?, ms = ? WHERE id = ?", self._ended)
        db.executemany("INSERT INTO docs (rowid, text) VALUES (?, ?)", self._docs)
        self._items.clear()
        self._ended.clear()
        self._docs.clear()
        names = _NAMES[3:]
        values = [getattr(run, name) for name in names]
        told = ", ".join(f"{name} = ?" for name in names)
        db.execute(f"UPDATE runs SET {told}, gone = 0 WHERE id = ?", (*values, run.id))  # noqa: S608  (constants)


def _run_marks(run: IndexedRun) -> list[str]:
    return [text.mark("run", run.run_id), text.mark("identity", run.identity), text.mark("workspace", run.workspace)]


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        event = orjson.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def _run_started(run: IndexedRun, event: Mapping[str, Any], moment: int) -> None:
    run.started = run.started or moment
    for name, key in (("workspace", "workspace"), ("caller", "caller"), ("identity", "identity")):
        if isinstance(value := event.get(key), str) and not getattr(run, name):
            setattr(run, name, value)
    if isinstance(parent := event.get("parent_run"), str):
        run.parent = parent


def _asked(run: IndexedRun, event: Mapping[str, Any], _: int) -> None:  # noqa: ARG001
    run.asked += 1


def _agent_started(run: IndexedRun, event: Mapping[str, Any], _: int) -> None:
    if isinstance(task := event.get("task"), str):
        run.title = task[:200]


_RUN_EVENTS: dict[str, Callable[[IndexedRun, Mapping[str, Any], int], None]] = {
    "run.started": _run_started,
    "approval.required": _asked,
    "agent.started": _agent_started,
}

"""Notes in SQLite files, found by their words: the embedded provider.

One file a scope, in the user's state folder, which no tool reaches. Every commit is on the disk when it returns, and
writers of several processes queue.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import orjson

from handrail.errors import Code, Problem
from handrail.ports import Note, NoteChange
from handrail.store import private_db

T = TypeVar("T")
VERSION = 1
BUSY_SECONDS = 30.0
TABLES = """
CREATE TABLE notes (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, title TEXT NOT NULL, content TEXT NOT NULL,
  tags TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL
);
CREATE VIRTUAL TABLE words USING fts5(
  title, content, tags, content = 'notes', content_rowid = 'number',
  tokenize = "porter unicode61 remove_diacritics 2"
);
CREATE TRIGGER added AFTER INSERT ON notes BEGIN
  INSERT INTO words (rowid, title, content, tags) VALUES (new.number, new.title, new.content, new.tags);
END;
CREATE TRIGGER removed AFTER DELETE ON notes BEGIN
  INSERT INTO words (words, rowid, title, content, tags)
  VALUES ('delete', old.number, old.title, old.content, old.tags);
END;
CREATE TRIGGER changed AFTER UPDATE ON notes BEGIN
  INSERT INTO words (words, rowid, title, content, tags)
  VALUES ('delete', old.number, old.title, old.content, old.tags);
  INSERT INTO words (rowid, title, content, tags) VALUES (new.number, new.title, new.content, new.tags);
END
"""
_FITTING = """
SELECT id, notes.title, notes.content, notes.tags, created, updated, -bm25(words, 4.0, 1.0, 2.0)
FROM words JOIN notes ON notes.number = words.rowid WHERE words MATCH ? ORDER BY 7 DESC, updated DESC LIMIT ?
"""
_NEWEST = "SELECT id, title, content, tags, created, updated, 0.0 FROM notes ORDER BY updated DESC, number DESC LIMIT ?"
_UPDATE = """
UPDATE notes SET title = coalesce(?, title), content = coalesce(?, content), tags = coalesce(?, tags), updated = ?
WHERE id = ? RETURNING id, title, content, tags, created, updated, 0.0
"""
_WORD = re.compile(r"\w+")
MAX_WORDS = 64  # of a query


class SqliteMemory:
    """Satisfies `ports.MemoryProvider` over one file for each scope."""

    def __init__(self, places: Mapping[str, Path]) -> None:
        """Take the file of each scope; it is made when it is first needed."""
        self._places = places
        self._open: dict[str, sqlite3.Connection] = {}
        self._lock = threading.Lock()

    async def search(self, query: str, scope: str | None, limit: int) -> Sequence[Note]:
        """Give the notes that share words with the query, best first; an empty query gives the newest."""

        def find() -> list[Note]:
            found = [note for name in self._scopes(scope) for note in self._found(name, query, limit)]
            return sorted(found, key=lambda note: (-note.score, -note.updated))[:limit]

        return await self._do(find)

    async def add(self, note: Note) -> Note:
        """Keep a note; one that is there already under this id stays as it is."""

        def insert() -> Note:
            row = (note.id, note.title, note.content, _packed(note.tags), note.created, note.updated)
            sql = "INSERT INTO notes (id, title, content, tags, created, updated) VALUES (?, ?, ?, ?, ?, ?)"
            with self._writing(note.scope) as db:
                db.execute(f"{sql} ON CONFLICT (id) DO NOTHING", row)
            return note

        return await self._do(insert)

    async def change(self, change: NoteChange, now: float) -> Note:
        """Put new text in place of what a note says; what the change leaves out stays."""

        def update() -> Note:
            self._known(change.id, change.scope)
            tags = None if change.tags is None else _packed(change.tags)
            with self._writing(change.scope) as db:
                row = db.execute(_UPDATE, (change.title, change.content, tags, now, change.id)).fetchone()
            if row is None:
                raise _unknown(change.id, change.scope)
            return _note(row, change.scope)

        return await self._do(update)

    async def remove(self, note_id: str, scope: str) -> None:
        """Forget a note, and overwrite it in the file."""

        def delete() -> None:
            self._known(note_id, scope)
            with self._writing(scope) as db:
                if db.execute("DELETE FROM notes WHERE id = ?", (note_id,)).rowcount == 0:
                    raise _unknown(note_id, scope)

        await self._do(delete)

    async def close(self) -> None:
        """Close the files."""
        with self._lock:
            for db in self._open.values():
                db.close()
            self._open.clear()

    async def _do(self, work: Callable[[], T]) -> T:
        def guarded() -> T:
            with self._lock, failing(self._places):
                return work()

        return await asyncio.to_thread(guarded)

    def _scopes(self, scope: str | None) -> list[str]:
        if scope is None:
            return list(self._places)
        if scope not in self._places:
            raise Problem(Code.INVALID_ARGS, f"There is no scope {scope!r}; there is: {', '.join(self._places)}.")
        return [scope]

    def _database(self, scope: str) -> sqlite3.Connection:
        db = self._open.get(scope)
        if db is None:
            (scope,) = self._scopes(scope)
            db = private_db.connect(self._places[scope], TABLES, VERSION, busy_seconds=BUSY_SECONDS)
            db.execute("PRAGMA secure_delete = ON")
            self._open[scope] = db
        return db

    @contextmanager
    def _writing(self, scope: str) -> Iterator[sqlite3.Connection]:
        """One transaction that begins as a writer, so that it never has to give way half done."""
        db = self._database(scope)
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _found(self, scope: str, query: str, limit: int) -> Iterator[Note]:
        if not self._places[scope].exists():
            return
        db, words = self._database(scope), _WORD.findall(query)[:MAX_WORDS]
        if words:
            rows = db.execute(_FITTING, (" OR ".join(f'"{word}"' for word in words), limit))
        elif query.strip():
            return
        else:
            rows = db.execute(_NEWEST, (limit,))
        yield from (_note(row, scope) for row in rows.fetchall())

    def _known(self, note_id: str, scope: str) -> None:
        """Refuse an id that this scope does not have, before a file is made for it."""
        for name in sorted(self._places, key=lambda name: name != scope):
            if self._places[name].exists():
                row = self._database(name).execute("SELECT 1 FROM notes WHERE id = ?", (note_id,)).fetchone()
                if row is not None and name == scope:
                    return
                if row is not None:
                    raise _unknown(note_id, scope, there=name)
        raise _unknown(note_id, scope)


@contextmanager
def failing(places: Mapping[str, Path]) -> Iterator[None]:
    """Turn what the disk or the database says into one problem that names the way out."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        folder = next(iter(places.values())).parent
        busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        fix = "another process holds it; try again" if busy else f"for the operator: look at {folder}"
        text = f"Nothing was remembered or recalled: the notes cannot be used ({error}); {fix}."
        raise Problem(Code.IO_ERROR, text, reason=str(error)) from error


def _unknown(note_id: str, scope: str, there: str = "") -> Problem:
    hint = f"it is in scope {there!r}" if there else "recall_memory gives the ids of those there are"
    return Problem(
        Code.NOT_FOUND,
        f"There is no note {note_id!r} in scope {scope!r}; {hint}.",
        next_call={"tool": "recall_memory", "args": {"query": "", "scope": scope}},
        id=note_id,
    )


def _packed(tags: Sequence[str]) -> str:
    return orjson.dumps(list(tags)).decode()


def _note(row: tuple[Any, ...], scope: str) -> Note:
    """A note of a file that others may have written."""
    note_id, title, content, tags, created, updated, score = row
    try:
        labels = tuple(map(str, orjson.loads(tags)))
        times = (float(created), float(updated), round(float(score), 6))
    except (ValueError, TypeError):
        raise sqlite3.DatabaseError(f"the note {note_id!r} is damaged") from None
    return Note(str(note_id), str(content), str(title), scope, labels, *times)

"""The index's file: which file holds which content, the parts of each content, and the words of each part.

Contents are known by their hash and never change, so that a branch that comes back costs nothing. The text itself is
not kept, only its words, with secrets blanked out first: what is shown is read from the files when it is asked for.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from handrail.index.grammars import marks_by_grammar
from handrail.index.parts import assigned, parts_of
from handrail.index.words import Splitter
from handrail.store import private_db

VERSION = 1
BUSY_SECONDS = 5.0
FORGET_SECONDS = 60 * 24 * 3600  # an index that nobody used for so long is removed
TABLES = """
CREATE TABLE files (
  id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
  inode INTEGER NOT NULL, checked_ns INTEGER NOT NULL, content INTEGER NOT NULL
);
CREATE TABLE contents (
  id INTEGER PRIMARY KEY, sha256 BLOB NOT NULL, extension TEXT NOT NULL, UNIQUE (sha256, extension)
);
CREATE TABLE parts (
  id INTEGER PRIMARY KEY, content INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, symbol TEXT NOT NULL
);
CREATE INDEX parts_of_content ON parts (content);
CREATE VIRTUAL TABLE words USING fts5(
  symbol, names, body, content = '', tokenize = "porter unicode61 remove_diacritics 2"
);
CREATE VIRTUAL TABLE paths USING fts5(name, folders, tokenize = "porter unicode61 remove_diacritics 2")
"""


class Known(NamedTuple):
    """A file as the index knows it."""

    id: int
    size: int
    mtime_ns: int
    inode: int
    checked_ns: int
    content: int


class Fresh(NamedTuple):
    """A file as it was read; `text` is None for what is not to be searched."""

    path: bytes
    size: int
    mtime_ns: int
    inode: int
    checked_ns: int
    sha256: bytes
    text: str | None


class Hit(NamedTuple):
    """A part that shares words with the question; a larger score is better."""

    content: int
    first: int
    last: int
    symbol: str
    score: float


class IndexStore:
    """One index file; used by one thread at a time. Raises sqlite3.Error and OSError as they come."""

    def __init__(self, path: Path | None) -> None:
        """Open the file, making it anew where it cannot be read; None keeps everything in memory."""
        self._splitter = Splitter()
        if path is None:
            self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._db.executescript(TABLES)
            return
        try:
            self._db = self._opened(path)
        except sqlite3.DatabaseError as error:
            # Whatever is wrong with what is in it, it can be made again; a lock or a full disk cannot be mended so.
            if isinstance(error, sqlite3.OperationalError):
                raise
            remove(path)
            self._db = self._opened(path)

    def _opened(self, path: Path) -> sqlite3.Connection:
        fresh = not path.exists()
        db = private_db.connect(path, TABLES, VERSION, durable=False, busy_seconds=BUSY_SECONDS)
        try:
            db.execute("SELECT count(*) FROM files").fetchone()
        except BaseException:
            db.close()
            raise
        if fresh:
            forget_old(path.parent, time.time())
        else:
            with suppress(OSError):
                os.utime(path)
        return db

    def close(self) -> None:
        """Let the file go."""
        self._db.close()

    def known(self) -> dict[bytes, Known]:
        """Every file of the index."""
        rows = self._db.execute("SELECT path, id, size, mtime_ns, inode, checked_ns, content FROM files")
        return {row[0]: Known(*row[1:]) for row in rows}

    def take(self, files: Iterable[Fresh]) -> dict[bytes, int]:
        """Take files in, all or none; gives the content of each."""
        with self._writing() as db:
            return {file.path: self._take(db, file) for file in files}

    def drop(self, paths: Sequence[bytes]) -> None:
        """Forget files."""
        with self._writing() as db:
            db.executemany(
                "DELETE FROM paths WHERE rowid = (SELECT id FROM files WHERE path = ?)", [(p,) for p in paths]
            )
            db.executemany("DELETE FROM files WHERE path = ?", [(path,) for path in paths])

    def waste(self, least: int) -> float:
        """How much of the contents no file holds any more, from 0 to 1; 0 where there are fewer than `least`."""
        total = self._db.execute("SELECT count(*) FROM contents").fetchone()[0]
        if total < least:
            return 0.0
        live = self._db.execute("SELECT count(DISTINCT content) FROM files").fetchone()[0]
        return float(1 - live / total) if total else 0.0

    def empty(self) -> None:
        """Start anew."""
        with self._writing() as db:
            db.execute("INSERT INTO words (words) VALUES ('delete-all')")
            for table in ("paths", "parts", "contents", "files"):
                db.execute(f"DELETE FROM {table}")  # noqa: S608  names of our own tables

    def hits(self, terms: Sequence[str]) -> Iterator[Hit]:
        """Parts that hold any of the words, best first."""
        sql = (
            "SELECT content, first, last, parts.symbol, -bm25(words, 6.0, 3.0, 1.0) AS score FROM words "
            "JOIN parts ON parts.id = words.rowid WHERE words MATCH ? ORDER BY score DESC"
        )
        for row in self._db.execute(sql, (matching(terms),)):
            yield Hit(*row)

    def named_files(self, terms: Sequence[str], limit: int) -> list[tuple[bytes, float]]:
        """Files whose path holds any of the words, best first, with their scores."""
        sql = (
            "SELECT path, -bm25(paths, 3.0, 1.0) AS score FROM paths JOIN files ON files.id = paths.rowid "
            "WHERE paths MATCH ? ORDER BY score DESC LIMIT ?"
        )
        return [(row[0], row[1]) for row in self._db.execute(sql, (matching(terms), limit))]

    def holding(self, contents: Sequence[int], terms: Sequence[str]) -> dict[int, frozenset[str]]:
        """Which of the words each content holds, anywhere in it."""
        spans = "SELECT min(id), max(id) FROM parts WHERE content = ?"
        # The parts of one content were numbered in one go, so that a range of numbers is a content.
        held = "SELECT 1 FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ? LIMIT 1"
        found = {}
        for content in contents:
            first, last = self._db.execute(spans, (content,)).fetchone()
            asked = ((term, self._db.execute(held, (matching([term]), first, last)).fetchone()) for term in terms)
            found[content] = frozenset(term for term, row in asked if row is not None)
        return found

    def first_part(self, content: int) -> Hit | None:
        """The beginning of a content."""
        sql = "SELECT content, first, last, symbol, 0.0 FROM parts WHERE content = ? ORDER BY first LIMIT 1"
        row = self._db.execute(sql, (content,)).fetchone()
        return None if row is None else Hit(*row)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _take(self, db: sqlite3.Connection, file: Fresh) -> int:
        name = os.fsdecode(file.path)
        content = self._content(db, file, _extension(name))
        row = (file.size, file.mtime_ns, file.inode, file.checked_ns, content)
        done = db.execute(
            "UPDATE files SET size = ?, mtime_ns = ?, inode = ?, checked_ns = ?, content = ? WHERE path = ?",
            (*row, file.path),
        )
        if done.rowcount == 0:
            sql = "INSERT INTO files (size, mtime_ns, inode, checked_ns, content, path) VALUES (?, ?, ?, ?, ?, ?)"
            number = db.execute(sql, (*row, file.path)).lastrowid
            folder, _, last = name.encode("utf-8", "replace").decode().rpartition("/")
            texts = (number, self._splitter.text(last), self._splitter.text(folder))
            db.execute("INSERT INTO paths (rowid, name, folders) VALUES (?, ?, ?)", texts)
        return content

    def _content(self, db: sqlite3.Connection, file: Fresh, extension: str) -> int:
        key = (file.sha256, extension if file.text is not None else "-")
        row = db.execute("SELECT id FROM contents WHERE sha256 = ? AND extension = ?", key).fetchone()
        if row is not None:
            return int(row[0])
        number = int(db.execute("INSERT INTO contents (sha256, extension) VALUES (?, ?)", key).lastrowid or 0)
        if file.text:
            self._add_parts(db, number, file.text, extension)
        return number

    def _add_parts(self, db: sqlite3.Connection, content: int, text: str, extension: str) -> None:
        lines = text.split("\n")
        for part in parts_of(text, extension, marks_by_grammar(text, extension)):
            body = "\n".join(lines[part.start - 1 : part.end])
            row = (content, part.start, part.end, part.symbol)
            number = db.execute("INSERT INTO parts (content, first, last, symbol) VALUES (?, ?, ?, ?)", row).lastrowid
            split = self._splitter.text
            words = (number, split(part.symbol), split(" ".join(assigned(body))), split(body))
            db.execute("INSERT INTO words (rowid, symbol, names, body) VALUES (?, ?, ?, ?)", words)


def matching(terms: Sequence[str]) -> str:
    """Write words as a question to FTS5: any of them."""
    return " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)


def remove(path: Path) -> None:
    """Remove an index file with what SQLite keeps beside it."""
    for name in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        name.unlink(missing_ok=True)


def forget_old(folder: Path, now: float) -> None:
    """Remove indexes that nobody used for long."""
    for path in folder.glob("*.db"):
        with suppress(OSError):
            if now - path.stat().st_mtime > FORGET_SECONDS:
                remove(path)


def by_content(known: Mapping[bytes, int]) -> dict[int, list[bytes]]:
    """Which files hold each content."""
    found: dict[int, list[bytes]] = {}
    for path, content in known.items():
        found.setdefault(content, []).append(path)
    return found


def _extension(name: str) -> str:
    last = name.rpartition("/")[2].lstrip(".")
    return last.rpartition(".")[2].lower() if "." in last else ""

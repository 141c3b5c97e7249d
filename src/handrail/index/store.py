"""The index's file: which file holds which content, the parts of each content, and the words of each part.

Contents are known by their hash and never change, so that a branch that comes back costs nothing. The text itself is
not kept, only its words, with secrets blanked out first: what is shown is read from the files when it is asked for.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from handrail.index.parts import Mark, Part, assigned, parts_of
from handrail.index.view import View, phrase, viewing
from handrail.index.words import Splitter
from handrail.store import private_db

if TYPE_CHECKING:
    from handrail.index.embedding import Embedding

VERSION = 2
BUSY_SECONDS = 5.0
FORGET_SECONDS = 60 * 24 * 3600  # an index that nobody used for so long is removed
# What says that the file itself is bad, and no lock, full disk or missing right.
_UNSOUND = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
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
CREATE TABLE vectors (content INTEGER PRIMARY KEY, model TEXT NOT NULL, data BLOB NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(
  symbol, names, body, content = '', tokenize = "porter unicode61 remove_diacritics 2"
);
CREATE VIRTUAL TABLE paths USING fts5(name, folders, tokenize = "porter unicode61 remove_diacritics 2")
"""


Key = tuple[bytes, str]  # a content's hash, and the extension by which it is read


class Known(NamedTuple):
    """A file as the index knows it."""

    id: int
    size: int
    mtime_ns: int
    inode: int
    checked_ns: int
    content: int
    complete: bool  # its vectors are there, where they are wanted


class Fresh(NamedTuple):
    """A file as it was read; `text` is None for what is not to be searched."""

    path: bytes
    size: int
    mtime_ns: int
    inode: int
    checked_ns: int
    sha256: bytes
    text: str | None


class IndexStore:
    """One index file; used by one thread at a time. Raises sqlite3.Error and OSError as they come."""

    def __init__(self, path: Path | None, embedding: Embedding | None = None) -> None:
        """Open the file, making it anew where it cannot be read; None keeps everything in memory."""
        self._splitter, self.embedding = Splitter(), embedding
        if path is None:
            self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._db.executescript(TABLES)
            return
        try:
            self._db = self._opened(path)
        except sqlite3.Error as error:
            if not unsound(error):
                raise
            remove(path)
            self._db = self._opened(path)

    def _opened(self, path: Path) -> sqlite3.Connection:
        fresh = not path.exists()
        db = private_db.connect(path, TABLES, VERSION, durable=False, busy_seconds=BUSY_SECONDS)
        try:
            db.execute("PRAGMA temp_store = MEMORY")
            for table in ("files", "contents", "parts", "vectors", "words", "paths"):
                db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()  # noqa: S608  names of our own tables
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
        complete, model = "1", list[str]()
        if self.embedding is not None:
            complete = "EXISTS (SELECT 1 FROM vectors WHERE vectors.content = files.content AND model = ?)"
            model.append(self.embedding.name)
        sql = f"SELECT path, id, size, mtime_ns, inode, checked_ns, content, {complete} FROM files"  # noqa: S608
        return {row[0]: Known(*row[1:]) for row in self._db.execute(sql, model)}

    def take(
        self, files: Iterable[Fresh], marks: Mapping[Key, Sequence[Mark] | None] = MappingProxyType({})
    ) -> dict[bytes, int]:
        """Take files in, all or none; gives the content of each. `marks` are definitions found by grammar."""
        with self._writing() as db:
            return {file.path: self._take(db, file, marks.get((file.sha256, _extension(file.path)))) for file in files}

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
            for table in ("paths", "parts", "vectors", "contents", "files"):
                db.execute(f"DELETE FROM {table}")  # noqa: S608  names of our own tables

    def view(self, contents: Mapping[bytes, int]) -> AbstractContextManager[View]:
        """What may be asked by somebody who may see these files; they have these contents."""
        return viewing(self._db, contents)

    def forget(self, secrets: Iterable[str]) -> None:
        """Let nothing lead any more to what holds a value that was not known to be secret when it was taken in."""
        held = "SELECT DISTINCT content FROM words JOIN parts ON parts.id = words.rowid WHERE words MATCH ?"
        told = [words for words in map(self._splitter.text, secrets) if words]
        found = {row for words in told for row in self._db.execute(held, (phrase(words),))}
        if not found:
            return
        with self._writing() as db:
            # Words cannot be taken out of an index that keeps no text; without its parts a content is never found.
            db.executemany("UPDATE contents SET extension = '/' || id WHERE id = ?", found)
            db.executemany("DELETE FROM paths WHERE rowid IN (SELECT id FROM files WHERE content = ?)", found)
            for table in ("files", "parts", "vectors"):
                db.executemany(f"DELETE FROM {table} WHERE content = ?", found)  # noqa: S608  our own tables

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

    def unknown(self, files: Iterable[Fresh]) -> dict[Key, str]:
        """The texts that are not in the index."""
        known = "SELECT 1 FROM contents WHERE sha256 = ? AND extension = ?"
        new = {(file.sha256, _extension(file.path)): file.text for file in files if file.text}
        return {key: text for key, text in new.items() if self._db.execute(known, key).fetchone() is None}

    def _take(self, db: sqlite3.Connection, file: Fresh, marks: Sequence[Mark] | None) -> int:
        name = os.fsdecode(file.path)
        content = self._content(db, file, marks)
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

    def _content(self, db: sqlite3.Connection, file: Fresh, marks: Sequence[Mark] | None) -> int:
        extension = _extension(file.path)
        key = (file.sha256, extension if file.text is not None else "-")
        row = db.execute("SELECT id FROM contents WHERE sha256 = ? AND extension = ?", key).fetchone()
        if row is not None:
            number = int(row[0])
        else:
            number = int(db.execute("INSERT INTO contents (sha256, extension) VALUES (?, ?)", key).lastrowid or 0)
            if file.text:
                self._add_parts(db, number, file.text, parts_of(file.text, extension, marks))
        if self.embedding is not None:
            self._add_vectors(db, number, file.text or "", self.embedding)
        return number

    def _add_parts(self, db: sqlite3.Connection, content: int, text: str, parts: Sequence[Part]) -> None:
        lines = text.split("\n")
        for part in parts:
            body = "\n".join(lines[part.start - 1 : part.end])
            row = (content, part.start, part.end, part.symbol)
            number = db.execute("INSERT INTO parts (content, first, last, symbol) VALUES (?, ?, ?, ?)", row).lastrowid
            split = self._splitter.text
            words = (number, split(part.symbol), split(" ".join(assigned(body))), split(body))
            db.execute("INSERT INTO words (rowid, symbol, names, body) VALUES (?, ?, ?, ?)", words)

    def _add_vectors(self, db: sqlite3.Connection, content: int, text: str, embedding: Embedding) -> None:
        """Keep the vectors of a content's parts, in their order, where they are not kept yet."""
        if db.execute("SELECT 1 FROM vectors WHERE content = ? AND model = ?", (content, embedding.name)).fetchone():
            return
        lines = text.split("\n")
        parts = db.execute("SELECT first, last, symbol FROM parts WHERE content = ? ORDER BY id", (content,)).fetchall()
        data = embedding.of([("\n".join(lines[first - 1 : last]), symbol) for first, last, symbol in parts]).tobytes()
        db.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", (content, embedding.name, data))


def unsound(error: sqlite3.Error) -> bool:
    """Whether a file is bad, so that it has to be made again."""
    if isinstance(error, private_db.WrongVersionError):
        return True
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _UNSOUND


def remove(path: Path) -> None:
    """Remove an index file with what SQLite keeps beside it."""
    import fcntl

    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Whoever makes one waits here, too, so that no new file meets what belongs to the old one.
        fcntl.flock(folder, fcntl.LOCK_EX)
        for name in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
            name.unlink(missing_ok=True)
    finally:
        os.close(folder)


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


def _extension(path: bytes) -> str:
    last = os.fsdecode(path).rpartition("/")[2].lstrip(".")
    return last.rpartition(".")[2].lower() if "." in last else ""

"""SQLite files that only their owner can reach: made, checked and opened, their tables made once."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

from handrail.store.private import SAFE, make_folder

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class WrongVersionError(sqlite3.DatabaseError):
    """The file was made by another version of its owner."""


def connect(
    path: Path, tables: str, version: int, *, durable: bool = True, busy_seconds: float = 10.0
) -> sqlite3.Connection:
    """Open a database in WAL mode, making it where it is missing; several processes may do so at once.

    `durable` has every commit on the disk when it returns. Raises OSError and sqlite3.Error as they come.
    """
    make_folder(path.parent)
    _own_file(path)
    db = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
    try:
        db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        found = ensure_tables(db, path, tables, version)
        if found != version:
            raise WrongVersionError(f"{path} has version {found}, this handrail knows {version}")
    except BaseException:
        db.close()
        raise
    return db


def _own_file(path: Path) -> None:
    """Make the file, or see that it is a plain one of our own."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | SAFE, 0o600))
    except FileExistsError:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_uid != os.geteuid():
            raise PermissionError(1, "it is no plain file of this user", str(path)) from None
        if found.st_mode & _OTHERS:
            os.chmod(path, 0o600)


def ensure_tables(db: sqlite3.Connection, path: Path, tables: str, version: int) -> int:
    """Make the tables of a database that has none, and have it in WAL mode; gives the version that it has then."""
    return _version(db) or _make_tables(db, path, tables, version)


def _make_tables(db: sqlite3.Connection, path: Path, tables: str, version: int) -> int:
    import fcntl

    # SQLite does not wait for others while it changes to WAL, so the first openers queue here.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if (found := _version(db)) != 0:
            return found
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(f"BEGIN IMMEDIATE;{tables};PRAGMA user_version = {version};COMMIT;")
        return version
    finally:
        os.close(folder)


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])

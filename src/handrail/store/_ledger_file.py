"""The ledger's file: made and checked so that only its owner can reach it, opened, its tables made once."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from handrail.errors import Code, Problem
from handrail.store import _ledger_sql as sql
from handrail.store.private_db import ensure_tables

VERSION = 2
BUSY_SECONDS = 5.0
_WIPE_WAIT_MS = 100
_DISK = frozenset(
    {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def connect(path: str) -> sqlite3.Connection:
    """Open the ledger, making it where it is missing; every commit is on the disk when it returns."""
    _secure(path)
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA secure_delete = ON")
        _ensure_tables(db, path)
    except BaseException:
        db.close()
        raise
    return db


def wipe(db: sqlite3.Connection) -> bool:
    """Empty the write-ahead log, where erased arguments still stand; False when it has to be tried again."""
    db.execute(f"PRAGMA busy_timeout = {_WIPE_WAIT_MS}")
    try:
        busy, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error:
        return False  # what was committed stands, whatever happens to the log
    finally:
        db.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
    return not busy


@contextmanager
def failing_closed(path: str) -> Iterator[None]:
    """Turn whatever the disk or the database says into one refusal that names the way out."""
    try:
        yield
    except (sqlite3.Error, OSError, ValueError) as error:
        raise _refusal(path, str(error) or type(error).__name__, _way_out(path, error)) from error


def _way_out(path: str, error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the lower byte is the kind
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another process holds it; try again, and look for a hanging handrail process if it stays so"
    if isinstance(error, OSError) or code in _DISK:
        return f"make {os.path.dirname(path)} writable by its owner, with space left on the disk"
    return f"move {path} aside; pending approvals and grants are then lost and have to be given again"


def _refusal(path: str, reason: str, fix: str) -> Problem:
    return Problem(
        Code.APPROVAL_DENIED,
        f"Nothing was run: the approval ledger cannot be used ({reason}). For the operator: {fix}.",
        ledger=path,
        reason=reason,
        fix=fix,
    )


def _secure(path: str) -> None:
    """Make folder and file private to this user; refuse where others could have written to them."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    _private(folder, os.stat(folder), 0o700)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise _refusal(path, "it is no plain file of its own", f"remove {path}") from None
        _private(path, found, 0o600)


def _private(path: str, found: os.stat_result, mode: int) -> None:
    if found.st_uid != os.geteuid():
        raise _refusal(path, f"{path} belongs to another user", "remove it, or set another state folder")
    if found.st_mode & _OTHERS_WRITE:
        fix = f"remove it if you do not trust what is in it, otherwise run: chmod {mode:o} {path}"
        raise _refusal(path, f"other users can write to {path}", fix)
    if found.st_mode & _OTHERS:
        os.chmod(path, mode)


def _ensure_tables(db: sqlite3.Connection, path: str) -> None:
    version = ensure_tables(db, Path(path), sql.TABLES, VERSION)
    if version == 1:
        version = _migrate(db)
    elif version == VERSION:
        _add_executions(db)
    if version != VERSION:
        reason = f"it has version {version}, this handrail knows {VERSION}"
        raise _refusal(path, reason, "use the newer handrail, or set another state folder")


def _add_executions(db: sqlite3.Connection) -> None:
    """Add the table of calls made on behalf of others to a ledger of version 2 from before it."""
    there = "SELECT 1 FROM sqlite_master WHERE name = 'executions'"
    if db.execute(there).fetchone() is not None:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        if db.execute(there).fetchone() is None:
            for statement in filter(str.strip, sql.EXECUTIONS.split(";")):
                db.execute(statement)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _migrate(db: sqlite3.Connection) -> int:
    """Bring a ledger of 0.1.0 up to date; of several processes one does it, the others find it done."""
    db.execute("BEGIN IMMEDIATE")
    try:
        if int(db.execute("PRAGMA user_version").fetchone()[0]) == 1:
            for statement in filter(str.strip, sql.FROM_1.split(";")):
                db.execute(statement)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return int(db.execute("PRAGMA user_version").fetchone()[0])

"""The tables of the index over all journals: what can be thrown away and built again from them."""

from __future__ import annotations

import secrets
import sqlite3
from pathlib import Path

from handrail.store.private_db import WrongVersionError, connect

VERSION = 1
TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    folder TEXT NOT NULL UNIQUE,
    workspace TEXT NOT NULL DEFAULT '',
    project TEXT NOT NULL DEFAULT '',
    caller TEXT NOT NULL DEFAULT '',
    identity TEXT NOT NULL DEFAULT '',
    parent TEXT NOT NULL DEFAULT '',    -- the run on whose behalf it was made
    title TEXT NOT NULL DEFAULT '',     -- the task of an agent
    started INTEGER NOT NULL DEFAULT 0, -- microseconds since 1970
    updated INTEGER NOT NULL DEFAULT 0,
    ended INTEGER NOT NULL DEFAULT 0,   -- whether its last event closes it
    seq INTEGER NOT NULL DEFAULT 0,     -- of the last event that is indexed
    offset INTEGER NOT NULL DEFAULT 0,  -- in its journal: right behind that event
    head TEXT NOT NULL DEFAULT '',      -- hash of that line
    calls INTEGER NOT NULL DEFAULT 0,
    asked INTEGER NOT NULL DEFAULT 0,
    denied INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    changed INTEGER NOT NULL DEFAULT 0, -- files
    gone INTEGER NOT NULL DEFAULT 0     -- whether its folder was removed
);
CREATE INDEX runs_by_name ON runs (run_id);
CREATE INDEX runs_by_start ON runs (started);
CREATE INDEX runs_by_identity ON runs (identity, started);
-- Events in the order in which they were indexed: a row stands for many of one run.
CREATE TABLE spans (
    pos INTEGER PRIMARY KEY,            -- of the first of them
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    count INTEGER NOT NULL
);
CREATE INDEX spans_by_run ON spans (run, seq);
-- What can be found: calls, and events that stand for themselves. The id grows with the time.
CREATE TABLE items (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    offset INTEGER NOT NULL,            -- of its first event
    kind TEXT NOT NULL,                 -- 'call', or the kind of the event
    call_id TEXT NOT NULL,
    tool TEXT NOT NULL DEFAULT '',
    decision TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL DEFAULT '',    -- empty: has not ended
    code TEXT NOT NULL DEFAULT '',
    ms REAL NOT NULL DEFAULT 0,
    title TEXT NOT NULL DEFAULT ''
);
CREATE INDEX items_open ON items (run, call_id) WHERE kind = 'call' AND status = '';
CREATE VIRTUAL TABLE docs USING fts5 (text, content = '', detail = 'none', columnsize = 0);
"""


def open_index(path: Path) -> sqlite3.Connection:
    """Open the index, making it anew where it is missing, damaged or of another version."""
    try:
        return _opened(path)
    except (WrongVersionError, sqlite3.DatabaseError):
        throw_away(path)
        return _opened(path)


def _opened(path: Path) -> sqlite3.Connection:
    db = connect(path, TABLES, VERSION, durable=False)
    db.execute("PRAGMA cache_size = -16000")
    if db.execute("SELECT 1 FROM facts WHERE name = 'epoch'").fetchone() is None:
        db.execute("INSERT OR IGNORE INTO facts VALUES ('epoch', ?)", (secrets.token_hex(4),))
    return db


def read_epoch(db: sqlite3.Connection) -> str:
    """Give the name of this building of the index; positions of another one mean nothing in it."""
    return str(db.execute("SELECT value FROM facts WHERE name = 'epoch'").fetchone()[0])


def throw_away(path: Path) -> None:
    """Remove the index; the next opening builds it again."""
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        name.unlink(missing_ok=True)

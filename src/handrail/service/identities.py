"""Who may use the service: identities with roles, their tokens, browser sessions and links for one use.

Of tokens, sessions and links only hashes are kept. All are random with 256 bits, so a plain hash is enough.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from handrail.errors import Misuse
from handrail.ports import Clock
from handrail.store.private_db import connect
from handrail.words import noun

DATABASE = "service.db"
ROLES = ("caller", "approver", "auditor", "admin")
SESSION_SECONDS = 30 * 86400.0
LINK_SECONDS = 15 * 60.0
KEEP_KEY_SECONDS = 7 * 86400.0
PAIR_SECONDS = 5 * 60.0
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.@-]{0,63}")
_VERSION = 1
_TABLES = """
CREATE TABLE identities (
    name TEXT PRIMARY KEY,
    roles TEXT NOT NULL,        -- joined by spaces
    token TEXT NOT NULL UNIQUE, -- hash
    made REAL NOT NULL,
    renewed REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE sessions (
    cookie TEXT PRIMARY KEY,    -- hash
    name TEXT NOT NULL REFERENCES identities (name) ON DELETE CASCADE,
    csrf TEXT NOT NULL,
    made REAL NOT NULL,
    expires REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE links (
    code TEXT PRIMARY KEY,      -- hash
    name TEXT NOT NULL,
    roles TEXT NOT NULL,        -- of the identity that it makes; empty: it logs an existing one in
    expires REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE keys (             -- idempotency keys: which run has the outcome
    name TEXT NOT NULL,
    workspace TEXT NOT NULL,
    key TEXT NOT NULL,
    run TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (name, workspace, key)
) WITHOUT ROWID;
CREATE TABLE later (
    request TEXT NOT NULL,
    name TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (request, name)
) WITHOUT ROWID;
"""


@noun
class Identity:
    """Somebody who may use the service."""

    name: str
    roles: frozenset[str]
    made: float = 0.0
    renewed: float = 0.0

    def has(self, *roles: str) -> bool:
        """Whether it has one of these roles."""
        return not self.roles.isdisjoint(roles)


@noun
class Session:
    """A browser that is logged in."""

    identity: Identity
    csrf: str
    expires: float


def check_roles(roles: Iterable[str]) -> frozenset[str]:
    """Refuse unknown roles, and a set by which an agent could approve its own calls."""
    found = frozenset(roles)
    if unknown := sorted(found - set(ROLES)):
        raise Misuse(f"there is no role {', '.join(unknown)}; there are: {', '.join(ROLES)}")
    if not found:
        raise Misuse(f"name at least one role: {', '.join(ROLES)}")
    if "caller" in found and found & {"approver", "admin"}:
        raise Misuse("a caller can be neither approver nor admin: whoever makes calls does not approve them")
    return found


class Identities:
    """The identities of one account's service, in a file of its own; safe from several threads and processes."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._db = connect(path, _TABLES, _VERSION)
        self._db.execute("PRAGMA foreign_keys = ON")
        self._known: dict[bytes, Identity | None] = {}  # by token, as long as the file stays as it is
        self._seen = -1

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    # ── identities ───────────────────────────────────────────────────────────────────────────

    def add(self, name: str, roles: Iterable[str]) -> str:
        """Make an identity, and give its token: the only time that anybody sees it."""
        if _NAME.fullmatch(name) is None:
            raise Misuse(f"{name!r} cannot be a name: use letters, digits, '.', '_', '@' or '-', a letter first")
        held = check_roles(roles)
        token, now = _new_token(), self._clock.now()
        values = (name, " ".join(sorted(held)), _hash(token), now, now)
        try:
            with self._writing() as db:
                db.execute("INSERT INTO identities VALUES (?, ?, ?, ?, ?)", values)
        except sqlite3.IntegrityError:
            raise Misuse(f"there is an identity {name} already; remove it first, or renew its token") from None
        return token

    def renew(self, name: str) -> str:
        """Give an identity another token; the former one and its browser sessions end."""
        token = _new_token()
        with self._writing() as db:
            sql = "UPDATE identities SET token = ?, renewed = ? WHERE name = ?"
            if db.execute(sql, (_hash(token), self._clock.now(), name)).rowcount == 0:
                raise Misuse(_unknown(name))
            db.execute("DELETE FROM sessions WHERE name = ?", (name,))
        return token

    def remove(self, name: str) -> None:
        """Remove an identity with its sessions and links; what it did stays on record."""
        with self._writing() as db:
            db.execute("DELETE FROM links WHERE name = ?", (name,))
            if db.execute("DELETE FROM identities WHERE name = ?", (name,)).rowcount == 0:
                raise Misuse(_unknown(name))

    def list(self) -> tuple[Identity, ...]:
        """Give all identities, by name."""
        with self._lock:
            rows = self._db.execute("SELECT name, roles, made, renewed FROM identities ORDER BY name").fetchall()
        return tuple(_identity(row) for row in rows)

    def find(self, name: str) -> Identity | None:
        """Give one identity."""
        return next((identity for identity in self.list() if identity.name == name), None)

    def by_token(self, token: bytes) -> Identity | None:
        """Give the identity of a token."""
        with self._lock:
            (version,) = self._db.execute("PRAGMA data_version").fetchone()
            if version != self._seen:
                self._seen, self._known = version, {}
            if token in self._known:
                return self._known[token]
            sql = "SELECT name, roles, made, renewed FROM identities WHERE token = ?"
            row = self._db.execute(sql, (_hash(token),)).fetchone()
            if len(self._known) < 1000:
                self._known[token] = None if row is None else _identity(row)
        return None if row is None else _identity(row)

    # ── browsers ─────────────────────────────────────────────────────────────────────────────

    def open_session(self, name: str) -> tuple[str, Session]:
        """Log a browser in; gives its cookie."""
        identity = self.find(name)
        if identity is None:
            raise Misuse(_unknown(name))
        cookie, csrf, now = secrets.token_urlsafe(32), secrets.token_urlsafe(32), self._clock.now()
        session = Session(identity, csrf, now + SESSION_SECONDS)
        with self._writing() as db:
            db.execute("DELETE FROM sessions WHERE expires <= ?", (now,))
            db.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", (_hash(cookie), name, csrf, now, session.expires))
        return cookie, session

    def session(self, cookie: str) -> Session | None:
        """Give the session of a cookie."""
        sql = """
        SELECT identities.name, roles, identities.made, renewed, csrf, expires
        FROM sessions JOIN identities USING (name) WHERE cookie = ? AND expires > ?
        """
        with self._lock:
            row = self._db.execute(sql, (_hash(cookie), self._clock.now())).fetchone()
        return None if row is None else Session(_identity(row[:4]), row[4], row[5])

    def close_session(self, cookie: str) -> None:
        """Log a browser out."""
        with self._writing() as db:
            db.execute("DELETE FROM sessions WHERE cookie = ?", (_hash(cookie),))

    def make_link(self, name: str, roles: Iterable[str] = (), seconds: float = LINK_SECONDS) -> str:
        """Make a code for one use that logs an identity in; with roles, one that makes the identity first."""
        held = check_roles(roles) if roles else frozenset[str]()
        if not held and self.find(name) is None:
            raise Misuse(_unknown(name))
        if held and (known := self.find(name)) is not None and known.roles != held:
            raise Misuse(f"there is an identity {name} with other roles ({', '.join(sorted(known.roles))})")
        code, now = secrets.token_urlsafe(32), self._clock.now()
        with self._writing() as db:
            db.execute("DELETE FROM links WHERE expires <= ?", (now,))
            db.execute("INSERT INTO links VALUES (?, ?, ?, ?)", (_hash(code), name, " ".join(held), now + seconds))
        return code

    def look_at_link(self, code: str) -> str | None:
        """Give whom a code would log in; None where it is unknown, used or expired."""
        with self._lock:
            sql = "SELECT name FROM links WHERE code = ? AND expires > ?"
            row = self._db.execute(sql, (_hash(code), self._clock.now())).fetchone()
        return None if row is None else str(row[0])

    def use_link(self, code: str) -> str | None:
        """Use a code up; gives whom it logs in, None where it is unknown, used or expired."""
        with self._writing() as db:
            sql = "DELETE FROM links WHERE code = ? AND expires > ? RETURNING name, roles"
            row = db.execute(sql, (_hash(code), self._clock.now())).fetchone()
            if row is None:
                return None
            name, roles = row
            if roles:
                now = self._clock.now()
                values = (name, roles, _hash(_new_token()), now, now)
                db.execute("INSERT OR IGNORE INTO identities VALUES (?, ?, ?, ?, ?)", values)
        return str(name)

    # ── keys ─────────────────────────────────────────────────────────────────────────────────

    def run_of_key(self, name: str, workspace: str, key: str) -> str | None:
        """Give the run in which an identity used an idempotency key."""
        with self._lock:
            sql = "SELECT run FROM keys WHERE name = ? AND workspace = ? AND key = ?"
            row = self._db.execute(sql, (name, workspace, key)).fetchone()
        return None if row is None else str(row[0])

    def note_key(self, name: str, workspace: str, key: str, run: str) -> None:
        """Note in which run an idempotency key is used, before it is."""
        with self._writing() as db:
            now = self._clock.now()
            db.execute("DELETE FROM keys WHERE at < ?", (now - KEEP_KEY_SECONDS,))
            db.execute("INSERT OR IGNORE INTO keys VALUES (?, ?, ?, ?, ?)", (name, workspace, key, run, now))

    # ── later ────────────────────────────────────────────────────────────────────────────────

    def put_off(self, request_id: str, name: str) -> None:
        """Note that somebody wants to answer a request later: it stays as it is, below the others."""
        with self._writing() as db:
            db.execute("INSERT OR REPLACE INTO later VALUES (?, ?, ?)", (request_id, name, self._clock.now()))

    def put_off_by(self, name: str) -> frozenset[str]:
        """Give the requests that somebody wants to answer later."""
        with self._lock:
            rows = self._db.execute("SELECT request FROM later WHERE name = ?", (name,)).fetchall()
        return frozenset(row[0] for row in rows)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._known = {}
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise


def _new_token() -> str:
    return f"hr_{secrets.token_urlsafe(32)}"


def _hash(secret: str | bytes) -> str:
    data = secret.encode("utf-8", "surrogatepass") if isinstance(secret, str) else secret
    return sha256(data).hexdigest()


def _identity(row: Iterable[object]) -> Identity:
    name, roles, made, renewed = row
    return Identity(str(name), frozenset(str(roles).split()), float(str(made)), float(str(renewed)))


def _unknown(name: str) -> str:
    return f"there is no identity {name}; `handrail identities list` shows them"

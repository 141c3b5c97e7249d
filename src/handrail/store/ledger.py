"""Approvals and grants of one user, in one SQLite file that every process shares.

    pending ──► granted ──► used
       │           └──────► expired, or denied when it is taken back
       ├──► denied
       └──► expired

Every arrow is one compare-and-set inside a write transaction: of several processes exactly one wins and the others
are told. Scopes:

- `call`: the exact call (its digest), once.
- `run`: the same tool, the same kinds of touch and the same targets, in this run; wider targets only as patterns that
  the person saw and confirmed (`Reply.patterns`).
- `session`: as `run`, across the runs of a workspace until it expires.

Whatever its scope, a grant also lets the call it was asked for run once, found by digest from any run: that is what
a replay needs. What matches a wider grant is judged by policy, not here.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from handrail.errors import Code, Misuse, Problem
from handrail.ports import Answered, Clock, Recorded, Reply, Request
from handrail.store import _ledger_rows as rows
from handrail.store import _ledger_sql as sql
from handrail.words import Grant, Scope

if TYPE_CHECKING:
    import asyncio
    import sqlite3

    from handrail.store._ledger_watch import Watch

T = TypeVar("T")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


def new_id(kind: str) -> str:
    """Make a short id that can be typed: `apr_` and 50 random bits."""
    import secrets

    return f"{kind}_{''.join(secrets.choice(_ALPHABET) for _ in range(10))}"


class SqliteLedger:
    """The ledger in a file; nothing is opened, made or imported before it is first needed.

    Safe to use from several threads and processes. Reads never wait for writers; a write waits for other writers
    and for the disk, so a caller that must not block goes through a thread.
    """

    def __init__(self, path: str | os.PathLike[str], clock: Clock) -> None:
        self.path = os.path.abspath(path)
        self._clock = clock
        self._write_lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._watches: dict[asyncio.AbstractEventLoop, Watch] = {}
        self._version_seen = 0
        self._unwiped = False  # erased arguments still stand in the write-ahead log
        self.replay_flags = ""  # what a replay on the command line needs besides the approval

    # ── asking and answering ─────────────────────────────────────────────────────────────────

    def request(self, request: Request, args: Mapping[str, Any]) -> Request:
        """Put a request on record with its raw arguments, or give the open one with the same digest."""
        raw = json.dumps(dict(args))
        with self._writing() as db:
            self._expire(db, request.created)
            row = db.execute(sql.OPEN_REQUEST, {"digest": request.digest}).fetchone()
            if row is not None:
                return rows.request_of(row)
            made = rows.named(request, new_id("apr"), self.replay_flags)
            db.execute(sql.ADD_REQUEST, {**rows.request_values(made), "args": raw})
            return made

    def answer(self, request_id: str, reply: Reply) -> Grant | None:
        """Answer a pending request; the first answer counts, a later one raises `Answered`."""
        if reply.state not in ("granted", "denied") or (reply.uses is not None and reply.uses < 1):
            raise Misuse(f"an answer is granted (for at least one use) or denied, not {reply}")
        now = self._clock.now()
        with self._writing() as db:
            self._expire(db, now)
            row = db.execute(sql.REQUEST, {"id": request_id}).fetchone()
            if row is None:
                raise KeyError(request_id)
            before = rows.recorded_of(row, now)
            grant = rows.grant_for(before.request, reply, new_id("grant"), now) if reply.state == "granted" else None
            given = replace(reply, at=now, scope=Scope.NONE if grant is None else grant.scope)
            first = self._move(db, request_id, "pending", given.state, rows.reply_text(given))
            if first and grant is not None:
                db.execute(sql.ADD_GRANT, rows.grant_values(grant, before.request.workspace))
        if not first:
            earlier = before.reply or Reply(before.state)
            raise Answered(request_id, before.state, earlier.by, earlier.at or before.request.expires)
        self._wake(request_id)
        return grant

    def revoke(self, grant_id: str, by: str = "") -> bool:
        """Take a grant back, by its own id or its request's; a call that has not used it yet is then denied."""
        now = self._clock.now()
        with self._writing() as db:
            row = db.execute(sql.GRANT_NAMED, {"id": grant_id}).fetchone()
            if row is None:
                raise KeyError(grant_id)
            taken = _changed(db, sql.REVOKE, id=row[0], now=now)
            if taken:
                refusal = Reply("denied", Scope.NONE, by, "the approval was taken back", at=now)
                self._move(db, row[1], "granted", "denied", rows.reply_text(refusal))
        return taken

    def expire(self, now: float) -> int:
        """Close what has run out and erase its arguments; give how many requests that were."""
        if self._absent():
            return 0
        with self._writing() as db:
            return self._expire(db, now)

    def _expire(self, db: sqlite3.Connection, now: float) -> int:
        ended = db.execute(sql.EXPIRE, {"now": now}).rowcount
        self._unwiped |= ended > 0
        return ended

    def _move(self, db: sqlite3.Connection, request_id: str, old: str, new: str, reply: str | None = None) -> bool:
        """Move a request from one state to the next if it is still there; only a granted one keeps its arguments."""
        moved = _changed(db, sql.MOVE, id=request_id, old=old, new=new, reply=reply)
        self._unwiped |= moved and new != "granted"
        return moved

    # ── grants ───────────────────────────────────────────────────────────────────────────────

    def reviewed(self, digest: str, now: float) -> Grant | None:
        """The unused grant for effects of exactly this call: whoever gave it saw the call, too."""
        found = [item.request for item in self.list(("granted",)) if item.request.reviews == digest != ""]
        return next((grant for request in found if (grant := self.granted(request.digest, now)) is not None), None)

    def granted(self, digest: str, now: float) -> Grant | None:
        """Give the unused grant for exactly this call, whatever its scope."""
        found = self._read(sql.GRANTED, rows.grant_of, digest=digest, now=now)
        return found[0] if found else None

    def grants(self, run_id: str, now: float, workspace: str = "") -> tuple[Grant, ...]:
        """Give the grants of wider scope in force: those of the run, and those of the session in this workspace."""
        return self._read(
            sql.GRANTS_OF_RUN,
            rows.grant_of,
            run=int(Scope.RUN),
            session=int(Scope.SESSION),
            run_id=run_id,
            workspace=workspace,
            now=now,
        )

    def use(self, grant: Grant, now: float) -> bool:
        """Consume one use; False when it is used up, expired or revoked. The first use closes the request."""
        if self._absent():
            return False
        if grant.uses_left is None and self._in_use(grant.id, now):
            return True
        with self._writing() as db:
            used = _changed(db, sql.USE, id=grant.id, now=now)
            if used:
                self._move(db, grant.request, "granted", "used")
            return used

    def _in_use(self, grant_id: str, now: float) -> bool:
        """Whether an uncounted grant holds and was used before, so that another use changes nothing on record."""
        return bool(self._read(sql.IN_USE, rows.grant_of, id=grant_id, now=now))

    # ── looking ──────────────────────────────────────────────────────────────────────────────

    def find(self, request_id: str) -> Recorded:
        """Give a request, its state and its answer; KeyError when unknown."""
        now = self._clock.now()
        found = self._read(sql.REQUEST, lambda row: rows.recorded_of(row, now), id=request_id)
        if not found:
            raise KeyError(request_id)
        return found[0]

    def args(self, request_id: str) -> dict[str, Any]:
        """Give the raw arguments, to replay the call; APPROVAL_DENIED once they are erased, KeyError when unknown."""
        state = self.find(request_id).state
        found = self._read(sql.ARGS, lambda row: dict(json.loads(row[0])), id=request_id)
        if state in ("pending", "granted") and found:
            return found[0]
        raise Problem(
            Code.APPROVAL_DENIED,
            f"Approval {request_id} is {state}, so its arguments are erased. Make the call again to ask anew.",
            approval=request_id,
            state=state,
        )

    def pending(self, now: float) -> tuple[Request, ...]:
        """Give the requests that wait for an answer, oldest first."""
        return self._read(sql.PENDING, rows.request_of, now=now)

    def list(self, states: Sequence[str] = ()) -> tuple[Recorded, ...]:
        """Give the requests in these states (none given: in any), oldest first."""
        now = self._clock.now()
        self.expire(now)
        found = self._read(sql.ALL_REQUESTS, lambda row: rows.recorded_of(row, now))
        return tuple(record for record in found if not states or record.state in states)

    # ── waiting ──────────────────────────────────────────────────────────────────────────────

    async def wait(self, request_id: str, *, until: float | None = None, clock: Clock | None = None) -> Reply:
        """Wait until the request is answered here or elsewhere, or expires; `pending` once `until` has passed."""
        import asyncio

        time = clock or self._clock
        expires = self.find(request_id).request.expires
        end = expires if until is None else min(until, expires)
        watch = self._watch(asyncio.get_running_loop())
        while True:
            waiter = watch.add(request_id, lambda: time.now() >= end)
            try:
                reply = self._settled(request_id, time.now(), end)
                if reply is not None:
                    return reply
                await waiter.woken
            finally:
                watch.discard(waiter)

    def changed(self) -> bool:
        """Whether anything was written since this was last asked."""
        before, self._version_seen = self._version_seen, self._version()
        return before != self._version_seen

    def _settled(self, request_id: str, now: float, end: float) -> Reply | None:
        request, state, reply = self.find(request_id)
        if state in ("pending", "expired") and now >= request.expires:
            self.expire(now)
            request, state, reply = self.find(request_id)
        if state == "expired":
            return Reply("expired", Scope.NONE, at=request.expires)
        if state == "pending":
            return Reply("pending", Scope.NONE) if now >= end else None
        return reply

    def _watch(self, loop: asyncio.AbstractEventLoop) -> Watch:
        from handrail.store._ledger_watch import Watch

        for other in [other for other in self._watches if other.is_closed()]:
            self._watches.pop(other, None)
        if loop not in self._watches:
            self._watches[loop] = Watch(loop, self._version)
        return self._watches[loop]

    def _wake(self, request_id: str) -> None:
        for watch in tuple(self._watches.values()):
            watch.wake(request_id)

    def _version(self) -> int:
        """Give a number that changes with every commit but the reader's own, which makes none; 0 without a ledger."""
        found = self._read(sql.VERSION, lambda row: int(row[0]))
        return found[0] if found else 0

    # ── the file ─────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Let go of the file; a later use opens it again."""
        with self._write_lock, self._read_lock:
            for db in (self._reader, self._writer):
                if db is not None:
                    db.close()
            self._reader = self._writer = None

    def __del__(self) -> None:
        self.close()

    def _absent(self) -> bool:
        """Whether no ledger was ever made: then nothing is on record, and looking makes none."""
        return self._reader is None and self._writer is None and not os.path.lexists(self.path)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Hold the one write transaction of all processes; what it did is on the disk when this ends well."""
        from handrail.store._ledger_file import connect, failing_closed, wipe

        with self._write_lock, failing_closed(self.path):
            if self._writer is None:
                self._writer = connect(self.path)
            db = self._writer
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            if self._unwiped:
                self._unwiped = not wipe(db)

    def _read(self, query: str, read: Callable[[Sequence[Any]], T], **values: Any) -> tuple[T, ...]:
        if self._absent():
            return ()
        from handrail.store._ledger_file import connect, failing_closed

        with self._read_lock, failing_closed(self.path):
            if self._reader is None:
                self._reader = connect(self.path)
                self._reader.execute("PRAGMA query_only = ON")
            return tuple(read(row) for row in self._reader.execute(query, values).fetchall())


def _changed(db: sqlite3.Connection, statement: str, **values: Any) -> bool:
    return db.execute(statement, values).rowcount == 1

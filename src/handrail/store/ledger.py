"""Approvals and grants of one user, in one SQLite file that every process shares.

    pending ──► granted ──► used
       │           └──────► expired, or denied when it is taken back
       ├──► denied
       └──► expired

Every arrow is one compare-and-set inside a write transaction: of several processes exactly one wins and the others
are told. Scopes:

- `call`: the exact call (its digest), once, or as often as the person said.
- `run`: the same tool, the same kinds of touch and the same targets, in this run; wider targets only as patterns that
  the person saw and confirmed (`Reply.patterns`).
- `session`: as `run`, across the runs of a workspace until it expires.
- `always`: as `session`, until it is removed, or expires where the person said when: a standing grant.

Whatever its scope, a grant also lets the call it was asked for run once, found by digest from any run: that is what
a replay needs. What matches a wider grant is judged by policy, not here.

What was first and last is decided by counters in the tables, not by the clock, which can be set back.
"""

from __future__ import annotations

import hashlib
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
from handrail.words import Grant, Scope, noun

if TYPE_CHECKING:
    import asyncio
    import sqlite3

    from handrail.store._ledger_watch import Watch

T = TypeVar("T")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
FOREVER = rows.FOREVER  # when a standing grant without an end expires
RUN_ENDED = "its run has ended"


@noun
class PendingLimits:
    """How much the requests of one run that wait for an answer may take."""

    number: int = 100
    bytes: int = 16 * 1024 * 1024


def new_id(kind: str) -> str:
    """Make a short id that can be typed: `apr_` and 50 random bits."""
    import secrets

    return f"{kind}_{''.join(secrets.choice(_ALPHABET) for _ in range(10))}"


class SqliteLedger:
    """The ledger in a file; nothing is opened, made or imported before it is first needed.

    Safe to use from several threads and processes. Reads never wait for writers; a write waits for other writers
    and for the disk, so a caller that must not block goes through a thread.
    """

    def __init__(self, path: str | os.PathLike[str], clock: Clock, limits: PendingLimits | None = None) -> None:
        self.path = os.path.abspath(path)
        self._limits = limits or PendingLimits()
        self._asking_runs: set[str] = set()  # runs that asked for something here
        self._clock = clock
        self._write_lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._watches: dict[asyncio.AbstractEventLoop, Watch] = {}
        self._version_seen = 0
        self._unwiped = False  # erased arguments still stand in the write-ahead log
        self.replay_flags = ""  # what a replay on the command line needs besides the approval
        # Told of each request inside the transaction that puts it on record.
        self.on_request: Callable[[sqlite3.Connection, Request, Mapping[str, Any]], None] | None = None

    # ── asking and answering ─────────────────────────────────────────────────────────────────

    def request(self, request: Request, args: Mapping[str, Any]) -> Request:
        """Put a request on record with its raw arguments, or give the open one with the same digest.

        BUDGET_EXHAUSTED where the run has as many requests waiting as it may have.
        """
        import secrets

        made = rows.named(request, new_id("apr"), self.replay_flags)
        body, large = rows.without_large(made.to_dict())
        raw, large_args = rows.without_large(args)
        texts = {rows.hash_of(text): text.encode("utf-8", "surrogatepass") for _, text in (*large, *large_args)}
        size = len(body) + len(raw) + sum(len(text) for text in texts.values())
        with self._writing() as db:
            self._expire(db, request.created)
            row = db.execute(sql.OPEN_REQUEST, {"digest": request.digest}).fetchone()
            if row is not None:
                made = rows.request_of(row, _parts(db, row[4], "body"))
            else:
                self._check_room(db, request.run_id, size)
                values = {**rows.request_values(made, body), "args": raw, "seal": secrets.token_hex(16), "bytes": size}
                db.execute(sql.ADD_REQUEST, values)
                db.executemany(sql.ADD_TEXT, [{"sha256": name, "text": text} for name, text in texts.items()])
                db.executemany(sql.ADD_PART, rows.part_values(made.id, "body", large))
                db.executemany(sql.ADD_PART, rows.part_values(made.id, "args", large_args))
            db.execute(sql.ADD_ASKER, {"request": made.id, "run_id": request.run_id})
            if self.on_request is not None:
                self.on_request(db, made, args)
        self._asking_runs.add(request.run_id)
        return made

    def _check_room(self, db: sqlite3.Connection, run_id: str, size: int) -> None:
        """Refuse one more request of a run that has too many waiting."""
        number, taken = db.execute(sql.WAITING, {"run_id": run_id}).fetchone()
        if number >= self._limits.number:
            raise _too_much(f"{number} requests of this run wait for an answer", "max_pending", self._limits.number)
        if taken + size > self._limits.bytes:
            what = f"the requests of this run that wait for an answer would take {taken + size} bytes with this one"
            raise _too_much(what, "max_pending_bytes", self._limits.bytes)

    def end_run(self, run_id: str, *, keep_parked: bool = False) -> int:
        """Close the requests that nobody but this run waits for; give how many. Grants stay.

        With `keep_parked`, those stay whose call has ended as pending.
        """
        if run_id not in self._asking_runs:
            return 0
        reply = rows.reply_text(Reply("expired", Scope.NONE, advice=RUN_ENDED, at=self._clock.now()))
        with self._writing() as db:
            db.execute(sql.LEAVE, {"run_id": run_id, "keep_parked": keep_parked})
            ended = db.execute(sql.END_LEFT, {"reply": reply}).rowcount
            self._unwiped |= ended > 0
        self._asking_runs.discard(run_id)
        return ended

    def answer(self, request_id: str, reply: Reply) -> Grant | None:
        """Answer a pending request; the first answer counts, a later one raises `Answered`."""
        if reply.state not in ("granted", "denied") or not rows.can_be_stored(reply):
            raise Misuse(
                f"an answer is granted (for at least one use, until a time that is known) or denied, not {reply}"
            )
        now = self._clock.now()
        with self._writing() as db:
            self._expire(db, now)
            row = db.execute(sql.REQUEST, {"id": request_id}).fetchone()
            if row is None:
                raise KeyError(request_id)
            before = rows.recorded_of(row, now, _parts(db, request_id, "body"))
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
        self._unwiped |= ended > 0 or db.execute(sql.ERASE_LATE, {"now": now}).rowcount > 0
        return ended

    def erase(self, db: sqlite3.Connection, request_id: str) -> None:
        """Erase the arguments of a request that is used, within a transaction."""
        self._unwiped |= db.execute(sql.ERASE_USED, {"id": request_id}).rowcount > 0

    def _move(self, db: sqlite3.Connection, request_id: str, old: str, new: str, reply: str | None = None) -> bool:
        """Move a request from one state to the next if it is still there; only a granted one keeps its arguments."""
        moved = _changed(db, sql.MOVE, id=request_id, old=old, new=new, reply=reply)
        self._unwiped |= moved and new != "granted"
        return moved

    # ── grants ───────────────────────────────────────────────────────────────────────────────

    def reviewed(self, digest: str, now: float) -> Grant | None:
        """The unused grant for effects of exactly this call: whoever gave it saw the call, too."""
        granted = self._read_requests(sql.GRANTED_REQUESTS, rows.request_of) if digest else ()
        found = [request for request in granted if request.reviews == digest]
        return next((grant for request in found if (grant := self.granted(request.digest, now)) is not None), None)

    def granted(self, digest: str, now: float) -> Grant | None:
        """Give the unused grant for exactly this call, whatever its scope."""
        found = self._read(sql.GRANTED, rows.grant_of, digest=digest, now=now)
        return found[0] if found else None

    def grants(self, run_id: str, now: float, workspace: str = "") -> tuple[Grant, ...]:
        """Give the grants of wider scope in force: those of the run, and those of this workspace."""
        return self._read(
            sql.GRANTS_OF_RUN,
            rows.grant_of,
            run=int(Scope.RUN),
            session=int(Scope.SESSION),
            always=int(Scope.ALWAYS),
            run_id=run_id,
            workspace=workspace,
            now=now,
        )

    def standing(self, now: float) -> tuple[tuple[Grant, Request], ...]:
        """Give the standing grants of all workspaces, oldest first, each with the request that it answers."""
        found = self._read(sql.STANDING, rows.grant_of, always=int(Scope.ALWAYS), now=now)
        return tuple((grant, self.find(grant.request).request) for grant in found)

    def use(self, grant: Grant, now: float, then: Callable[[sqlite3.Connection], None] | None = None) -> bool:
        """Consume one use; False when it is used up, expired or revoked. `then` is done in the same transaction.

        The last use closes the request, of a wider scope the first: from then on only what it covers counts.
        """
        if self._absent():
            return False
        if grant.uses_left is None and self._in_use(grant.id, now):
            return True
        with self._writing() as db:
            used = _changed(db, sql.USE, id=grant.id, now=now)
            if used and then is not None:
                then(db)
            if used and (grant.scope > Scope.CALL or db.execute(sql.USES_LEFT, {"id": grant.id}).fetchone()[0] == 0):
                self._move(db, grant.request, "granted", "used")
            return used

    def _in_use(self, grant_id: str, now: float) -> bool:
        """Whether an uncounted grant holds and was used before, so that another use changes nothing on record."""
        return bool(self._read(sql.IN_USE, rows.grant_of, id=grant_id, now=now))

    # ── looking ──────────────────────────────────────────────────────────────────────────────

    def find(self, request_id: str) -> Recorded:
        """Give a request, its state and its answer; KeyError when unknown."""
        now = self._clock.now()
        found = self._read_requests(sql.REQUEST, lambda row, parts: rows.recorded_of(row, now, parts), id=request_id)
        if not found:
            raise KeyError(request_id)
        return found[0]

    def confirmation(self, request_id: str) -> str:
        """Give the digest that a person must see before they can grant without a terminal; KeyError when unknown.

        It is in no outcome, event or list, so nobody but the reader of `approvals show` knows it.
        """
        request = self.find(request_id).request
        seal = self._read(sql.SEAL, lambda row: str(row[0]), id=request_id)[0]
        return hashlib.sha256(f"{seal} {request.id} {request.digest}".encode()).hexdigest()[:16]

    def args(self, request_id: str) -> dict[str, Any]:
        """Give the raw arguments, to replay the call; APPROVAL_DENIED once they are erased, KeyError when unknown."""
        state = self.find(request_id).state
        found = self._read_args(request_id)
        if state in ("pending", "granted") and found:
            return found[0]
        raise Problem(
            Code.APPROVAL_DENIED,
            f"Approval {request_id} is {state}, so its arguments are erased. Repeat the call to ask again.",
            approval=request_id,
            state=state,
        )

    def pending(self, now: float) -> tuple[Request, ...]:
        """Give the requests that wait for an answer, oldest first."""
        return self._read_requests(sql.PENDING, rows.request_of, now=now)

    def list(self, states: Sequence[str] = ()) -> tuple[Recorded, ...]:
        """Give the requests in these states (none given: in any), oldest first."""
        now = self._clock.now()
        self.expire(now)
        found = self._read_requests(sql.ALL_REQUESTS, lambda row, parts: rows.recorded_of(row, now, parts))
        return tuple(record for record in found if not states or record.state in states)

    def newest(self, limit: int, states: Sequence[str]) -> tuple[Recorded, ...]:
        """Give the requests in these states that were made last, newest first."""
        now, marks = self._clock.now(), ", ".join(f"'{state}'" for state in states if state.isalpha())
        query = sql.NEWEST.format(states=marks)
        return self._read_requests(query, lambda row, parts: rows.recorded_of(row, now, parts), limit=limit)

    def count_pending(self, now: float) -> int:
        """Count the requests that wait for an answer."""
        found = self._read(sql.COUNT_PENDING, lambda row: int(row[0]), now=now)
        return found[0] if found else 0

    # ── waiting ──────────────────────────────────────────────────────────────────────────────

    async def wait(self, request_id: str, *, until: float | None = None, clock: Clock | None = None) -> Reply:
        """Wait until the request is answered here or elsewhere, or expires; `pending` once `until` has passed."""
        time = clock or self._clock
        expires = self.find(request_id).request.expires
        end = expires if until is None else min(until, expires)
        return await self.watch(
            request_id, lambda: self._settled(request_id, time.now(), end), lambda: time.now() >= end
        )

    async def watch(self, request_id: str, look: Callable[[], T | None], due: Callable[[], bool]) -> T:
        """Look until something is found: again after every change of the ledger, and whenever it is due."""
        import asyncio

        watch = self._watch(asyncio.get_running_loop())
        while True:
            waiter = watch.add(request_id, due)
            try:
                if (found := look()) is not None:
                    return found
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
                if self._unwiped:
                    for statement in sql.ERASE:
                        db.execute(statement)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            if self._unwiped:
                self._unwiped = not wipe(db)

    transaction = _writing

    def _read(self, query: str, read: Callable[[Sequence[Any]], T], **values: Any) -> tuple[T, ...]:
        with self._reading() as db:
            return () if db is None else tuple(read(row) for row in db.execute(query, values).fetchall())

    read = _read

    def _read_requests(self, query: str, read: Callable[[rows.Row, rows.Parts], T], **values: Any) -> tuple[T, ...]:
        """Read requests together with their large texts."""
        with self._reading() as db:
            if db is None:
                return ()
            return tuple(read(row, _parts(db, row[4], "body")) for row in db.execute(query, values).fetchall())

    def _read_args(self, request_id: str) -> tuple[dict[str, Any], ...]:
        with self._reading() as db:
            if db is None:
                return ()
            found = db.execute(sql.ARGS, {"id": request_id}).fetchall()
            return tuple(rows.put_back(row[0], _parts(db, request_id, "args")) for row in found)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """Hold the connection for reading; None where there is no ledger."""
        if self._absent():
            yield None
            return
        from handrail.store._ledger_file import connect, failing_closed

        with self._read_lock, failing_closed(self.path):
            if self._reader is None:
                self._reader = connect(self.path)
                self._reader.execute("PRAGMA query_only = ON")
            yield self._reader


def _parts(db: sqlite3.Connection, request_id: str, part: str) -> rows.Parts:
    """Read the large texts of a request."""
    found = db.execute(sql.PARTS, {"request": request_id, "part": part}).fetchall()
    return [rows.part_of(row) for row in found]


def _too_much(what: str, setting: str, bound: int) -> Problem:
    return Problem(
        Code.BUDGET_EXHAUSTED,
        f"Nobody was asked for this call: {what}, and approvals.{setting} allows {bound}. "
        "Wait until a person has answered some of them (`handrail approvals list`), then repeat the call.",
        budget=setting,
        bound=bound,
        mend=f"have waiting requests answered or denied, or ask the operator to raise approvals.{setting}",
    )


def _changed(db: sqlite3.Connection, statement: str, **values: Any) -> bool:
    return db.execute(statement, values).rowcount == 1

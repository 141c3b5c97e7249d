"""Calls that were approved, as the ledger knows them beyond their request: who makes each, and what came of it.

    (none) ──► running ──► done ──► fetched
       │          │└─────────────────┘  (its own caller made it)
       │          ├──► unknown ──► fetched, or granted again by a person
       │          └──► (none): claimed and not begun
       └──► withdrawn

`running` is set in the transaction that spends the grant, so of several processes one makes the call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from handrail.gates.asking import likeness
from handrail.ports import Clock, Request
from handrail.store import _ledger_sql as sql
from handrail.store.keys import outcome_from
from handrail.store.runner import is_alive
from handrail.words import Grant, Outcome, noun

if TYPE_CHECKING:
    import sqlite3

    from handrail.store.ledger import SqliteLedger

KEEP_OUTCOME_SECONDS = 7 * 86400.0


@noun
class Execution:
    """One call, as the ledger holds it."""

    request: str
    likeness: str
    opening: Mapping[str, Any] | None  # how its run was opened; None: nobody else can make the call
    parked: bool
    state: str  # "", withdrawn, running, done, unknown or fetched
    runner: Mapping[str, Any]
    outcome: Outcome | None
    changed: float
    granted: str  # the state of its request

    @property
    def died(self) -> bool:
        """Whether it was begun by a process that is gone."""
        return self.state == "running" and not is_alive(self.runner)


class Executions:
    """The table of calls in a ledger; each change is one compare-and-set."""

    def __init__(self, ledger: SqliteLedger, clock: Clock) -> None:
        self._ledger, self._clock = ledger, clock

    def add(self, db: sqlite3.Connection, request: Request, args: Mapping[str, Any], opening: Any) -> None:
        """Note a request inside the transaction that puts it on record."""
        call = (request.tool, request.version, args)
        alike = likeness((request.caller, request.asked_by), request.workspace, call)
        values = {"request": request.id, "likeness": alike, "now": self._clock.now()}
        db.execute(sql.ADD_EXECUTION, {**values, "opening": None if opening is None else json.dumps(opening)})

    def find(self, request_id: str) -> Execution | None:
        """Give what is known of one call."""
        found = self._ledger.read(sql.EXECUTION, _execution, request=request_id)
        return found[0] if found else None

    def alike(self, alike: str) -> Execution | None:
        """Give the newest parked call like this one that is running, done and not fetched, or unknown."""
        found = self._ledger.read(sql.EXECUTIONS_ALIKE, _execution, likeness=alike)
        return found[0] if found else None

    def granted(self) -> Sequence[Execution]:
        """Give the calls that are granted and that nobody makes yet, oldest first."""
        return self._ledger.read(sql.EXECUTIONS_GRANTED, _execution)

    def in_state(self, state: str) -> Sequence[Execution]:
        """Give the calls in a state, oldest first."""
        return self._ledger.read(sql.EXECUTIONS_IN, _execution, state=state)

    def park(self, request_id: str) -> None:
        """Mark a call that nobody waits for any more."""
        with self._ledger.transaction() as db:
            db.execute(sql.PARK, {"request": request_id})

    def claim(self, grant: Grant, now: float, runner: Mapping[str, Any]) -> bool:
        """Spend the grant, and note who makes the call if this is the first use."""

        def note(db: sqlite3.Connection) -> None:
            _move(db, grant.request, "", "running", now, runner=json.dumps(runner))

        return self._ledger.use(grant, now, note)

    def finish(self, request_id: str, outcome: Outcome, *, fetched: bool) -> bool:
        """Keep an outcome; `fetched` where whoever made the call is its own caller."""
        text = json.dumps(asdict(outcome))
        with self._ledger.transaction() as db:
            now, new = self._clock.now(), "fetched" if fetched else "done"
            done = _move(db, request_id, "running", new, now, outcome=text)
            done = done or _move(db, request_id, "unknown", new, now, outcome=text)  # it was thought dead
            self._ledger.erase(db, request_id)
            db.execute(sql.FORGET_OUTCOMES, {"before": now - KEEP_OUTCOME_SECONDS})
        return done

    def refuse(self, request_id: str, outcome: Outcome) -> bool:
        """Close a granted call that cannot be made as it was approved; its outcome says why."""
        with self._ledger.transaction() as db:
            done = _move(db, request_id, "", "done", self._clock.now(), outcome=json.dumps(asdict(outcome)))
            if done:
                db.execute(sql.REVOKE_OF, {"request": request_id})
                db.execute(sql.CLOSE_GRANTED, {"id": request_id})
                self._ledger.erase(db, request_id)
            return done

    def move(self, request_id: str, old: str, new: str) -> bool:
        """Move a call from one state to another; False where it is not in the first."""
        with self._ledger.transaction() as db:
            moved = _move(db, request_id, old, new, self._clock.now())
            if moved and new != "running":
                self._ledger.erase(db, request_id)
            return moved

    def release(self, request_id: str) -> bool:
        """Have a call that was claimed and never begun granted again."""
        values = {"request": request_id, "now": self._clock.now()}
        with self._ledger.transaction() as db:
            first, *rest = sql.RELEASE
            released = db.execute(first, values).rowcount == 1
            for statement in rest if released else ():
                db.execute(statement, values)
            return released


def _move(db: sqlite3.Connection, request_id: str, old: str, new: str, now: float, **more: str | None) -> bool:
    values = {"request": request_id, "old": old, "new": new, "now": now, "runner": None, "outcome": None, **more}
    return db.execute(sql.TO_STATE, values).rowcount == 1


def _execution(row: Sequence[Any]) -> Execution:
    request, alike, opening, parked, state, runner, outcome, changed, granted = row
    return Execution(
        request=request,
        likeness=alike,
        opening=None if opening is None else json.loads(opening),
        parked=bool(parked),
        state=state,
        runner={} if runner is None else json.loads(runner),
        outcome=None if outcome is None else outcome_from(json.loads(outcome)),
        changed=changed,
        granted=granted,
    )

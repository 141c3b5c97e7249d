"""The calls of one run that others may make or wait for: satisfies `ports.Parking` over the ledger."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.errors import Code, Problem
from handrail.ports import Clock, Request
from handrail.store.executions import Execution, Executions
from handrail.store.recovery import recover
from handrail.store.runner import describe_process
from handrail.words import Grant, Outcome

if TYPE_CHECKING:
    import sqlite3

    from handrail.store.ledger import SqliteLedger

log = logging.getLogger("handrail")
_LOOK_SECONDS = 1.0  # between two looks whether the process that makes a call still lives
_ON_BEHALF: ContextVar[bool] = ContextVar("handrail-on-behalf", default=False)


@contextmanager
def on_behalf() -> Iterator[None]:
    """Make calls for callers that are gone: their outcomes are kept until somebody comes for them."""
    token = _ON_BEHALF.set(True)
    try:
        yield
    finally:
        _ON_BEHALF.reset(token)


class RunParking:
    """What a run's kernel needs of the calls that others may make."""

    def __init__(self, ledger: SqliteLedger, clock: Clock, folder: Path, opening: Mapping[str, Any] | None) -> None:
        self.executions = Executions(ledger, clock)
        self._ledger, self._folder, self._opening = ledger, folder, opening
        ledger.on_request = self._add

    def _add(self, db: sqlite3.Connection, request: Request, args: Mapping[str, Any]) -> None:
        self.executions.add(db, request, args, self._opening)

    def park(self, request_id: str) -> None:
        """Mark a request whose call has ended as pending."""
        self.executions.park(request_id)

    def withdraw(self, request_id: str) -> None:
        """Mark a request whose caller gave up."""
        try:
            self.executions.move(request_id, "", "withdrawn")
        except Problem as problem:
            log.warning("request %s stays open although its caller gave up: %s", request_id, problem.message)

    def claim(self, grant: Grant, now: float, call_id: str) -> bool:
        """Consume one use, and note who makes the call."""
        runner = {**describe_process(), "folder": str(self._folder), "run": self._folder.name, "call": call_id}
        return self.executions.claim(grant, now, runner)

    def finish(self, request_id: str, outcome: Outcome) -> None:
        """Keep the outcome of a claimed call; the call is done, also where that fails."""
        try:
            self.executions.finish(request_id, outcome, fetched=not _ON_BEHALF.get())
        except Problem as problem:
            log.warning("the outcome of request %s is not kept for others: %s", request_id, problem.message)

    async def outcome(self, likeness: str, request_id: str | None = None) -> Outcome | None:
        """Give the outcome of an equal call that was made meanwhile, once."""
        found = self.executions.alike(likeness) if request_id is None else self.executions.find(request_id)
        if found is None or not found.parked or found.state not in ("running", "done", "unknown"):
            return None
        return await self._outcome_of(found)

    async def _outcome_of(self, found: Execution) -> Outcome | None:
        if found.state == "running":
            found = await self._ended(found.request)
        if found.died:
            recover(self.executions, found)
            found = self.executions.find(found.request) or found
        if found.state == "unknown":
            raise _unknown(found)
        if found.state == "done" and not _ON_BEHALF.get():
            fetched = self.executions.move(found.request, "done", "fetched")
            return found.outcome if fetched else None  # None: another equal call came first
        return found.outcome if found.state in ("done", "fetched") else None

    async def _ended(self, request_id: str) -> Execution:
        """Wait until a call that somebody makes has ended, or its process."""
        next_look = time.monotonic() + _LOOK_SECONDS

        def is_due() -> bool:
            nonlocal next_look
            if time.monotonic() < next_look:
                return False
            next_look = time.monotonic() + _LOOK_SECONDS
            return True

        def look() -> Execution | None:
            found = self.executions.find(request_id)
            if found is not None and found.state == "running" and not found.died:
                return None
            return found

        return await self._ledger.watch(request_id, look, is_due)


def _unknown(found: Execution) -> Problem:
    return Problem(
        Code.OUTCOME_UNKNOWN,
        f"This call was approved as {found.request} and begun, and the process that made it died. It may have "
        "happened. It is not made again by itself: a person looks at what it touches and decides in the inbox.",
        approval=found.request,
        call_id=found.runner.get("call"),
    )

"""Waiting for a person, for as long as the caller of one call said."""

from __future__ import annotations

import time
from contextvars import ContextVar

from handrail.ports import Reply, Request, SharedLedger
from handrail.words import Scope

WAIT_SECONDS: ContextVar[float] = ContextVar("handrail-wait-seconds", default=0.0)


class PatientApprover:
    """Asks by the ledger alone; a call waits no longer than `WAIT_SECONDS` says for it."""

    def __init__(self) -> None:
        self.ledger: SharedLedger | None = None  # filled in by the runtime that opens

    async def ask(self, request: Request) -> Reply:
        """Wait for the answer; `pending` leaves the request on record, and others make the call."""
        seconds = WAIT_SECONDS.get()
        if self.ledger is None or seconds <= 0:
            return Reply("pending", Scope.NONE)
        return await self.ledger.wait(request.id, until=time.time() + seconds)

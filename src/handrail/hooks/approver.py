"""A hook's way to ask: the answer comes through the ledger, within the time that the agent waits for the hook."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar

from handrail.compose import SystemClock
from handrail.ports import Reply, Request, SharedLedger
from handrail.words import Scope

until: ContextVar[float] = ContextVar("handrail-hook-until", default=0.0)  # wall clock: when the agent gives up


class HookApprover:
    """Waits for an answer that a person gives elsewhere; who is not answered in time is pending."""

    def __init__(self) -> None:
        self.ledger: SharedLedger | None = None  # filled in by the runtime that opens
        self.wait_seconds = 0.0
        self.asks = True
        self.tell: Callable[[Request], None] | None = None  # tells people that a request waits

    async def ask(self, request: Request) -> Reply:
        """Wait for the answer, as long as settings and the agent allow."""
        ledger = self.ledger
        end = min(time.time() + self.wait_seconds, until.get())
        if ledger is None or end <= time.time():
            return Reply("pending", Scope.NONE)
        if self.tell is not None:
            self.tell(request)
        return await ledger.wait(request.id, until=end, clock=SystemClock())

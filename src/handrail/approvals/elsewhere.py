"""Somebody answers elsewhere: in another terminal, a console, a chat. The ledger is where the answer arrives."""

from __future__ import annotations

import logging

from handrail.ports import Clock, Reply, Request, SharedLedger

log = logging.getLogger("handrail")


class LedgerApprover:
    """Waits for an answer that another process or another part of this one gives."""

    def __init__(self, ledger: SharedLedger, clock: Clock, wait_seconds: float | None = None) -> None:
        self._ledger = ledger
        self._clock = clock
        self._wait_seconds = wait_seconds

    async def ask(self, request: Request) -> Reply:
        """Wait for the answer; `expired` when the request runs out, `pending` when only the patience does."""
        log.warning("%s waits for an approval: handrail approvals grant %s", request.tool, request.id)
        until = None if self._wait_seconds is None else self._clock.now() + self._wait_seconds
        return await self._ledger.wait(request.id, until=until, clock=self._clock)

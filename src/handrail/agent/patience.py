"""Approvers of tasks: a worker asks and does not wait, a person at a terminal is waited for on their own time."""

from __future__ import annotations

from collections.abc import Callable

from handrail.ports import Approver, Clock, Reply, Request, SharedLedger
from handrail.words import Scope, TouchKind


class LaterApprover:
    """Leaves requests on record for whoever answers them later: the task waits, not the process.

    What a running program reaches for cannot be put off: there the answer is waited for, as long as the kernel allows.
    """

    def __init__(self) -> None:
        self.ledger: SharedLedger | None = None  # set by the runtime
        self.waited: Callable[[float], None] = lambda _: None
        self.clock: Clock | None = None

    async def ask(self, request: Request) -> Reply:
        """Return `pending` at once, or the answer about a host that a program waits for."""
        reaches = bool(request.reviews) and any(kind == TouchKind.NET_CONNECT for kind, _ in request.touches)
        if not reaches or self.ledger is None or self.clock is None:
            return Reply("pending", Scope.NONE)
        return await _timed(self.ledger.wait(request.id), self.clock, self.waited)


class TimedApprover:
    """Another approver, whose time is not the task's."""

    def __init__(self, approver: Approver, clock: Clock, before: Callable[[], None] = lambda: None) -> None:
        self._approver = approver
        self._clock = clock
        self._before = before  # called before a person is asked
        self.waited: Callable[[float], None] = lambda _: None

    @property
    def asks(self) -> bool:
        """Whether a person is asked."""
        return bool(getattr(self._approver, "asks", True))

    async def ask(self, request: Request) -> Reply:
        """Ask, and report how long that took."""
        self._before()
        return await _timed(self._approver.ask(request), self._clock, self.waited)


async def _timed(answer: object, clock: Clock, waited: Callable[[float], None]) -> Reply:
    began = clock.monotonic()
    try:
        reply: Reply = await answer  # type: ignore[misc]
        return reply
    finally:
        waited(clock.monotonic() - began)

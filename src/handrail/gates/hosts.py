"""The questions about hosts that programs of one call reach for: one at a time, and none after a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from handrail.errors import Code, Problem
from handrail.words import Touch

_REASONS = {
    Code.APPROVAL_DENIED: "a person said no to {host}",
    Code.APPROVAL_REQUIRED: "nobody has answered yet whether {host} may be reached",
}


class HostQuestions:
    """What people said about the hosts that one call reaches for."""

    def __init__(self, ask: Callable[[Touch, float], Awaitable[None]], seconds: float) -> None:
        self._ask = ask  # within so many seconds; returns after a yes, raises otherwise
        self._seconds = seconds  # that a connection is held, with the time that other questions take
        self._turn = asyncio.Lock()
        self._allowed: set[tuple[str, bool]] = set()  # host:port, and whether sending was allowed
        self._closed: tuple[str, Problem] | None = None  # the host that was refused first, and why

    async def settle(self, touch: Touch) -> None:
        """Return once a person has allowed a host in this call; a program's retries wait for the same answer."""
        end = asyncio.get_running_loop().time() + self._seconds
        await self._wait_for_turn(touch, end)
        try:
            if self._is_allowed(touch):
                return
            if self._closed is not None:
                raise self._refusal(touch)
            await self._settle_now(touch, max(0.0, end - asyncio.get_running_loop().time()))
        finally:
            self._turn.release()

    async def _wait_for_turn(self, touch: Touch, end: float) -> None:
        try:
            async with asyncio.timeout_at(end):
                await self._turn.acquire()
        except TimeoutError:
            text = f"{touch.target} was not asked for in time: another host of the same call was asked for first."
            raise Problem(Code.APPROVAL_REQUIRED, text, host=touch.target) from None

    async def _settle_now(self, touch: Touch, seconds: float) -> None:
        try:
            await self._ask(touch, seconds)
        except Problem as problem:
            self._closed = touch.target, problem
            raise
        self._allowed.add((touch.target, touch.unsafe))

    def _is_allowed(self, touch: Touch) -> bool:
        return (touch.target, touch.unsafe) in self._allowed or (touch.target, True) in self._allowed

    def _refusal(self, touch: Touch) -> Problem:
        assert self._closed is not None
        host, problem = self._closed
        if touch.target == host:
            return Problem(problem.code, problem.message, details=problem.details)
        why = _REASONS.get(problem.code, "{host} could not be asked for").format(host=host)
        return Problem(Code.HOST_NOT_ALLOWED, f"{touch.target} was not asked for: {why}.", host=touch.target)

"""Waking those who wait for an answer: at once from this process, within a tick from any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from handrail.errors import Problem

TICK_SECONDS = 0.015  # an answer from another process has to arrive within 50 ms


@dataclass(frozen=True, slots=True, eq=False)
class Waiter:
    """One coroutine that waits for one request."""

    request_id: str
    due: Callable[[], bool]  # whether the time it waits for has come
    woken: asyncio.Future[None]


class Watch:
    """The waiters of one event loop; it ticks only while there are any, one tick for all."""

    def __init__(self, loop: asyncio.AbstractEventLoop, version: Callable[[], int]) -> None:
        self._loop = loop
        self._version = version
        self._seen = -1
        self._waiters: set[Waiter] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, request_id: str, due: Callable[[], bool]) -> Waiter:
        """Wait from now on; look at the ledger after this, or an answer in between is missed."""
        waiter = Waiter(request_id, due, self._loop.create_future())
        self._waiters.add(waiter)
        if self._timer is None:
            self._news()  # what was written until now is seen by looking
            self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        return waiter

    def discard(self, waiter: Waiter) -> None:
        """Wait no longer."""
        self._waiters.discard(waiter)
        if not self._waiters and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def wake(self, request_id: str) -> None:
        """Tell those who wait for this request; called from any thread."""
        with suppress(RuntimeError):  # a closed loop: nobody waits on it any more
            self._loop.call_soon_threadsafe(self._wake, lambda waiter: waiter.request_id == request_id)

    def _wake(self, wanted: Callable[[Waiter], bool]) -> None:
        for waiter in self._waiters:
            if not waiter.woken.done() and wanted(waiter):
                waiter.woken.set_result(None)

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        news = self._news()
        self._wake(lambda waiter: news or waiter.due())

    def _news(self) -> bool:
        try:
            before, self._seen = self._seen, self._version()
        except Problem:
            return True  # whoever waits looks for itself and is told what is wrong
        return before != self._seen

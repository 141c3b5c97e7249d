"""Runs of single requests, opened beside a runtime while calls of theirs are made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from handrail.runtime import Runtime


@dataclass(slots=True)
class OpenRequest:
    """The run of a request, and how many calls use it."""

    runtime: Runtime
    users: int = 0


class Requests:
    """The requests of one runtime; a request's run is open as long as a call of it is made."""

    def __init__(self, make: Callable[[str], Runtime]) -> None:
        self._make = make
        self._open: dict[str, OpenRequest] = {}
        self._lock = asyncio.Lock()  # a run is opened and closed by one at a time

    @asynccontextmanager
    async def open_run(self, parent: Runtime, request: str | None) -> AsyncIterator[Runtime]:
        """Give the runtime of a request; the parent where none is named, or its run is the request."""
        if request is None or request == parent.run_id:
            yield parent
            return
        async with self._lock:
            held = self._open.get(request)
            if held is None:
                held = self._open[request] = OpenRequest(await self._start(request))
            held.users += 1
        try:
            yield held.runtime
        finally:
            await asyncio.shield(self._leave(request, held))

    async def _start(self, request: str) -> Runtime:
        runtime = self._make(request)
        await runtime.__aenter__()
        return runtime

    async def _leave(self, request: str, held: OpenRequest) -> None:
        async with self._lock:
            held.users -= 1
            if held.users == 0:
                del self._open[request]
                await held.runtime.__aexit__(None, None, None)

"""Says that the run keeps more files than before: once for all that happens within a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from handrail.words import Outcome

log = logging.getLogger("handrail.mcp")

TOGETHER_SECONDS = 1.0


class News:
    """What whoever listens is told later."""

    def __init__(self) -> None:
        self.tell: Callable[[], Awaitable[None]] | None = None  # none: nobody listens
        self._telling: asyncio.Task[None] | None = None

    def of(self, outcome: Outcome) -> None:
        """Take note of a call that may have added to the files of the run, or taken from them."""
        if self.tell is None or (self._telling is not None and not self._telling.done()):
            return
        if outcome.refs or any(change.path.startswith("run:") for change in outcome.changes):
            self._telling = asyncio.ensure_future(self._told())

    def close(self) -> None:
        """Tell nothing more."""
        self.tell = None
        if self._telling is not None:
            self._telling.cancel()

    async def _told(self) -> None:
        await asyncio.sleep(TOGETHER_SECONDS)
        try:
            if self.tell is not None:
                await self.tell()
        except Exception:
            log.exception("telling of a changed list failed")

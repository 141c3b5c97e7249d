"""Work that would hold up the event loop, done in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from handrail.tools.fs._effort import Effort

T = TypeVar("T")

_HEAVY = 8  # a character that is sought costs as much as so many that are only read

LARGE = 1 << 20  # bytes or characters; below this a thread costs more than it saves


async def aside(size: int, work: Callable[[], T], effort: Effort | None = None) -> T:
    """Do the work here, or in a thread where it is about something large; given up with whoever waits for it."""
    if size < LARGE:
        return work()
    try:
        return await asyncio.to_thread(work)
    except asyncio.CancelledError:
        if effort is not None:
            effort.given_up = True
        raise


def cost(text: int, times: int, quoted: int = 0) -> int:
    """Weigh a search for `aside`: so often through a text of that size, for so much that is quoted."""
    return _HEAVY * (text * (1 + times) + quoted)

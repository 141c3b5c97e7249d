"""Work that would hold up the event loop, done in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LARGE = 1 << 20  # bytes or characters; below this a thread costs more than it saves


async def aside(size: int, work: Callable[[], T]) -> T:
    """Do the work here, or in a thread where it is about something large."""
    return work() if size < LARGE else await asyncio.to_thread(work)

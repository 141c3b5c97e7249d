"""How far a download is, as one line on the terminal that is gone when it is done."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from handrail.runtime import Runtime

WIDTH = 30
FIRST_SECONDS, BETWEEN_SECONDS = 0.5, 0.1


@asynccontextmanager
async def showing(runtime: Runtime, stream: TextIO | None = None) -> AsyncIterator[None]:
    """Show downloads of a runtime while they go on; nothing where nobody looks."""
    stream = stream or sys.stderr
    if not stream.isatty():
        yield
        return
    bar = Bar(stream)
    runtime.parts.outside.progress = bar.told
    try:
        yield
    finally:
        runtime.parts.outside.progress = None
        bar.clear()


class Bar:
    """A line that is written over again and again; short downloads never show it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next = time.monotonic() + FIRST_SECONDS
        self._shown = False

    def told(self, _call: str, done: int, total: int) -> None:
        """Take note of how far a download is."""
        now = time.monotonic()
        if now >= self._next:
            self._next, self._shown = now + BETWEEN_SECONDS, True
            self._stream.write(f"\r{line(done, total)}\x1b[K")
            self._stream.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def line(done: int, total: int) -> str:
    """Write how far a download is."""
    if total <= 0:
        return f"{done / 1e6:.1f} MB"
    part = min(1.0, done / total)
    full = round(part * WIDTH)
    return f"{'█' * full}{'░' * (WIDTH - full)} {part:4.0%}  {done / 1e6:.1f} of {total / 1e6:.1f} MB"

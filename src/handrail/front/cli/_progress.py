"""How far a download or a program is, as one line on the terminal that is gone when it is done."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from handrail.processes.sink import Written
    from handrail.runtime import Runtime

WIDTH, LEAST_WIDTH = 30, 5  # of the bar
FIRST_SECONDS, BETWEEN_SECONDS = 0.5, 0.1
PROGRAM_FIRST_SECONDS, PROGRAM_BETWEEN_SECONDS = 1.0, 0.2


@asynccontextmanager
async def showing(runtime: Runtime, stream: TextIO | None = None) -> AsyncIterator[None]:
    """Show downloads and programs of a runtime while they go on; nothing where nobody looks."""
    stream = stream or sys.stderr
    if not stream.isatty():
        yield
        return
    bar, programs = Bar(stream), runtime.parts.programs
    runtime.parts.outside.progress, programs.followed = bar.told, Elapsed(stream).follow
    try:
        yield
    finally:
        runtime.parts.outside.progress = programs.followed = None
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
            self._stream.write(f"\r{line(done, total, _columns(self._stream))}\x1b[K")
            self._stream.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


class Elapsed:
    """A line that says how long a program has been running, and the last that it wrote; short ones never show it."""

    def __init__(
        self, stream: TextIO, first_seconds: float = PROGRAM_FIRST_SECONDS, between: float = PROGRAM_BETWEEN_SECONDS
    ) -> None:
        self._stream, self._first, self._between = stream, first_seconds, between
        self._shown = False

    def follow(self, _call: str, written: Callable[[], Written]) -> Callable[[], None]:
        """Show a program from now on; gives what takes the line away when it has ended."""
        ticking = asyncio.ensure_future(self._tick(written))
        return lambda: self._over(ticking)

    async def _tick(self, written: Callable[[], Written]) -> None:
        began = time.monotonic()
        await asyncio.sleep(self._first)
        while True:
            text = program_line(time.monotonic() - began, written(), _columns(self._stream))
            self._shown = True
            self._stream.write(f"\r{text}\x1b[K")
            self._stream.flush()
            await asyncio.sleep(self._between)

    def _over(self, ticking: asyncio.Task[None]) -> None:
        ticking.cancel()
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:
        return 80


def program_line(seconds: float, written: Written, columns: int) -> str:
    """Write how long a program has been running, and what it wrote last, in a line that does not wrap."""
    from rich.cells import cell_len, set_cell_size

    minutes, rest = divmod(int(seconds), 60)
    text = f"{minutes}:{rest:02} min" if minutes else f"{rest} s"
    if written.last:
        text += "  " + "".join(sign if sign.isprintable() else " " for sign in written.last)
    return text if cell_len(text) < columns else f"{set_cell_size(text, max(1, columns - 2))}…"


def line(done: int, total: int, columns: int = 80) -> str:
    """Write how far a download is, in a line that does not wrap."""
    if total <= 0:
        return f"{done / 1e6:.1f} MB"[: columns - 1]
    part = min(1.0, done / total)
    said = f"{part:4.0%}  {done / 1e6:.1f} of {total / 1e6:.1f} MB"
    width = min(WIDTH, columns - len(said) - 2)
    if width < LEAST_WIDTH:
        return said.strip()[: columns - 1]
    full = round(part * width)
    return f"{'█' * full}{'░' * (width - full)} {said}"

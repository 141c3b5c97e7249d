"""Pipes between the runtime and its programs: read as bytes come, a flood in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import select
import threading
from collections.abc import Callable
from typing import Protocol

PART = 1 << 16
_INLINE = 4 * PART  # bytes that are taken in on the event loop; a stream of more gets a thread
_LARGE_PIPE = 1 << 20
_PART_IN_THREAD = 1 << 17
_LOOK_MS = 50  # how often a thread looks whether it shall stop


class Taker(Protocol):
    """What takes a stream's bytes."""

    def feed(self, data: bytes) -> None:
        """Take more bytes."""


def pipe() -> tuple[int, int]:
    """Make a pipe that no child inherits by accident."""
    return os.pipe2(os.O_CLOEXEC)


class Reader:
    """Reads one pipe until its end; hands each part on. Owns the descriptor."""

    def __init__(self, fd: int, taker: Taker, count: Callable[[int], None]) -> None:
        self._fd, self._taker, self._count = fd, taker, count
        self._loop = asyncio.get_running_loop()
        self._taken = 0
        self._stopping = False
        self._thread: threading.Thread | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._ready)

    @property
    def threaded(self) -> bool:
        """Whether so much came that finishing is no work for the event loop either."""
        return self._thread is not None

    async def stop(self) -> None:
        """Read no more."""
        if self._fd < 0:
            return
        self._stopping = True
        if self._thread is None:
            for _ in range(_LARGE_PIPE // PART):  # what is there already
                if not self._read():
                    break
            self._end()
        else:
            await asyncio.shield(self.ended)

    def _ready(self) -> None:
        if self._read() and self._taken > _INLINE:
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, _LARGE_PIPE)
            thread = threading.Thread(target=self._read_on, name="handrail-output", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # none can be had now: the loop reads on, and the next part tries again
                return
            self._thread = thread
            self._loop.remove_reader(self._fd)

    def _read(self) -> bool:
        """Take one part; False when there is none now, or none will come."""
        if self._fd < 0:
            return False
        try:
            data = os.read(self._fd, PART)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._end()
            return False
        self._taken += len(data)
        self._taker.feed(data)
        self._count(len(data))
        return True

    def _read_on(self) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        error: BaseException | None = None
        try:
            while True:
                if not poll.poll(0 if self._stopping else _LOOK_MS):
                    if self._stopping:
                        break
                    continue
                if not (data := os.read(self._fd, _PART_IN_THREAD)):
                    break
                self._taker.feed(data)
                self._loop.call_soon_threadsafe(self._count, len(data))
        except BaseException as raised:  # noqa: BLE001  handed to whoever waits
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._end, error)

    def _end(self, error: BaseException | None = None) -> None:
        if self._fd < 0:
            return
        if self._thread is None:
            self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1
        if not self.ended.done():
            if error is None:
                self.ended.set_result(None)
            else:
                self.ended.set_exception(error)


class Feeder:
    """Writes a program's input as it is taken. Owns the descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        self._waiting: asyncio.Future[None] | None = None
        os.set_blocking(fd, False)

    @property
    def open(self) -> bool:
        """Whether more can be sent."""
        return self._fd >= 0

    async def send(self, data: bytes, wait_seconds: float | None = None) -> int:
        """Send bytes; how many were taken before the program closed its input or the time was over."""
        view, sent = memoryview(data), 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_seconds), self._lock:
                while self._fd >= 0 and sent < len(data):
                    try:
                        sent += os.write(self._fd, view[sent : sent + PART])
                    except BlockingIOError:
                        await self._writable()
                    except OSError:  # the program closed it
                        self.close()
        return sent

    async def _writable(self) -> None:
        ready = self._waiting = self._loop.create_future()
        self._loop.add_writer(self._fd, _set, ready)
        try:
            await ready
        finally:
            if self._fd >= 0:
                self._loop.remove_writer(self._fd)

    def close(self) -> None:
        """End the input."""
        if self._fd >= 0:
            self._loop.remove_writer(self._fd)
            os.close(self._fd)
            self._fd = -1
            if self._waiting is not None:
                _set(self._waiting)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)

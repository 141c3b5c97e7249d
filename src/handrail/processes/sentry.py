"""Looks for what a running program may not make: told by the kernel at once, and by a look of its own now and then."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
from collections.abc import Callable, Sequence

from handrail.processes.planted import Guard

FIRST_SECONDS = 0.05  # after the start: most programs have ended by then, and are looked after at their end
LOOK_SECONDS = 1.0  # between two looks where nothing is heard
_SHARE, _QUICK_SHARE = 50, 5  # of the time one part in so many goes into looking; where something was heard, more
_MOST_FOLDERS = 1024
_MADE = 0x100 | 0x80  # IN_CREATE, IN_MOVED_TO
_ONLY_FOLDERS = 0x01000000 | 0x02000000  # IN_ONLYDIR, IN_DONT_FOLLOW
_libc = ctypes.CDLL(None, use_errno=True)


class Sentry:
    """Has a guard look while a program runs, soon after something was made where it would matter."""

    def __init__(self, guard: Guard, say: Callable[[Sequence[str]], None], posted: set[Sentry]) -> None:
        self._guard, self._say, self._posted = guard, say, posted
        self._loop = asyncio.get_running_loop()
        self._heard = asyncio.Event()
        self._fd = -1
        self._task: asyncio.Task[None] | None = None
        self._looks: set[asyncio.Task[None]] = set()
        self._timer = self._loop.call_later(FIRST_SECONDS, self._begin)
        posted.add(self)

    async def now(self) -> None:
        """Look at once: something is about to use what is there."""
        look = asyncio.ensure_future(self._judge())
        self._looks.add(look)
        look.add_done_callback(self._looks.discard)
        await asyncio.shield(look)  # what was taken away is told, whoever gives up meanwhile

    async def stop(self) -> None:
        """Look no more; a look that has begun comes to its end."""
        self._posted.discard(self)
        self._timer.cancel()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task, *self._looks))
        elif self._looks:
            await asyncio.wait(self._looks)

    async def _judge(self) -> None:
        if notices := await self._guard.after():
            self._say(notices)

    def _begin(self) -> None:
        self._fd = _listener(self._guard.folders()[:_MOST_FOLDERS])
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._hear)
        self._task = asyncio.ensure_future(self._look())

    def _hear(self) -> None:
        with contextlib.suppress(OSError):
            os.read(self._fd, 1 << 16)
        self._heard.set()

    async def _look(self) -> None:
        while True:
            began = self._loop.time()
            await self.now()
            took = self._loop.time() - began
            await asyncio.sleep(_QUICK_SHARE * took)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(LOOK_SECONDS, _SHARE * took)):
                    await self._heard.wait()
            self._heard.clear()


def _listener(folders: Sequence[str]) -> int:
    """A descriptor that can be read when something was made in a folder; -1 where the kernel gives none."""
    fd = int(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    if fd >= 0:
        for folder in folders:
            _libc.inotify_add_watch(fd, os.fsencode(folder), _MADE | _ONLY_FOLDERS)
    return fd

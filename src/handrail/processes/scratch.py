"""How much programs leave in folders of their own on disk: measured four times a second, since nothing bounds it.

A file system of its own, as `/tmp` is in tier A, has a size that the kernel holds. The run's scratch folder outlives
its programs, and in tier B even `/tmp` is a plain folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence

from handrail.processes.host import Host
from handrail.sandbox.launching import Child
from handrail.workspace.beneath import FOLDER

TICK_SECONDS = 0.25
MOST_ENTRIES = 200_000  # each is space, too
_SHARE = 20  # of the time at most one part in so many goes into measuring
_DEEPEST = 200
_BLOCK = 512


def measured(folders: Sequence[str], most: int) -> int:
    """The bytes that folders hold on disk; what is certainly over `most` is not measured to its end."""
    total, entries, linked = 0, 0, set()
    for folder in folders:
        for found in _below(folder):
            entries += 1
            if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
                if found.st_ino in linked:
                    continue
                linked.add(found.st_ino)
            total += found.st_blocks * _BLOCK
            if total > most:
                return total
            if entries > MOST_ENTRIES:
                return most + 1
    return total


def _below(folder: str) -> Iterator[os.stat_result]:
    """Everything in a folder, by handles: whoever swaps a folder for a link leads nowhere."""
    try:
        top = os.open(folder, FOLDER)
    except OSError:
        return
    handles = [top]
    waiting: list[Iterator[str]] = [iter(_names(top))]
    try:
        while waiting:
            name = next(waiting[-1], None)
            if name is None:
                waiting.pop()
                os.close(handles.pop())
                continue
            with contextlib.suppress(OSError):
                seen = os.stat(name, dir_fd=handles[-1], follow_symlinks=False)
                yield seen
                if stat.S_ISDIR(seen.st_mode) and len(handles) < _DEEPEST:
                    handles.append(_opened(name, handles[-1], seen.st_mode))
                    waiting.append(iter(_names(handles[-1])))
    finally:
        for fd in handles:
            os.close(fd)


def _opened(name: str, above: int, mode: int) -> int:
    """Open a folder, also one that was closed to its owner."""
    try:
        return os.open(name, FOLDER, dir_fd=above)
    except PermissionError:
        held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        try:
            os.chmod(f"/proc/self/fd/{held}", stat.S_IMODE(mode) | 0o700)
        finally:
            os.close(held)
        return os.open(name, FOLDER, dir_fd=above)


def _names(fd: int) -> list[str]:
    try:
        return os.listdir(fd)
    except OSError:
        return []


def emptied(folder: str) -> None:
    """Remove all in a folder, following no link; what resists stays."""
    import shutil

    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            path = f"{folder}/{name}"
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)


class ScratchWatch:
    """Calls out, once, when a program's folders hold too much; begins a moment after the program has."""

    def __init__(self, folders: Sequence[str], most: int, over: Callable[[int], None]) -> None:
        self._folders, self._most, self._over = folders, most, over
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(TICK_SECONDS, self._look)

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _look(self) -> None:
        self._task = asyncio.ensure_future(self._measure())

    async def _measure(self) -> None:
        began = self._loop.time()
        size = await asyncio.to_thread(measured, self._folders, self._most)
        if size > self._most:
            self._over(size)
            return
        pause = max(TICK_SECONDS, _SHARE * (self._loop.time() - began))
        self._timer = self._loop.call_later(pause, self._look)


def watch_scratch(host: Host, child: Child, over: Callable[[int], None]) -> ScratchWatch:
    """Watch what a program and others of the run leave on disk; what goes to a layer for review has a size."""
    own = () if child.scratch is None else (child.scratch,)
    folders = own if host.terms.review else (host.scratch, *own)
    return ScratchWatch(folders, host.terms.bounds.scratch_bytes, over)


async def left_in_scratch(host: Host, *, full: bool) -> list[str]:
    """See after a program that the run's scratch folder is within its bound, and empty it where it is not."""
    if not full:
        with contextlib.suppress(OSError):
            full = bool(os.listdir(host.scratch)) and await _over(host)
        if not full:
            return []
    await asyncio.to_thread(emptied, host.scratch)
    return ["the run's scratch folder held more than exec.max_scratch_bytes, and was emptied"]


async def _over(host: Host) -> bool:
    most = host.terms.bounds.scratch_bytes
    return await asyncio.to_thread(measured, (host.scratch,), most) > most

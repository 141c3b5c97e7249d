"""How much programs leave in folders of their own on disk: measured four times a second, since nothing bounds it.

A file system of its own, as `/tmp` is in tier A, has a size that the kernel holds. The run's scratch folder outlives
its programs, and in tier B even `/tmp` is a plain folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence

from handrail.processes.host import Host
from handrail.sandbox.launching import Child
from handrail.workspace.beneath import FOLDER, HANDLE

TICK_SECONDS = 0.25
MOST_ENTRIES = 200_000  # each is space, too
_MOST_REMOVED = 5 * MOST_ENTRIES  # at one time: whoever still runs may make new ones as fast as old ones go
_SHARE = 20  # of the time at most one part in so many goes into measuring
_DEEPEST = 200
_BLOCK = 512
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})  # removed since it was listed, or replaced
_HELD = "the run's scratch folder held more than exec.max_scratch_bytes, and was emptied"


def measured(folders: Sequence[str], most: int) -> int:
    """The bytes that folders hold on disk; what is certainly over `most`, or hidden, is not measured to its end."""
    total, entries, linked = 0, 0, set()
    for folder in folders:
        for found in _below(folder):
            entries += 1
            if found is None or entries > MOST_ENTRIES:
                return most + 1
            if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
                if found.st_ino in linked:
                    continue
                linked.add(found.st_ino)
            total += found.st_blocks * _BLOCK
            if total > most:
                return total
    return total


def _below(folder: str) -> Iterator[os.stat_result | None]:
    """Everything in a folder, by handles: whoever swaps a folder for a link leads nowhere. None: cannot be told."""
    handles: list[int] = []
    waiting: list[Iterator[str]] = [iter((folder,))]
    try:
        while waiting:
            name = next(waiting[-1], None)
            if name is None:
                waiting.pop()
                if handles:
                    os.close(handles.pop())
                continue
            above = handles[-1] if handles else None
            try:
                seen = _seen(name, above)
                if handles:  # the folder itself takes no space of its own
                    yield seen
                if not stat.S_ISDIR(seen.st_mode):
                    continue
                if len(handles) > _DEEPEST:
                    yield None
                    continue
                fd, names = _listed(name, above)
                handles.append(fd)
                waiting.append(iter(names))
            except OSError as error:
                if error.errno not in _GONE:
                    yield None
    finally:
        for fd in handles:
            os.close(fd)


def _seen(name: str, above: int | None) -> os.stat_result:
    """Look at an entry, also where its folder has been closed to its owner meanwhile."""
    try:
        return os.stat(name, dir_fd=above, follow_symlinks=False)
    except PermissionError:
        if above is None:
            raise
        os.fchmod(above, stat.S_IMODE(os.fstat(above).st_mode) | stat.S_IRWXU)
        return os.stat(name, dir_fd=above, follow_symlinks=False)


def _listed(name: str, above: int | None) -> tuple[int, list[str]]:
    fd = _opened(name, above)
    try:
        return fd, os.listdir(fd)
    except OSError:
        os.close(fd)
        raise


def _opened(name: str, above: int | None) -> int:
    """Open a folder, also one that was closed to its owner."""
    try:
        return os.open(name, FOLDER, dir_fd=above)
    except PermissionError:
        held = os.open(name, HANDLE, dir_fd=above)
        try:
            mode = stat.S_IMODE(os.fstat(held).st_mode)
            os.chmod(f"/proc/self/fd/{held}", mode | stat.S_IRWXU)
        finally:
            os.close(held)
        return os.open(name, FOLDER, dir_fd=above)


def given_back(folder: str) -> None:
    """See that a folder is its owner's again: a program may have closed it, and nothing could start or be counted."""
    with contextlib.suppress(OSError):
        seen = os.lstat(folder)
        if stat.S_ISDIR(seen.st_mode) and stat.S_IMODE(seen.st_mode) != stat.S_IRWXU:
            os.chmod(folder, stat.S_IRWXU)


def emptied(folder: str) -> int:
    """Remove all in a folder, following no link, however deep; give how many entries resisted, and stay."""
    try:
        top, names = _listed(folder, None)
    except OSError as error:
        return int(error.errno != errno.ENOENT)
    try:
        return _Emptying(top, names).run()
    finally:
        os.close(top)


class _Emptying:
    """Removes what is in a folder; what is too deep to be held open is moved to the top first."""

    def __init__(self, top: int, names: list[str]) -> None:
        self._open = [(top, "", names)]  # each folder on the way down: its handle, its name, what is still in it
        self._fresh, self._removed, self._stayed = os.urandom(8).hex(), 0, 0

    def run(self) -> int:
        """Remove one after the other."""
        _unlock(self._open[0][0])
        try:
            while self._open[0][2] or len(self._open) > 1:
                if self._removed >= _MOST_REMOVED:
                    return self._stayed + sum(len(names) for _, _, names in self._open)
                fd, _, names = self._open[-1]
                if not names:
                    self._leave()
                elif not self._without(name := names.pop(), fd):
                    self._enter(name, fd)
            return self._stayed
        finally:
            for fd, _, _ in self._open[1:]:
                os.close(fd)

    def _without(self, name: str, above: int) -> bool:
        """Remove what is no folder; whether there is nothing of that name any more."""
        self._removed += 1
        try:
            os.unlink(name, dir_fd=above)
        except OSError as error:
            return error.errno == errno.ENOENT
        return True

    def _enter(self, name: str, above: int) -> None:
        with self._counted():
            fd, names = _listed(name, above)
            _unlock(fd)
            if len(self._open) <= _DEEPEST:
                self._open.append((fd, name, names))
                return
            os.close(fd)
            top, _, waiting = self._open[0]
            moved = f"{self._fresh}-{self._removed}"
            os.rename(name, moved, src_dir_fd=above, dst_dir_fd=top)
            waiting.append(moved)

    def _leave(self) -> None:
        fd, name, _ = self._open.pop()
        os.close(fd)
        with self._counted():
            os.rmdir(name, dir_fd=self._open[-1][0])

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._stayed += error.errno != errno.ENOENT


def _unlock(fd: int) -> None:
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        with contextlib.suppress(OSError):  # another's: what cannot be removed then is told
            os.fchmod(fd, mode | stat.S_IRWXU)


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
    """Watch what a program and others of the run leave on disk, or in its layers there; those in memory have a size."""
    own = () if child.scratch is None else (child.scratch,)
    if child.upper is not None:
        layers = tuple(upper.path for upper in child.upper.values() if upper.layer)
        return ScratchWatch((*own, *layers), host.terms.layer_bytes, over)
    return ScratchWatch((host.scratch, *own), host.terms.bounds.scratch_bytes, over)


async def left_in_scratch(host: Host, *, full: bool) -> list[str]:
    """See after a program that the run's scratch folder is within its bound, and empty it where it is not."""
    given_back(host.scratch)
    if not full and not await _over(host):
        return []
    stayed = await asyncio.to_thread(emptied, host.scratch)
    return [f"{_HELD}, but for {stayed} entries that could not be removed" if stayed else _HELD]


async def _over(host: Host) -> bool:
    try:
        if not os.listdir(host.scratch):
            return False
    except OSError as error:
        return error.errno not in _GONE
    most = host.terms.bounds.scratch_bytes
    return await asyncio.to_thread(measured, (host.scratch,), most) > most

"""Calls that change the same files queue: within the process by path, between processes by byte-range locks.

Everyone takes the root first (shared for a single path, alone for a call that reaches below), then the paths in
sorted order: no two calls can wait for each other in a circle. Between processes a path is one byte of the root's
lock file, at an offset made of its hash. These locks belong to the open file, so they end with it whatever happens.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import struct
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from handrail.errors import Code, Problem
from handrail.words import Touch, TouchKind

_FIRST_SLEEP, _LAST_SLEEP = 0.002, 0.02
_ROOT, _TURNSTILE, _PATHS = 0, 1, 2  # byte 0, byte 1, and where the bytes of paths begin
_CHANGING = (TouchKind.FS_WRITE, TouchKind.FS_DELETE)
_WHOLE = ""

Key = tuple[str, str]  # path of the root, path beneath it; an empty one stands for the whole root
Wish = tuple[Key, bool]  # what to take, and whether alone


def wishes_of(touches: Sequence[Touch]) -> list[Wish]:
    """What a call must take, in the order that everyone keeps to."""
    if len(touches) == 1 and not touches[0].deep:
        return _single(touches[0])
    roots: dict[str, bool] = {}
    paths: set[Key] = set()
    for touch in touches:
        if touch.kind in _CHANGING and touch.place is not None:
            root, path = touch.place.root.path, touch.place.path
            deep = touch.deep or not path
            roots[root] = roots.get(root, False) or deep
            if not deep:
                paths.add((root, path))
    return [
        *(((root, _WHOLE), alone) for root, alone in sorted(roots.items())),
        *((key, True) for key in sorted(paths)),
    ]


def _single(touch: Touch) -> list[Wish]:
    place = touch.place
    if place is None or touch.kind not in _CHANGING:
        return []
    root = place.root.path
    whole: Wish = ((root, _WHOLE), not place.path)
    return [whole, ((root, place.path), True)] if place.path else [whole]


class Gate:
    """One thing to hold: by many together or by one alone, first come first served."""

    __slots__ = ("_alone", "_holders", "_waiting")

    def __init__(self) -> None:
        self._alone = False
        self._holders = 0
        self._waiting: deque[tuple[asyncio.Future[None], bool]] = deque()

    @property
    def idle(self) -> bool:
        """Whether nobody holds it or waits for it."""
        return not self._holders and not self._waiting

    def try_enter(self, alone: bool) -> bool:
        """Enter if that is possible at once."""
        if self._waiting or not self._fits(alone):
            return False
        self._holders += 1
        self._alone = alone
        return True

    async def enter(self, alone: bool) -> None:
        """Wait until it is our turn; cancelling leaves the queue."""
        if self.try_enter(alone):
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, alone))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()  # our turn came in the same moment: pass it on
            else:
                with suppress(ValueError):  # whoever left let us in, and we had given up already
                    self._waiting.remove((turn, alone))
                self._wake()
            raise

    def leave(self) -> None:
        """Let the next ones in."""
        self._holders -= 1
        self._wake()

    def _fits(self, alone: bool) -> bool:
        return not self._holders or not (alone or self._alone)

    def _wake(self) -> None:
        while self._waiting and self._fits(self._waiting[0][1]):
            turn, alone = self._waiting.popleft()
            if turn.cancelled():
                continue
            self._holders += 1
            self._alone = alone
            turn.set_result(None)


class Locks:
    """The queues of one workspace."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._gates: dict[Key, Gate] = {}
        self._paths: dict[str, str] = {}  # of the lock files, by root

    def hold(self, touches: Sequence[Touch]) -> Hold | Free:
        """Give what a call holds while it acts; nothing for one that changes no file."""
        wishes = wishes_of(touches)
        return Hold(self, wishes) if wishes else FREE

    def hold_names(self, names: Sequence[str]) -> Hold:
        """Give what holds locks of their own, each alone."""
        return Hold(self, [((name, _WHOLE), True) for name in sorted(names)])

    async def enter(self, key: Key, alone: bool) -> None:
        """Queue within the process."""
        gate = self._gates.setdefault(key, Gate())
        try:
            await gate.enter(alone)
        except asyncio.CancelledError:
            if gate.idle:
                self._gates.pop(key, None)
            raise

    def try_enter(self, key: Key, alone: bool) -> bool:
        """Enter if that is possible at once."""
        gate = self._gates.get(key)
        if gate is None:
            gate = self._gates[key] = Gate()
        return gate.try_enter(alone)

    def leave(self, key: Key) -> None:
        """Leave, and forget a gate that nobody wants."""
        gate = self._gates[key]
        gate.leave()
        if gate.idle:
            del self._gates[key]

    def open_file(self, root: str) -> int | None:
        """Open the lock file of a root; every holder has its own."""
        if self._folder is None:
            return None
        path = self._paths.get(root)
        if path is None:
            name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
            path = self._paths[root] = str(self._folder / f"{name}.lock")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            try:
                return os.open(path, flags, 0o600)
            except FileNotFoundError:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                return os.open(path, flags, 0o600)
        except OSError as error:
            text = f"The lock that keeps two processes apart cannot be opened: {error.strerror}. Nothing was changed."
            raise Problem(Code.IO_ERROR, text, errno=error.errno) from None


class Free:
    """Holds nothing."""

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        return None


FREE = Free()


class Hold:
    """What one call holds."""

    __slots__ = ("_entered", "_files", "_locks", "_wishes")

    def __init__(self, locks: Locks, wishes: list[Wish]) -> None:
        self._locks = locks
        self._wishes = wishes
        self._entered: list[Key] = []
        self._files: dict[str, int] = {}

    async def __aenter__(self) -> None:
        try:
            if self._at_once():
                return
            self._release()
            for key, alone in self._wishes:
                await self._locks.enter(key, alone)
                self._entered.append(key)
            for key, alone in self._wishes:
                await self._lock(key, alone)
        except BaseException:
            self._release()
            raise

    def _at_once(self) -> bool:
        """Take everything if nobody is in the way."""
        locks, entered = self._locks, self._entered
        for key, alone in self._wishes:
            if not locks.try_enter(key, alone):
                return False
            entered.append(key)
        return all(self._try_lock(key, alone) for key, alone in self._wishes)

    def _try_lock(self, key: Key, alone: bool) -> bool:
        root, path = key
        fd = self._files.get(root)
        if path != _WHOLE:
            return fd is None or _try(fd, _packed(fcntl.F_WRLCK, _offset(path)))
        fd = self._locks.open_file(root)
        if fd is None:
            return True
        self._files[root] = fd
        # Both bytes in one step; then the turnstile is free again.
        return _try(fd, _BOTH_ALONE if alone else _BOTH_SHARED) and _try(fd, _FREE_TURNSTILE)

    async def __aexit__(self, *_: object) -> None:
        self._release()

    def _release(self) -> None:
        while self._files:
            os.close(self._files.popitem()[1])
        while self._entered:
            self._locks.leave(self._entered.pop())

    async def _lock(self, key: Key, alone: bool) -> None:
        root, path = key
        if path != _WHOLE:
            if root in self._files:
                await _take(self._files[root], _offset(path), alone=True)
            return
        fd = self._locks.open_file(root)
        if fd is None:
            return
        self._files[root] = fd
        # Who wants the root alone keeps the turnstile while it waits, so that newcomers cannot pass for ever.
        await _take(fd, _TURNSTILE, alone=alone)
        await _take(fd, _ROOT, alone=alone)
        _try(fd, _FREE_TURNSTILE)


def _offset(path: str) -> int:
    number = int.from_bytes(hashlib.sha256(os.fsencode(path)).digest()[:8], "big")
    return _PATHS + (number >> 2)


def _packed(kind: int, offset: int, length: int = 1) -> bytes:
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, offset, length, 0)


_BOTH_SHARED = _packed(fcntl.F_RDLCK, _ROOT, 2)
_BOTH_ALONE = _packed(fcntl.F_WRLCK, _ROOT, 2)
_FREE_TURNSTILE = _packed(fcntl.F_UNLCK, _TURNSTILE)


def _try(fd: int, lock: bytes) -> bool:
    """Take or leave a lock; False when another process is in the way."""
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, lock)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        text = f"The lock that keeps two processes apart cannot be taken: {error.strerror}. Nothing was changed."
        raise Problem(Code.IO_ERROR, text, errno=error.errno) from None
    return True


async def _take(fd: int, offset: int, *, alone: bool) -> None:
    lock = _packed(fcntl.F_WRLCK if alone else fcntl.F_RDLCK, offset)
    pause = _FIRST_SLEEP
    while not _try(fd, lock):
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LAST_SLEEP)

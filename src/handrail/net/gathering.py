"""A body as it comes in, and its hash, worked out beside it."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

ASIDE = 256 * 1024  # from here on another thread hashes


@cache
def _threads() -> ThreadPoolExecutor:
    """Threads for nothing else, as many as can hash at once: the tail of a body must not wait for other work."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(min(4, os.cpu_count() or 1), "handrail-hash")


os.register_at_fork(after_in_child=_threads.cache_clear)  # a fork has none of the threads that would do the work


class Digest:
    """SHA-256 of what comes. Large parts are hashed by another thread, which never waits for more."""

    __slots__ = ("_hash", "_job", "_parts", "_waiting")

    def __init__(self) -> None:
        self._hash = sha256()
        self._parts: deque[bytes] = deque()
        self._waiting = 0  # bytes, since a thread was last asked
        self._job: Future[None] | None = None

    def take(self, part: bytes) -> None:
        """Take one part in."""
        self._parts.append(part)
        self._waiting += len(part)
        if self._waiting >= ASIDE and (self._job is None or self._job.done()):
            self._waiting = 0
            self._job = _threads().submit(self._work)

    async def hexdigest(self) -> str:
        """Wait for what is not hashed yet, and give the hash of all of it."""
        self.end()
        if self._job is not None and not self._job.done():
            await asyncio.wrap_future(self._job)
        self._work()  # what is left is little
        return self._hash.hexdigest()

    def end(self) -> None:
        """Have the rest of a large body hashed, too."""
        if self._job is not None and self._parts and self._job.done():
            self._job = _threads().submit(self._work)

    def _work(self) -> None:
        while self._parts:
            self._hash.update(self._parts.popleft())


class Body:
    """A body as it gathers."""

    __slots__ = ("_pieces", "ascii", "digest")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self._pieces: list[bytes] = []
        self.ascii = True  # looked at while a piece is near: all of it at the end takes three times as long
        self.digest = Digest()

    async def take(self, piece: bytes) -> None:
        """Take one piece in."""
        self._pieces.append(piece)
        self.digest.take(piece)
        self.ascii = self.ascii and piece.isascii()

    def whole(self) -> bytes:
        """All that came; nothing more does."""
        self.digest.end()
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

"""A body as it comes in: hashed and watched beside, its UTF-8 checked on the way."""

from __future__ import annotations

import asyncio
import os
from codecs import utf_8_decode
from collections import deque
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from handrail.ports.network import Watch

ASIDE = 256 * 1024  # from here on another thread works
BLOCK = 1792 * 1024  # what a text is gathered in: each one more costs a look at its edges, and at the lock of threads
_STEP = 64 * 1024  # is read at once: what becomes of it stays near
_ODD = "\N{REPLACEMENT CHARACTER}"


@cache
def _threads(what: str) -> tuple[ThreadPoolExecutor, ...]:
    """Threads for nothing else, as many as can work at once: the tail of a body must not wait for other work."""
    from concurrent.futures import ThreadPoolExecutor

    return tuple(ThreadPoolExecutor(1, f"handrail-{what}") for _ in range(min(4, os.cpu_count() or 1)))


os.register_at_fork(after_in_child=_threads.cache_clear)  # a fork has none of the threads that would do the work


class Lane:
    """Works on what comes, in order. Large parts are dealt with by another thread, which never waits for more."""

    __slots__ = ("_do", "_job", "_parts", "_thread", "_waiting")
    TURNS = count()  # of its own: taken in turn with others', every second thread would have all the work
    WHAT = "watch"  # other threads than those that hash: it may wait for a disk

    def __init__(self, do: Callable[[bytes], Any]) -> None:
        self._do = do
        self._parts: deque[bytes] = deque()
        self._waiting = 0  # bytes, since a thread was last asked
        self._job: Future[None] | None = None
        self._thread: ThreadPoolExecutor | None = None  # one and the same, so that all is done in order

    def take(self, part: bytes) -> None:
        """Take one part in."""
        self._parts.append(part)
        self._waiting += len(part)
        if self._waiting >= ASIDE and (self._job is None or self._job.done()):
            self._hand_on()

    def end(self) -> None:
        """Have the rest of a large body dealt with, too."""
        if self._job is not None and self._parts and self._job.done():
            self._hand_on()

    async def done(self) -> None:
        """Wait for all of it; raises what it failed with."""
        while self._job is not None:
            await asyncio.wrap_future(self._job)
            if not self._parts:
                return
            self._hand_on()  # it had just seen that nothing was left when this came
        self._work()  # it is little

    def _hand_on(self) -> None:
        if self._thread is None:
            threads = _threads(self.WHAT)
            self._thread = threads[next(self.TURNS) % len(threads)]
        if self._job is not None:
            self._job.result()  # what failed is not gone on with
        self._waiting = 0
        self._job = self._thread.submit(self._work)

    def _work(self) -> None:
        while self._parts:
            self._do(self._parts.popleft())


class Digest(Lane):
    """SHA-256 of what comes."""

    __slots__ = ("_hash",)
    WHAT = "hash"
    TURNS = count()

    def __init__(self) -> None:
        self._hash = sha256()
        super().__init__(self._hash.update)

    async def hexdigest(self) -> str:
        """Wait for what is not hashed yet, and give the hash of all of it."""
        await self.done()
        return self._hash.hexdigest()


class Utf8:
    """Tells whether what comes is UTF-8 without a replacement character in it."""

    __slots__ = ("_good", "_torn")

    def __init__(self) -> None:
        self._good, self._torn = True, b""  # a character that goes on in the next part

    @property
    def so_far(self) -> bool:
        """Whether nothing was wrong up to now."""
        return self._good

    @property
    def whole(self) -> bool:
        """Whether nothing was wrong, and nothing is missing."""
        return self._good and not self._torn

    def take(self, part: bytes) -> None:
        """Look at one part."""
        if not self._good or (not self._torn and part.isascii()):
            return
        try:
            self._good = self._read(part)
        except UnicodeDecodeError:
            self._good = False

    def _read(self, part: bytes) -> bool:
        at = 0
        if self._torn:
            begun = self._torn + part[:4]
            text, used = utf_8_decode(begun, "strict", False)
            if not used:
                self._torn = begun
                return True
            at = used - len(self._torn)
            if _ODD in text:
                return False
        view = memoryview(part)
        while at < len(part):
            text, used = utf_8_decode(view[at : at + _STEP], "strict", False)
            if _ODD in text:
                return False
            if not used:
                break
            at += used
        self._torn = part[at:]
        return True


class Body:
    """A body as it gathers. What a small one does not need is not made for it."""

    __slots__ = ("_block", "_fresh", "_lane", "_size", "_utf8", "_watch", "ascii", "digest", "kind", "nul", "parts")

    def __init__(self, block: int = 0, watch: Watch | None = None) -> None:
        self._block, self._watch = block, watch
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.parts: list[bytes] = []
        self.kind = ""  # what its header says
        self._fresh: list[bytes] = []  # smaller than a block
        self._size = 0  # of these
        self.ascii = True  # looked at while a piece is near: all of it at the end takes three times as long
        self.nul = False  # so that nobody who watches has to look for it
        self._utf8: Utf8 | None = None  # ASCII up to now
        self.digest = Digest()
        self._lane: Lane | None = None  # in which a large body is watched

    def begin(self, kind: str) -> None:
        """Take in what a header says of what comes."""
        self.kind = kind

    async def take(self, piece: bytes) -> None:
        """Take one piece in."""
        self._fresh.append(piece)
        self._size += len(piece)
        self.ascii = self.ascii and piece.isascii()
        self.nul = self.nul or b"\0" in piece
        if not self.ascii and self._block:
            if self._utf8 is None:
                self._utf8 = Utf8()
            self._utf8.take(piece)
        if self._size >= self._block:
            self._gather()

    def whole(self) -> bytes:
        """All that came; nothing more does."""
        self._end()
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)

    def fields(self) -> dict[str, Any]:
        """All that came, as a response holds it; nothing more does."""
        self._end()
        parts, utf8 = self.parts, self._utf8 is None or self._utf8.whole
        if len(parts) < 2:
            body = parts[0] if parts else b""
            return {"body": body, "bytes": len(body), "ascii": self.ascii, "utf8": utf8, "nul": self.nul}
        size = sum(map(len, parts))
        return {"parts": tuple(parts), "bytes": size, "ascii": self.ascii, "utf8": utf8, "nul": self.nul}

    async def hexdigest(self) -> str:
        """Wait for its hash."""
        return await self.digest.hexdigest()

    async def watched(self) -> None:
        """Wait until all of it was watched."""
        if self._lane is None and self._watch is not None:
            self._lane = self._watching(self._watch)
        if self._lane is not None:
            await self._lane.done()

    def _end(self) -> None:
        self._gather()
        self.digest.end()
        if self._lane is not None:
            self._lane.end()

    def _gather(self) -> None:
        if not self._fresh:
            return
        part = self._fresh[0] if len(self._fresh) == 1 else b"".join(self._fresh)
        self._fresh, self._size = [], 0
        self.parts.append(part)
        self.digest.take(part)
        if self._lane is not None:
            if self._legible:
                self._lane.take(part)
        elif self._watch is not None and sum(map(len, self.parts)) >= ASIDE:
            self._lane = self._watching(self._watch)

    @property
    def _legible(self) -> bool:
        """Whether a secret in it would be known as one, up to now."""
        return not self.nul and (self._utf8 is None or self._utf8.so_far)

    def _watching(self, watch: Watch) -> Lane:
        lane = Lane(watch(self.kind))
        for part in self.parts if self._legible else ():
            lane.take(part)
        return lane

"""Work that waits for the disk, off the event loop; a started effect is never abandoned halfway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class Stopped(Exception):  # noqa: N818  # a signal, no error
    """The caller gave up before the effect began; nobody waits for the result."""


class Brake:
    """Tells a thread that its caller gave up; it looks before each step that it can still leave undone."""

    __slots__ = ("pulled",)

    def __init__(self) -> None:
        self.pulled = False

    def check(self) -> None:
        """Stop here if the caller gave up."""
        if self.pulled:
            raise Stopped


class Threads:
    """A few threads for file work, started when first needed."""

    def __init__(self, count: int = 32) -> None:
        self._count = count
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, brake: Brake, work: Callable[..., T], *args: Any) -> T:
        """Run `work` in a thread. When cancelled, pull the brake, see the thread end, then be cancelled."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._count, "handrail-files")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        job = self._pool.submit(_carry, loop, done, work, args)
        try:
            return await done
        except asyncio.CancelledError:
            brake.pulled = True
            if not job.cancel():
                await _end_of(job)
            raise

    async def close(self) -> None:
        """End the threads; what they are doing is finished first."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.get_running_loop().run_in_executor(None, pool.shutdown)


def _carry(
    loop: asyncio.AbstractEventLoop, done: asyncio.Future[T], work: Callable[..., T], args: tuple[Any, ...]
) -> None:
    try:
        result = work(*args)
    except BaseException as error:  # noqa: BLE001  # handed to whoever awaits
        _tell(loop, _fail, done, error)
    else:
        _tell(loop, _succeed, done, result)


def _tell(loop: asyncio.AbstractEventLoop, how: Callable[..., None], done: asyncio.Future[T], value: object) -> None:
    try:
        loop.call_soon_threadsafe(how, done, value)
    except RuntimeError:  # the loop is closed: nobody waits any more
        return


def _succeed(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[T], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)


async def _end_of(job: Future[None]) -> None:
    """Wait for a thread whatever happens to the waiting task: its files must not be closed under it."""
    ended = asyncio.wrap_future(job)
    while not ended.done():
        try:
            await asyncio.wait((ended,))
        except asyncio.CancelledError:
            continue

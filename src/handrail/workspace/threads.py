"""Work that waits for the disk, off the event loop; a started effect is never abandoned halfway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class Stopped(Exception):  # a signal, no error
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

    def start(self, work: Callable[..., None], *args: Any) -> Future[None]:
        """Hand work to a thread."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._count, "handrail-files")
        return self._pool.submit(work, *args)

    async def run(self, brake: Brake, work: Callable[..., T], *args: Any) -> T:
        """Run `work` in a thread. When cancelled, pull the brake, see the thread end, then be cancelled."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self.start(_carry, loop, done, brake, work, args)
        return await outcome(done, brake)

    async def close(self) -> None:
        """End the threads; what they are doing is finished first."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()


async def outcome(done: asyncio.Future[T], brake: Brake) -> T:
    """Wait for a thread's result; when cancelled, let it end first: its files must not be closed under it."""
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        brake.pulled = True
        while not done.done():
            try:
                await asyncio.wait((done,))
            except asyncio.CancelledError:
                continue
        done.exception()  # looked at, so that nobody complains that it was not
        raise


def _carry(
    loop: asyncio.AbstractEventLoop,
    done: asyncio.Future[T],
    brake: Brake,
    work: Callable[..., T],
    args: tuple[Any, ...],
) -> None:
    try:
        brake.check()
        result = work(*args)
    except BaseException as error:  # noqa: BLE001  # handed to whoever awaits
        tell(loop, [(done, None, error)])
    else:
        tell(loop, [(done, result, None)])


def tell(loop: asyncio.AbstractEventLoop, ended: list[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
    """Hand results from a thread to those who wait for them, waking the loop once."""
    try:
        loop.call_soon_threadsafe(_settle, ended)
    except RuntimeError:  # the loop is closed: nobody waits any more
        return


def _settle(ended: list[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
    for done, result, error in ended:
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

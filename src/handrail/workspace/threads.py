"""Work that waits for the disk, off the event loop; a started effect is never abandoned halfway."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, Protocol, TypeVar, cast

T = TypeVar("T")


class Closable(Protocol):
    """Something that is let go of in the end."""

    def close(self) -> None:
        """Let it go."""


K = TypeVar("K", bound=Closable)


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
        self._kept: dict[object, Closable] = {}

    def keep(self, key: object, make: Callable[[], K]) -> K:
        """Give what is kept under a key, made when first asked for; it is closed with the threads. For the loop."""
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = make()
        return cast("K", found)

    def start(self, work: Callable[..., None], *args: Any) -> Future[None]:
        """Hand work to a thread."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._count, "handrail-files")
        return self._pool.submit(work, *args)

    async def run(self, brake: Brake, work: Callable[..., T], *args: Any) -> T:
        """Run `work` in a thread. When cancelled, pull the brake, see the thread end, then be cancelled."""
        ticket: Ticket[T] = Ticket()
        self.start(_carry, ticket, brake, work, args)
        return await ticket.result(brake)

    async def close(self) -> None:
        """End the threads; what they are doing is finished first."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()
        kept, self._kept = self._kept, {}
        for thing in kept.values():
            thing.close()


class Ticket(Generic[T]):
    """What a thread's work comes to, for the one task that waits for it."""

    __slots__ = ("_future", "_loop", "_settled")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[T] = self._loop.create_future()
        self._settled = False

    async def result(self, brake: Brake) -> T:
        """Wait for it; when cancelled, let the thread end first: its files must not be closed under it."""
        try:
            return await self._future
        except asyncio.CancelledError:
            brake.pulled = True
            while not self._settled:
                self._future = self._loop.create_future()
                with contextlib.suppress(BaseException):
                    await self._future
            if not self._future.cancelled():
                self._future.exception()  # looked at, so that nobody complains that it was not
            raise

    def settle(self, result: T | None, error: BaseException | None) -> None:
        """Take what the work came to; for the loop."""
        self._settled = True
        if self._future.done():
            return  # cancelled in the same moment: whoever waited is on the way out
        if error is None:
            self._future.set_result(cast("T", result))
        else:
            self._future.set_exception(error)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Where it is waited for."""
        return self._loop


Ended = tuple[Ticket[Any], Any, BaseException | None]


def _carry(ticket: Ticket[T], brake: Brake, work: Callable[..., T], args: tuple[Any, ...]) -> None:
    try:
        brake.check()
        result = work(*args)
    except BaseException as error:  # noqa: BLE001  # handed to whoever awaits
        tell([(ticket, None, error)])
    else:
        tell([(ticket, result, None)])


def tell(ended: list[Ended]) -> None:
    """Hand results from a thread to those who wait for them, waking their loop once."""
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        ended[0][0].loop.call_soon_threadsafe(_settle, ended)


def _settle(ended: list[Ended]) -> None:
    for ticket, result, error in ended:
        ticket.settle(result, error)

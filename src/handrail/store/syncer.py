"""Makes one file durable: at once for those who wait, a moment later for the rest.

It is done in a thread of its own; in place where one waits alone and the disk is quick.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import queue
import threading
import time
from collections.abc import Callable

from handrail.pace import Pace

Job = Callable[[], None]
Waiter = asyncio.Future[OSError | None]


class _Crowd(threading.local):
    """How many wait for a disk in this thread, whatever file it is for."""

    waiting = 0


_crowd = _Crowd()


class _Stop:
    """Asks the thread to end after a last sync."""


Item = list[Waiter] | Job | _Stop | None  # None: something was written


class Syncer:
    """Group commit: many who wait share one sync, and while it runs the next ones collect.

    `written` is raised by the owner after each write and covers everything a later sync makes durable. After a
    failed sync nothing counts as durable until the owner has put things right and called `mended`: the system
    reports such a failure once and may have dropped the data.
    """

    syncs = 0  # of all files of this process

    def __init__(self, fd: int, written: int, failed: Callable[[], None], delay_seconds: float = 0.2) -> None:
        self.written = written
        self.synced = written
        self.idle = True  # nobody will sync what is written next unless `nudge` is called
        self.error: OSError | None = None
        self._fd = fd
        self._failed = failed
        self._delay = delay_seconds
        self._queue: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._arrived: list[Waiter] = []  # who waits and is not yet known to the thread
        self._pace = Pace()
        # One sync at a time: the system reports a failure once, and only to the first who asks.
        self._disk = threading.Lock()

    def nudge(self) -> None:
        """Have what was written synced a moment later."""
        self.idle = False
        if not self._put(None):
            self.idle = True  # without a thread now: tried again after the next write

    def after_sync(self, job: Job) -> None:
        """Run a job in the thread once everything written so far is durable, or could not be made so."""
        self._put(job)

    async def done(self, job: Job) -> None:
        """Run a job in the thread and wait for it."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        if self._put(job):
            self._put(lambda: _call(loop, done.set))
            await done.wait()

    async def wait(self) -> tuple[bool, OSError | None]:
        """Wait until everything written so far is durable; give the error when it cannot be.

        Also tells whether nobody else waited and the disk is quick: then it was synced in place.
        """
        _crowd.waiting += 1
        try:
            if _crowd.waiting == 1:
                await asyncio.sleep(0)  # whoever is about to wait, too, comes here first
                if _crowd.waiting == 1 and self._sync_in_place():
                    return True, self.error
            return False, await self._sync_in_thread()
        finally:
            _crowd.waiting -= 1

    async def _sync_in_thread(self) -> OSError | None:
        if self.error is not None or self.synced >= self.written:
            return self.error
        loop = asyncio.get_running_loop()
        waiter: Waiter = loop.create_future()
        self._arrived.append(waiter)
        if len(self._arrived) == 1:
            loop.call_soon(self._hand_over)  # after all who arrive in this turn: the thread is woken once
        return await waiter

    def _hand_over(self) -> None:
        arrived, self._arrived = self._arrived, []
        if not self._put(arrived):
            _settle(arrived, OSError(errno.EAGAIN, "no thread can be started"))

    def _sync_in_place(self) -> bool:
        """Sync here if the disk is quick and the thread does not do so already."""
        if not self._pace.quick or not self._disk.acquire(blocking=False):
            return False
        try:
            self._pace.took(self._catch_up())
        finally:
            self._disk.release()
        return True

    def stop(self) -> None:
        """Sync what is left, finish the jobs and end the thread; blocks until then."""
        if self._thread is None and self.synced < self.written:
            self.error = self.error or self._sync()
        elif self._thread is not None:
            self._queue.put(_Stop())
            self._thread.join()

    def sync_now(self) -> None:
        """Sync in the caller's thread; a failure counts as one of the thread's own, and is raised."""
        try:
            with self._disk:
                os.fdatasync(self._fd)
        except OSError as error:
            self.error = error
            raise

    def mended(self, synced: int) -> None:
        """Take note that all is durable up to here after a failure."""
        self.synced = synced
        self.error = None

    def _put(self, item: Item) -> bool:
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="handrail-journal", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        self._queue.put(item)
        return True

    def breathe(self) -> None:
        """For a long job to call now and then: others run, and those who wait are not held up by it."""
        time.sleep(0.0005)
        items = self._take_all()
        if any(isinstance(item, list) for item in items):
            self._commit(items)
        for item in items:
            if item is not None and not isinstance(item, list):
                self._queue.put(item)

    def _serve(self) -> None:
        while True:
            items = self._collect()
            self._commit(items)
            if self._do(items):
                return

    def _commit(self, items: list[Item]) -> None:
        """Sync, and tell those among the items who wait."""
        waiters = [waiter for item in items if isinstance(item, list) for waiter in item]
        with self._disk:
            seconds = self._catch_up()
        if seconds and len(waiters) == 1 and self._queue.empty():
            # The loop was idle. Otherwise this thread may have waited for the interpreter, not for the disk.
            self._pace.took(seconds)
        _tell(waiters, self.error)

    def _catch_up(self) -> float:
        """Sync what is written; gives the seconds that it took, 0 where there was nothing to do."""
        if self._nothing_to_sync():
            return 0
        began = time.perf_counter()
        if (error := self._sync()) is not None:
            self.error = error
            self._failed()
        return time.perf_counter() - began

    def _do(self, items: list[Item]) -> bool:
        """Run the jobs; tell whether this was the last round."""
        for item in items:
            if callable(item):
                try:
                    item()
                except OSError:
                    continue  # what a job keeps can be made again
                except Exception as bug:  # noqa: BLE001
                    # Told as any thread's bug is, but the thread stays: others wait for the disk.
                    told = (type(bug), bug, bug.__traceback__, self._thread)
                    threading.excepthook(threading.ExceptHookArgs(told))
        return any(isinstance(item, _Stop) for item in items)

    def _collect(self) -> list[Item]:
        """Block until there is something to do; only those who wait make it hurry."""
        items: list[Item] = [None]
        if self._nothing_to_sync():
            self.idle = True
            if self._nothing_to_sync():  # asked again: the owner may have written before it saw us idle
                items = [self._queue.get()]
            self.idle = False
        if items[0] is None:
            with contextlib.suppress(queue.Empty):
                items.append(self._queue.get(timeout=self._delay))
        return items + self._take_all()

    def _take_all(self) -> list[Item]:
        items: list[Item] = []
        while not self._queue.empty():
            items.append(self._queue.get())
        return items

    def _nothing_to_sync(self) -> bool:
        return self.synced >= self.written or self.error is not None

    def _sync(self) -> OSError | None:
        target = self.written
        Syncer.syncs += 1
        try:
            os.fdatasync(self._fd)
            found = os.fstat(self._fd)
        except OSError as error:
            return error
        if found.st_nlink == 0 or found.st_size < target:
            return OSError(errno.ESTALE, "it was removed or cut while it was open")
        self.synced = target
        return None


def _tell(waiters: list[Waiter], error: OSError | None) -> None:
    while waiters:
        loop = waiters[0].get_loop()
        mine = [waiter for waiter in waiters if waiter.get_loop() is loop]
        waiters = [waiter for waiter in waiters if waiter.get_loop() is not loop]
        _call(loop, _settle, mine, error)


def _settle(waiters: list[Waiter], error: OSError | None) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(error)


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: object) -> None:
    with contextlib.suppress(RuntimeError):  # a closed loop has nobody left to tell
        loop.call_soon_threadsafe(function, *args)

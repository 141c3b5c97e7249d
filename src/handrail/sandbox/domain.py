"""A thread that shut itself into a Landlock domain and lives there, to start programs that are shut in with it.

A domain belongs to one thread and is inherited by what that thread starts; the rest of the process is not confined.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

from handrail.sandbox import landlock
from handrail.sandbox.spawning import Lifeline, Started, spawn, take_own_folder

T = TypeVar("T")


class Domain:
    """Reads below some folders and executes some files, and does nothing else; made and closed by who is free."""

    def __init__(self, read_fds: Sequence[int], execute_paths: Sequence[str], read_paths: Sequence[str] = ()) -> None:
        """Files of `read_paths` that cannot be had are left out; OSError where another is not there."""
        self.null = -1  # a standard input without anything in it: in there it cannot be opened
        self._home = os.dup(read_fds[0])
        self._work: SimpleQueue[Doing[Any] | None] = SimpleQueue()
        self._refused: BaseException | None = None
        self._own_folder = False
        self._owner = os.getpid()
        self._rules = -1
        self._thread = Thread(target=self._live, name="handrail-domain", daemon=True)
        try:
            self.null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            self._rules = landlock.ruleset(read_fds, execute_paths, read_paths)
            self._thread.start()
        except BaseException:
            self._let_go()
            raise

    def do(self, work: Callable[[], T]) -> Doing[T]:
        """Have a short piece of work done in there; whoever asks must ask for its result too.

        It can import nothing, and open nothing outside. RuntimeError in a process forked since: it has no such thread.
        """
        if self._owner != os.getpid():
            raise RuntimeError("the domain's thread is another process's: this one was forked from it")
        doing = Doing(work)
        _no_collection.begin()
        self._work.put(doing)
        return doing

    def spawn(
        self, argv: Sequence[str], cwd_fd: int, streams: tuple[int, int, int], inherit: Sequence[int], line: Lifeline
    ) -> Started:
        """Start a program, from work that is done in there."""
        try:
            return spawn(argv, cwd_fd, streams, inherit, line, own_folder=self._own_folder)
        finally:
            if self._own_folder:
                os.fchdir(self._home)  # hold on to no folder that somebody may want to remove

    def close(self) -> None:
        """End it; in a process forked since, let go of it."""
        if self._owner == os.getpid():
            _no_collection.begin()
            self._work.put(None)
            self._thread.join()
            _no_collection.end()
        self._let_go()

    def _live(self) -> None:
        try:
            landlock.enter(self._rules)
            self._own_folder = take_own_folder()
        except BaseException as error:  # noqa: BLE001  (raised for whoever wants something done)
            self._refused = error
        while (doing := self._work.get()) is not None:
            doing.happen(self._refused)
            del doing  # nothing is held while waiting

    def _let_go(self) -> None:
        for fd in (self.null, self._home, self._rules):
            if fd >= 0:
                os.close(fd)


class Doing(Generic[T]):
    """Work that was handed over."""

    __slots__ = ("_done", "_error", "_results", "_work")

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._done = Lock()
        self._done.acquire()

    def happen(self, refused: BaseException | None) -> None:
        """Do it; for the thread that it was handed to."""
        try:
            if refused is not None:
                raise refused
            self._results.append(self._work())
        except BaseException as error:  # noqa: BLE001  (raised by `result`, for who asked)
            self._error = error
        finally:
            self._done.release()

    def result(self) -> T:
        """Wait for what it came to; to be asked once."""
        self._done.acquire()
        _no_collection.end()
        if self._error is not None:
            raise self._error
        return self._results[0]


class _NoCollection:
    """Keeps garbage from being collected: in a domain, the finalizers of other people's objects find no files."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self._again = False

    def begin(self) -> None:
        with self._lock:
            if self._count == 0:
                self._again = gc.isenabled()
                gc.disable()
            self._count += 1

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0 and self._again:
                gc.enable()

    def afresh(self) -> None:
        """Begin again in a forked process: no domain is at work there, and nobody holds the lock."""
        if self._count and self._again:
            gc.enable()
        self._lock, self._count = Lock(), 0


_no_collection = _NoCollection()
os.register_at_fork(after_in_child=_no_collection.afresh)

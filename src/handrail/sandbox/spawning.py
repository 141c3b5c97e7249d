"""Start a program in an open folder with an empty environment and exactly the descriptors it is given.

It does not outlive who started it, and its end can be waited for also where this process ignores its children's ends.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from weakref import WeakSet

from handrail.words import noun

_CLONE_FS = 0x200
_F_SETSIG = 10
# What whoever embeds us may have changed, and a program would inherit.
_PLAIN = (signal.SIGPIPE, signal.SIGCHLD)

_libc = ctypes.CDLL(None, use_errno=True)


@noun
class Started:
    """A program that was started. It is held by a descriptor: a number names another one once it was reaped."""

    pid: int
    handle: int  # -1: it was gone at once, or the kernel has no such thing
    gone: bool

    @classmethod
    def hold(cls, pid: int) -> Started:
        """Hold a child of this process."""
        try:
            return cls(pid, os.pidfd_open(pid), gone=False)
        except ProcessLookupError:
            return cls(pid, -1, gone=True)  # ended, and reaped by the system: its end is ignored here
        except OSError:
            return cls(pid, -1, gone=False)

    def kill(self) -> None:
        """End it at once; one that has ended by itself keeps its code."""
        with suppress(ProcessLookupError):
            if self.handle >= 0:
                signal.pidfd_send_signal(self.handle, signal.SIGKILL)
            elif not self.gone:
                os.kill(self.pid, signal.SIGKILL)

    def reap(self) -> int | None:
        """Wait for its end and let it go; gives its exit code, None where nobody can tell it."""
        try:
            if self.gone:
                return None
            if self.handle < 0:
                return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            ended = os.waitid(os.P_PIDFD, self.handle, os.WEXITED)
        except ChildProcessError:  # the system reaped it, or somebody who waits for any child
            return None
        finally:
            if self.handle >= 0:
                os.close(self.handle)
        assert ended is not None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


class Lifeline:
    """A pipe that nothing is ever written to: the kernel kills who holds its one end when the other one is closed.

    So nothing has to run for that, and nobody is asked: it holds when this process is killed, too.
    """

    __slots__ = ("__weakref__", "_ours", "theirs")

    def __init__(self) -> None:
        self.theirs, self._ours = os.pipe()  # theirs is to be a descriptor of the program's
        _lines.add(self)
        fcntl.fcntl(self.theirs, _F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(self.theirs, fcntl.F_SETFL, os.O_ASYNC)

    def tie(self, pid: int) -> None:
        """Have a program that was given its end die with ours."""
        with suppress(ProcessLookupError):
            fcntl.fcntl(self.theirs, fcntl.F_SETOWN, pid)
        self._drop("theirs")

    def close(self) -> None:
        """Let go of it; who is tied to it dies."""
        self._drop("theirs")
        self._drop("_ours")

    def _drop(self, name: str) -> None:
        if getattr(self, name) >= 0:
            os.close(getattr(self, name))
            setattr(self, name, -1)


_lines: WeakSet[Lifeline] = WeakSet()


def _forked() -> None:
    """Let go of the lines in a new process: they are to break when the one dies that made them."""
    for line in list(_lines):
        line.close()


os.register_at_fork(after_in_child=_forked)


def take_own_folder() -> bool:
    """Give the calling thread a working folder of its own; False where that is forbidden, as in many containers."""
    return int(_libc.unshare(_CLONE_FS)) == 0


def spawn(
    argv: Sequence[str],
    cwd_fd: int,
    streams: tuple[int, int, int],
    inherit: Sequence[int],
    line: Lifeline,
    *,
    own_folder: bool,
) -> Started:
    """Give the new process, once it executes; the caller reaps it, and lets go of the line that its life hangs on.

    `streams` are its 0, 1 and 2. Of other descriptors it has those named in `inherit`, and one for the line; the rest
    must be close-on-exec, as Python's own are. With `own_folder` the calling thread has one, and stands in `cwd_fd`
    afterwards: that is quicker.
    """
    if own_folder and not inherit and min(streams) > 2:
        os.fchdir(cwd_fd)
        actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate((*streams, line.theirs))]
        pid = os.posix_spawn(argv[0], list(argv), {}, file_actions=actions, setsigdef=_PLAIN)
    else:
        # The new process resolves /proc/self as itself, and has the folder's descriptor until it executes.
        where, (stdin, stdout, stderr) = f"/proc/self/fd/{cwd_fd}", streams
        kept = (*inherit, line.theirs)
        child = subprocess.Popen(argv, cwd=where, env={}, stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=kept)
        child.returncode = 0  # it is the caller's to reap
        pid = child.pid
    line.tie(pid)
    return Started.hold(pid)

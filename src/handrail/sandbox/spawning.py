"""Start a program in an open folder with an empty environment and exactly the descriptors it is given."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence

_CLONE_FS = 0x200

_libc = ctypes.CDLL(None, use_errno=True)


def take_own_folder() -> bool:
    """Give the calling thread a working folder of its own; False where that is forbidden, as in many containers."""
    return int(_libc.unshare(_CLONE_FS)) == 0


def spawn(
    argv: Sequence[str], cwd_fd: int, streams: tuple[int, int, int], inherit: Sequence[int], *, own_folder: bool
) -> int:
    """Give the new process's id, once it executes; the caller reaps it.

    `streams` are its 0, 1 and 2. Of other descriptors it has those named in `inherit`; the rest must be close-on-exec,
    as Python's own are. With `own_folder` the calling thread has one, and stands in `cwd_fd` afterwards: that is
    quicker.
    """
    if own_folder and not inherit and min(streams) > 2:
        os.fchdir(cwd_fd)
        actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(streams)]
        return os.posix_spawn(argv[0], list(argv), {}, file_actions=actions, setsigdef=[signal.SIGPIPE])
    # The new process resolves /proc/self as itself, and has the folder's descriptor until it executes.
    where, (stdin, stdout, stderr) = f"/proc/self/fd/{cwd_fd}", streams
    child = subprocess.Popen(
        argv, cwd=where, env={}, stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=inherit, close_fds=bool(inherit)
    )
    child.returncode = 0  # it is the caller's to reap
    return child.pid

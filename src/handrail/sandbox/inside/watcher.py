"""The supervisor of a program without a process namespace of its own, or of bubblewrap.

All that the program leaves behind becomes the supervisor's child, and it ends only when none of it is left.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the part of `signal` that loads at once
import os

from handrail.sandbox.inside import calls
from handrail.sandbox.inside.bubble import become_bubble
from handrail.sandbox.inside.channel import Channel, ended_record
from handrail.sandbox.inside.memory import Memory
from handrail.sandbox.inside.program import become

TYPE_CHECKING = False  # as `typing` has it, without the time it takes to import
if TYPE_CHECKING:
    from typing import Any, NoReturn

_AWAITED = (_signal.SIGCHLD, _signal.SIGTERM)
_KILLED = 9
_TICK_SECONDS = 0.05
_LOOK_SECONDS = 0.25


def watcher(spec: dict[str, Any], fds: list[int], _held: list[int], wait: int, channel: Channel) -> NoReturn:
    """Supervise one program; never returns."""
    try:
        channel.stage = "supervisor"
        _signal.pthread_sigmask(_signal.SIG_BLOCK, _AWAITED)
        calls.prctl(calls.SUBREAPER, 1)
        calls.prctl(calls.PDEATHSIG, _signal.SIGTERM)  # a signal it lives to act on
        if channel.server_is_gone() or os.read(wait, 1) != b"1":
            os._exit(125)
        calls.prctl(calls.DUMPABLE, 0)
        leader = os.fork()
        if leader == 0:
            (become_bubble if spec["bubble"] else become)(spec, fds[1:4], channel)
    except BaseException as error:  # noqa: BLE001  (whatever it is, the runtime is told and nothing runs)
        channel.failed(error)
        os._exit(125)
    _supervise(spec, leader, fds[-1])


def _supervise(spec: dict[str, Any], leader: int, told: int) -> NoReturn:
    """Wait for the program or the order to end, end what is left, tell how it went."""
    os.dup2(told, 0)
    calls.close_from(1)
    status, memory = _until_over(leader, spec["memory"])
    end_all()
    if spec["scratch_folder"]:
        remove(spec["scratch_folder"])
    if status is not None:
        os.write(0, ended_record(b"S", status, memory))
    os._exit(0)


def _until_over(leader: int, most: int) -> tuple[int | None, int]:
    """Reap until the program ends, until told to end everything, or until all of it holds too much memory."""
    memory = Memory(_descendants, most, segments=False)
    while True:
        signalled = _signal.sigtimedwait(_AWAITED, _LOOK_SECONDS)
        if signalled is None:
            if held := memory.excess():
                return _KILLED, held
            continue
        if signalled.si_signo == _signal.SIGTERM:
            return None, 0
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return None, 0
            if pid == 0:
                break
            if pid == leader:
                return status, used.ru_maxrss * 1024


def _descendants() -> list[int]:
    """List every process below this one; what is orphaned becomes its child."""
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = _children_of(waiting.pop())
        found += below
        waiting += below
    return found


def _children_of(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += _listed(f"/proc/{pid}/task/{thread}/children")
    except OSError:
        pass  # gone meanwhile
    return found


def end_all() -> None:
    """Kill and reap children, and those that become children by that, until none is left."""
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for child in children():  # none was reaped since, so each number still names that child
            os.kill(child, _KILLED)
        _signal.sigtimedwait((_signal.SIGCHLD,), _TICK_SECONDS)


def children() -> list[int]:
    """Whom this process would have to reap."""
    return _listed(f"/proc/self/task/{os.getpid()}/children")


def _listed(path: str) -> list[int]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    found = b""
    try:
        while piece := os.read(fd, 1 << 16):
            found += piece
    finally:
        os.close(fd)
    return [int(child) for child in found.split()]


def remove(folder: bytes) -> None:
    """Remove a folder with all in it, following no link; what resists stays."""
    try:
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.path, 0o700)
                remove(entry.path)
            else:
                os.unlink(entry.path)
        os.rmdir(folder)
    except OSError:
        pass

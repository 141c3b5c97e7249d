"""The fork server: takes requests from one runtime, starts each in a process of its own, tells how it ended.

One thread, no state but who is alive. It ends when the runtime does, and whatever it started ends with it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the part of `signal` that loads at once
import _socket
import gc
import marshal
import os
import select

from handrail.sandbox.inside import calls
from handrail.sandbox.inside.channel import Channel, ended_record
from handrail.sandbox.inside.first import first_process
from handrail.sandbox.inside.owners import OwnerMaps
from handrail.sandbox.inside.watcher import children, watcher

TYPE_CHECKING = False  # as `typing` has it, without the time it takes to import
if TYPE_CHECKING:
    from typing import Any, NoReturn

_MAX_FDS = 8
_USABLE = (3, 6)  # request, channel and where to tell the end; between them standard descriptors, or none yet
Alive = dict[int, tuple[int, int]]  # process descriptor: process id, where its end is told


def serve(control_fd: int, runtime_pid: int) -> NoReturn:
    """Answer requests until the runtime is gone."""
    gc.disable()
    control = _socket.socket(fileno=control_fd)
    control_fd = _alone(control)
    runtime = os.pidfd_open(runtime_pid)
    if os.getppid() != runtime_pid:
        os._exit(1)
    if os.geteuid() == 0:
        _no_groups()
    calls.prctl(calls.SUBREAPER, 1)  # what a supervisor that is killed leaves behind comes here
    owners = OwnerMaps()
    poller = select.poll()
    poller.register(control_fd, select.POLLIN)
    poller.register(runtime, select.POLLIN)
    alive: Alive = {}
    gc.freeze()
    while True:
        for fd, _ in poller.poll():
            if fd == runtime:
                os._exit(0)
            if fd != control_fd:
                poller.unregister(fd)
                if _reap(fd, *alive.pop(fd)):
                    _end_strays({pid for pid, _ in alive.values()})
            elif (born := _take(control, owners)) is not None:
                alive[born[0]] = born[1:]
                poller.register(born[0], select.POLLIN)


def _alone(control: Any) -> int:
    """Keep the control socket and standard error, nothing else that was inherited."""
    fd = int(control.fileno())
    if fd > 3:
        calls.close_range(3, fd - 1)
    calls.close_from(fd + 1)
    os.set_inheritable(fd, False)
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.close(null)
    os.chdir("/")
    for number in (_signal.SIGINT, _signal.SIGHUP, _signal.SIGTERM):
        _signal.signal(number, _signal.SIG_DFL)
    return fd


def _no_groups() -> None:
    try:
        os.setgroups([])
    except OSError:
        return  # root of a namespace that may not; what that root reaches by groups it owns anyway


def _take(control: Any, owners: OwnerMaps) -> tuple[int, int, int] | None:
    """Receive one request and start it; an unusable one is answered by the closing of its channel."""
    message, ancillary, _, _ = control.recvmsg(16, _socket.CMSG_SPACE(4 * _MAX_FDS), _socket.MSG_CMSG_CLOEXEC)
    if not message:
        os._exit(0)
    fds: list[int] = []
    for _, _, data in ancillary:
        fds += [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data) - 3, 4)]
    try:
        return _start(fds, owners) if len(fds) in _USABLE else None
    finally:
        for fd in fds[:-1] if len(fds) in _USABLE else fds:
            os.close(fd)


def _start(fds: list[int], owners: OwnerMaps) -> tuple[int, int, int] | None:
    """Start one request in namespaces or under a watcher; give its descriptor, id and where to tell its end."""
    channel = Channel(fds[-2], owners.server)
    held: list[int] = []
    try:
        spec: dict[str, Any] = marshal.loads(os.pread(fds[0], os.fstat(fds[0]).st_size, 0))  # noqa: S302
        channel.stage = "owners of the workspace"
        if spec["outer"]:
            held = owners.trees(spec)
        channel.stage = "namespaces"
        pid, handle, ready = _forked(spec, fds, held, channel)
    except OSError as error:
        channel.failed(error)
        os.close(fds[-1])
        return None
    finally:
        for fd in held:
            os.close(fd)
    try:
        if spec["outer"]:
            _map(pid, spec)
        os.write(ready, b"1")
    except OSError as error:
        channel.stage = "user mapping"
        channel.failed(error)  # and the child, which reads the end of the pipe, goes
    os.close(ready)
    channel.send(("born", pid), handle)
    return handle, pid, fds[-1]


def _forked(spec: dict[str, Any], fds: list[int], held: list[int], channel: Channel) -> tuple[int, int, int]:
    wait, ready = os.pipe()
    spaces = spec["tier"] == "A"
    try:
        pid, handle = calls.clone(calls.NEWUSER | calls.NEWPID | calls.NEWNS if spaces else 0)
    except OSError:
        os.close(ready)
        os.close(wait)
        raise
    if pid == 0:
        os.close(ready)
        try:
            (first_process if spaces else watcher)(spec, fds, held, wait, channel)
        finally:
            os._exit(125)
    os.close(wait)
    return pid, handle, ready


def _map(pid: int, spec: dict[str, Any]) -> None:
    """Let the ids inside stand for ids outside that own nothing."""
    for name, inside, outside in (("uid", spec["uid"], spec["outer"][0]), ("gid", spec["gid"], spec["outer"][1])):
        fd = os.open(f"/proc/{pid}/{name}_map", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, f"{inside} {outside} 1".encode())
        finally:
            os.close(fd)


def _reap(fd: int, pid: int, told: int) -> bool:
    """Collect a process whose whole tree is gone, and say what it used; True if it was killed."""
    os.close(fd)
    _, status, used = os.wait4(pid, 0)
    try:
        os.write(told, ended_record(b"U", int((used.ru_utime + used.ru_stime) * 1e9), status))
    except OSError:
        return os.WIFSIGNALED(status)  # nobody listens any more
    finally:
        os.close(told)
    return os.WIFSIGNALED(status)


def _end_strays(known: set[int]) -> None:
    """End whoever came here from a supervisor that was killed, until there is nobody."""
    while strays := [pid for pid in children() if pid not in known]:
        for pid in strays:
            os.kill(pid, 9)
            os.waitpid(pid, 0)

"""The first process of a sandbox: builds the view, starts the program, and takes everything along when it ends."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the part of `signal` that loads at once
import marshal
import os

from handrail.sandbox.inside import calls
from handrail.sandbox.inside.channel import Channel, ended_record, write_file
from handrail.sandbox.inside.memory import Memory
from handrail.sandbox.inside.program import become, hand_out_listener
from handrail.sandbox.inside.root import build, hold_layers, hold_sources, mask

TYPE_CHECKING = False  # as `typing` has it, without the time it takes to import
if TYPE_CHECKING:
    from typing import Any, NoReturn

_KILL = 9
_TICK_SECONDS = 0.25


def first_process(spec: dict[str, Any], fds: list[int], held: list[int], wait: int, channel: Channel) -> NoReturn:
    """Live as the first process of the new namespaces; never returns."""
    try:
        channel.stage = "user mapping"
        if os.read(wait, 1) != b"1":
            os._exit(125)
        if not spec["outer"]:
            _map_self(spec)
        channel.stage = "network, ipc and name namespaces"
        calls.unshare(calls.NEWNET | calls.NEWIPC | calls.NEWUTS)
        calls.set_hostname(b"sandbox")
        calls.loopback_up()
        if spec["listen"]:
            hand_out_listener(spec["listen"], channel)
        _enter_view(spec, held, channel)
        # Only now: changing the user above would have cleared it.
        calls.prctl(calls.PDEATHSIG, _KILL)
        if channel.server_is_gone():
            os._exit(125)
        calls.prctl(calls.DUMPABLE, 0)
        _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGCHLD,))
        leader = os.fork()
        if leader == 0:
            _awaited(spec, channel)
    except BaseException as error:  # noqa: BLE001  (whatever it is, the runtime is told and nothing runs)
        channel.failed(error)
        os._exit(125)
    _wait_for(leader, fds[-1], spec["memory"])


def _awaited(spec: dict[str, Any], channel: Channel) -> NoReturn:
    """Wait for the program that the view was built for, and become it; none comes if the runtime lets it go."""
    channel.stage = "program"
    received = channel.receive()
    if not received:
        os._exit(0)
    request, *standard = received
    program = marshal.loads(os.pread(request, os.fstat(request).st_size, 0))  # noqa: S302
    become({**spec, **program}, standard, channel)


def _map_self(spec: dict[str, Any]) -> None:
    write_file("/proc/self/setgroups", "deny")
    write_file("/proc/self/uid_map", f"{spec['uid']} {spec['uid']} 1")
    write_file("/proc/self/gid_map", f"{spec['gid']} {spec['gid']} 1")


def _enter_view(spec: dict[str, Any], held: list[int], channel: Channel) -> None:
    """See the plan's folders and the system's programs, and nothing else."""
    channel.stage = "mounts"
    calls.mount(b"none", b"/", None, calls.REC | calls.PRIVATE)
    sources = hold_sources(spec, held)
    layers = hold_layers(spec, held)
    if spec["outer"]:
        channel.stage = "user"
        os.setresgid(*[spec["gid"]] * 3)
        os.setresuid(*[spec["uid"]] * 3)
    channel.stage = "mounts"
    build(spec, sources, layers, channel)
    channel.stage = "masks"
    mask(spec)
    root = calls.open_path(b"/")
    calls.set_attributes(root, calls.ATTR_RDONLY, deep=False)
    os.close(root)


def _wait_for(leader: int, told: int, most: int) -> NoReturn:
    """Reap until the program itself ends, tell how, and end: the kernel then ends all that is left."""
    calls.drop_capabilities()
    os.dup2(told, 0)
    calls.close_from(1)
    status, memory = _until_over(leader, most)
    try:
        os.write(0, ended_record(b"S", status, memory))
    finally:
        os._exit(0)


def _until_over(leader: int, most: int) -> tuple[int, int]:
    """Wait for the program's end, or for all processes together to hold too much memory."""
    memory = Memory(_others, most, segments=True)
    while True:
        if _signal.sigtimedwait((_signal.SIGCHLD,), _TICK_SECONDS) is None and (held := memory.excess()):
            return _KILL, held
        while True:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if pid == leader:
                return status, used.ru_maxrss * 1024
            if pid == 0:
                break


def _others() -> list[int]:
    """List every process of this namespace but the first."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]

"""Bubblewrap makes the namespaces and mounts; inside, the last steps before the program are our own."""

from __future__ import annotations

import marshal
import os

from handrail.sandbox.inside import calls
from handrail.sandbox.inside.channel import Channel
from handrail.sandbox.inside.program import become, hand_out_listener

TYPE_CHECKING = False  # as `typing` has it, without the time it takes to import
if TYPE_CHECKING:
    from typing import Any, NoReturn

CHANNEL, REQUEST, ERRORS, FIRST_DATA = 3, 4, 5, 6


def become_bubble(spec: dict[str, Any], standard: list[int], channel: Channel) -> NoReturn:
    """Execute bubblewrap with the descriptors that its arguments name."""
    try:
        channel.stage = "bubblewrap"
        log = _held(b"")
        channel.send(("log",), log)
        request = _held(marshal.dumps({**spec, "bubble": None, "bubble_data": None}))
        data = [_held(text) for text in spec["bubble_data"]]
        wanted = [*standard[:2], log, channel.fd, request, standard[2], *data]
        high = [_above(fd, 64 + len(wanted)) for fd in wanted]
        for number, fd in enumerate(high):
            os.dup2(fd, number)
        calls.close_from(len(wanted))
        channel.fd = CHANNEL
        os.chdir("/")
        os.execve(spec["bubble"][0], spec["bubble"], {})  # noqa: S606
    except BaseException as error:  # noqa: BLE001  (told to the runtime; nothing runs)
        channel.failed(error)
    finally:
        os._exit(126)


def inside_bubble() -> NoReturn:
    """Go on where bubblewrap left off: take the request from its descriptor and become the program."""
    os.set_inheritable(CHANNEL, False)
    channel = Channel(CHANNEL, -1)
    try:
        spec: dict[str, Any] = marshal.loads(os.pread(REQUEST, os.fstat(REQUEST).st_size, 0))  # noqa: S302
        if spec["listen"]:
            hand_out_listener(spec["listen"], channel)
    except BaseException as error:  # noqa: BLE001
        channel.failed(error)
        os._exit(125)
    become(spec, [0, 1, ERRORS], channel)


def _held(data: bytes) -> int:
    fd = os.memfd_create("data")
    os.write(fd, data)
    os.lseek(fd, 0, 0)
    return fd


def _above(fd: int, least: int) -> int:
    """Copy a descriptor to a number that is out of the way."""
    copies = [fd]
    while copies[-1] < least:
        copies.append(os.dup(copies[-1]))
    for copy in copies[1:-1]:
        os.close(copy)
    return copies[-1]

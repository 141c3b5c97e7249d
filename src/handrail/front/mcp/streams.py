"""The process's stdin and stdout as two private pipes; whatever else writes to stdout ends on stderr."""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
import sys
from collections.abc import Callable
from typing import cast

from handrail.front.mcp.wire import MAX_MESSAGE_BYTES

Line = Callable[[bytes], None]
_CHUNK = 256 * 1024


def claim() -> tuple[int, int]:
    """Take the streams for the protocol: programs and prints find an empty stdin, and stderr in place of stdout."""
    sys.stdout.flush()
    taken = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3) for number in (0, 1)]
    empty = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return taken[0], taken[1]


class Lines(asyncio.Protocol):
    """Cuts what comes in into lines; one that is too long is dropped and told of."""

    def __init__(self, line: Line, too_long: Callable[[], None], ended: Callable[[], None]) -> None:
        self._line, self._too_long, self._ended = line, too_long, ended
        self._left = bytearray()
        self._dropping = False

    def data_received(self, data: bytes) -> None:
        """Take a piece."""
        if not self._left and not self._dropping and data.endswith(b"\n") and data.count(b"\n") == 1:
            self._line(data)  # one whole message, as nearly always
            return
        *whole, rest = data.split(b"\n")
        for piece in whole:
            self._end_line(piece)
        self._keep(rest)

    def _end_line(self, piece: bytes) -> None:
        if self._dropping:
            self._dropping = False
            return
        line = bytes(self._left) + piece
        self._left.clear()
        if len(line) > MAX_MESSAGE_BYTES:
            self._too_long()
        elif line:
            self._line(line)

    def _keep(self, piece: bytes) -> None:
        if self._dropping:
            return
        self._left += piece
        if len(self._left) > MAX_MESSAGE_BYTES:
            self._left.clear()
            self._dropping = True
            self._too_long()

    def eof_received(self) -> None:
        """Take what is left as the last line."""
        if self._left:
            self._end_line(b"")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """The client is gone."""
        self.eof_received()
        self._ended()


class Output(asyncio.BaseProtocol):
    """Writes lines; while the client does not read, nothing more is read from it."""

    def __init__(self) -> None:
        self._paused: Callable[[bool], None] = lambda _: None

    def holds(self, paused: Callable[[bool], None]) -> None:
        """Name whom to hold up."""
        self._paused = paused

    def pause_writing(self) -> None:
        """Hold up."""
        self._paused(True)

    def resume_writing(self) -> None:
        """Go on."""
        self._paused(False)


def _can_wait(number: int) -> bool:
    """Whether the loop can wait for a stream: not for files and the null device."""
    mode = os.fstat(number).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(number)


async def writer(number: int) -> tuple[Callable[[bytes], None], Output]:
    """Give a function that sends one line."""
    output = Output()
    if not _can_wait(number):
        file = os.fdopen(number, "wb", buffering=0)
        return lambda data: cast("None", file.write(data)), output
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_write_pipe(lambda: output, os.fdopen(number, "wb", buffering=0))

    def send(data: bytes) -> None:
        if not transport.is_closing():
            transport.write(data)

    return send, output


async def reader(number: int, lines: Lines, output: Output) -> None:
    """Have a stream read; a file is read at once, as nothing can wait for it."""
    if not _can_wait(number):
        with os.fdopen(number, "rb", buffering=0) as file:
            while data := file.read(_CHUNK):
                lines.data_received(data)
                await asyncio.sleep(0)
        lines.connection_lost(None)
        return
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: lines, os.fdopen(number, "rb", buffering=0))
    output.holds(lambda paused: transport.pause_reading() if paused else transport.resume_reading())

"""A terminal for one question: lines in and out without blocking the event loop, put back as it was found."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from contextlib import suppress
from types import TracebackType
from typing import Any, TextIO

_CTRL_C = b"\x03"
_CTRL_D = b"\x04"
_DISABLED = b"\x00"
_OPEN = os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
_IFLAG, _OFLAG, _LFLAG, _CC = 0, 1, 3, 6  # places in what tcgetattr gives
_Mode = list[Any]  # what tcgetattr gives: flags as numbers, keys as a list of bytes


class Terminal:
    """The person's terminal while it is ours; what was typed before counts as nothing."""

    def __init__(self, reads: int, writes: int, encoding: str, owned: tuple[int, ...]) -> None:
        self._reads = reads
        self._writes = writes
        self._encoding = encoding
        self._owned = owned
        self._typed = b""
        self._found: _Mode | None = None
        self.interrupted = False  # the input was ended by Ctrl-C

    def __enter__(self) -> Terminal:
        with suppress(termios.error):  # no terminal, or one that hung up: reading will tell
            self._found = termios.tcgetattr(self._reads)
            termios.tcsetattr(self._reads, termios.TCSANOW, _line_mode(termios.tcgetattr(self._reads)))
            termios.tcflush(self._reads, termios.TCIFLUSH)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._found is not None:
            with suppress(termios.error):  # it hung up: there is nothing to put back
                termios.tcsetattr(self._reads, termios.TCSANOW, self._found)
        for handle in self._owned:
            os.close(handle)

    @property
    def coloured(self) -> bool:
        """Whether styles reach a terminal."""
        return os.isatty(self._writes)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows; rows are 0 where there are no pages."""
        try:
            size = os.get_terminal_size(self._writes)
        except OSError:
            return 80, 0
        return size.columns or 80, size.lines

    def forget_typed(self) -> None:
        """Drop what was typed until now."""
        self._typed = b""
        with suppress(termios.error):
            termios.tcflush(self._reads, termios.TCIFLUSH)

    async def write(self, text: str) -> None:
        """Show a text, however slowly the terminal takes it."""
        data = text.encode(self._encoding, "backslashreplace")
        while data:
            try:
                data = data[os.write(self._writes, data) :]
            except BlockingIOError:
                await self._writable()

    def say(self, text: str) -> None:
        """Show a last word if the terminal takes it at once."""
        with suppress(OSError):
            os.write(self._writes, text.encode(self._encoding, "backslashreplace"))

    async def line(self) -> str | None:
        """Give the next line; None when the person ends or interrupts the input; OSError when the terminal is gone."""
        while not (ended := _first_line(self._typed)):
            more = await self._read()
            if not more:
                return None
            self._typed += more
        line, self._typed = ended
        self.interrupted = _CTRL_C in line
        return None if self.interrupted else line.decode(self._encoding, "replace").strip()

    async def _read(self) -> bytes:
        loop = asyncio.get_running_loop()
        while True:
            ready: asyncio.Future[None] = loop.create_future()
            loop.add_reader(self._reads, _done, ready)
            try:
                await ready
                return os.read(self._reads, 4096)
            except BlockingIOError:
                continue
            finally:
                loop.remove_reader(self._reads)

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_writer(self._writes, _done, ready)
        try:
            await ready
        finally:
            loop.remove_writer(self._writes)


def open_terminal(stream_in: TextIO | None, stream_out: TextIO | None) -> Terminal | None:
    """Open the terminal behind these streams, or the one this process belongs to; None where there is none."""
    import locale

    owned: list[int] = []
    try:
        if stream_in is None:
            reads = os.open("/dev/tty", _OPEN)
            owned.append(reads)
        else:
            reads = _own(stream_in.fileno(), owned)
        # The question goes where the answer comes from, unless told otherwise: stderr may be a file.
        shown_on = sys.stderr if stream_out is None and stream_in is not None else stream_out
        writes = reads if shown_on is None else _own(shown_on.fileno(), owned)
    except OSError:
        for handle in owned:
            os.close(handle)
        return None
    return Terminal(reads, writes, locale.getencoding(), tuple(owned))


def _own(handle: int, owned: list[int]) -> int:
    """Open a terminal a second time, so that not blocking stays our own affair; anything else is used as it is."""
    if not os.isatty(handle):
        return handle
    try:
        owned.append(os.open(os.ttyname(handle), _OPEN))
    except OSError:
        return handle
    return owned[-1]


def _line_mode(mode: _Mode) -> _Mode:
    """Whole lines with echo, whatever ran before; Ctrl-C ends a line, so that it answers instead of killing."""
    mode[_IFLAG] |= termios.ICRNL
    mode[_OFLAG] |= termios.OPOST | termios.ONLCR
    mode[_LFLAG] |= termios.ICANON | termios.ECHO | termios.ECHOE | termios.ISIG
    mode[_CC][termios.VINTR] = _DISABLED
    mode[_CC][termios.VEOL] = _CTRL_C
    mode[_CC][termios.VEOF] = _CTRL_D
    return mode


def _first_line(data: bytes) -> tuple[bytes, bytes] | None:
    ends = [place for place in (data.find(b"\n"), data.find(_CTRL_C)) if place >= 0]
    return (data[: min(ends) + 1], data[min(ends) + 1 :]) if ends else None


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

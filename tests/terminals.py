"""A person at a pseudo-terminal, for the tests of what asks and shows."""

from __future__ import annotations

import asyncio
import codecs
import fcntl
import os
import pty
import struct
import termios


class Person:
    """Somebody at a terminal: sees what is written there, and types."""

    def __init__(self, columns: int = 100, rows: int = 200) -> None:
        self._master, slave = pty.openpty()
        self.stream = os.fdopen(slave, "r")
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.seen = ""

    async def sees(self, text: str, times: int = 1) -> None:
        """Read until a text was there so many times."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(10):
            while self.seen.count(text) < times:
                ready = asyncio.Event()
                loop.add_reader(self._master, ready.set)
                await ready.wait()
                loop.remove_reader(self._master)
                self.seen += self._decoder.decode(os.read(self._master, 65536))

    def types(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def hangs_up(self) -> None:
        """Close the window."""
        os.close(self._master)
        self._master = -1

    def mode(self) -> list[object]:
        """The terminal's settings."""
        return termios.tcgetattr(self.stream.fileno())

    def leaves(self) -> None:
        """Give the terminal back."""
        self.stream.close()
        if self._master >= 0:
            os.close(self._master)

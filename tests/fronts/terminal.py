"""A person at a terminal: a pseudo-terminal that waits for text and types answers."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# It makes the terminal the one that controls the process, as at a real one, and becomes `handrail` there.
START = "import os, sys; os.login_tty(int(sys.argv[1])); os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
MAIN = "from handrail.front.cli import main; main()"


class Terminal:
    """What a program shows, and what is typed at it."""

    def __init__(self, process: subprocess.Popen[bytes], handle: int) -> None:
        self.process, self._handle, self.shown = process, handle, ""

    def wait_for(self, text: str, seconds: float = 60) -> None:
        """Read until a text was shown since the last time one was waited for."""
        end, start = time.monotonic() + seconds, len(self.shown)
        while text not in self.shown[start:]:
            left = end - time.monotonic()
            assert left > 0, f"{text!r} was not shown; there is:\n{self.shown}"
            assert self.read(left) or self.process.poll() is None, f"it ended without {text!r}:\n{self.shown}"

    def type(self, text: str) -> None:
        """Type a text as it is."""
        os.write(self._handle, text.encode())

    def end(self, seconds: float = 60) -> int:
        """Read until the program ends; gives its exit code."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it did not end; there is:\n{self.shown}"
            self.read(0.1)
        while self.read(0):
            pass
        return self.process.returncode

    def read(self, seconds: float) -> bool:
        """Read what is shown within some seconds; False where there is nothing, or no more."""
        if not select.select([self._handle], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._handle, 65536)
        except OSError:  # the other side is closed
            data = b""
        self.shown += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)


@contextmanager
def at_terminal(
    argv: list[str], cwd: Path, env: dict[str, str], columns: int = 80, rows: int = 200
) -> Iterator[Terminal]:
    """Start `handrail` at a terminal of this size."""
    handle, other = pty.openpty()
    termios.tcsetwinsize(other, (rows, columns))
    process = subprocess.Popen(
        [sys.executable, "-c", START, str(other), "-c", MAIN, *argv],
        cwd=cwd,
        env={**env, "TERM": "xterm-256color"},
        pass_fds=(other,),
    )
    os.close(other)
    try:
        yield Terminal(process, handle)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(handle)

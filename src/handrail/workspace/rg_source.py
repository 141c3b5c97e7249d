"""The file behind a reported line, read again through a handle that follows no link.

ripgrep walks by path and can be raced; what it prints is only a claim. A line is shown when the same bytes stand at
the same offset of the file that the judged path leads to.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence

from handrail.output.patterns import OPEN_LINE
from handrail.queries import Hit

REACH = 1 << 14  # how far back something can make a line part of a secret
_SMALL = 1 << 17  # read whole; larger files by windows
_MAX_DECODED = 1 << 23  # UTF-16 has to be decoded from its start
_KEY_BLOCKS = (b"PRIVATE KEY", b"PuTTY-User-Key-File")
_OPEN_LINE = re.compile(OPEN_LINE.encode())
_NAMES = re.compile(rb"(?i)pass|secret|token|key|credential|pwd")  # one of these is in every line that names a secret
_OPEN_REACH = 160  # how far before its end a line names a secret of the next one


class Source:
    """One open file; a small one is in memory, line by line."""

    __slots__ = ("_bytes", "_fd", "_holds_keys", "_lines", "_shift")

    def __init__(self, fd: int) -> None:
        """Take over an open descriptor; OSError when it is no regular file."""
        self._fd = fd
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            raise OSError("not a regular file")
        small = status.st_size <= _SMALL
        head = os.pread(fd, (status.st_size or _SMALL) if small else 4, 0)
        self._bytes: bytes | None = head if small else None
        self._shift = 0
        if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
            self._bytes = os.pread(fd, _MAX_DECODED, 0).decode("utf-16", "replace").encode()
        elif head[:3] == b"\xef\xbb\xbf":
            self._shift = 3  # ripgrep counts without the mark
            self._bytes = None if self._bytes is None else self._bytes[3:]
        self._lines = None if self._bytes is None else self._bytes.split(b"\n")
        self._holds_keys = self._bytes is None or _names_keys(self._bytes)

    def close(self) -> None:
        """Let the descriptor go."""
        os.close(self._fd)

    def texts(self, numbers: Sequence[int], claimed: list[bytes], max_chars: int) -> list[str] | None:
        """Give lines as text if all of them stand where they were claimed to and are plain; None: ask for each."""
        lines = self._lines
        if lines is None or self._holds_keys or max(numbers) > len(lines) or max(map(len, claimed)) > max_chars:
            return None
        if [lines[number - 1] for number in numbers] != claimed:
            return None
        if any(_names_next(lines[number - 2]) for number in numbers if number > 1):
            return None
        together = b"\n".join(claimed)
        return None if b"\r" in together else together.decode("utf-8", "replace").split("\n")

    def hit(self, path: str, line: int, offset: int, column: int, claimed: bytes, max_chars: int) -> Hit | None:
        """Give the line that stands at an offset, or None when it is not the one that was claimed.

        `column` is 0 for a line of context. Of a long line ripgrep prints the beginning, and a remark; it is cut
        around its match.
        """
        if self._lines is None:
            fits = self._stands(offset, claimed, max_chars)
        else:
            there = self._lines[line - 1] if line <= len(self._lines) else b""
            fits = there == claimed or (len(claimed) > max_chars and there[:max_chars] == claimed[:max_chars])
        if not fits:
            return None
        if len(claimed) > max_chars:
            claimed = self._read(offset, 4 * max_chars + 1).split(b"\n", 1)[0]
            if len(claimed.decode("utf-8", "replace")) > max_chars:
                return self._cut(path, line, offset, column, max_chars)
        text = claimed.decode("utf-8", "replace").removesuffix("\r")
        return Hit(path, line, text, column > 0, 0, self._secret_before(offset))

    def _stands(self, offset: int, claimed: bytes, max_chars: int) -> bool:
        """Whether the claimed line stands at an offset of a large file."""
        sure = claimed[:max_chars]
        found = self._read(offset, len(sure) + 1)
        return found.startswith(sure) and (len(claimed) > max_chars or found[len(sure) :] in (b"\n", b""))

    def _secret_before(self, at: int) -> str:
        """Return the text before a line where that can make the line part of a secret.

        A key block may have begun in it, or the line above may name the secret.
        """
        reach = REACH if self._holds_keys else 2 * _OPEN_REACH
        start = max(0, at - reach)
        before = self._read(start, at - start)
        suspicious = (self._holds_keys and _names_keys(before)) or _names_next(before.removesuffix(b"\n"))
        return before.decode("utf-8", "replace") if suspicious else ""

    def _cut(self, path: str, line: int, at: int, column: int, max_chars: int) -> Hit:
        """Show the part of a long line that holds its match."""
        lead = max_chars // 4
        first = at + max(0, column - 1 - lead)
        start = max(0, first - REACH)
        window = self._read(start, first - start + 4 * max_chars + REACH)
        here = first - start
        while here < len(window) and window[here] & 0xC0 == 0x80:
            here += 1  # never begin inside a character
        newline = window.find(b"\n", here)
        rest = window[here : newline if newline >= 0 else len(window)].decode("utf-8", "replace")
        text, after = rest[:max_chars], rest[max_chars:]
        before = window[:here].decode("utf-8", "replace")
        return Hit(path, line, text, column > 0, start + here - at + 1, before, after)

    def _read(self, at: int, size: int) -> bytes:
        if self._bytes is not None:
            return self._bytes[at : at + size]
        return os.pread(self._fd, size, at + self._shift)


def _names_next(line: bytes) -> bool:
    """Return whether a line ends by naming a secret that the next line may hold."""
    end = line[-_OPEN_REACH:]
    return _NAMES.search(end) is not None and _OPEN_LINE.search(end + b"\n") is not None


def _names_keys(data: bytes) -> bool:
    return any(mark in data for mark in _KEY_BLOCKS)

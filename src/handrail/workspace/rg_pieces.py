"""A file with lines too long to hold, handed to ripgrep in pieces.

ripgrep keeps a whole line in memory. Where one is longer than that may take, its bytes go to ripgrep's input with
line breaks put in, and what is found is told in the file's own lines and offsets. A match that crosses two pieces is
not found; pieces end at a blank where there is one.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator

PIECE = 1 << 22
_CHUNK = 1 << 20
_LOOK = 1 << 16


def has_overlong_line(fd: int) -> bool:
    """Whether some line is longer than a piece; one that is twice as long is surely found.

    Such a line covers a whole stretch of a piece's length: most often a look at the beginning of each is enough.
    """
    size = os.fstat(fd).st_size
    return any(_has_no_break(fd, start) for start in range(0, size - PIECE + 1, PIECE))


def _has_no_break(fd: int, start: int) -> bool:
    return all(b"\n" not in os.pread(fd, _LOOK, at) for at in range(start, start + PIECE, _LOOK))


class Pieces:
    """The bytes to hand over, and the way back to the file's own places."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._breaks: list[int] = []  # where line breaks were put in, counted in what is handed over
        self._lines: list[int] = []  # where in the file the line begins that each of them cuts

    def __iter__(self) -> Iterator[bytes]:
        at = line = piece = 0  # where the chunk, the line and the piece begin, in the file
        while chunk := os.pread(self._fd, _CHUNK, at):
            last = chunk.rfind(b"\n") + 1
            if last:
                line = piece = at + last
            elif at + len(chunk) - piece >= PIECE:
                cut = (chunk.rfind(b" ", -_LOOK) + 1) or len(chunk)
                piece = at + cut
                self._breaks.append(piece + len(self._breaks))
                self._lines.append(line)
                at += len(chunk)
                yield chunk[:cut] + b"\n" + chunk[cut:]
                continue
            at += len(chunk)
            yield chunk

    def place(self, line: int, offset: int) -> tuple[int, int, int]:
        """Give the file's own line and offset for a line that was handed over, and how far into its line it begins."""
        before = bisect_left(self._breaks, offset)
        real = offset - before
        inside = before > 0 and self._breaks[before - 1] + 1 == offset
        return line - before, real, real - self._lines[before - 1] if inside else 0

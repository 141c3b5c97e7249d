"""The last bytes of a job's output, in a file without a name: bounded, and gone with the runtime."""

from __future__ import annotations

import os
import threading

KEPT_BYTES = 16 * 1024 * 1024


class Ring:
    """Text as UTF-8 bytes, counted from the first ever written; the oldest are overwritten."""

    def __init__(self, folder: str, size: int = KEPT_BYTES) -> None:
        self._fd = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._size = size
        self._lock = threading.Lock()  # a flood is written from a thread
        self.end = 0

    def write(self, text: str) -> None:
        """Take more text."""
        data = text.encode("utf-8", "backslashreplace")
        with self._lock:
            if self._fd < 0:
                return
            for start in range(0, len(data), self._size):
                self._put(memoryview(data)[start : start + self._size])

    def _put(self, view: memoryview) -> None:
        while view:
            at = self.end % self._size
            done = os.pwrite(self._fd, view[: self._size - at], at)
            self.end += done
            view = view[done:]

    def read(self, cursor: int, most: int) -> tuple[str, int, int]:
        """Give text from a cursor on, where to go on, and how many bytes before it are gone."""
        with self._lock:
            start = min(max(cursor, self.end - self._size, 0), self.end)
            data = self._get(start, min(most, self.end - start))
        skipped = start - min(cursor, start) if cursor >= 0 else 0
        whole = len(data)
        lead = 0
        if skipped:  # what is left of a character
            while lead < whole and data[lead] & 0xC0 == 0x80:
                lead += 1
        end = _whole_end(data) if start + whole < self.end else whole
        return data[lead:end].decode("utf-8", "replace"), start + end, skipped + lead

    def _get(self, start: int, size: int) -> bytes:
        parts = []
        while size > 0 and self._fd >= 0:
            at = start % self._size
            part = os.pread(self._fd, min(size, self._size - at), at)
            if not part:
                break
            parts.append(part)
            start, size = start + len(part), size - len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Let the file go."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1


def _whole_end(data: bytes) -> int:
    """Where to cut so that more can follow: after the last line end, or else before a torn character."""
    if (newline := data.rfind(b"\n")) >= 0:
        return newline + 1
    end = len(data)
    while end > max(0, len(data) - 4) and data[end - 1] & 0xC0 == 0x80:
        end -= 1
    return end - 1 if end and data[end - 1] >= 0xC0 else end or len(data)

"""Read open files: whole, in chunks, or only their hash."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable

from handrail.errors import Code, Problem
from handrail.ports import Stat
from handrail.words import Place, PlaceKind
from handrail.workspace.access import READ, Access, not_a_file, problem_of
from handrail.workspace.beneath import HANDLE
from handrail.workspace.births import born_ns
from handrail.workspace.resolve import kind_of
from handrail.workspace.threads import Brake, Threads

INLINE_BYTES = 1 << 20  # up to here reading costs less than handing it to a thread
CHUNK = 1 << 20


def stat_of(status: os.stat_result, target: str | None = None, birth_ns: int | None = None) -> Stat:
    """Put what the system says into our words."""
    mode = status.st_mode
    return Stat(
        kind_of(mode),
        status.st_size,
        status.st_mtime_ns,
        mode & 0o7777,
        status.st_ino,
        status.st_nlink,
        target,
        status.st_atime_ns,
        birth_ns,
    )


def look(access: Access, place: Place) -> Stat:
    """Look at the thing itself; a link is not followed."""
    fd = access.open(place, HANDLE)
    try:
        status, birth_ns = os.fstat(fd), born_ns(fd)
        target = os.readlink("", dir_fd=fd) if stat.S_ISLNK(status.st_mode) else None
    finally:
        os.close(fd)
    return stat_of(status, target, birth_ns)


def open_regular(access: Access, place: Place, doing: str = "read") -> tuple[int, os.stat_result]:
    """Open a regular file; NOT_A_FILE for anything else, without ever blocking on it."""
    try:
        fd = access.open(place, READ)
    except OSError as error:
        raise problem_of(error, place, doing) from None
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise not_a_file(place, kind_of(status.st_mode))
    return fd, status


def too_large(place: Place, size: int, max_bytes: int) -> Problem:
    """The file is over the limit."""
    text = f"{place.shown} has {size} bytes; the limit is {max_bytes}."
    return Problem(Code.FILE_TOO_LARGE, text, path=place.shown, bytes=size, max_bytes=max_bytes)


def read_on(fd: int, head: bytes, max_bytes: int) -> bytes:
    """Read to the end whatever the size was said to be; one byte over `max_bytes` is the most."""
    parts, total = [head], len(head)
    while total <= max_bytes and (part := os.read(fd, min(CHUNK, max_bytes + 1 - total))):
        parts.append(part)
        total += len(part)
    return b"".join(parts)


def digest(fd: int, brake: Brake) -> tuple[str, int]:
    """Hash a file from its beginning; gives the hash and how many bytes there were."""
    found, offset = hashlib.sha256(), 0
    while part := os.pread(fd, CHUNK, offset):
        found.update(part)
        offset += len(part)
        brake.check()
    return found.hexdigest(), offset


class FileStream:
    """An open regular file; use it as `async with`. Small files are read at once, others in a thread."""

    __slots__ = ("_access", "_count", "_fd", "_inline", "_place", "_threads", "stat")

    def __init__(self, access: Access, threads: Threads, place: Place, count: Callable[[int], None]) -> None:
        self._access = access
        self._threads = threads
        self._place = place
        self._count = count
        self._fd = -1
        self._inline = False
        self.stat = Stat(PlaceKind.MISSING, 0, 0, 0)

    async def __aenter__(self) -> FileStream:
        self._fd, status = open_regular(self._access, self._place)
        self._inline = 0 < status.st_size <= INLINE_BYTES
        self.stat = stat_of(status)
        return self

    async def __aexit__(self, *_: object) -> None:
        fd, self._fd = self._fd, -1
        os.close(fd)

    async def read(self, size: int) -> bytes:
        """Give the next bytes, at most `size`; empty at the end."""
        return await self._read(size, os.read, self._fd, size)

    async def read_at(self, offset: int, size: int) -> bytes:
        """Give bytes from a place without moving."""
        return await self._read(size, os.pread, self._fd, size, offset)

    async def _read(self, size: int, how: Callable[..., bytes], *args: int) -> bytes:
        try:
            if self._inline and size <= INLINE_BYTES:
                data = how(*args)
            else:
                data = await self._threads.run(Brake(), how, *args)
        except OSError as error:
            raise problem_of(error, self._place, "read") from None
        self._count(len(data))
        return data

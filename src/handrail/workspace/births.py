"""When a file was made, where its file system knows that: what `os.stat` leaves out."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable

_AT_EMPTY_PATH = 0x1000  # the open thing itself
_BTIME = 0x800
_SIZE = 256  # of `struct statx`
_MASK = struct.Struct("=I")  # at its beginning: what it tells
_BORN = struct.Struct("=qI")  # seconds and nanoseconds
_BORN_AT = 80


def _find_statx() -> Callable[..., int] | None:
    try:
        function = ctypes.CDLL(None)["statx"]
    except (AttributeError, OSError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p]
    function.restype = ctypes.c_int
    found: Callable[..., int] = function
    return found


_statx = _find_statx()


def folder_mark(path: str) -> str:
    """Name the very folder at a path: another one that takes its place has another mark. Empty where there is none.

    A number that the file system gives again, once the folder is gone, is told apart by the time of birth.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return f"{os.fstat(handle).st_ino}:{born_ns(handle) or ''}"
    finally:
        os.close(handle)


def born_ns(fd: int) -> int | None:
    """Give when the open thing was made, in nanoseconds; None where nobody knows."""
    block = ctypes.create_string_buffer(_SIZE)
    if _statx is None or _statx(fd, b"", _AT_EMPTY_PATH, _BTIME, block) != 0:
        return None
    if not _MASK.unpack_from(block)[0] & _BTIME:
        return None
    seconds, nanoseconds = _BORN.unpack_from(block, _BORN_AT)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)

"""Dynamic linking of a helper program: what the kernel and the loader open before its own code runs."""

from __future__ import annotations

import os
import struct

_NAMED_LOADER = 3  # PT_INTERP
_MAX_HEADERS = 128
_MAX_NAME = 4096
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/nix/store", "/gnu/store")
_CACHE = "/etc/ld.so.cache"


def loader_of(program: str) -> str:
    """Name the loader of a dynamically linked program; empty for a static one and for what is no program."""
    try:
        with open(program, "rb") as file:
            head = file.read(64)
            if head[:4] != b"\x7fELF" or len(head) < 64 or head[5] != 1:  # of the other byte order: not of this machine
                return ""
            wide = head[4] == 2
            table, size, count = _table(head, wide=wide)
            for number in range(min(count, _MAX_HEADERS)):
                file.seek(table + number * size)
                found = _named_loader(file.read(size), wide=wide)
                if found is not None:
                    file.seek(found[0])
                    return os.fsdecode(file.read(min(found[1], _MAX_NAME)).rstrip(b"\0"))
    except (OSError, struct.error):
        return ""
    return ""


def libraries_of(program: str) -> tuple[str, ...]:
    """List what the loader of a program reads: its cache, and folders of libraries."""
    if not loader_of(program):
        return ()
    own = os.path.dirname(os.path.realpath(program))
    beside = os.path.normpath(f"{own}/../lib")  # as a program finds them that brings its own
    return tuple(path for path in (_CACHE, *_LIBRARIES, beside) if os.path.exists(path))


def _table(head: bytes, *, wide: bool) -> tuple[int, int, int]:
    """Read where the table of program headers lies, the size of an entry, and how many there are."""
    if wide:
        (place,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
    else:
        (place,) = struct.unpack_from("<I", head, 28)
        size, count = struct.unpack_from("<HH", head, 42)
    return place, size, count


def _named_loader(entry: bytes, *, wide: bool) -> tuple[int, int] | None:
    """Give place and length of the loader's name if an entry of the table is for it."""
    (kind,) = struct.unpack_from("<I", entry, 0)
    if kind != _NAMED_LOADER:
        return None
    if wide:
        (place,) = struct.unpack_from("<Q", entry, 8)
        (length,) = struct.unpack_from("<Q", entry, 32)
    else:
        (place,) = struct.unpack_from("<I", entry, 4)
        (length,) = struct.unpack_from("<I", entry, 16)
    return place, length

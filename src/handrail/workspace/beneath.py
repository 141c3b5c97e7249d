"""Open and rename beneath a directory handle, following no link. The only module that speaks to the kernel by number.

Every path here is relative to a handle. A link anywhere in it is ELOOP (or ENOTDIR when walking), leaving the
handle is EXDEV: nothing outside is ever opened, created or truncated first and checked afterwards.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from functools import cache
from typing import Literal

Opener = Callable[[int, str, int, int], int]  # handle, path, flags, mode -> descriptor
OpenerName = Literal["auto", "openat2", "walk"]

_OPENAT2 = 437  # the same number on every Linux architecture but alpha
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
_CONFINED = _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS
_RETRIES = 128  # the kernel answers EAGAIN while an unrelated rename disturbs its lookup

RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc["syscall"]  # by item: a function object of our own, without anyone else's argument types
_syscall.restype = ctypes.c_long
_open_how = ctypes.c_uint64 * 3  # flags, mode, resolve
_how_size = ctypes.c_size_t(24)
_NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC


@cache
def _how(flags: int, mode: int, resolve: int) -> tuple[ctypes.Array[ctypes.c_uint64], ctypes.c_void_p]:
    """Build the argument block once for each use: it is never written to, so threads share it."""
    block = _open_how(flags | os.O_CLOEXEC, mode, resolve)
    return block, ctypes.c_void_p(ctypes.addressof(block))


def openat2(dir_fd: int, path: str, flags: int, mode: int = 0, *, resolve: int = _CONFINED) -> int:
    """Open by one system call; raise OSError where a link or `..` would be needed to get there."""
    try:
        name = os.fsencode(path)
    except UnicodeEncodeError:
        raise OSError(errno.EINVAL, "not a path", path) from None
    if b"\0" in name:
        raise OSError(errno.EINVAL, "a path cannot hold NUL", path)  # ctypes would silently cut there
    how = _how(flags, mode, resolve)[1]
    for _ in range(_RETRIES):
        fd: int = _syscall(_OPENAT2, dir_fd, name, how, _how_size)
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code), path)


def open_fast(dir_fd: int, path: str, flags: int, mode: int = 0) -> int:
    """Open beneath a handle with openat2; one name needs no more than O_NOFOLLOW."""
    if "/" in path:
        return openat2(dir_fd, path, flags, mode)
    if path == "..":
        raise OSError(errno.EXDEV, "leaves the folder", path)
    try:
        return os.open(path or ".", flags | _NO_LINK, mode, dir_fd=dir_fd)
    except ValueError:  # NUL, or what is no text
        raise OSError(errno.EINVAL, "not a name", path) from None


def open_walking(dir_fd: int, path: str, flags: int, mode: int = 0) -> int:
    """Open beneath a handle name by name, for kernels and containers without openat2."""
    if "/" not in path:
        return open_fast(dir_fd, path, flags, mode)
    *folders, last = path.split("/")
    if "" in folders or not last:
        raise OSError(errno.EXDEV, "not a path beneath the folder", path)
    here = dir_fd
    try:
        for name in folders:
            below = open_fast(here, name, HANDLE | os.O_DIRECTORY, 0)
            if here != dir_fd:
                os.close(here)
            here = below
        return open_fast(here, last, flags, mode)
    finally:
        if here != dir_fd:
            os.close(here)


def choose(name: OpenerName) -> Opener:
    """Give the way to open beneath a handle; `auto` takes openat2 where a real try of it works."""
    if name == "openat2" or (name == "auto" and has_openat2()):
        return open_fast
    return open_walking


@cache
def has_openat2() -> bool:
    """Try it: containers forbid it by seccomp, whatever the kernel's version says."""
    handle = os.open("/", HANDLE | os.O_DIRECTORY)
    try:
        os.close(openat2(handle, ".", HANDLE))
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def open_same_mount(dir_fd: int, name: str) -> int:
    """Open a folder by one name unless a mount begins there (EXDEV); without openat2 a bind mount is not noticed."""
    if has_openat2():
        return openat2(dir_fd, name, FOLDER, resolve=_CONFINED | _NO_XDEV)
    fd = open_fast(dir_fd, name, FOLDER, 0)
    if os.fstat(fd).st_dev != os.fstat(dir_fd).st_dev:
        os.close(fd)
        raise OSError(errno.EXDEV, "a mount point", name)
    return fd


def rename(source_fd: int, source: str, target_fd: int, target: str, flags: int) -> None:
    """Rename one name to one name with NOREPLACE or EXCHANGE; EINVAL or ENOSYS where the file system cannot."""
    _check_name(source)
    _check_name(target)
    code = _renameat2(source_fd, os.fsencode(source), target_fd, os.fsencode(target), flags)
    if code != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), source, None, target)


def _check_name(name: str) -> None:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise OSError(errno.EINVAL, "not a single name", name)


def _missing_renameat2(*_: object) -> int:
    ctypes.set_errno(errno.ENOSYS)
    return -1


def _find_renameat2() -> Callable[..., int]:
    try:
        function = _libc["renameat2"]
    except AttributeError:
        return _missing_renameat2
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    function.restype = ctypes.c_int
    found: Callable[..., int] = function
    return found


_renameat2 = _find_renameat2()

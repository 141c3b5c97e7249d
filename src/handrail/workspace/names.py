"""Names in one open folder: temporary ones, exchanged ones, and what to do where a file system cannot exchange.

Every function takes the folder's handle and single names, so no path is looked up here.

On a file system without `renameat2` flags (some network and FAT mounts) the check comes right before the rename
instead of after it: a change made in those few microseconds is overwritten. Everything else holds there too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from collections.abc import Callable

from handrail.workspace.beneath import RENAME_EXCHANGE, RENAME_NOREPLACE, rename

_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_UNNAMED = os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC
_unnamed: dict[int, bool] = {}  # whether a file can be without a name at first, by device
_LEFTOVER = re.compile(r"\.handrail-[0-9a-f]{16}\.tmp")
_OLD_SECONDS = 3600
_LOOKED_AT = 2000


def fresh(kind: str = "tmp") -> str:
    """Make a name that nothing has. `tmp` holds what we wrote; `old` holds what stood there before."""
    return f".handrail-{os.urandom(8).hex()}.{kind}"


def renamed_old(folder: int, name: str) -> str:
    """Rename a temporary file before it is exchanged: from then on the name may hold what is not ours to sweep."""
    old = fresh("old")
    os.rename(name, old, src_dir_fd=folder, dst_dir_fd=folder)
    return old


def identity(folder: int, name: str) -> tuple[int, int]:
    """Which thing stands at a name; (0, 0) for nothing."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0, 0
    return status.st_dev, status.st_ino


def identity_of(status: os.stat_result) -> tuple[int, int]:
    """Which thing a status is about."""
    return status.st_dev, status.st_ino


def open_unnamed(folder: int, device: int, mode: int) -> int | None:
    """Open a new file that has no name yet, so that nothing of it is left after a crash; None where that cannot be."""
    works = _unnamed.get(device)
    if works is None:
        works = _unnamed[device] = _try_unnamed(folder)
    return os.open(".", _UNNAMED, mode, dir_fd=folder) if works else None


def name_unnamed(fd: int, folder: int, target: str) -> None:
    """Give a file without a name one that nothing has; EEXIST otherwise."""
    os.link(f"/proc/self/fd/{fd}", target, dst_dir_fd=folder)


def _try_unnamed(folder: int) -> bool:
    """Try it, to the end: a file system may lack it, and a container may lack `/proc` or forbid the link."""
    name = fresh()
    try:
        fd = os.open(".", _UNNAMED, 0o600, dir_fd=folder)
        try:
            os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder)
        finally:
            os.close(fd)
        os.unlink(name, dir_fd=folder)
    except OSError:
        return False
    return True


def put_new(source: int, name: str, folder: int, target: str) -> None:
    """Rename to a name that nothing has; EEXIST otherwise, on every file system."""
    try:
        rename(source, name, folder, target, RENAME_NOREPLACE)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
        _put_new_by_link(source, name, folder, target)


def _put_new_by_link(source: int, name: str, folder: int, target: str) -> None:
    if not stat.S_ISDIR(os.stat(name, dir_fd=source, follow_symlinks=False).st_mode):
        try:
            os.link(name, target, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            if error.errno not in (errno.EPERM, *_CANNOT):
                raise
        else:
            os.unlink(name, dir_fd=source)
            return
    if identity(folder, target) != (0, 0):
        raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    os.rename(name, target, src_dir_fd=source, dst_dir_fd=folder)


def exchange(source: int, name: str, folder: int, target: str) -> bool:
    """Swap two names at once; False where the file system cannot."""
    try:
        rename(source, name, folder, target, RENAME_EXCHANGE)
    except OSError as error:
        if error.errno in _CANNOT:
            return False
        raise
    return True


def take_away(folder: int, name: str, wanted: Callable[[str], bool]) -> str | None:
    """Remove a name if it still holds what is wanted. Gives None, or why it did not, with all as it was."""
    old = fresh("old")
    try:
        put_new(folder, name, folder, old)
    except FileNotFoundError:
        return "someone else deleted it in the meantime"
    if wanted(old):
        os.unlink(old, dir_fd=folder)
        return None
    try:
        put_new(folder, old, folder, name)
    except FileExistsError:
        return f"someone else keeps changing it; one version was kept as {old} beside it"
    return "someone else changed it between check and removal"


def forget(folder: int, name: str) -> None:
    """Remove a temporary name if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def sweep(folder: int) -> None:
    """Remove what a killed process left half written here more than an hour ago; `old` files are never touched."""
    limit = time.time() - _OLD_SECONDS
    again = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        with os.scandir(again) as entries:
            for entry, _ in zip(entries, range(_LOOKED_AT), strict=False):
                if not _LEFTOVER.fullmatch(entry.name):
                    continue
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and status.st_mtime < limit:
                    forget(folder, entry.name)
    finally:
        os.close(again)

"""Takes away what a program planted, whatever it did to keep it: renamed at once, then removed piece by piece.

The first rename ends its effect. What follows has no bound in depth and asks nothing of the content: folders are moved
up beside the first one instead of being entered deeper, and one that was closed is opened by its handle.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from contextlib import ExitStack
from stat import S_IMODE, S_ISDIR, S_ISLNK, S_ISREG

from handrail.errors import Problem
from handrail.words import Change, Root
from handrail.workspace.access import READ, Access
from handrail.workspace.beneath import FOLDER, HANDLE, open_same_mount
from handrail.workspace.names import fresh, put_new

_A_FOLDER = HANDLE | os.O_DIRECTORY
_OWN_ALL = 0o700
_TRIES = 100  # at a folder that somebody fills while it is emptied
_KEPT_BYTES, _KEPT_FILES = 1 << 20, 64  # that undo can bring back
_MOST_CHANGES = 1000


class Left(Exception):
    """It has no effect any more, but not all of it could be removed."""


def reach(access: Access, root: Root, folder: str, held: ExitStack) -> int:
    """Open a folder beneath a root, name by name, through folders closed to their owner; they are closed again."""
    fd = os.dup(access.roots.handle(root))
    held.callback(os.close, fd)
    for name in folder.split("/") if folder else ():
        try:
            below = os.open(name, _A_FOLDER, dir_fd=fd)
        except PermissionError:
            open_up(fd, held)
            below = os.open(name, _A_FOLDER, dir_fd=fd)
        held.callback(os.close, below)
        fd = below
    return fd


def open_up(fd: int, held: ExitStack) -> None:
    """Let the owner into a folder until the end."""
    mode = S_IMODE(os.fstat(fd).st_mode)
    _chmod(fd, mode | _OWN_ALL)
    held.callback(_put_back, fd, mode)


def take_away(access: Access, root: Root, path: str, aside: str) -> list[Change]:
    """Take a thing away and give what was removed. OSError: it stands where it stood; Left: some of it is elsewhere."""
    folder, _, name = path.rpartition("/")
    with ExitStack() as held:
        parent = reach(access, root, folder, held)
        where, new = _moved(parent, name, aside, held)
        removal = _Removal(access, root, where)
        try:
            removal.all(new, path)
        except OSError as error:
            raise Left(f"what is left of it is called {new} or alike: {error.strerror}") from None
    return removal.changes()


def set_aside(access: Access, root: Root, path: str, aside: str) -> str:
    """Take a thing away and keep it; gives where it is now: a folder of ours, or beside it on another file system."""
    folder, _, name = path.rpartition("/")
    with ExitStack() as held:
        where, new = _moved(reach(access, root, folder, held), name, aside, held)
        return os.path.join(os.readlink(f"/proc/self/fd/{where}"), new)


def _moved(parent: int, name: str, aside: str, held: ExitStack) -> tuple[int, str]:
    """Rename a thing to where it means nothing: the run's own folder, or beside it on another file system."""
    new = fresh("old")
    with contextlib.suppress(OSError):
        ours = os.open(aside, FOLDER)
        held.callback(os.close, ours)
        _renamed(parent, name, ours, new, held)
        return ours, new
    _renamed(parent, name, parent, new, held)
    return parent, new


def _renamed(parent: int, name: str, where: int, new: str, held: ExitStack) -> None:
    try:
        put_new(parent, name, where, new)
    except PermissionError:
        open_up(parent, held)
        _opened_up(parent, name)
        put_new(parent, name, where, new)


class _Removal:
    """Removes one thing by its new name, and remembers what it was."""

    def __init__(self, access: Access, root: Root, where: int) -> None:
        self._access, self._root, self._where = access, root, where
        self._bytes, self._files = _KEPT_BYTES, _KEPT_FILES
        self._changes: list[tuple[str, Change]] = []

    def all(self, name: str, path: str) -> None:
        """Remove it and what is in it; OSError."""
        waiting = [(name, path)]
        while waiting:
            name, path = waiting.pop()
            if S_ISDIR(os.stat(name, dir_fd=self._where, follow_symlinks=False).st_mode):
                self._folder(name, path, waiting)
            else:
                self._one(self._where, name, path)

    def changes(self) -> list[Change]:
        """What was removed, the innermost first."""
        return [change for _, change in sorted(self._changes, key=lambda item: -item[0].count("/"))]

    def _folder(self, name: str, path: str, waiting: list[tuple[str, str]]) -> None:
        for _ in range(_TRIES):
            mode = _opened_up(self._where, name)
            fd = open_same_mount(self._where, name)
            try:
                self._emptied(fd, path, waiting)
            finally:
                os.close(fd)
            try:
                os.rmdir(name, dir_fd=self._where)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                continue
            self._record(path, Change(self._root.shown(path), "rmdir", mode=mode))
            return
        raise OSError(errno.ENOTEMPTY, "it is filled faster than it can be emptied", path)

    def _emptied(self, fd: int, path: str, waiting: list[tuple[str, str]]) -> None:
        for name in os.listdir(fd):
            with contextlib.suppress(FileNotFoundError):
                if S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                    _opened_up(fd, name)
                    new = fresh("old")
                    put_new(fd, name, self._where, new)
                    waiting.append((new, f"{path}/{name}"))
                else:
                    self._one(fd, name, f"{path}/{name}")

    def _one(self, fd: int, name: str, path: str) -> None:
        seen = os.stat(name, dir_fd=fd, follow_symlinks=False)
        mode, shown = S_IMODE(seen.st_mode), self._root.shown(path)
        if S_ISLNK(seen.st_mode):
            change = Change(shown, "delete", mode=mode, link=os.readlink(name, dir_fd=fd))
        elif S_ISREG(seen.st_mode) and (digest := self._kept(fd, name, seen.st_size)):
            change = Change(shown, "delete", digest, mode=mode)
        else:
            change = Change(shown, "delete", mode=mode, kept=False)
        os.unlink(name, dir_fd=fd)
        self._record(path, change)

    def _record(self, path: str, change: Change) -> None:
        if len(self._changes) < _MOST_CHANGES:
            self._changes.append((path, change))

    def _kept(self, folder: int, name: str, size: int) -> str | None:
        """Keep a small file that nobody writes to right now; None: it is not kept, and removed all the same."""
        if size > self._bytes or self._files <= 0:
            return None
        try:
            fd = os.open(name, READ, dir_fd=folder)
        except OSError:
            return None
        try:
            before = os.fstat(fd)
            data = os.read(fd, self._bytes + 1)
            digest = hashlib.sha256(data).hexdigest()
            kept = len(data) == size and _is_quiet(fd, before) and self._access.keep(fd, digest, size)
        except (OSError, Problem):
            return None
        finally:
            os.close(fd)
        self._bytes, self._files = self._bytes - size, self._files - 1
        return digest if kept else None


def _is_quiet(fd: int, before: os.stat_result) -> bool:
    now = os.fstat(fd)
    return (now.st_size, now.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def _opened_up(above: int, name: str) -> int:
    """Let the owner into a folder for good, for it goes; gives the mode it had."""
    try:
        fd = os.open(name, _A_FOLDER, dir_fd=above)
    except OSError:
        return 0  # no folder
    try:
        mode = S_IMODE(os.fstat(fd).st_mode)
        if mode & _OWN_ALL != _OWN_ALL:
            _chmod(fd, mode | _OWN_ALL)
    finally:
        os.close(fd)
    return mode


def _chmod(fd: int, mode: int) -> None:
    os.chmod(f"/proc/self/fd/{fd}", mode)  # by the handle, also of a folder that cannot be opened otherwise


def _put_back(fd: int, mode: int) -> None:
    with contextlib.suppress(OSError):
        _chmod(fd, mode)

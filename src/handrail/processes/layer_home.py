"""Folders on disk for the layers of reviewed programs: on the file system of the root, so that keeping is renaming.

A layer lies in the state folder, or in a hidden folder beside its root. Its owner holds a lock on it for as long as it
is used, so that what a killed runtime left is found and removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Collection, Sequence
from functools import partial
from threading import Lock

from handrail.processes.scratch import emptied
from handrail.sandbox.plan import layers_beside
from handrail.workspace import names
from handrail.workspace.beneath import FOLDER

_PRIVATE = 0o700
_TRIES = 5
# What is made in a layer by us and by the system when it mounts it, from the inside out.
_EMPTIED = ("upper", "work/work/incompat/volatile", "work/work/incompat", "work/work", "work/index", "work", "aside")


class Layer:
    """One layer on disk, held by its lock."""

    def __init__(self, path: str, handle: int, put_back: Callable[[Layer], bool] | None = None) -> None:
        self.path = path
        self.began_ns = os.fstat(handle).st_ctime_ns
        self._handle = handle
        self._put_back = put_back

    def begin(self) -> None:
        """Take the time of the file system, now that the program is started."""
        os.utime(self._handle)
        self.began_ns = os.fstat(self._handle).st_ctime_ns

    def let_go(self) -> None:
        """Have it used once more where nothing was made in it, and else removed."""
        if self._handle >= 0 and (self._put_back is None or not self._put_back(self)):
            self.remove()

    def remove(self) -> None:
        """Remove it with all that is left in it; afterwards, nothing."""
        handle = self._handle
        self._handle = -1
        if handle >= 0:
            if not _remove_empty(self.path, handle):
                _remove(self.path)
            os.close(handle)

    def is_untouched(self) -> bool:
        """Say whether nothing was ever made in it, not even by the system, which makes folders where it mounts one."""
        try:
            return not any(os.listdir(f"{self.path}/{name}") for name in ("upper", "work", "aside"))
        except OSError:
            return False

    def is_like(self, root: os.stat_result) -> bool:
        """Say whether what is made in it would still belong to the owner of its root, with the root's mode."""
        try:
            upper = os.stat(f"{self.path}/upper")
        except OSError:
            return False
        ours = (upper.st_uid, upper.st_gid) if os.geteuid() == 0 else (root.st_uid, root.st_gid)
        return (*ours, stat.S_IMODE(upper.st_mode)) == (root.st_uid, root.st_gid, stat.S_IMODE(root.st_mode))


class LayerHomes:
    """Finds where the layers of each root may be, once, and makes them."""

    def __init__(self, state: str, roots: Sequence[str]) -> None:
        self._state = state
        self._roots = tuple(os.path.realpath(root) for root in roots)
        self._homes: dict[str, str] = {}
        self._in_memory = False
        self._owner = os.getpid()
        self._spare: dict[str, Layer] | None = {}  # by root: one that was not touched, for the next program
        self._lock = Lock()

    def make(self, root: str) -> Layer | None:
        """Make the layer of a root; None where it has to be in memory.

        Of a folder that is no root nothing is kept, as of the run's scratch folder: its layer is in memory, too.
        """
        if os.path.realpath(root) not in self._roots:
            return None
        home = self.home(root)
        if not home:
            return None
        try:
            return self._take_spare(root) or _make(home, root, partial(self._put_back, root))
        except OSError:
            return None

    def close(self) -> None:
        """Remove the layers that wait to be used; none waits any more."""
        with self._lock:
            spare, self._spare = self._spare, None
        for layer in (spare or {}).values():
            layer.remove()

    def _take_spare(self, root: str) -> Layer | None:
        with self._lock:
            layer = self._spare.pop(root, None) if self._spare and self._owner == os.getpid() else None
        if layer is None or layer.is_like(os.stat(root)):
            return layer
        layer.remove()
        return None

    def _put_back(self, root: str, layer: Layer) -> bool:
        """Take a layer back that was not touched, where none waits; most programs change one root of several."""
        if self._owner != os.getpid() or not layer.is_untouched():
            return False
        with self._lock:
            if self._spare is None or root in self._spare:
                return False
            self._spare[root] = layer
        return True

    def use_memory(self) -> None:
        """Make no more layers on disk: the system mounts none from there."""
        self._in_memory = True

    def home(self, root: str) -> str:
        """Find the folder for a root's layers; empty: none is on its file system."""
        if self._in_memory:
            return ""
        if root not in self._homes:
            self._homes[root] = next((home for home in homes(self._state, root) if self._fits(home, root)), "")
        return self._homes[root]

    def _fits(self, home: str, root: str) -> bool:
        """Whether things can be renamed from a home to a root and back; programs must not see it, either."""
        real = os.path.realpath(home)
        if any(f"{real}/".startswith(f"{other}/") for other in self._roots):
            return False
        try:
            _open_private(real)
            return os.stat(real).st_dev == os.stat(root).st_dev and _is_renamed(real, root)
        except OSError:
            return False


def homes(state: str, root: str) -> tuple[str, str]:
    """Name the folders where a root's layers may be, the better one first."""
    return state, layers_beside(root)


def sweep(home: str, used: Collection[str]) -> int:
    """Remove the layers whose owner is dead, but for those that a note still names; gives how many there were."""
    removed = 0
    try:
        found = os.listdir(home)
    except OSError:
        return 0
    for name in found:
        path = os.path.join(home, name)
        if path in used:
            continue
        with contextlib.suppress(OSError):
            handle = os.open(path, FOLDER)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)
                removed += 1
            finally:
                os.close(handle)
    return removed


def _open_private(home: str) -> None:
    """Make a home that nobody else can enter; OSError where another's folder or a link has the name."""
    with contextlib.suppress(FileExistsError):
        os.makedirs(home, _PRIVATE)
    handle = os.open(home, FOLDER)
    try:
        status = os.fstat(handle)
        if status.st_uid != os.geteuid():
            raise PermissionError(f"{home} is another's")
        if stat.S_IMODE(status.st_mode) != _PRIVATE:
            os.fchmod(handle, _PRIVATE)
    finally:
        os.close(handle)


def _is_renamed(home: str, root: str) -> bool:
    """Try it: mounts and quotas can be in the way on one file system, too."""
    with contextlib.ExitStack() as held:
        ours = os.open(home, FOLDER)
        held.callback(os.close, ours)
        theirs = os.open(root, FOLDER)
        held.callback(os.close, theirs)
        first = names.fresh()
        second = names.fresh()
        for name in (first, second):
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=ours))
            held.callback(names.forget, ours, name)
        held.callback(names.forget, theirs, first)
        names.put_new(ours, first, theirs, first)
        return names.exchange(ours, second, theirs, first)


def _make(home: str, root: str, put_back: Callable[[Layer], bool] | None = None) -> Layer:
    """Make a layer with the owner and the mode of its root, and hold it."""
    above = os.stat(root)
    for _ in range(_TRIES):
        path = os.path.join(home, os.urandom(8).hex())
        os.mkdir(path, _PRIVATE)
        handle = os.open(path, FOLDER)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for name in ("upper", "work", "aside"):
                os.mkdir(name, _PRIVATE, dir_fd=handle)
        except OSError:  # somebody who removes what dead owners left was quicker
            os.close(handle)
            continue
        _give(handle, above)
        return Layer(path, handle, put_back)
    raise FileNotFoundError(home)


def _give(handle: int, above: os.stat_result) -> None:
    """Let what is made in a layer belong to the owner of its root."""
    upper = os.open("upper", FOLDER, dir_fd=handle)
    work = os.open("work", FOLDER, dir_fd=handle)
    try:
        if os.geteuid() == 0:
            for fd in (handle, upper, work):
                os.fchown(fd, above.st_uid, above.st_gid)
        os.fchmod(upper, stat.S_IMODE(above.st_mode))
    finally:
        os.close(upper)
        os.close(work)


def _remove_empty(path: str, handle: int) -> bool:
    """Remove a layer that nothing is left in, as most are, without looking around in it; whether that was all."""
    try:
        for name in _EMPTIED:
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(name, dir_fd=handle)
        os.rmdir(path)
    except OSError:
        return False
    return True


def _remove(path: str) -> None:
    emptied(path)
    with contextlib.suppress(OSError):
        os.rmdir(path)

"""Lists of names from ripgrep: taken up, filtered entry by entry, and looked up again through handles."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress

from handrail.workspace.beneath import FOLDER
from handrail.workspace.rg_output import Keeper, order

_BLOCK = 32  # names looked at together, at least
_MOST_EMPTY = 10_000  # empty folders that are named
_FEW = 8  # names of one folder that are cheaper to look up one by one than by reading the folder


class Folders:
    """Opens folder after folder below an open one, name by name, following no link.

    The handles on the way to the last one stay open: in a sorted list the next folder is most often beside it.
    """

    def __init__(self, root_fd: int) -> None:
        self._names: list[str] = []
        self._fds = [root_fd]  # the first is not ours

    def open(self, path: str) -> int:
        """Give a handle that is good until the next call; OSError where no link-free way leads there."""
        names = path.split("/") if path else []
        same = 0
        while same < len(names) and same < len(self._names) and names[same] == self._names[same]:
            same += 1
        self._leave(same)
        for name in names[same:]:
            self._fds.append(os.open(name, FOLDER, dir_fd=self._fds[-1]))
            self._names.append(name)
        return self._fds[-1]

    def close(self) -> None:
        """Let the handles go."""
        self._leave(0)

    def _leave(self, depth: int) -> None:
        while len(self._names) > depth:
            self._names.pop()
            os.close(self._fds.pop())


class Names:
    """Takes up NUL-ended names until there are enough; with `folders` only those that really are there."""

    def __init__(self, keeper: Keeper, *, limit: int, after: str = "", folders: Folders | None = None) -> None:
        self.found: list[str] = []
        self.more = False
        self._keeper = keeper
        self._folders = folders
        self._limit = limit
        self._after = order(os.fsencode(after))
        self._rest = b""

    def feed(self, data: bytes) -> bool:
        """Take what was printed; True when there is enough."""
        whole, _, self._rest = (self._rest + data).rpartition(b"\0")
        names = os.fsdecode(whole).split("\0")
        if self._after:
            names = [name for name in names if order(os.fsencode(name)) > self._after]
        start = 0
        while start < len(names):
            end = start + max(_BLOCK, self._limit + 1 - len(self.found))  # no more than will be needed
            kept = self._keeper.keeps(names[start:end])
            self.found += kept if self._folders is None else really_there(kept, self._folders)
            start = end
            if len(self.found) > self._limit:
                del self.found[self._limit :]
                self.more = True
                break
        return self.more

    @property
    def progress(self) -> float:
        """How much of what is wanted has been found, from 0 to 1."""
        return len(self.found) / self._limit

    def close(self) -> None:
        """Nothing is held open."""


def sorted_names(data: bytes) -> bytes:
    """Put names into the order of `--sort path`."""
    names = data.split(b"\0")[:-1]
    return b"".join(name + b"\0" for name in sorted(names, key=order))


def by_folder(paths: Iterable[str]) -> dict[str, list[str]]:
    """Group paths by the folder they are in, keeping their order."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        names = folders.get(folder)
        if names is None:
            folders[folder] = [name]
        else:
            names.append(name)
    return folders


def really_there(paths: list[str], folders: Folders) -> list[str]:
    """Keep the paths that lead to something without a link on the way: the walk could have been led elsewhere."""
    missing: set[str] = set()
    for folder, names in by_folder(paths).items():
        if absent := _absent(folder, names, folders):
            missing.update(f"{folder}/{name}" if folder else name for name in absent)
    return [path for path in paths if path not in missing] if missing else paths


def _absent(folder: str, names: list[str], folders: Folders) -> list[str]:
    try:
        fd = folders.open(folder)
        if len(names) <= _FEW:
            return [name for name in names if not _stands(name, fd)]
        there = set(os.listdir(fd))
    except OSError:
        return names
    return [] if there.issuperset(names) else [name for name in names if name not in there]


def _stands(name: str, fd: int) -> bool:
    try:
        os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return False
    return True


def ranked(paths: list[str], sort: str, folders: Folders) -> list[str]:
    """Order regular files by time or size, the newest or largest first; what is not there is left out."""
    found: list[tuple[int, bytes, str]] = []
    for folder, names in by_folder(paths).items():
        with suppress(OSError):
            fd = folders.open(folder)
            for name in names:
                status = _status(name, fd)
                if status is not None:
                    path = f"{folder}/{name}" if folder else name
                    value = status.st_mtime_ns if sort == "mtime" else status.st_size
                    found.append((-value, order(os.fsencode(path)), path))
    return [path for _, _, path in sorted(found)]


def _status(name: str, fd: int) -> os.stat_result | None:
    try:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def folders_of(paths: Iterable[str]) -> list[str]:
    """Name every folder that holds one of the paths, however deep, in order."""
    found: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return sorted(found, key=lambda folder: order(os.fsencode(folder)))


def empty_below(known: Sequence[str], folders: Folders, *, hidden: bool, skipped: frozenset[str]) -> list[str]:
    """Name the folders beneath the known ones that hold no file: a listing of files does not show them.

    A folder whose files were all left out (ignored, hidden) holds files and is not named, nor is one above it.
    """
    found: list[str] = []
    filled: list[str] = []
    seen = set(known)
    pending = ["", *known]
    while pending and len(found) < _MOST_EMPTY:
        folder = pending.pop()
        for name in _subfolders(folder, folders) or ():
            path = f"{folder}/{name}" if folder else name
            if path in seen or name in skipped or (name.startswith(".") and not hidden):
                continue
            if _subfolders(path, folders, only=True) is not None:
                seen.add(path)
                found.append(path)
                pending.append(path)
            else:
                filled.append(path)
    holding = set(folders_of(filled))
    return [path for path in found if path not in holding]


def _subfolders(folder: str, folders: Folders, *, only: bool = False) -> list[str] | None:
    """Name the folders in a folder; None where it cannot be read, or with `only` where it holds anything else."""
    names: list[str] = []
    try:
        with os.scandir(folders.open(folder)) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    names.append(entry.name)
                elif only:
                    return None
    except OSError:
        return None
    return names

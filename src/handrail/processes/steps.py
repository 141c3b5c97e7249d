"""The single renames by which a reviewed change is kept, and the folders that they happen in.

The counterpart of a path is its spot: the new file before a step is made, the former one afterwards. It lies in the
layer, or in the root itself where the layer is in memory.
"""

from __future__ import annotations

import contextlib
import os
import stat

from handrail.words import Place, PlaceKind, Root, noun
from handrail.workspace.access import Access, split
from handrail.workspace.beneath import FOLDER

ORDER = ("delete", "rmdir", "mkdir", "replace", "create", "link")  # in which steps are made
_MOST_OPEN = 64


@noun
class Step:
    """One change of one name, and what takes it back."""

    root: Root
    path: str
    op: str  # one of ORDER
    layer: str = ""  # the layer's folder; empty: it is in memory
    spot: str = ""  # beneath the layer's folder, or a name in the root; empty: there is none
    before: str = ""  # sha256; empty: no file
    after: str = ""
    inode: int = 0  # of what goes
    mode: int | None = None  # of what goes
    link: str | None = None  # what a link that goes or comes leads to
    attributes: tuple[tuple[str, bytes], ...] = ()  # of a folder that goes

    @property
    def shown(self) -> str:
        """The path as a caller would ask for it."""
        return self.root.shown(self.path)

    @property
    def place(self) -> Place:
        """Where it is made."""
        return Place(self.root, self.path, PlaceKind.FILE)


class Handles:
    """The folders of steps; those used last stay open."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._open: dict[tuple[str, str], int] = {}
        self._renamed: dict[tuple[int, int], int] = {}  # files with several names, and when we last renamed one

    def changed_at(self, status: os.stat_result, known: int) -> int:
        """Say when a file that nobody else has touched was last changed: as known, or by our renaming another name."""
        return self._renamed.get((status.st_dev, status.st_ino), known)

    def note_renamed(self, status: os.stat_result) -> None:
        """Note that we have renamed a name of a file that has others."""
        if status.st_nlink > 1:
            self._renamed[status.st_dev, status.st_ino] = status.st_ctime_ns

    def target(self, step: Step) -> tuple[int, str]:
        """Open the folder that a step changes, and give the name in it."""
        folder, name = split(step.place)
        key = (step.root.path, folder)
        if key not in self._open:
            root = self._access.roots.handle(step.root)
            self._hold(key, self._access.open_beneath(root, folder or ".", FOLDER, 0))
        return self._open[key], name

    def spot(self, step: Step) -> tuple[int, str]:
        """Open the folder that the counterpart is in, and give its name."""
        if not step.layer:
            return self._access.roots.handle(step.root), step.spot
        folder, _, name = step.spot.rpartition("/")
        key = (step.layer, folder)
        if key not in self._open:
            self._hold(key, os.open(f"{step.layer}/{folder}", FOLDER))
        return self._open[key], name

    def folder(self, step: Step) -> int:
        """Open the folder that a step is about, for its caller to close."""
        root = self._access.roots.handle(step.root)
        return self._access.open_beneath(root, step.path, FOLDER, 0)

    def close(self) -> None:
        """Let all of them go."""
        while self._open:
            os.close(self._open.popitem()[1])

    def _hold(self, key: tuple[str, str], fd: int) -> None:
        while len(self._open) >= _MOST_OPEN:
            os.close(self._open.pop(next(iter(self._open))))
        self._open[key] = fd


def look_at(folder: int, name: str) -> os.stat_result | None:
    """Look at what is at a name; None: nothing."""
    with contextlib.suppress(FileNotFoundError):
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    return None


def attributes_of(fd: int) -> tuple[tuple[str, bytes], ...]:
    """Read the extended attributes of an open folder, access lists among them; what cannot be read is left out."""
    found: list[tuple[str, bytes]] = []
    with contextlib.suppress(OSError):
        for name in os.listxattr(fd):
            with contextlib.suppress(OSError):
                found.append((name, os.getxattr(fd, name)))
    return tuple(found)


def make_folder_again(handles: Handles, step: Step) -> None:
    """Make a folder that was removed, with its mode and attributes."""
    folder, name = handles.target(step)
    os.mkdir(name, 0o700, dir_fd=folder)
    fd = os.open(name, FOLDER, dir_fd=folder)
    try:
        for key, value in step.attributes:
            with contextlib.suppress(OSError):
                os.setxattr(fd, key, value)
        if step.mode is not None:
            os.fchmod(fd, stat.S_IMODE(step.mode))
    finally:
        os.close(fd)

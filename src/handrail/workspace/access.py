"""How a judged place is opened, and what a failure to do so means to the caller."""

from __future__ import annotations

import errno
import os
from typing import Protocol

from handrail.errors import Code, Problem
from handrail.words import Place, PlaceKind
from handrail.workspace.beneath import FOLDER, Opener
from handrail.workspace.roots import Roots

# O_NONBLOCK: a pipe or device that was put there never blocks; fstat then tells what it is.
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW


class Images(Protocol):
    """Where what a call replaces or deletes is kept, by hash."""

    @property
    def left(self) -> int:
        """How many bytes may still be kept."""

    def room(self, size: int, /) -> bool:
        """Whether a pre-image of this size may be kept."""

    def keep(self, source_fd: int, sha256: str, /) -> bool:
        """Keep the file's bytes durably; called in a thread, before the file is replaced. False: no room after all."""

    def takes(self, folder_fd: int, /) -> bool:
        """Whether files can be renamed from the file system of a folder to where images are."""

    def take(self, folder_fd: int, name: str, sha256: str, size: int, /) -> bool:
        """Keep a file of a folder by renaming it, or a copy where that cannot be. False: no room."""


class Access:
    """Opens exactly the judged place beneath its root's handle."""

    __slots__ = ("images", "open_beneath", "roots")

    def __init__(self, roots: Roots, opener: Opener, images: Images | None) -> None:
        self.roots = roots
        self.open_beneath = opener
        self.images = images

    def open(self, place: Place, flags: int) -> int:
        """Open the thing itself; OSError as the system says it."""
        roots = self.roots
        handle = roots.home_fd if place.root is roots.home else roots.handle(place.root)
        return self.open_beneath(handle, place.path, flags, 0)

    def parent(self, place: Place) -> tuple[int, str]:
        """Open the folder that holds a place, and give the name in it."""
        folder, name = split(place)
        return self.open_beneath(self.roots.handle(place.root), folder, FOLDER, 0), name

    def keep(self, fd: int, sha256: str, size: int) -> bool:
        """Keep a pre-image if there is room; says whether."""
        if self.images is None or not self.images.room(size):
            return False
        os.lseek(fd, 0, os.SEEK_SET)
        return self.images.keep(fd, sha256)


def split(place: Place) -> tuple[str, str]:
    """Give the folder's path and the name in it; refuses a place that nobody resolved."""
    folder, _, name = place.path.rpartition("/")
    if name in ("", ".", "..") or "\0" in name:
        raise Problem(Code.PATH_OUTSIDE_ROOTS, f"{place.shown!r} is no name beneath a root.")
    return folder, name


def refuse_read_only(*places: Place) -> None:
    """Refuse to change anything beneath a root that is only there to be read, whoever allowed it."""
    for place in places:
        if not place.root.writable:
            text = f"{place.shown} is beneath a root that is read-only."
            raise Problem(Code.PATH_OUTSIDE_ROOTS, text, path=place.shown)


def problem_of(error: OSError, place: Place, doing: str) -> Problem:
    """Say what a failed system call means for the caller."""
    number, shown = error.errno or 0, place.shown
    if number == errno.ENOENT:
        return Problem(Code.NOT_FOUND, f"{shown} does not exist.", path=shown)
    if number == errno.ELOOP and place.kind is PlaceKind.LINK:
        return Problem(Code.NOT_A_FILE, f"{shown} is a link; ask for what it points to.", path=shown)
    if number in (errno.ELOOP, errno.EXDEV) or (number == errno.ENOTDIR and place.kind is not PlaceKind.MISSING):
        return changed(place, doing)
    if number == errno.ENOTDIR:
        return Problem(Code.NOT_A_DIRECTORY, f"{shown}: something in this path is no folder.", path=shown)
    if number in (errno.EISDIR, errno.ENXIO):
        return not_a_file(place)
    if number == errno.EEXIST:
        return Problem(Code.ALREADY_EXISTS, f"{shown} exists already.", path=shown)
    text = f"{shown} could not be {doing}: {error.strerror}"
    return Problem(Code.IO_ERROR, text, path=shown, errno=number, error=errno.errorcode.get(number, ""))


def changed(place: Place, doing: str) -> Problem:
    """The path no longer leads where it led when it was judged."""
    text = f"{place.shown} changed while it was being {doing}: a link stands where none stood. Nothing was touched."
    return Problem(Code.PATH_OUTSIDE_ROOTS, text, path=place.shown)


def not_a_file(place: Place, kind: PlaceKind = PlaceKind.OTHER) -> Problem:
    """A folder, device, pipe or socket stands where a file is needed."""
    shown = place.shown
    if kind is PlaceKind.DIRECTORY or place.kind is PlaceKind.DIRECTORY:
        next_call = {"tool": "list_dir", "args": {"path": shown}}
        return Problem(Code.NOT_A_FILE, f"{shown} is a folder.", next_call=next_call, path=shown)
    return Problem(Code.NOT_A_FILE, f"{shown} is no regular file (a device, pipe or socket).", path=shown)

"""Make folders one name at a time beneath a handle, and take back those that were made for nothing."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from handrail.errors import Code, Problem
from handrail.words import Change, Place, PlaceKind
from handrail.workspace.access import Access, problem_of
from handrail.workspace.beneath import FOLDER

Record = Callable[[Change], None]


class Made:
    """Folders that were made for something that is yet to come."""

    __slots__ = ("_access", "_paths", "_place")

    def __init__(self, access: Access, place: Place) -> None:
        self._access = access
        self._place = place
        self._paths: list[str] = []

    def enter(self, path: str) -> int:
        """Open a folder beneath the place's root, making what is missing."""
        return _enter_all(self._access, self._place, path, self._paths.append)

    def settle(self, record: Record) -> None:
        """Put them on record: what they were made for is about to be."""
        paths, self._paths = self._paths, []
        for path in paths:
            record(_made(self._place, path))

    def take_back(self, record: Record) -> None:
        """Remove them again; those that others use by now stay, on record."""
        while self._paths and self._remove(self._paths[-1]):
            self._paths.pop()
        self.settle(record)

    def _remove(self, path: str) -> bool:
        try:
            folder, name = self._access.parent(Place(self._place.root, path, PlaceKind.DIRECTORY))
            try:
                os.rmdir(name, dir_fd=folder)
            finally:
                os.close(folder)
        except OSError:
            return False
        return True


def make(access: Access, place: Place, record: Record, mode: int | None = None) -> None:
    """Make a folder and its parents; one that is there already is no change."""
    handle = _enter_all(access, place, place.path, lambda path: record(_made(place, path)))
    try:
        if mode is not None:
            os.fchmod(handle, mode)
    finally:
        os.close(handle)


def _made(place: Place, path: str) -> Change:
    return Change(place.root.shown(path), "mkdir")


def _enter_all(access: Access, place: Place, path: str, made: Callable[[str], None]) -> int:
    """Give the handle of a folder, durable where it is new."""
    here = access.open_beneath(access.roots.handle(place.root), "", FOLDER, 0)
    done: list[str] = []
    try:
        for name in path.split("/") if path else ():
            done.append(name)
            below = _enter(here, name, "/".join(done), made)
            os.close(here)
            here = below
    except OSError as error:
        os.close(here)
        raise _problem(error, place, "/".join(done)) from None
    except BaseException:
        os.close(here)
        raise
    return here


def _enter(here: int, name: str, path: str, made: Callable[[str], None]) -> int:
    try:
        return os.open(name, FOLDER, dir_fd=here)
    except FileNotFoundError:
        pass
    try:
        os.mkdir(name, dir_fd=here)
    except FileExistsError:
        return os.open(name, FOLDER, dir_fd=here)  # someone was quicker: it is theirs, not ours to undo
    made(path)
    below = os.open(name, FOLDER, dir_fd=here)
    try:
        os.fsync(here)
    except BaseException:
        os.close(below)
        raise
    return below


def _problem(error: OSError, place: Place, path: str) -> Problem:
    if error.errno in (errno.ENOTDIR, errno.ELOOP):
        shown = place.root.shown(path)
        return Problem(Code.NOT_A_DIRECTORY, f"{shown} is no folder, so nothing can be made in it.", path=shown)
    return problem_of(error, place, "made")

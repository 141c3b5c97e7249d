"""Make folders one name at a time beneath a handle, and remember which ones were made."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from handrail.errors import Code, Problem
from handrail.words import Change, Place
from handrail.workspace.access import Access, problem_of
from handrail.workspace.beneath import FOLDER

Record = Callable[[Change], None]


def enter(access: Access, place: Place, path: str, record: Record, mode: int | None = None) -> int:
    """Open a folder beneath the place's root, making what is missing; gives its handle. Durable when it returns."""
    here = access.open_beneath(access.roots.handle(place.root), "", FOLDER, 0)
    done: list[str] = []
    try:
        for name in path.split("/") if path else ():
            done.append(name)
            below = _enter(here, name, place, "/".join(done), record)
            os.close(here)
            here = below
        if mode is not None:
            os.fchmod(here, mode)
    except OSError as error:
        os.close(here)
        raise _problem(error, place, "/".join(done)) from None
    except BaseException:
        os.close(here)
        raise
    return here


def make(access: Access, place: Place, record: Record, mode: int | None = None) -> None:
    """Make a folder and its parents; one that is there already is no change."""
    os.close(enter(access, place, place.path, record, mode))


def _enter(here: int, name: str, place: Place, path: str, record: Record) -> int:
    try:
        return os.open(name, FOLDER, dir_fd=here)
    except FileNotFoundError:
        pass
    try:
        os.mkdir(name, dir_fd=here)
    except FileExistsError:
        return os.open(name, FOLDER, dir_fd=here)  # someone was quicker: it is theirs, not ours to undo
    record(Change(place.root.shown(path), "mkdir"))
    below = os.open(name, FOLDER, dir_fd=here)
    os.fsync(here)
    return below


def _problem(error: OSError, place: Place, path: str) -> Problem:
    if error.errno in (errno.ENOTDIR, errno.ELOOP):
        shown = place.root.shown(path)
        return Problem(Code.NOT_A_DIRECTORY, f"{shown} is no folder, so nothing can be made in it.", path=shown)
    return problem_of(error, place, "made")

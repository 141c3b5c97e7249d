"""Delete files, links and folders, keeping what undo needs. Runs in a thread.

A name is first moved aside and looked at: only the very thing that was checked is removed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

from handrail.errors import Code, Problem
from handrail.words import Change, Place, PlaceKind
from handrail.workspace import names
from handrail.workspace.access import Access, problem_of
from handrail.workspace.beneath import HANDLE, open_same_mount
from handrail.workspace.folders import Record
from handrail.workspace.judged import check_judged
from handrail.workspace.resolve import kind_of
from handrail.workspace.standing import Standing, is_same, stale, stand, sync_folder
from handrail.workspace.threads import Brake

MAX_DEPTH = 256
Excluded = Callable[[str], bool]  # of a path beneath the place's root


def delete(
    access: Access,
    place: Place,
    *,
    recursive: bool,
    expected: str | None,
    excluded: Excluded,
    record: Record,
    brake: Brake,
) -> None:
    """Remove what stands at a place; a folder only with `recursive`, never a root or a mount point."""
    if not place.path:
        raise Problem(Code.PATH_PROTECTED, f"{place.shown} is a root and is never deleted.", path=place.shown)
    try:
        folder, name = access.parent(place)
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                if place.kind is not PlaceKind.DIRECTORY:
                    raise stale(place, "a folder stands there, which was not so when this call was judged")
                _delete_folder(access, place, folder, name, recursive, excluded, record, brake)
            else:
                _delete_one(access, place, folder, name, expected, record, brake)
            sync_folder(folder, place)
        finally:
            os.close(folder)
    except OSError as error:
        raise problem_of(error, place, "deleted") from None


def _delete_one(
    access: Access, place: Place, folder: int, name: str, expected: str | None, record: Record, brake: Brake
) -> None:
    handle = os.open(name, HANDLE, dir_fd=folder)
    try:
        status = os.fstat(handle)
        kind = kind_of(status.st_mode)
        if kind is PlaceKind.FILE:
            _delete_file(access, place, folder, name, expected, record, brake)
            return
        link = os.readlink("", dir_fd=handle) if kind is PlaceKind.LINK else None
        brake.check()
        # The open handle keeps the number of this thing from being given to another one.
        _take_away(folder, name, place, lambda old: names.identity(folder, old) == names.identity_of(status))
        mode = stat.S_IMODE(status.st_mode)
        record(Change(place.shown, "delete", mode=mode, link=link, kept=link is not None))
    finally:
        os.close(handle)


def _delete_file(
    access: Access, place: Place, folder: int, name: str, expected: str | None, record: Record, brake: Brake
) -> None:
    standing = stand(folder, name, place, brake)
    if standing is None:
        raise stale(place, "someone else deleted it in the meantime")
    try:
        if expected is not None and expected != standing.sha256:
            raise stale(place, "its content is another one", standing.sha256, expected)
        remove_standing(access, place, folder, name, standing, record, brake)
    finally:
        os.close(standing.fd)


def remove_standing(
    access: Access, place: Place, folder: int, name: str, standing: Standing, record: Record, brake: Brake
) -> None:
    """Remove a checked file, its pre-image kept first."""
    kept = access.keep(standing.fd, standing.sha256, standing.status.st_size)
    brake.check()
    _take_away(folder, name, place, lambda old: is_same(folder, old, standing))
    record(Change(place.shown, "delete", standing.sha256, mode=stat.S_IMODE(standing.status.st_mode), kept=kept))


def _take_away(folder: int, name: str, place: Place, wanted: Callable[[str], bool]) -> None:
    why = names.take_away(folder, name, wanted)
    if why is not None:
        raise stale(place, why)


# ── folders ──────────────────────────────────────────────────────────────────────────────────


def _delete_folder(
    access: Access,
    place: Place,
    folder: int,
    name: str,
    recursive: bool,
    excluded: Excluded,
    record: Record,
    brake: Brake,
) -> None:
    if not recursive:
        args = {"path": place.shown, "recursive": True}
        text = f"{place.shown} is a folder; `recursive` deletes it with all that lies below."
        raise Problem(Code.NOT_A_FILE, text, next_call={"tool": "delete_path", "args": args}, path=place.shown)
    judged = place.below or frozenset()
    below = _open_folder(folder, name, place)
    try:
        _survey(below, place, judged, excluded, 0)  # refuse as a whole before anything is gone
        brake.check()
        _empty(access, below, place, judged, record, brake)
        mode = stat.S_IMODE(os.fstat(below).st_mode)
    finally:
        os.close(below)
    _remove_folder(folder, name, place, mode, record)


def _open_folder(folder: int, name: str, place: Place) -> int:
    try:
        return open_same_mount(folder, name)
    except OSError as error:
        if error.errno == errno.EXDEV:
            text = f"{place.shown} is a mount point and is never deleted."
            raise Problem(Code.PATH_PROTECTED, text, path=place.shown) from None
        raise problem_of(error, place, "deleted") from None


def _survey(folder: int, place: Place, judged: frozenset[str], excluded: Excluded, depth: int) -> None:
    if depth > MAX_DEPTH:
        text = f"{place.shown} lies more than {MAX_DEPTH} folders deep; delete the inner folders first."
        raise Problem(Code.IO_ERROR, text, path=place.shown)
    for name, mode in _entries(folder):
        inner = _inside(place, name, mode)
        if excluded(inner.path):
            text = f"{inner.shown} is protected, so {place.shown} is not deleted. Nothing was deleted."
            raise Problem(Code.PATH_PROTECTED, text, path=inner.shown)
        check_judged(inner, judged)
        if inner.kind is PlaceKind.DIRECTORY:
            below = _open_folder(folder, name, inner)
            try:
                _survey(below, inner, judged, excluded, depth + 1)
            finally:
                os.close(below)


def _empty(access: Access, folder: int, place: Place, judged: frozenset[str], record: Record, brake: Brake) -> None:
    for name, mode in _entries(folder):
        brake.check()
        inner = _inside(place, name, mode)
        check_judged(inner, judged)
        if inner.kind is PlaceKind.DIRECTORY:
            below = _open_folder(folder, name, inner)
            try:
                _empty(access, below, inner, judged, record, brake)
            finally:
                os.close(below)
            _remove_folder(folder, name, inner, stat.S_IMODE(mode), record)
        else:
            _delete_one(access, inner, folder, name, None, record, brake)


def _remove_folder(folder: int, name: str, place: Place, mode: int, record: Record) -> None:
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise stale(place, "something appeared in it while it was being deleted") from None
        raise problem_of(error, place, "deleted") from None
    record(Change(place.shown, "rmdir", mode=mode))


def remove_empty(access: Access, place: Place, record: Record) -> None:
    """Remove a folder only if nothing is in it."""
    folder, name = access.parent(place)
    try:
        mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        _remove_folder(folder, name, place, mode, record)
        sync_folder(folder, place)
    finally:
        os.close(folder)


def _entries(folder: int) -> list[tuple[str, int]]:
    """Names in a folder with what each one is, sorted; one that vanishes meanwhile is left out."""
    found = []
    for name in sorted(os.listdir(folder)):
        try:
            found.append((name, os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode))
        except FileNotFoundError:
            continue
    return found


def _inside(place: Place, name: str, mode: int) -> Place:
    return Place(place.root, f"{place.path}/{name}", kind_of(mode))

"""Rename within and between roots, never over something that nobody saw. Runs in a thread."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Collection
from dataclasses import dataclass

from handrail.errors import Code, Problem
from handrail.words import Change, Place, PlaceKind
from handrail.workspace import names
from handrail.workspace.access import READ, Access, problem_of, split
from handrail.workspace.beneath import FOLDER, HANDLE
from handrail.workspace.folders import Made, Record
from handrail.workspace.judged import first_unjudged, unjudged
from handrail.workspace.reading import CHUNK, digest
from handrail.workspace.resolve import kind_of
from handrail.workspace.settings_table import refuse_settings
from handrail.workspace.standing import (
    NEW,
    Standing,
    forget_ours,
    is_same,
    refuse_split,
    replace,
    stale,
    stand,
    sync_folder,
    take_after,
    write_all,
)
from handrail.workspace.threads import Brake


@dataclass(frozen=True, slots=True)
class End:
    """One end of a move: the open folder, the name in it, and the place as judged."""

    place: Place
    folder: int
    name: str


@dataclass(frozen=True, slots=True)
class Load:
    """What is moved, held open so that its identity cannot pass to another thing."""

    handle: int
    status: os.stat_result
    kind: PlaceKind
    sha256: str | None


def move(
    access: Access,
    source: Place,
    target: Place,
    *,
    overwrite: bool,
    ours: Collection[str],
    record: Record,
    brake: Brake,
) -> None:
    """Rename source to target; ALREADY_EXISTS over something unless `overwrite`, which takes files only.

    `ours` names what this call itself put there since its places were judged.
    """
    _check_ends(source, target)
    opened: list[int] = []
    made = Made(access, target)

    def noted(change: Change) -> None:
        made.settle(record)
        record(change)

    try:
        start = _open_source(access, source, opened)
        load = _lift(start, source.shown in ours, opened, brake)
        _refuse_unjudged(start, load)
        if load.kind is PlaceKind.FILE:
            refuse_settings(target, load.handle)
        end = _open_target(access, target, made, opened)
        standing = _standing(end, load, overwrite=overwrite, ours=target.shown in ours, opened=opened, brake=brake)
        brake.check()
        if standing is None:
            _move_to_free(start, end, load, noted)
        else:
            _move_over(access, start, end, load, standing, noted)
        sync_folder(end.folder, target)
        sync_folder(start.folder, source)
    except OSError as error:
        raise problem_of(error, source, "moved") from None
    finally:
        for fd in opened:
            os.close(fd)
        made.take_back(record)


def _check_ends(source: Place, target: Place) -> None:
    for place in (source, target):
        if not place.path:
            raise Problem(Code.PATH_PROTECTED, f"{place.shown} is a root and is never moved.", path=place.shown)
    if f"{target.absolute}/".startswith(f"{source.absolute}/"):
        same = target.absolute == source.absolute
        text = f"{target.shown} is {'the same place as' if same else 'inside'} {source.shown}."
        raise Problem(Code.INVALID_ARGS, text)


def _open_source(access: Access, place: Place, opened: list[int]) -> End:
    folder, name = access.parent(place)
    opened.append(folder)
    return End(place, folder, name)


def _open_target(access: Access, place: Place, made: Made, opened: list[int]) -> End:
    path, name = split(place)
    try:
        folder = access.open_beneath(access.roots.handle(place.root), path, FOLDER, 0)
    except FileNotFoundError:
        folder = made.enter(path)
    except OSError as error:
        raise problem_of(error, place, "written") from None
    opened.append(folder)
    return End(place, folder, name)


def _lift(start: End, ours: bool, opened: list[int], brake: Brake) -> Load:
    handle = os.open(start.name, HANDLE, dir_fd=start.folder)
    opened.append(handle)
    status = os.fstat(handle)
    kind = kind_of(status.st_mode)
    if kind is not start.place.kind and not ours:
        raise stale(start.place, f"a {kind} stands there, which was not so when this call was judged")
    if kind is not PlaceKind.FILE:
        return Load(handle, status, kind, None)
    readable = os.open(start.name, READ, dir_fd=start.folder)
    opened.append(readable)
    if names.identity_of(os.fstat(readable)) != names.identity_of(status):
        raise stale(start.place, "someone else replaced it in the meantime")
    return Load(readable, status, kind, digest(readable, brake)[0])


def _refuse_unjudged(start: End, load: Load) -> None:
    """Refuse to move along what nobody judged; `runs undo` moves a folder back with whatever is in it by now."""
    judged, place = start.place.below, start.place
    if load.kind is not PlaceKind.DIRECTORY or judged is None:
        return
    folder = os.open(".", FOLDER, dir_fd=load.handle)
    try:
        path = first_unjudged(folder, place.path, judged)
    finally:
        os.close(folder)
    if path is not None:
        raise unjudged(Place(place.root, path, PlaceKind.OTHER))


def _standing(end: End, load: Load, *, overwrite: bool, ours: bool, opened: list[int], brake: Brake) -> Standing | None:
    if names.identity(end.folder, end.name) == (0, 0):
        return None
    shown = end.place.shown
    if not overwrite:
        raise Problem(Code.ALREADY_EXISTS, f"{shown} exists already; `overwrite` replaces a file.", path=shown)
    if end.place.kind is PlaceKind.MISSING and not ours:
        raise stale(end.place, "it did not exist when this call was judged, and exists now")
    if load.kind is PlaceKind.DIRECTORY:
        raise Problem(Code.ALREADY_EXISTS, f"{shown} exists already; a folder replaces nothing.", path=shown)
    standing = stand(end.folder, end.name, end.place, brake)
    if standing is not None:
        opened.append(standing.fd)
        refuse_split(end.place, standing)
    return standing


def _moved(start: End, end: End, load: Load) -> Change:
    mode = stat.S_IMODE(load.status.st_mode)
    link = os.readlink("", dir_fd=load.handle) if load.kind is PlaceKind.LINK else None
    return Change(end.place.shown, "move", after=load.sha256, mode=mode, source=start.place.shown, link=link)


def _is_load(folder: int, name: str, load: Load) -> bool:
    return names.identity(folder, name) == names.identity_of(load.status)


def _move_to_free(start: End, end: End, load: Load, record: Record) -> None:
    try:
        names.put_new(start.folder, start.name, end.folder, end.name)
    except FileExistsError:
        raise stale(end.place, "someone else made it in the meantime") from None
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _carry(start, end, load, None)
        _leave(start, end, load, record)
        return
    if not _is_load(end.folder, end.name, load):
        names.put_new(end.folder, end.name, start.folder, start.name)
        raise stale(start.place, "someone else replaced it in the meantime")
    try:
        _refuse_unjudged(start, load)  # what came into the folder at the last moment
    except (Problem, OSError):
        _put_back(start, end, load, record)
        raise
    record(_moved(start, end, load))


def _put_back(start: End, end: End, load: Load, record: Record) -> None:
    """Take a move back; where somebody has taken the old name meanwhile, it is one for the record."""
    try:
        names.put_new(end.folder, end.name, start.folder, start.name)
    except OSError:
        record(_moved(start, end, load))


def _move_over(access: Access, start: End, end: End, load: Load, standing: Standing, record: Record) -> None:
    kept = access.keep(standing.fd, standing.sha256, standing.status.st_size)
    mode = stat.S_IMODE(standing.status.st_mode)
    gone = Change(end.place.shown, "delete", standing.sha256, mode=mode, kept=kept)
    try:
        exchanged = names.exchange(start.folder, start.name, end.folder, end.name)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _carry(start, end, load, standing)
        record(gone)
        _leave(start, end, load, record)
        return
    if not exchanged:
        _rename_over(start, end, load, standing)
    elif not (is_same(start.folder, start.name, standing) and _is_load(end.folder, end.name, load)):
        names.exchange(start.folder, start.name, end.folder, end.name)
        raise stale(end.place, "someone else changed it between check and replace")
    record(gone)
    record(_moved(start, end, load))
    if exchanged:
        _take_away(start, standing)


def _rename_over(start: End, end: End, load: Load, standing: Standing) -> None:
    if not (is_same(end.folder, end.name, standing) and _is_load(start.folder, start.name, load)):
        raise stale(end.place, "someone else changed it between check and replace")
    os.rename(start.name, end.name, src_dir_fd=start.folder, dst_dir_fd=end.folder)


def _take_away(end: End, standing: Standing) -> None:
    why = names.take_away(end.folder, end.name, lambda old: is_same(end.folder, old, standing))
    if why is not None:
        raise stale(end.place, why)


# ── between file systems ─────────────────────────────────────────────────────────────────────


def _carry(start: End, end: End, load: Load, standing: Standing | None) -> None:
    """Copy what is moved to a file system where it cannot be renamed to, atomically and durably."""
    if load.sha256 is None:
        text = f"{start.place.shown} is no regular file, and {end.place.shown} lies on another file system."
        raise Problem(Code.NOT_A_FILE, f"{text} Move its files one by one.", path=start.place.shown)
    temporary = names.fresh()
    ours = _copy(end.folder, temporary, Standing(load.handle, load.status, load.sha256), start.place)
    try:
        if standing is None:
            names.put_new(end.folder, temporary, end.folder, end.name)
        else:
            temporary = names.renamed_old(end.folder, temporary)
            replace(end.folder, temporary, end.name, standing, ours, end.place)
    except BaseException:
        forget_ours(end.folder, temporary, ours)
        raise


def _copy(folder: int, temporary: str, original: Standing, place: Place) -> tuple[int, int]:
    fd = os.open(temporary, NEW, 0o600, dir_fd=folder)
    try:
        found, offset = hashlib.sha256(), 0
        while part := os.pread(original.fd, CHUNK, offset):
            found.update(part)
            offset += len(part)
            write_all(fd, part)
        if found.hexdigest() != original.sha256:
            raise stale(place, "someone else changed it while it was being copied")
        take_after(fd, original)
        os.fsync(fd)
        return names.identity_of(os.fstat(fd))
    except BaseException:
        names.forget(folder, temporary)
        raise
    finally:
        os.close(fd)


def _leave(start: End, end: End, load: Load, record: Record) -> None:
    """Remove the original of a copy; where that fails, what was done is a new file and no move."""
    assert load.sha256 is not None
    try:
        _take_away(start, Standing(load.handle, load.status, load.sha256))
    except BaseException:
        record(Change(end.place.shown, "create", after=load.sha256))
        raise
    record(_moved(start, end, load))

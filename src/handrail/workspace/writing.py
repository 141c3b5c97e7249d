"""Replace or create a file atomically and durably, and never over a change that nobody saw.

A new file takes its name only if nothing has it. An existing one is exchanged with its successor; what comes out is
compared with what was judged, and swapped back when it is something else. Runs in a thread, in one go.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from dataclasses import dataclass

from handrail.errors import Code, Problem
from handrail.words import Change, Place, PlaceKind
from handrail.workspace import folders, names
from handrail.workspace.access import READ, Access, not_a_file, problem_of
from handrail.workspace.beneath import FOLDER
from handrail.workspace.folders import Record
from handrail.workspace.reading import digest
from handrail.workspace.resolve import kind_of
from handrail.workspace.threads import Brake

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_KEPT_MODE = 0o1777  # a replaced file loses setuid and setgid, as one that is written in place does
_swept: set[tuple[int, int]] = set()


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be written, and what must be there now."""

    data: bytes
    expected_sha256: str | None = None
    mkdirs: bool = True
    exclusive: bool = False
    mode: int | None = None  # of a file that is made anew
    ours: bool = False  # this call put there what stands there


@dataclass(frozen=True, slots=True)
class Standing:
    """An existing file, open, as it was when it was checked."""

    fd: int
    status: os.stat_result
    sha256: str


def write(access: Access, place: Place, order: Order, record: Record, brake: Brake) -> Change:
    """Carry an order out; Problem and nothing changed where what is there is not what it must be."""
    folder, name = _folder_of(access, place, order, record)
    standing: Standing | None = None
    try:
        _sweep_once(folder)
        standing = stand(folder, name, place, brake)
        _check(place, order, standing)
        return _install(access, place, order, folder, name, standing, record, brake)
    except OSError as error:
        raise problem_of(error, place, "written") from None
    finally:
        if standing is not None:
            os.close(standing.fd)
        os.close(folder)


def _folder_of(access: Access, place: Place, order: Order, record: Record) -> tuple[int, str]:
    if not place.path:
        raise not_a_file(place, PlaceKind.DIRECTORY)
    folder, _, name = place.path.rpartition("/")
    try:
        return access.open_beneath(access.roots.handle(place.root), folder, FOLDER, 0), name
    except FileNotFoundError:
        if order.mkdirs:
            return folders.enter(access, place, folder, record), name
        shown = place.root.shown(folder)
        raise Problem(Code.NOT_FOUND, f"The folder {shown} does not exist; mkdirs makes it.", path=shown) from None
    except OSError as error:
        raise problem_of(error, place, "written") from None


def _sweep_once(folder: int) -> None:
    key = names.identity_of(os.fstat(folder))
    if key not in _swept and len(_swept) < 4096:
        _swept.add(key)
        names.sweep(folder)


def stand(folder: int, name: str, place: Place, brake: Brake) -> Standing | None:
    """Open and hash the regular file at a name; None when nothing is there."""
    try:
        fd = os.open(name, READ, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise problem_of(error, place, "written") from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise not_a_file(place, kind_of(status.st_mode))
        return Standing(fd, status, digest(fd, brake)[0])
    except BaseException:
        os.close(fd)
        raise


def _check(place: Place, order: Order, standing: Standing | None) -> None:
    shown = place.shown
    if standing is None:
        if order.expected_sha256:
            raise stale(place, "it does not exist any more")
        return
    if order.exclusive:
        raise Problem(Code.ALREADY_EXISTS, f"{shown} exists already.", path=shown, sha256=standing.sha256)
    if place.kind is PlaceKind.MISSING and not order.ours:
        raise stale(place, "it did not exist when this call was judged, and exists now", standing.sha256)
    if order.expected_sha256 is not None and order.expected_sha256 != standing.sha256:
        why = "something is there already" if order.expected_sha256 == "" else "its content is another one"
        raise stale(place, why, standing.sha256, order.expected_sha256)
    refuse_split(place, standing)


def refuse_split(place: Place, standing: Standing) -> None:
    """Refuse to replace one of several names of a file."""
    links = standing.status.st_nlink
    if links > 1:
        text = (
            f"{place.shown} has {links} hard links: replacing it would split them, and the others may lie outside of "
            "the workspace. Nothing was changed; write to a new path, or delete this one first."
        )
        raise Problem(Code.PATH_PROTECTED, text, path=place.shown, links=links)


def stale(place: Place, why: str, actual: str | None = None, expected: str | None = None) -> Problem:
    """What is there is not what the call was about."""
    next_call = {"tool": "read_file", "args": {"path": place.shown}} if actual else None
    found = {"path": place.shown, "actual_sha256": actual, "expected_sha256": expected}
    text = f"{place.shown} changed: {why}. Nothing was overwritten."
    details = {key: value for key, value in found.items() if value}
    return Problem(Code.STALE_FILE, text, next_call=next_call, details=details)


def _install(
    access: Access,
    place: Place,
    order: Order,
    folder: int,
    name: str,
    standing: Standing | None,
    record: Record,
    brake: Brake,
) -> Change:
    temporary = names.fresh()
    after = hashlib.sha256(order.data).hexdigest()
    ours = _fill(folder, temporary, order, standing)
    try:
        brake.check()
        if standing is None:
            change = Change(place.shown, "create", after=after)
            _take_name(folder, temporary, name, place)
        else:
            kept = access.keep(standing.fd, standing.sha256, standing.status.st_size)
            mode = stat.S_IMODE(standing.status.st_mode)
            change = Change(place.shown, "replace", standing.sha256, after, mode, kept=kept)
            brake.check()
            temporary = names.renamed_old(folder, temporary)
            replace(folder, temporary, name, standing, ours, place)
    except BaseException:
        forget_ours(folder, temporary, ours)
        raise
    record(change)
    sync(folder, place)
    return change


def sync(folder: int, place: Place) -> None:
    """Make a change of names durable; the change itself is done, whatever this says."""
    try:
        os.fsync(folder)
    except OSError as error:
        text = f"{place.shown} is changed, but its folder could not be synced and may not survive a power loss."
        raise Problem(Code.IO_ERROR, text, path=place.shown, errno=error.errno) from None


def _fill(folder: int, temporary: str, order: Order, standing: Standing | None) -> tuple[int, int]:
    """Write the data durably under a temporary name; gives which file that is."""
    fd = os.open(temporary, _NEW, 0o666 if standing is None else 0o600, dir_fd=folder)
    try:
        write_all(fd, order.data)
        if standing is not None:
            take_after(fd, standing)
        elif order.mode is not None:
            os.fchmod(fd, order.mode & _KEPT_MODE)
        os.fsync(fd)
        return names.identity_of(os.fstat(fd))
    except BaseException:
        names.forget(folder, temporary)
        raise
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write to the last byte."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def take_after(fd: int, standing: Standing) -> None:
    """Give the successor the owner, mode and attributes of the file it replaces, as far as we may."""
    old = standing.status
    new = os.fstat(fd)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(fd, old.st_uid, old.st_gid)
    with contextlib.suppress(OSError):
        for key in os.listxattr(standing.fd):
            if key.startswith("user.") or key == "system.posix_acl_access":
                os.setxattr(fd, key, os.getxattr(standing.fd, key))
    os.fchmod(fd, old.st_mode & _KEPT_MODE)


def _take_name(folder: int, temporary: str, name: str, place: Place) -> None:
    try:
        names.put_new(folder, temporary, folder, name)
    except FileExistsError:
        raise stale(place, "someone else made it in the meantime") from None


def replace(folder: int, temporary: str, name: str, standing: Standing, ours: tuple[int, int], place: Place) -> None:
    """Put the temporary file in the place of a checked one; STALE_FILE and all as it was if another stood there."""
    try:
        if not names.exchange(folder, temporary, folder, name):
            _replace_unexchanged(folder, temporary, name, standing, place)
            return
    except FileNotFoundError:
        raise stale(place, "someone else deleted it in the meantime") from None
    if is_same(folder, temporary, standing):
        os.unlink(temporary, dir_fd=folder)
        return
    put_back(folder, temporary, name, ours, place)
    raise stale(place, "someone else changed it between check and replace")


def _replace_unexchanged(folder: int, temporary: str, name: str, standing: Standing, place: Place) -> None:
    if not is_same(folder, name, standing):
        raise stale(place, "someone else changed it between check and replace")
    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def is_same(folder: int, name: str, standing: Standing) -> bool:
    """Whether a name holds the very file that was checked, with the same bytes."""
    same = names.identity(folder, name) == names.identity_of(standing.status)
    return same and digest(standing.fd, Brake())[0] == standing.sha256


def put_back(folder: int, temporary: str, name: str, ours: tuple[int, int], place: Place) -> None:
    """Undo an exchange. Where a third party was quick again, nothing of theirs is lost: it keeps the temporary name."""
    try:
        names.exchange(folder, temporary, folder, name)
    except FileNotFoundError:  # our file was taken away meanwhile: give the name back to what had it
        names.put_new(folder, temporary, folder, name)
        return
    if names.identity(folder, temporary) != ours:
        kept = place.root.shown("/".join([*place.path.split("/")[:-1], temporary]))
        text = f"{place.shown} is being changed by someone else again and again; one version was kept as {kept}."
        raise Problem(Code.STALE_FILE, text, path=place.shown, kept=kept)


def forget_ours(folder: int, temporary: str, ours: tuple[int, int]) -> None:
    """Remove the temporary file only if it is the one we wrote."""
    if names.identity(folder, temporary) == ours:
        names.forget(folder, temporary)

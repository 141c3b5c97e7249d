"""An existing file that is about to be replaced: held open, known by hash, exchanged only while it is the same."""

from __future__ import annotations

import contextlib
import os
import stat

from handrail.errors import Code, Problem
from handrail.words import Place, noun
from handrail.workspace import names
from handrail.workspace.access import READ, not_a_file, problem_of
from handrail.workspace.reading import digest
from handrail.workspace.resolve import kind_of
from handrail.workspace.threads import Brake

NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
KEPT_MODE = 0o1777  # a replaced file loses setuid and setgid, as one that is written in place does


@noun
class Standing:
    """An existing file, open, as it was when it was checked."""

    fd: int
    status: os.stat_result
    sha256: str


def stand(folder: int, name: str, place: Place, brake: Brake, most: int | None = None) -> Standing | None:
    """Open and hash the regular file at a name; None when nothing is there, STALE_FILE over `most` bytes."""
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
        if most is not None and status.st_size > most:
            raise stale(place, "it has grown since this call was judged")
        return Standing(fd, status, digest(fd, brake)[0])
    except BaseException:
        os.close(fd)
        raise


def stale(place: Place, why: str, actual: str | None = None, expected: str | None = None) -> Problem:
    """What is there is not what the call was about."""
    next_call = {"tool": "read_file", "args": {"path": place.shown}} if actual else None
    found = {"path": place.shown, "actual_sha256": actual, "expected_sha256": expected}
    text = f"{place.shown} changed: {why}. Nothing was overwritten."
    details = {key: value for key, value in found.items() if value}
    return Problem(Code.STALE_FILE, text, next_call=next_call, details=details)


def refuse_split(place: Place, standing: Standing) -> None:
    """Refuse to replace one of several names of a file."""
    links = standing.status.st_nlink
    if links > 1:
        text = (
            f"{place.shown} has {links} hard links: replacing it would split them, and the others may lie outside of "
            "the workspace. Nothing was changed; write to a new path, or delete this one first."
        )
        raise Problem(Code.PATH_PROTECTED, text, path=place.shown, links=links)


def is_same(folder: int, name: str, standing: Standing) -> bool:
    """Whether a name holds the very file that was checked, with the same bytes."""
    same = names.identity(folder, name) == names.identity_of(standing.status)
    return same and digest(standing.fd, Brake())[0] == standing.sha256


def replace(folder: int, temporary: str, name: str, standing: Standing, ours: tuple[int, int], place: Place) -> None:
    """Put the temporary file in the place of a checked one; STALE_FILE and all as it was if another stood there."""
    if _has_moved_on(folder, name, standing):
        raise stale(place, "someone else changed it in the meantime")
    try:
        if not names.exchange(folder, temporary, folder, name):
            _replace_unexchanged(folder, temporary, name, standing, place)
            return
    except FileNotFoundError:
        raise stale(place, "someone else deleted it in the meantime") from None
    if is_same(folder, temporary, standing):
        os.unlink(temporary, dir_fd=folder)
        return
    _put_back(folder, temporary, name, ours, place)
    raise stale(place, "someone else changed it between check and replace")


def _has_moved_on(folder: int, name: str, standing: Standing) -> bool:
    """Whether a quick look tells already that it changed: then nothing is exchanged, not even for a moment."""
    old, now = standing.status, os.fstat(standing.fd)
    in_place = (old.st_size, old.st_mtime_ns) != (now.st_size, now.st_mtime_ns)
    return in_place or names.identity(folder, name) != names.identity_of(old)


def _replace_unexchanged(folder: int, temporary: str, name: str, standing: Standing, place: Place) -> None:
    if not is_same(folder, name, standing):
        raise stale(place, "someone else changed it between check and replace")
    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _put_back(folder: int, temporary: str, name: str, ours: tuple[int, int], place: Place) -> None:
    """Undo an exchange. Where a third party was quick again, their last save gets the name and the one before stays."""
    try:
        names.exchange(folder, temporary, folder, name)
    except FileNotFoundError:  # our file was taken away meanwhile: give the name back to what had it
        names.put_new(folder, temporary, folder, name)
        return
    if names.identity(folder, temporary) != ours:
        with contextlib.suppress(FileNotFoundError):
            names.exchange(folder, temporary, folder, name)
        kept = place.root.shown("/".join([*place.path.split("/")[:-1], temporary]))
        text = f"{place.shown} is being changed by someone else again and again; an earlier version is kept as {kept}."
        raise Problem(Code.STALE_FILE, text, path=place.shown, kept=kept)


def forget_ours(folder: int, temporary: str, ours: tuple[int, int]) -> None:
    """Remove the temporary file only if it is the one we wrote."""
    with contextlib.suppress(OSError):
        if names.identity(folder, temporary) == ours:
            names.forget(folder, temporary)


def write_all(fd: int, data: bytes) -> None:
    """Write to the last byte."""
    if not data or (count := os.write(fd, data)) == len(data):
        return
    view = memoryview(data)[count:]
    while view:
        view = view[os.write(fd, view) :]


def take_after(fd: int, standing: Standing) -> None:
    """Give the successor the owner, mode and attributes of the file it replaces, as far as we may."""
    old, new = standing.status, os.fstat(fd)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(fd, old.st_uid, old.st_gid)
    with contextlib.suppress(OSError):
        for key in os.listxattr(standing.fd):
            if key.startswith("user.") or key == "system.posix_acl_access":
                os.setxattr(fd, key, os.getxattr(standing.fd, key))
    os.fchmod(fd, old.st_mode & KEPT_MODE)


def sync_folder(folder: int, place: Place) -> None:
    """Make a change of names durable; the change itself is done, whatever this says."""
    try:
        os.fsync(folder)
    except OSError as error:
        text = f"{place.shown} is changed, but its folder could not be synced and may not survive a power loss."
        raise Problem(Code.IO_ERROR, text, path=place.shown, errno=error.errno) from None

"""One skill's folder: its files and their digest. Nothing beyond the folder is ever opened, by link or race."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from handrail.errors import Code, Problem
from handrail.ports import SkillFile
from handrail.words import noun
from handrail.workspace import beneath

MAX_FILES = 2000
MAX_BYTES = 32 * 1024 * 1024
MAX_DEPTH = 16
MAX_RESOURCE_BYTES = 8 * 1024 * 1024
HEADERS = ("SKILL.md", "skill.md")
_SETTLED_NS = 1_000_000_000  # a file changed less than this ago may change again with the same dates
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_CHUNK = 1 << 20
MAX_LINKS = 8


@noun
class Contents:
    """What lies in a skill's folder, and what is wrong with it."""

    files: tuple[SkillFile, ...] = ()  # without SKILL.md itself
    header: str = ""  # the name of its SKILL.md; empty: there is none
    digest: str = ""
    problems: tuple[str, ...] = ()


class TooMuch(Exception):
    """The folder holds more than a skill may."""


@dataclass(slots=True)
class Hashes:
    """Hashes of files that have not changed since: looked up by all that the system says of a file."""

    known: dict[tuple[int, ...], str] = field(default_factory=dict)

    def of(self, fd: int, status: os.stat_result) -> str:
        """Give the hash of an open file's bytes."""
        key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        found = self.known.get(key)
        if found is not None:
            return found
        began = time.time_ns()
        found = hashlib.sha256(read_all(fd, MAX_BYTES)).hexdigest()
        if 0 < status.st_ctime_ns < began - _SETTLED_NS:
            if len(self.known) > 20_000:
                self.known.clear()
            self.known[key] = found
        return found


@contextmanager
def opened(folder: str) -> Iterator[int]:
    """Open a skill's folder by its canonical path; a link that took its place since is refused."""
    root = os.open("/", beneath.HANDLE | os.O_DIRECTORY)
    try:
        fd = beneath.choose("auto")(root, folder.strip("/"), beneath.FOLDER, 0)
    finally:
        os.close(root)
    try:
        yield fd
    finally:
        os.close(fd)


def contents(folder: str, hashes: Hashes) -> Contents:
    """List and hash all that lies in a skill's folder, within bounds."""
    walk = _Walk(hashes)
    try:
        with opened(folder) as fd:
            walk.into(fd, fd, "")
    except TooMuch as error:
        return Contents(problems=(str(error),))
    except OSError as error:
        return Contents(problems=(f"the folder cannot be read: {error.strerror}",))
    found = sorted(walk.files, key=lambda file: file.path)
    names = {file.path for file in found}
    header = next((name for name in HEADERS if name in names), "")
    whole = hashlib.sha256(b"handrail-skill-1\n")
    for file in found:
        whole.update(f"{file.sha256} {len(file.path.encode())} {file.path}\n".encode())
    for path, target in sorted(walk.links):
        whole.update(f"link {path}\0{target}\n".encode())
    rest = tuple(file for file in found if file.path != header)
    return Contents(rest, header, whole.hexdigest(), tuple(walk.problems))


class _Walk:
    """What was met on the way through a folder."""

    def __init__(self, hashes: Hashes) -> None:
        self.files: list[SkillFile] = []
        self.links: list[tuple[str, str]] = []
        self.problems: list[str] = []
        self._hashes, self._bytes, self._count = hashes, 0, 0

    def into(self, root: int, here: int, below: str) -> None:
        """Walk one folder by its handle."""
        if below.count("/") > MAX_DEPTH:
            raise TooMuch(f"the folder is more than {MAX_DEPTH} folders deep")
        for name in sorted(_names(here, MAX_FILES)):
            self._count += 1
            if self._count > MAX_FILES:
                raise TooMuch(f"the folder holds more than {MAX_FILES} files")
            self._one(root, here, name, below + name)

    def _one(self, root: int, here: int, name: str, path: str) -> None:
        try:
            path.encode()
        except UnicodeEncodeError:
            self.problems.append(f"the name {path!r} is not UTF-8")
            return
        status = os.stat(name, dir_fd=here, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            inner = os.open(name, beneath.FOLDER, dir_fd=here)
            try:
                self.into(root, inner, f"{path}/")
            finally:
                os.close(inner)
        elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            self._file(root, here, name, path, linked=stat.S_ISLNK(status.st_mode))
        else:
            self.problems.append(f"{path} is neither a file nor a folder")

    def _file(self, root: int, here: int, name: str, path: str, *, linked: bool) -> None:
        if linked:
            self.links.append((path, os.fsencode(os.readlink(name, dir_fd=here)).hex()))
        try:
            fd = open_inside(root, path)
        except OSError as error:
            leads = linked and error.errno in (errno.EXDEV, errno.ELOOP, errno.ENOENT, errno.ENOTDIR)
            why = "is a link that leads out of the skill's folder" if leads else f"cannot be read: {error.strerror}"
            self.problems.append(f"{path} {why}")
            return
        try:
            status = os.fstat(fd)
            if stat.S_ISDIR(status.st_mode) and linked:
                return
            if not stat.S_ISREG(status.st_mode):
                self.problems.append(f"{path} is neither a file nor a folder")
                return
            self._bytes += status.st_size
            if self._bytes > MAX_BYTES:
                raise TooMuch(f"the folder holds more than {MAX_BYTES} bytes")
            self.files.append(SkillFile(path, status.st_size, self._hashes.of(fd, status)))
        finally:
            os.close(fd)


def _names(fd: int, limit: int) -> list[str]:
    with os.scandir(fd) as entries:
        found = []
        for entry in entries:
            found.append(entry.name)
            if len(found) > limit:
                raise TooMuch(f"the folder holds more than {limit} files")
        return found


def open_inside(root: int, path: str) -> int:
    """Open something beneath a handle for reading; links are followed as long as they stay beneath it."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    done: list[str] = []
    links = 0
    while names:
        name = names.pop(0)
        if name == "..":
            if not done:
                raise OSError(errno.EXDEV, "leads out of the folder", path)
            done.pop()
            continue
        try:
            target = _link_at(root, [*done, name])
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT):
                raise
            target = None
        if target is None:
            done.append(name)
            continue
        links += 1
        if links > MAX_LINKS or target.startswith("/"):
            raise OSError(errno.EXDEV, "leads out of the folder", path)
        names = [part for part in target.split("/") if part not in ("", ".")] + names
    return beneath.choose("auto")(root, "/".join(done), _READ, 0)


def _link_at(root: int, names: list[str]) -> str | None:
    """The text of a link that stands there; None where something else does."""
    fd = beneath.choose("auto")(root, "/".join(names), beneath.HANDLE, 0)
    try:
        return os.readlink("", dir_fd=fd) if stat.S_ISLNK(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)


def read_inside(folder: str, path: str, limit: int) -> bytes:
    """Read a file of a skill; Problem NOT_FOUND, NOT_A_FILE, FILE_TOO_LARGE or PATH_OUTSIDE_ROOTS."""
    try:
        with opened(folder) as root:
            fd = open_inside(root, path)
    except OSError as error:
        raise _problem(error, path) from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise Problem(Code.NOT_A_FILE, f"{path} is not a file of the skill.")
        if status.st_size > limit:
            raise Problem(
                Code.FILE_TOO_LARGE, f"{path} has {status.st_size} bytes; {limit} is the most.", max_bytes=limit
            )
        return read_all(fd, limit)
    finally:
        os.close(fd)


def read_all(fd: int, limit: int) -> bytes:
    """Read an open file to its end, or a little over a limit."""
    pieces, size = [], 0
    while size <= limit and (piece := os.read(fd, _CHUNK)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _problem(error: OSError, path: str) -> Problem:
    if error.errno in (errno.EXDEV, errno.ELOOP):
        return Problem(Code.PATH_OUTSIDE_ROOTS, f"{path} leads out of the skill's folder.")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return Problem(Code.NOT_FOUND, f"The skill has no {path}.")
    return Problem(Code.IO_ERROR, f"{path} cannot be read: {error.strerror}.", errno=error.errno)

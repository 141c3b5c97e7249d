"""What a reviewed program changed, read from the layer that its changes went to. The program is gone by now."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence

from handrail.errors import Code, Problem
from handrail.processes.text import legible
from handrail.words import Place, PlaceKind, Root, noun
from handrail.workspace.access import READ, Access
from handrail.workspace.beneath import FOLDER

MOST_BYTES = 64 * 1024 * 1024  # of all files together, before and after
MOST_ENTRIES = 20_000
_OPAQUE = "user.overlay.opaque"
_PART = 1 << 20


@noun
class Made:
    """One thing that the layer changes; `before` and `after` are contents of files."""

    root: Root
    path: str
    op: str  # create | replace | delete | mkdir | rmdir
    before: bytes | None = None
    after: bytes | None = None
    mode: int | None = None  # of a file that is there afterwards
    remode: bool = False  # the file can be executed now, or its mode is another one

    @property
    def shown(self) -> str:
        """The path as a caller would ask for it."""
        return self.root.shown(self.path)

    def told(self) -> tuple[str, str, str, str, int | None]:
        """What an approval of it is bound to."""
        return self.op, self.shown, sha256(self.before), sha256(self.after), self.mode


def sha256(data: bytes | None) -> str:
    """The hash of a content; empty: there is none."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


class Layer:
    """Compares a layer with what lies below it."""

    def __init__(self, access: Access, upper: dict[Root, str]) -> None:
        self._access, self._upper = access, upper
        self._bytes, self._entries = MOST_BYTES, MOST_ENTRIES

    def changes(self) -> list[Made]:
        """All that differs, parents before what lies in them; a Problem where that cannot be told or kept."""
        found: list[Made] = []
        for root, folder in self._upper.items():
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                found += self._below(root, fd, "")
            finally:
                os.close(fd)
        return found

    def _below(self, root: Root, fd: int, base: str) -> Iterator[Made]:
        names = sorted(os.listdir(fd))
        if base and _opaque(fd):
            yield from self._gone_below(root, base, set(names))
        for name in names:
            self._count()
            path = base + name
            if legible(name) != name:
                raise cannot(f"{legible(root.shown(path))} has signs in its name that no tool takes")
            seen = os.stat(name, dir_fd=fd, follow_symlinks=False)
            kind = stat.S_IFMT(seen.st_mode)
            if kind == stat.S_IFCHR and seen.st_rdev == 0:
                yield from self._gone(root, path)
            elif kind == stat.S_IFDIR:
                yield from self._folder(root, fd, path, name)
            elif kind == stat.S_IFREG:
                yield from self._file(root, fd, path, name, seen)
            else:
                what = "a link" if kind == stat.S_IFLNK else "a device, pipe or socket"
                raise cannot(f"{root.shown(path)} would become {what}, which a review cannot keep")

    def _folder(self, root: Root, fd: int, path: str, name: str) -> Iterator[Made]:
        below = self._lower_kind(root, path)
        if below is PlaceKind.LINK:  # what is made in the folder would be judged, and made, where the link leads
            raise cannot(f"{root.shown(path)} is a link and would become a folder")
        if below is not PlaceKind.DIRECTORY:
            if below is not PlaceKind.MISSING:
                yield from self._gone(root, path)
            yield Made(root, path, "mkdir")
        inner = os.open(name, FOLDER, dir_fd=fd)
        try:
            yield from self._below(root, inner, f"{path}/")
        finally:
            os.close(inner)

    def _file(self, root: Root, fd: int, path: str, name: str, seen: os.stat_result) -> Iterator[Made]:
        handle = os.open(name, READ, dir_fd=fd)
        try:
            after = self._read(handle)
        finally:
            os.close(handle)
        mode, below = stat.S_IMODE(seen.st_mode) & 0o777, self._lower_kind(root, path)
        if below is PlaceKind.FILE:
            before, old_mode = self._lower(root, path)
            if before != after or old_mode != mode:
                yield Made(root, path, "replace", before, after, mode, old_mode != mode)
            return
        if below is not PlaceKind.MISSING:
            yield from self._gone(root, path)
        yield Made(root, path, "create", None, after, mode, bool(mode & 0o111))

    def _gone(self, root: Root, path: str) -> Iterator[Made]:
        kind = self._lower_kind(root, path)
        if kind is PlaceKind.DIRECTORY:
            yield from self._gone_below(root, f"{path}/", set())
            yield Made(root, path, "rmdir")
        elif kind is PlaceKind.FILE:
            yield Made(root, path, "delete", self._lower(root, path)[0])
        elif kind is PlaceKind.LINK:
            yield Made(root, path, "delete")
        elif kind is not PlaceKind.MISSING:
            raise cannot(f"{root.shown(path)} is no file and would be removed")

    def _gone_below(self, root: Root, base: str, kept: set[str]) -> Iterator[Made]:
        try:
            fd = self._access.open(Place(root, base.rstrip("/"), PlaceKind.DIRECTORY), FOLDER)
        except OSError:
            return
        try:
            names = sorted(set(os.listdir(fd)) - kept)
        finally:
            os.close(fd)
        for name in names:
            self._count()
            yield from self._gone(root, base + name)

    def _lower_kind(self, root: Root, path: str) -> PlaceKind:
        try:
            fd = self._access.open(Place(root, path, PlaceKind.FILE), os.O_PATH | os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError):
            return PlaceKind.MISSING
        except OSError:  # something above it is a link below: there the layer shows folders
            return PlaceKind.MISSING
        try:
            mode = os.fstat(fd).st_mode
        finally:
            os.close(fd)
        kinds = {stat.S_IFREG: PlaceKind.FILE, stat.S_IFDIR: PlaceKind.DIRECTORY, stat.S_IFLNK: PlaceKind.LINK}
        return kinds.get(stat.S_IFMT(mode), PlaceKind.OTHER)

    def _lower(self, root: Root, path: str) -> tuple[bytes, int]:
        fd = self._access.open(Place(root, path, PlaceKind.FILE), READ)
        try:
            return self._read(fd), stat.S_IMODE(os.fstat(fd).st_mode) & 0o777
        finally:
            os.close(fd)

    def _read(self, fd: int) -> bytes:
        self._bytes -= os.fstat(fd).st_size
        if self._bytes < 0:
            raise cannot(f"the changed files have more than {MOST_BYTES} bytes together")
        parts = []
        while part := os.read(fd, _PART):
            parts.append(part)
        return b"".join(parts)

    def _count(self) -> None:
        self._entries -= 1
        if self._entries < 0:
            raise cannot(f"more than {MOST_ENTRIES} things changed")


def _opaque(fd: int) -> bool:
    try:
        return os.getxattr(fd, _OPAQUE) in (b"y", b"x")
    except OSError:
        return False


def cannot(why: str) -> Problem:
    return Problem(
        Code.POLICY_DENIED,
        f'Nothing was kept: {why}. `exec.workspace = "direct"` lets programs change the workspace itself.',
        rule="exec.workspace",
    )


def fingerprint(changes: Sequence[Made]) -> list[tuple[str, str, str, str, int | None]]:
    """What an approval is bound to: every path with its content before and after."""
    return sorted((made.told() for made in changes), key=lambda item: item[:2])

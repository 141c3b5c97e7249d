"""What a reviewed program changed, read from the layer that its changes went to. The program is gone by now.

No content is held: hashes are computed when they are first asked for, and contents are read up to a bound.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from handrail.errors import Code, Problem
from handrail.processes.text import legible
from handrail.sandbox.launching import Upper
from handrail.words import Place, PlaceKind, Root, noun
from handrail.workspace.access import READ, Access
from handrail.workspace.beneath import FOLDER, HANDLE

OVERLAY = "user.overlay."  # the prefix of what the system notes on files of a layer
_OPAQUE = f"{OVERLAY}opaque"
_PART = 1 << 20
_LONGEST = 3500  # bytes of a path
_DEEPEST = 150  # folders
_MODE = 0o7777
_UNREADABLE = "what it holds cannot be read, so that it could not be put back"
_MOUNTED = "another file system is mounted there, and programs do not work on it"
_KINDS = {stat.S_IFREG: PlaceKind.FILE, stat.S_IFDIR: PlaceKind.DIRECTORY, stat.S_IFLNK: PlaceKind.LINK}


@noun
class Seen:
    """What is at a path, above or below."""

    kind: PlaceKind
    size: int
    mode: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    links: int
    target: str | None = None  # of a link

    def is_unmoved(self, status: os.stat_result) -> bool:
        """Whether it is the same file with the same content; renaming it is no change."""
        return (self.inode, self.size, self.mtime_ns) == (status.st_ino, status.st_size, status.st_mtime_ns)

    def is_untouched(self, status: os.stat_result, changed_ns: int) -> bool:
        """Whether nobody has changed anything of it since a moment."""
        return self.is_unmoved(status) and status.st_ctime_ns == changed_ns


class LayerChange:
    """One thing that a layer changes."""

    def __init__(
        self, access: Access, root: Root, path: str, kind: str, upper: Upper, *, before: Seen | None, after: Seen | None
    ) -> None:
        self._access = access
        self.root = root
        self.path = path
        self.kind = kind  # create | replace | delete | mkdir | rmdir | link | other
        self.upper = upper
        self.before = before
        self.after = after
        self.left_out = ""  # why it is never kept
        self.contested = ""  # what somebody else did to it while the program ran
        self.expendable = False  # its former content is kept for undo only while there is room to spare

    @property
    def shown(self) -> str:
        """The path as a caller would ask for it."""
        return self.root.shown(self.path)

    @property
    def source(self) -> str:
        """Where it is in the layer."""
        return f"{self.upper.path}/{self.path}"

    @property
    def remode(self) -> bool:
        """Whether a file has another mode than before, or can be executed from its beginning."""
        if self.after is None or self.after.kind is not PlaceKind.FILE:
            return False
        return bool(self.after.mode & 0o111) if self.before is None else self.before.mode != self.after.mode

    @cached_property
    def sha256_before(self) -> str:
        """The hash of the file below; empty: there is none."""
        if self.before is None or self.before.kind is not PlaceKind.FILE or self.kind == "create":
            return ""
        return digest(self._access.open(Place(self.root, self.path, PlaceKind.FILE), READ))

    @cached_property
    def sha256_after(self) -> str:
        """The hash of the file in the layer; empty: there is none."""
        if self.after is None or self.after.kind is not PlaceKind.FILE:
            return ""
        return digest(_open_closed(self.source))

    def read_before(self, most: int) -> bytes | None:
        """Give the content below, None where there is none or it has more than `most` bytes."""
        if self.before is None or self.before.kind is not PlaceKind.FILE or self.before.size > most:
            return None
        return _read(self._access.open(Place(self.root, self.path, PlaceKind.FILE), READ), most)

    def read_after(self, most: int) -> bytes | None:
        """Give the content in the layer, None where there is none or it has more than `most` bytes."""
        if self.after is None or self.after.kind is not PlaceKind.FILE or self.after.size > most:
            return None
        return _read(_open_closed(self.source), most)

    def rewrite(self, data: bytes) -> None:
        """Give the file in the layer another content; its mode and time stay."""
        assert self.after is not None
        mode = stat.S_IMODE(self.after.mode)
        os.chmod(self.source, mode | stat.S_IWUSR)
        with open(os.open(self.source, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC), "wb") as file:
            file.write(data)
        os.chmod(self.source, mode)
        os.utime(self.source, ns=(self.after.mtime_ns, self.after.mtime_ns))
        self.after = _seen(os.lstat(self.source), self.source)
        self.__dict__.pop("sha256_after", None)

    def facts(self) -> tuple[str, str, str, str, int | None]:
        """Give what an approval of it is bound to."""
        after = self.sha256_after
        mode = None
        if self.after is not None and self.after.target is not None:
            after = f"-> {self.after.target}"
        elif self.after is not None and self.after.kind is PlaceKind.FILE:
            mode = self.after.mode & 0o777
        return self.kind, self.shown, self.sha256_before, after, mode


def read_changes(access: Access, uppers: Mapping[Root, Upper]) -> list[LayerChange]:
    """List all that layers change, parents before what lies in them."""
    found: list[LayerChange] = []
    for root, upper in uppers.items():
        found += _Reader(access, root, upper).read()
    _contest(found)
    return found


def with_parents(chosen: Iterable[LayerChange], changes: Sequence[LayerChange]) -> list[LayerChange]:
    """Add to some changes the new folders that they need, and what has to go from their paths first."""
    chosen = list(chosen)
    wanted = {(change.root, change.path) for change in chosen}
    for root, path in [*wanted]:
        while "/" in path:
            path = path.rpartition("/")[0]
            wanted.add((root, path))
    picked = {id(change) for change in chosen}

    def is_needed(change: LayerChange) -> bool:
        return (change.root, change.path) in wanted and change.kind in ("mkdir", "delete", "rmdir")

    return [change for change in changes if id(change) in picked or is_needed(change)]


def _contest(changes: Sequence[LayerChange]) -> None:
    """What is done to one path, and below it, is kept together or not at all."""
    contested = {(change.root, change.path): change.contested for change in changes if change.contested}
    if not contested:
        return
    for change in changes:
        parts = change.path.split("/")
        for end in range(1, len(parts) + 1):
            why = contested.get((change.root, "/".join(parts[:end])))
            if why and not change.contested:
                change.contested = why


class _Reader:
    """Compares one layer with what lies below it."""

    def __init__(self, access: Access, root: Root, upper: Upper) -> None:
        self._access = access
        self._root = root
        self._upper = upper
        self._device = os.fstat(access.roots.handle(root)).st_dev
        self._found: list[LayerChange] = []

    def read(self) -> list[LayerChange]:
        """List the differences."""
        self._folder("", self._lower(""))
        return self._found

    def _add(self, path: str, kind: str, before: Seen | None, after: Seen | None, left_out: str = "") -> None:
        change = LayerChange(self._access, self._root, path, kind, self._upper, before=before, after=after)
        change.left_out = left_out
        if before is not None and kind != "rmdir" and before.ctime_ns > self._upper.began_ns:
            change.contested = "was changed by somebody else while the program ran"
        self._found.append(change)

    def _folder(self, path: str, lower: int | None) -> None:
        """Compare one folder; `lower` is a handle of the one below, which is closed."""
        try:
            with os.scandir(_opened_up(f"{self._upper.path}/{path}".rstrip("/"))) as entries:
                names = sorted(entry.name for entry in entries)
            base = f"{path}/" if path else ""
            if lower is not None and path and _is_opaque(f"{self._upper.path}/{path}"):
                for name in sorted(set(os.listdir(lower)) - {*names}):
                    self._remove(lower, base + name, name)
            for name in names:
                self._entry(lower, base + name, name)
        finally:
            if lower is not None:
                os.close(lower)

    def _entry(self, lower: int | None, path: str, name: str) -> None:
        source = f"{self._upper.path}/{path}"
        status = os.lstat(source)
        kind = stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFCHR and status.st_rdev == 0:
            self._remove(lower, path, name)
            return
        after = _seen(status, source)
        before = None if lower is None else _look(lower, name)
        if legible(name) != name or len(os.fsencode(source)) > _LONGEST or path.count("/") > _DEEPEST:
            self._add(path, "other", before, after, "its name cannot be shown, or its path is too long or too deep")
        elif kind == stat.S_IFDIR:
            self._inner(lower, path, name, before, after)
        elif kind == stat.S_IFREG:
            self._file(lower, path, name, before, after)
        elif kind == stat.S_IFLNK:
            self._link(lower, path, name, before, after)
        else:
            self._add(path, "other", before, after, "it is a device, pipe or socket")

    def _inner(self, lower: int | None, path: str, name: str, before: Seen | None, after: Seen) -> None:
        if before is not None and before.kind is PlaceKind.LINK:
            # What is made in the folder would be judged, and made, where the link leads.
            self._add(path, "other", before, after, "it was a link and would become a folder")
            return
        if before is not None and before.kind is PlaceKind.DIRECTORY:
            assert lower is not None
            inner = os.open(name, FOLDER, dir_fd=lower)
            if os.fstat(inner).st_dev != self._device:
                os.close(inner)
                self._add(path, "other", None, after, _MOUNTED)
                return
            if before.mode != after.mode:
                self._add(path, "other", None, after, "only the mode of the folder was changed")
            self._folder(path, inner)
            return
        if before is not None:
            self._remove(lower, path, name)
        self._add(path, "mkdir", None, after)
        self._folder(path, None)

    def _file(self, lower: int | None, path: str, name: str, before: Seen | None, after: Seen) -> None:
        if before is None or before.kind is not PlaceKind.FILE:
            if before is not None:
                self._remove(lower, path, name)
            self._add(path, "create", None, after)
            return
        assert lower is not None
        if not _is_readable(lower, name):
            self._add(path, "other", before, after, _UNREADABLE)
            return
        self._add(path, "replace", before, after)
        change = self._found[-1]
        if (before.size, before.mode) == (after.size, after.mode) and change.sha256_before == change.sha256_after:
            self._found.pop()

    def _link(self, lower: int | None, path: str, name: str, before: Seen | None, after: Seen) -> None:
        if before is not None and before.target == after.target:
            return
        if before is not None:
            self._remove(lower, path, name)
        self._add(path, "link", None, after)

    def _remove(self, lower: int | None, path: str, name: str) -> None:
        """Add what goes: a folder after all that is in it."""
        before = None if lower is None else _look(lower, name)
        if before is None or lower is None:
            return
        if legible(name) != name:
            self._add(path, "other", before, None, "its name cannot be shown, and it would be removed")
        elif before.kind is PlaceKind.DIRECTORY and path.count("/") <= _DEEPEST:
            self._remove_folder(lower, path, name, before)
        elif before.kind is PlaceKind.FILE and not _is_readable(lower, name):
            self._add(path, "other", before, None, _UNREADABLE)
        elif before.kind in (PlaceKind.FILE, PlaceKind.LINK):
            self._add(path, "delete", before, None)
        else:
            self._add(path, "other", before, None, "it is no file, or lies too deep, and would be removed")

    def _remove_folder(self, lower: int, path: str, name: str, before: Seen) -> None:
        inner = os.open(name, FOLDER, dir_fd=lower)
        try:
            if os.fstat(inner).st_dev != self._device:
                self._add(path, "other", before, None, _MOUNTED)
                return
            for below in sorted(os.listdir(inner)):
                self._remove(inner, f"{path}/{below}", below)
        finally:
            os.close(inner)
        self._add(path, "rmdir", before, None)

    def _lower(self, path: str) -> int | None:
        try:
            return self._access.open_beneath(self._access.roots.handle(self._root), path or ".", FOLDER, 0)
        except OSError:
            return None


def _look(folder: int, name: str) -> Seen | None:
    """Look at what is at a name of a folder; None: nothing."""
    try:
        fd = os.open(name, HANDLE, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(fd)
        target = os.readlink("", dir_fd=fd) if stat.S_ISLNK(status.st_mode) else None
    finally:
        os.close(fd)
    return _of(status, target)


def _is_readable(folder: int, name: str) -> bool:
    return os.access(name, os.R_OK, dir_fd=folder, effective_ids=True, follow_symlinks=False)


def _seen(status: os.stat_result, source: str) -> Seen:
    return _of(status, os.readlink(source) if stat.S_ISLNK(status.st_mode) else None)


def _of(status: os.stat_result, target: str | None) -> Seen:
    return Seen(
        _KINDS.get(stat.S_IFMT(status.st_mode), PlaceKind.OTHER),
        status.st_size,
        status.st_mode & _MODE,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
        status.st_nlink,
        target,
    )


def digest(fd: int) -> str:
    """Hash an open file, and close it."""
    with open(fd, "rb", buffering=0) as file:
        size = os.fstat(fd).st_size
        if size < _PART and len(data := file.read(_PART)) == size:
            return hashlib.sha256(data).hexdigest()
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(fd: int, most: int) -> bytes | None:
    """Read an open file, and close it."""
    with open(fd, "rb") as file:
        data = file.read(most + 1)
    return data if len(data) <= most else None


def _open_closed(path: str) -> int:
    """Open a file of the layer, also one that its owner may not read; its mode stays."""
    try:
        return os.open(path, READ)
    except PermissionError:
        mode = stat.S_IMODE(os.lstat(path).st_mode)
        os.chmod(path, mode | stat.S_IRUSR)
        try:
            return os.open(path, READ)
        finally:
            os.chmod(path, mode)


def _opened_up(path: str) -> str:
    """Let the owner into a folder of the layer; which mode it had is known by now."""
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(path, mode | stat.S_IRWXU)
    return path


def _is_opaque(path: str) -> bool:
    try:
        return os.getxattr(path, _OPAQUE, follow_symlinks=False) in (b"y", b"x")
    except OSError:
        return False


def cannot(why: str) -> Problem:
    """Say why nothing was kept."""
    return Problem(
        Code.POLICY_DENIED,
        f'Nothing was kept: {why}. `exec.workspace = "direct"` lets programs change the workspace itself.',
        rule="exec.workspace",
    )


def fingerprint(changes: Sequence[LayerChange]) -> list[tuple[str, str, str, str, int | None]]:
    """Give what an approval is bound to: every path with its content before and after."""
    return sorted((change.facts() for change in changes), key=lambda item: item[:2])

"""What changed in the write roots while a program ran: two bounded looks, and hashes of what differs."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from handrail.processes.text import legible
from handrail.sandbox.system import system
from handrail.words import Change, Place, PlaceKind, Root, noun
from handrail.workspace.access import READ, Access
from handrail.workspace.beneath import FOLDER

MOST_ENTRIES = 50_000
MOST_CHANGES = 10_000
_DEEPEST = 200
_HASHED_FILE = 16 * 1024 * 1024  # larger files have no hash
_HASHED_ALL = 256 * 1024 * 1024
_KNOWN = 50_000
_LEARN_FILES, _LEARN_FILE, _LEARN_ALL = 32, 64 * 1024, 256 * 1024  # hashed before a program runs, at most
_MOST_LINKS = 20  # that are described
_PART = 1 << 20

Identity = tuple[int, int, int, int, int]  # mode, inode, size, mtime_ns, ctime_ns
Tree = dict[str, Identity]


class TooMany(Exception):  # a signal, no error
    """There is more than is looked at."""


@noun
class Look:
    """The write roots at one moment; None: too much to look at."""

    trees: tuple[Tree, ...] | None

    @property
    def entries(self) -> int:
        """How many things were seen."""
        return sum(map(len, self.trees or ()))


class Watch:
    """Looks at the write roots of a run. Used from threads, one look at a time for each call."""

    def __init__(self, roots: Sequence[Root], access: Access, apart: Iterable[str] = ()) -> None:
        """Watch the writable ones of `roots`; folders in `apart`, the runtime's own, are left out."""
        self._roots = tuple(root for root in roots if root.writable)
        self.access = access
        self._every = tuple(root.path for root in roots)
        self._apart = frozenset(apart) | {root.path for root in roots}
        self._known: OrderedDict[Identity, str] = OrderedDict()
        self.last_entries = 0

    def look(self, most: int = MOST_ENTRIES) -> Look:
        """See what is there, without reading any of it."""
        left = [most]
        try:
            return Look(tuple([self._tree(root, left) for root in self._roots]))
        except (TooMany, PermissionError):  # a root can be closed by a program, too
            return Look(None)
        finally:
            self.last_entries = most - left[0]

    def learn(self, seen: Look) -> None:
        """Hash a few small files that are not known, so that a later change of them has its former hash."""
        files, size = _LEARN_FILES, _LEARN_ALL
        for root, tree in zip(self._roots, seen.trees or (), strict=False):
            for path, identity in tree.items():
                if not stat.S_ISREG(identity[0]) or identity in self._known or identity[2] > _LEARN_FILE:
                    continue
                self._hash(root, path, identity)
                files, size = files - 1, size - identity[2]
                if files <= 0 or size <= 0:
                    return

    def changes(self, before: Look, after: Look) -> tuple[list[Change], list[str]]:
        """What was created, changed or removed between two looks, and what could not be told."""
        if before.trees is None or after.trees is None:
            bounds = f"more than {MOST_ENTRIES} of them, folders more than {_DEEPEST} deep, or a closed root"
            return [], [f"which files were changed was not observed: there are {bounds} in the write roots"]
        found: list[Change] = []
        warnings = self._links_out(before.trees, after.trees)
        room = [_HASHED_ALL]
        for root, old, new in zip(self._roots, before.trees, after.trees, strict=True):
            found += self._between(root, old, new, room)
            if len(found) > MOST_CHANGES:
                more = f"more than {MOST_CHANGES} things were changed; the rest is not listed"
                return found[:MOST_CHANGES], [*warnings, more]
        if room[0] < 0:
            warnings.append("some changed files are too large to be hashed")
        return found, warnings

    def _links_out(self, before: Sequence[Tree], after: Sequence[Tree]) -> list[str]:
        """Describe new links to places outside the roots, other than the system's own programs."""
        found = []
        for root, old, new in zip(self._roots, before, after, strict=True):
            for path, identity in new.items():
                if stat.S_ISLNK(identity[0]) and old.get(path) != identity:
                    target = os.path.realpath(f"{root.path}/{path}")
                    if not is_beneath(target, (*self._every, *system().folders)):
                        shown = legible(root.shown(path))
                        found.append(
                            f"the program made the link {shown}, which leads out of the roots to {legible(target)}"
                        )
        more = len(found) - _MOST_LINKS
        return found if more <= 0 else [*found[:_MOST_LINKS], f"and {more} more links that lead out of the roots"]

    def _tree(self, root: Root, left: list[int]) -> Tree:
        tree: Tree = {}
        handle = self.access.roots.handle(root)
        fd = os.open(".", FOLDER, dir_fd=handle)
        try:
            self._walk(fd, "", root.path, tree, left, 0)
        finally:
            os.close(fd)
        return tree

    def _walk(self, fd: int, base: str, absolute: str, tree: Tree, left: list[int], depth: int) -> None:
        folders: list[str] = []
        with os.scandir(fd) as entries:
            for entry in entries:
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                name = entry.name
                if stat.S_ISDIR(found.st_mode):
                    if f"{absolute}/{name}" in self._apart or (name == "objects" and base.endswith(".git/")):
                        continue
                    folders.append(name)
                    tree[base + name] = (found.st_mode, found.st_ino, 0, 0, 0)
                else:
                    tree[base + name] = (
                        found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
                    )  # fmt: skip
                left[0] -= 1
                if left[0] < 0:
                    raise TooMany
        if folders and depth >= _DEEPEST:
            raise TooMany
        for name in folders:
            try:
                below = os.open(name, FOLDER, dir_fd=fd)
            except OSError:
                continue
            try:
                self._walk(below, f"{base}{name}/", f"{absolute}/{name}", tree, left, depth + 1)
            finally:
                os.close(below)

    def _between(self, root: Root, old: Tree, new: Tree, room: list[int]) -> Iterator[Change]:
        for path in sorted((path for path in old if path not in new), reverse=True):
            op = _op("delete", "rmdir", old[path])
            yield Change(legible(root.shown(path)), op, self._known.get(old[path]), kept=False)
        for path in sorted(path for path, identity in new.items() if old.get(path) != identity):
            yield from self._changed(root, path, old.get(path), new[path], room)

    def _changed(
        self, root: Root, path: str, before: Identity | None, now: Identity, room: list[int]
    ) -> Iterator[Change]:
        shown = legible(root.shown(path))
        if before is not None and stat.S_IFMT(before[0]) != stat.S_IFMT(now[0]):
            yield Change(shown, _op("delete", "rmdir", before), self._known.get(before), kept=False)
            before = None
        if stat.S_ISDIR(now[0]):
            if before is None:
                yield Change(shown, "mkdir", kept=False)
            return
        after = self._hash(root, path, now, room) if stat.S_ISREG(now[0]) else None
        if before is None:
            yield Change(shown, "create", None, after, kept=False)
            return
        former = self._known.get(before)
        if former is None or former != after or before[0] != now[0]:
            yield Change(shown, "replace", former, after, stat.S_IMODE(before[0]), kept=False)

    def _hash(self, root: Root, path: str, identity: Identity, room: list[int] | None = None) -> str | None:
        """The hash of a file as it was seen; None where it is large, gone, or another one by now."""
        if (known := self._known.get(identity)) is not None:
            return known
        if room is not None:
            if identity[2] > min(_HASHED_FILE, room[0]):
                room[0] = -1
                return None
            room[0] -= identity[2]
        try:
            fd = self.access.open(Place(root, path, PlaceKind.FILE), READ)
        except OSError:
            return None
        try:
            digest = _digest(fd)
            now = os.fstat(fd)
        except OSError:
            return None
        finally:
            os.close(fd)
        if identity != (now.st_mode, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns):
            return None
        self._known[identity] = digest
        while len(self._known) > _KNOWN:
            self._known.popitem(last=False)
        return digest


def is_beneath(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of some folders, or lies in one."""
    return any(f"{path}/".startswith(f"{folder.rstrip('/')}/") for folder in folders)


def _digest(fd: int) -> str:
    digest = hashlib.sha256()
    while part := os.read(fd, _PART):
        digest.update(part)
    return digest.hexdigest()


def _op(file: str, folder: str, identity: Identity) -> str:
    return folder if stat.S_ISDIR(identity[0]) else file

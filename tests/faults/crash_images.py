"""A simulator of power loss: records what a program asks of the file system and gives every image a crash may leave.

The rules are those a program may rely on, and no more. A sync of a file makes what was written to it before the sync
began durable, not its name; a sync of a folder makes the names in it durable. Everything else may be on the disk or
not, each write by itself, whole, in part, or with a part missing; parts that were never written read as zeros.

Longer than 500 lines because it is one table of one subject.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from handrail.workspace import beneath

Inode = int  # our own number: the system gives the number of a removed file to the next one
SECTOR = 512
STEP = max(1, int(96 / float(os.environ.get("HANDRAIL_TEST_SCALE", "1"))))  # bytes between places to tear at


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes put into a file."""

    inode: Inode
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file made shorter or longer."""

    inode: Inode
    size: int


@dataclass(frozen=True, slots=True)
class Name:
    """A change of names in a folder: `gone` goes, `name` stands for `target`; both at once where both are given."""

    inode: Inode  # of the folder
    gone: str | None = None
    name: str | None = None
    target: Inode | None = None
    folder: bool = False  # what `target` is


@dataclass(frozen=True, slots=True)
class Swap:
    """Two names of one folder change places at once: `first` then stands for `one`, `second` for `other`."""

    inode: Inode  # of the folder
    first: str
    one: Inode
    second: str
    other: Inode


@dataclass(frozen=True, slots=True)
class Sync:
    """A sync that has returned; it covers what was recorded before it began."""

    inode: Inode
    began: int


@dataclass(frozen=True, slots=True)
class Told:
    """The program acknowledged something."""

    value: str


Op = Write | Truncate | Name | Swap | Sync | Told
Files = dict[Inode, bytes]
Folders = dict[Inode, dict[str, Inode]]


@dataclass(frozen=True, slots=True)
class Image:
    """What lies on the disk after a crash, and what had been acknowledged before it."""

    files: Files
    folders: Folders
    told: tuple[str, ...]

    @property
    def root(self) -> Inode:
        """The folder that holds everything: the first that was looked at."""
        return min(self.folders)

    def restore(self, place: Path) -> None:
        """Put the image into a folder."""
        place.mkdir()
        self._fill(place, self.root)

    def _fill(self, place: Path, folder: Inode) -> None:
        for name, inode in self.folders[folder].items():
            if inode in self.folders:
                (place / name).mkdir(mode=0o700)
                self._fill(place / name, inode)
            else:
                (place / name).write_bytes(self.files.get(inode, b""))

    def key(self) -> object:
        """Images with the same key look the same."""

        def tree(folder: Inode) -> tuple[Any, ...]:
            entries = sorted(self.folders[folder].items())
            return tuple((name, tree(i) if i in self.folders else self.files.get(i, b"")) for name, i in entries)

        return self.told, tree(self.root)


@dataclass(slots=True)
class Recorder:
    """Records what happens below a folder while it is entered.

    `ignore` names syncs that are taken as never called, `skip` files that do not matter.
    """

    root: Path
    ignore: frozenset[str] = frozenset()  # of "file", "folder"
    skip: frozenset[str] = frozenset()
    ops: list[Op] = field(default_factory=list)
    _numbers: dict[tuple[int, int], Inode] = field(default_factory=dict)
    _next: Iterator[Inode] = field(default_factory=itertools.count)
    _files: Files = field(default_factory=dict)
    _folders: Folders = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _patch: pytest.MonkeyPatch = field(default_factory=pytest.MonkeyPatch)

    def __enter__(self) -> Recorder:
        self._files, self._folders = self._snapshot()
        for name, wrap in _WRAPPERS.items():
            self._patch.setattr(os, name, wrap(self, getattr(os, name)))
        self._patch.setattr(beneath, "_renameat2", _renameat2(self, beneath._renameat2))
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()
        told = self._told(len(self.ops))
        # Whoever writes around the recorder would make every image a lie.
        assert self._image(len(self.ops), {}, {}).key() == Image(*self._snapshot(), told).key()

    def tell(self, value: str) -> None:
        """Note that the program acknowledged something now."""
        with self._lock:
            self.ops.append(Told(value))

    def add(self, make: Callable[[Inode], Op], found: os.stat_result) -> None:
        """Record a step on what the system calls so, if it lies below the root."""
        with self._lock:
            number = self._numbers.get((found.st_dev, found.st_ino))
            if number is not None:
                self.ops.append(make(number))

    def name(self, place: Path, *, folder: bool = False) -> None:
        """Record that something new stands at a place."""
        parent, found = place.parent.stat(), place.lstat()
        with self._lock:
            self._numbers.pop((found.st_dev, found.st_ino), None)
            if (parent.st_dev, parent.st_ino) in self._numbers and place.name not in self.skip:
                number = self._numbers[found.st_dev, found.st_ino] = next(self._next)
                self.add(lambda inode: Name(inode, None, place.name, number, folder), parent)

    def unnamed(self, found: os.stat_result) -> None:
        """Record that there is something new that has no name."""
        with self._lock:
            self._numbers[found.st_dev, found.st_ino] = next(self._next)

    def number(self, found: os.stat_result) -> Inode | None:
        """Our number for what the system calls so."""
        return self._numbers.get((found.st_dev, found.st_ino))

    def _snapshot(self) -> tuple[Files, Folders]:
        files: Files = {}
        folders: Folders = {}

        def look(path: Path) -> Inode:
            found = path.lstat()
            number = self._numbers.setdefault((found.st_dev, found.st_ino), next(self._next))
            if path.is_dir():
                folders[number] = {}
                inner = sorted(entry for entry in path.iterdir() if entry.name not in self.skip)
                folders[number] = {entry.name: look(entry) for entry in inner}
            else:
                files[number] = path.read_bytes()
            return number

        look(self.root)
        return files, folders

    def _told(self, until: int) -> tuple[str, ...]:
        return tuple(op.value for op in self.ops[:until] if isinstance(op, Told))

    def images(self, seed: int = 1) -> Iterator[Image]:
        """Give every legal image of a crash after each step; where there are too many orders, a sample of them."""
        choose, seen = random.Random(seed), set()
        for until in range(len(self.ops) + 1):
            pending = self._pending(until)
            per_inode = [[(inode, kept) for kept in _choices(ops, choose)] for inode, ops in pending.items()]
            for chosen in _combinations(per_inode, choose):
                image = self._image(until, pending, dict(chosen))
                if (key := image.key()) not in seen:
                    seen.add(key)
                    yield image

    def _pending(self, until: int) -> dict[Inode, list[Op]]:
        durable: dict[Inode, int] = {}
        for op in self.ops[:until]:
            if isinstance(op, Sync):
                durable[op.inode] = max(durable.get(op.inode, 0), op.began)
        pending: dict[Inode, list[Op]] = {}
        for index, op in enumerate(self.ops[:until]):
            if isinstance(op, (Write, Truncate, Name, Swap)) and index >= durable.get(op.inode, 0):
                pending.setdefault(op.inode, []).append(op)
        return pending

    def _image(self, until: int, pending: dict[Inode, list[Op]], kept: dict[Inode, list[Op]]) -> Image:
        files, folders = dict(self._files), {inode: dict(names) for inode, names in self._folders.items()}
        left = {id(op) for ops in pending.values() for op in ops}
        for op in self.ops[:until]:
            if id(op) not in left:
                _apply(op, files, folders)
        for ops in kept.values():
            for op in ops:
                _apply(op, files, folders)
        return Image(files, folders, self._told(until))


def _apply(op: Op, files: Files, folders: Folders) -> None:
    if isinstance(op, Write):
        data = files.get(op.inode, b"").ljust(op.offset, b"\0")
        files[op.inode] = data[: op.offset] + op.data + data[op.offset + len(op.data) :]
    elif isinstance(op, Truncate):
        files[op.inode] = files.get(op.inode, b"")[: op.size].ljust(op.size, b"\0")
    elif isinstance(op, Name):
        names = folders.setdefault(op.inode, {})
        if op.gone is not None:
            names.pop(op.gone, None)
        if op.name is not None and op.target is not None:
            names[op.name] = op.target
            if op.folder:
                folders.setdefault(op.target, {})
    elif isinstance(op, Swap):
        folders.setdefault(op.inode, {}).update({op.first: op.one, op.second: op.other})


def _choices(ops: list[Op], choose: random.Random) -> list[list[Op]]:
    """What may have reached the disk of unsynced steps on one inode."""
    found: list[list[Op]] = [ops[:count] for count in range(len(ops) + 1)]
    if len(ops) <= 5:
        for size in range(1, len(ops)):
            found += [list(some) for some in itertools.combinations(ops, size)]
    else:
        found += [[op for op in ops if choose.random() < 0.5] for _ in range(30)]
        found += [ops[:index] + ops[index + 1 :] for index in range(len(ops))]
    for index, op in enumerate(ops):
        if isinstance(op, Write):
            for part in _parts(op):
                found.append([*ops[:index], *part])
                found.append([*ops[:index], *part, *ops[index + 1 :]])
    return found


def _parts(op: Write) -> Iterator[list[Op]]:
    """What may have reached the disk of one write: a beginning of it, or all but a sector."""
    size = len(op.data)
    sectors = range(SECTOR - op.offset % SECTOR, size, SECTOR)
    for cut in sorted({1, size - 1, *range(STEP, size, STEP), *sectors} - {0, size}):
        yield [Write(op.inode, op.offset, op.data[:cut])]
        end = min(cut + SECTOR, size)
        if end < size:
            yield [Write(op.inode, op.offset, op.data[:cut]), Write(op.inode, op.offset + end, op.data[end:])]
        yield [Write(op.inode, op.offset + cut, op.data[cut:])]


def _combinations(
    per_inode: list[list[tuple[Inode, list[Op]]]], choose: random.Random
) -> Iterator[tuple[tuple[Inode, list[Op]], ...]]:
    total = 1
    for choices in per_inode:
        total *= len(choices)
    if total <= 2000:
        yield from itertools.product(*per_inode)
        return
    for _ in range(2000):
        yield tuple(choose.choice(choices) for choices in per_inode)


# ── listening to the system ──────────────────────────────────────────────────────────────────


def _place(path: Any, dir_fd: int | None) -> Path:
    base = Path.cwd() if dir_fd is None else Path(os.readlink(f"/proc/self/fd/{dir_fd}"))
    return base / os.fsdecode(path)


Wrapper = Callable[[Recorder, Callable[..., Any]], Callable[..., Any]]


def _open(recorder: Recorder, real: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        place = _place(path, dir_fd)
        fresh = bool(flags & os.O_CREAT) and not place.exists()
        handle: int = real(path, flags, mode, dir_fd=dir_fd)
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            recorder.unnamed(os.fstat(handle))
        elif fresh:
            recorder.name(place)
        elif flags & os.O_TRUNC:
            recorder.add(lambda inode: Truncate(inode, 0), os.fstat(handle))
        return handle

    return wrapped


def _mkdir(recorder: Recorder, real: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        real(path, mode, dir_fd=dir_fd)
        recorder.name(_place(path, dir_fd), folder=True)

    return wrapped


def _write(recorder: Recorder, real: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(handle: int, data: Any) -> int:
        offset = os.lseek(handle, 0, os.SEEK_CUR) if _regular(handle) else 0
        count: int = real(handle, data)
        recorder.add(lambda inode: Write(inode, offset, bytes(data)[:count]), os.fstat(handle))
        return count

    return wrapped


def _pwrite(recorder: Recorder, real: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(handle: int, data: Any, offset: int) -> int:
        count: int = real(handle, data, offset)
        recorder.add(lambda inode: Write(inode, offset, bytes(data)[:count]), os.fstat(handle))
        return count

    return wrapped


def _ftruncate(recorder: Recorder, real: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(handle: int, size: int) -> None:
        real(handle, size)
        recorder.add(lambda inode: Truncate(inode, size), os.fstat(handle))

    return wrapped


def _sync(recorder: Recorder, real: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(handle: int) -> None:
        began = len(recorder.ops)
        real(handle)
        if ("file" if _regular(handle) else "folder") not in recorder.ignore:
            recorder.add(lambda inode: Sync(inode, began), os.fstat(handle))

    return wrapped


def _rename(recorder: Recorder, real: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(old: Any, new: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        source, target = _place(old, src_dir_fd), _place(new, dst_dir_fd)
        moved = recorder.number(source.lstat())
        assert source.parent == target.parent, "a rename between folders is not simulated"
        real(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        recorder.add(lambda inode: Name(inode, source.name, target.name, moved), target.parent.stat())

    return wrapped


def _link(recorder: Recorder, real: Callable[..., Any]) -> Callable[..., Any]:
    """Give what is open and has no name one."""

    def wrapped(source: str, target: Any, *, dst_dir_fd: int | None = None) -> None:
        place = _place(target, dst_dir_fd)
        named = recorder.number(os.stat(source))
        real(source, target, dst_dir_fd=dst_dir_fd)
        recorder.add(lambda inode: Name(inode, None, place.name, named), place.parent.stat())

    return wrapped


def _renameat2(recorder: Recorder, real: Callable[..., int]) -> Callable[..., int]:
    """Rename without replacing, or exchange two names: what a workspace does by system call."""

    def wrapped(source_fd: int, old: bytes, target_fd: int, new: bytes, flags: int) -> int:
        source, target = _place(old, source_fd), _place(new, target_fd)
        assert source.parent == target.parent, "a rename between folders is not simulated"
        moved = recorder.number(source.lstat())
        other = recorder.number(target.lstat()) if flags == beneath.RENAME_EXCHANGE else None
        code = real(source_fd, old, target_fd, new, flags)
        if code == 0 and moved is not None and other is not None:
            recorder.add(lambda inode: Swap(inode, target.name, moved, source.name, other), target.parent.stat())
        elif code == 0:
            recorder.add(lambda inode: Name(inode, source.name, target.name, moved), target.parent.stat())
        return code

    return wrapped


def _unlink(recorder: Recorder, real: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(path: Any, *, dir_fd: int | None = None) -> None:
        place = _place(path, dir_fd)
        real(path, dir_fd=dir_fd)
        recorder.add(lambda inode: Name(inode, place.name), place.parent.stat())

    return wrapped


def _regular(handle: int) -> bool:
    return stat.S_ISREG(os.fstat(handle).st_mode)


_WRAPPERS: dict[str, Wrapper] = {
    "open": _open,
    "mkdir": _mkdir,
    "write": _write,
    "pwrite": _pwrite,
    "ftruncate": _ftruncate,
    "fsync": _sync,
    "fdatasync": _sync,
    "rename": _rename,
    "replace": _rename,
    "link": _link,
    "unlink": _unlink,
    "remove": _unlink,
}


def verdicts(recorder: Recorder, place: Path, check: Callable[[Path, Image], str]) -> Iterator[str]:
    """Restore every image and check it; give what is wrong with each, or nothing."""
    for image in recorder.images():
        image.restore(place)
        try:
            yield check(place, image)
        finally:
            shutil.rmtree(place)


def broken(recorder: Recorder, place: Path, check: Callable[[Path, Image], str]) -> tuple[int, list[str]]:
    """Check every image; give how many there were and what was wrong with them."""
    found = list(verdicts(recorder, place, check))
    return len(found), [problem for problem in found if problem]

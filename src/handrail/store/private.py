"""Private files and folders: 0600 and 0700, no link followed, replaced atomically and durably."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

SAFE = os.O_NOFOLLOW | os.O_CLOEXEC
_numbers = itertools.count()


def make_folder(path: Path) -> None:
    """Make a folder and its parents so that they survive a power loss; a link in its place is refused.

    What is there already is kept, and made private when it is not.
    """
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            continue
        sync_folder(folder.parent)
    _close_to_others(path)


def make_inside(folder: Path, names: Iterable[str]) -> None:
    """Make sub-folders, all with one sync of the folder that holds them."""
    made = False
    for name in names:
        try:
            os.mkdir(folder / name, 0o700)
            made = True
        except FileExistsError:
            _close_to_others(folder / name)
    if made:
        sync_folder(folder)


def _close_to_others(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | SAFE)
    try:
        if os.fstat(handle).st_mode & 0o077:
            os.fchmod(handle, 0o700)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_all(handle: int, data: bytes | memoryview) -> None:
    """Write every byte, however many writes it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def write_atomic(path: Path, chunks: Iterable[bytes]) -> None:
    """Put a file in place whole and durable, or not at all."""
    with replacing(path) as handle:
        for chunk in chunks:
            write_all(handle, chunk)
        os.fsync(handle)
    sync_folder(path.parent)


@contextmanager
def replacing(path: Path) -> Iterator[int]:
    """Give a draft that takes the file's place when all went well; who needs it durable syncs it inside."""
    draft = draft_of(path)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFE, 0o600)
    try:
        try:
            yield handle
        finally:
            os.close(handle)
        os.rename(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def draft_of(path: Path) -> Path:
    """Name a draft beside a file that no other process or thread uses."""
    return path.with_name(f".{path.name}.{os.getpid()}-{next(_numbers)}.tmp")


def read_private(path: Path) -> bytes:
    """Read a file whole; a link in its place is refused."""
    with open(os.open(path, os.O_RDONLY | SAFE), "rb") as file:
        return file.read()


def rewrite(handle: int, offset: int) -> None:
    """Write the bytes from an offset on over themselves and make them durable."""
    while chunk := os.pread(handle, 1 << 20, offset):
        offset += os.pwrite(handle, chunk, offset)
    os.fsync(handle)

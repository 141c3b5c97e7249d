"""Looks into folders for names that matter, and remembers what it saw while a folder stays as it was.

A folder's change time moves with every entry made, removed or renamed in it, and no program can set it back. One that
changed just now is looked at again, since two changes can fall into one tick of the clock.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable

from handrail.words import noun

_SETTLED_NS = 2_000_000_000
_MAX_REMEMBERED = 100_000
FILE, FOLDER, LINK = "file", "folder", "link"


@noun
class Look:
    """What one folder holds, as far as it matters."""

    stamp: tuple[int, int, int, int]
    count: int
    folders: tuple[str, ...]
    suspects: tuple[tuple[str, str], ...]  # name, and file | folder | link
    endpoints: tuple[str, ...] = ()  # names of sockets and FIFOs


class Looks:
    """Looks for names that fit one test."""

    def __init__(self, suspicious: Callable[[str], object]) -> None:
        self._suspicious = suspicious
        self._seen: dict[str, Look] = {}

    def at(self, folder: str) -> Look:
        """Look into a folder, or remember having looked. Raises OSError."""
        found = os.stat(folder, follow_symlinks=False)
        stamp = (found.st_dev, found.st_ino, found.st_ctime_ns, found.st_mtime_ns)
        seen = self._seen.get(folder)
        if seen is not None and seen.stamp == stamp:
            return seen
        look = self._look(folder, stamp)
        if time.time_ns() - max(stamp[2:]) > _SETTLED_NS:
            if len(self._seen) >= _MAX_REMEMBERED:
                self._seen.clear()
            self._seen[folder] = look
        return look

    def _look(self, folder: str, stamp: tuple[int, int, int, int]) -> Look:
        folders: list[str] = []
        suspects: list[tuple[str, str]] = []
        endpoints: list[str] = []
        count = 0
        with os.scandir(folder) as entries:
            for entry in entries:
                count += 1
                name, is_folder = entry.name, entry.is_dir(follow_symlinks=False)
                if is_folder:
                    folders.append(name)
                elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink() and _is_endpoint(entry):
                    endpoints.append(name)
                if self._suspicious(name):
                    suspects.append((name, FOLDER if is_folder else LINK if entry.is_symlink() else FILE))
        return Look(stamp, count, tuple(folders), tuple(suspects), tuple(endpoints))


def _is_endpoint(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a socket or FIFO, behind which a program outside may listen."""
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except FileNotFoundError:
        return False
    return stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode)

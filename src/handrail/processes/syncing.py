"""Putting kept changes on disk: few files and names one by one, many with their file system."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Sequence

from handrail.processes.steps import Handles, Step
from handrail.workspace.access import READ, Access, problem_of
from handrail.workspace.beneath import FOLDER

FEW = 8  # files that are synced one by one; with more, the whole file system is as quick
_libc = ctypes.CDLL(None, use_errno=True)


def sync_file(folder: int, name: str) -> None:
    """Put one file on disk."""
    try:
        fd = os.open(name, READ, dir_fd=folder)
    except PermissionError:  # its own owner may not read it
        _libc.syncfs(folder)
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_all(steps: Iterable[Step], handles: Handles) -> set[int]:
    """Sync each file system once; gives which."""
    by_device: dict[int, Step] = {}
    known: set[tuple[str, str]] = set()
    for step in steps:
        if (step.root.path, step.layer) not in known:
            known.add((step.root.path, step.layer))
            by_device.setdefault(os.fstat(handles.spot(step)[0]).st_dev, step)
    for step in by_device.values():
        if _libc.syncfs(handles.spot(step)[0]) != 0:
            number = ctypes.get_errno()
            raise problem_of(OSError(number, os.strerror(number)), step.place, "kept")
    return set(by_device)


def sync_names(access: Access, steps: Sequence[Step]) -> None:
    """Make the names durable: few folders one by one, many with their file system."""
    folders = dict.fromkeys((step.root, step.path.rpartition("/")[0]) for step in steps)
    if len(folders) > FEW:
        roots = {step.root: step for step in steps}
        for step in roots.values():
            _libc.syncfs(access.roots.handle(step.root))
        return
    for root, path in folders:
        try:
            fd = access.open_beneath(access.roots.handle(root), path or ".", FOLDER, 0)
        except OSError:  # it is gone, and something else may be there
            continue
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

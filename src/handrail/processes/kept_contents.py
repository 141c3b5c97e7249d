"""Contents of kept changes: copying, owners, modes, attributes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat

from handrail.processes.layer import OVERLAY, LayerChange, Seen
from handrail.processes.steps import Handles, Step
from handrail.words import PlaceKind
from handrail.workspace.access import READ
from handrail.workspace.settings_table import refuse_settings

_FEW = 8  # files that are synced one by one; with more, the whole file system is as quick
_PART = 1 << 20
_NO_ROOM = "there is no room left to keep former contents for undo (undo.max_bytes)"
_libc = ctypes.CDLL(None, use_errno=True)
_Pair = tuple[LayerChange, Step]


# ── contents ─────────────────────────────────────────────────────────────────────────────────


def strip_change(change: LayerChange) -> None:
    """Remove from a file what the system has noted on it for the layer."""
    strip_from(change.source)


def strip_from(path: str | int) -> None:
    with contextlib.suppress(OSError):
        known = os.listxattr(path) if isinstance(path, int) else os.listxattr(path, follow_symlinks=False)
        for name in known:
            if not name.startswith(OVERLAY):
                continue
            if isinstance(path, int):
                os.removexattr(path, name)
            else:
                os.removexattr(path, name, follow_symlinks=False)


def copy_content(change: LayerChange, spot: tuple[int, str], links: dict[int, str]) -> None:
    """Write a new content beside its name, with mode, times and owner; a further name of one is linked to it."""
    folder, name = spot
    after = change.after
    assert after is not None
    if after.target is not None:
        os.symlink(after.target, name, dir_fd=folder)
        return
    if after.inode in links:
        os.link(links[after.inode], name, dst_dir_fd=folder)
        return
    source = os.open(change.source, READ)
    try:
        fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            while part := os.read(source, _PART):
                view = memoryview(part)
                while view:
                    view = view[os.write(fd, view) :]
            give_owner(fd, folder)
            os.fchmod(fd, stat.S_IMODE(after.mode) | stat.S_IRUSR)
            os.utime(fd, ns=(after.mtime_ns, after.mtime_ns))
            if after.links > 1:
                links[after.inode] = os.readlink(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)
    finally:
        os.close(source)


def give_owner(fd: int, folder: int) -> None:
    """Let root's programs make files for the owner of the folder, as they do on disk."""
    if os.geteuid() == 0:
        above = os.fstat(folder)
        os.fchown(fd, above.st_uid, above.st_gid)


def dress_folder(fd: int, after: Seen, source: str) -> None:
    """Give a new folder its owner, attributes, mode and time, and close it."""
    try:
        if source:
            status = os.lstat(source)
            if os.geteuid() == 0:
                os.fchown(fd, status.st_uid, status.st_gid)
            with contextlib.suppress(OSError):
                for name in os.listxattr(source):
                    if not name.startswith(OVERLAY):
                        os.setxattr(fd, name, os.getxattr(source, name))
        os.fchmod(fd, stat.S_IMODE(after.mode) | stat.S_IRWXU)
        os.utime(fd, ns=(after.mtime_ns, after.mtime_ns))
    finally:
        os.close(fd)


def is_open(after: Seen) -> bool:
    """Return whether its owner can read a file, and use a folder; undo could take back no other."""
    if after.kind is PlaceKind.LINK:
        return True
    needed = stat.S_IRWXU if after.kind is PlaceKind.DIRECTORY else stat.S_IRUSR
    return after.mode & needed == needed


def open_to_owner(change: LayerChange) -> None:
    """Let the owner read a file of the layer before it is kept."""
    if change.after is not None and not is_open(change.after):
        os.chmod(change.source, stat.S_IMODE(change.after.mode) | stat.S_IRUSR)


def refuse_settings_file(step: Step, handles: Handles) -> None:
    folder, name = handles.spot(step)
    fd = os.open(name, READ, dir_fd=folder)
    try:
        refuse_settings(step.place, fd)
    finally:
        os.close(fd)

"""Indexes of git repositories, prepared for programs that do not see every tracked file.

A hidden file would look deleted or changed to git. In the layer that takes a program's changes, the index says
skip-worktree for such files, so that git leaves them alone. When the program has ended, these bits are taken out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence

from handrail.sandbox.launching import PreparedIndex, Upper
from handrail.workspace.access import READ
from handrail.workspace.beneath import FOLDER, open_walking
from handrail.workspace.git_index import UnreadableIndex, clear_skipped, set_skipped
from handrail.workspace.repositories import read_small

MAX_INDEX_BYTES = 256 << 20
_MOST_LOOKED_AT = 16 << 20
_INDEX = "index"
Prepared = tuple[tuple[PreparedIndex, ...], tuple[str, ...]]  # and why others are not
_WRITE = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


def prepare_indexes(write: Sequence[str], hidden: Iterable[str]) -> Prepared:
    """Prepare the index of every repository beneath write roots that tracks hidden files.

    What cannot be read, a split index or a link stays as it is; it is described, for git then takes such files for
    deleted.
    """
    found: dict[str, list[str]] = {}
    known: dict[str, str] = {}
    for path in hidden:
        if root := root_of(path, write):
            for folder in _above(path, root):
                if folder not in known:
                    known[folder] = _git_folder(folder)
                if known[folder]:
                    found.setdefault(known[folder], []).append(path[len(folder.rstrip("/")) + 1 :])
    prepared = []
    unread = []
    for git, names in found.items():
        try:
            index = _prepare(git, names, write)
        except (OSError, UnreadableIndex) as error:
            if _is_mentioned(git, names):
                unread.append(f"git takes protected files that it tracks for deleted here: {git}/index, {error}")
            continue
        prepared += [] if index is None else [index]
    return tuple(prepared), tuple(unread)


def restore_indexes(uppers: Mapping[str, Upper], prepared: Iterable[PreparedIndex]) -> dict[tuple[str, str], str]:
    """Take out of the layers what was prepared there; gives by root and path why an index cannot be kept.

    An index that differs from the one below by nothing else is no change and goes from the layer.
    """
    refused = {}
    for index in prepared:
        upper = uppers.get(index.root)
        if upper is None:
            continue
        try:
            _restore(upper.path, index)
        except (OSError, UnreadableIndex) as error:
            refused[index.root, index.path] = f"the marks for protected files cannot be taken out of it: {error}"
    return refused


def root_of(path: str, roots: Sequence[str]) -> str:
    """Find the innermost root that holds a path; empty: none."""
    holding = [root for root in roots if path.startswith(f"{root.rstrip('/')}/")]
    return max(holding, key=len, default="")


def _above(path: str, root: str) -> Iterator[str]:
    """List the folders from a path up to its root."""
    while len(path) > len(root):
        path = os.path.dirname(path)
        yield path


def _git_folder(folder: str) -> str:
    """Find the folder of the repository whose working tree is a folder; empty: there is none."""
    path = os.path.join(folder, ".git")
    try:
        kind = os.lstat(path).st_mode
    except OSError:
        return ""
    if stat.S_ISREG(kind):
        text = read_small(path) or ""
        if not text.startswith("gitdir:"):
            return ""
        path = os.path.join(folder, text.removeprefix("gitdir:").strip())
    return os.path.realpath(path)


def _prepare(git: str, names: Sequence[str], write: Sequence[str]) -> PreparedIndex | None:
    """Prepare one index; None where there is none to prepare."""
    path = os.path.join(git, _INDEX)
    root = root_of(path, write)
    if not root or not os.path.lexists(path):
        return None
    below = path[len(root.rstrip("/")) + 1 :]
    folder = _open(root, os.path.dirname(below), FOLDER)
    try:
        status, before = _read(folder, _INDEX)
    finally:
        os.close(folder)
    after, marked = set_skipped(before, names)
    if not marked:
        return None
    folders = tuple(_modes(root, os.path.dirname(below)))
    mode = stat.S_IMODE(status.st_mode)
    return PreparedIndex(root, below, before, after, marked, mode, status.st_mtime_ns, status.st_ctime_ns, folders)


def _is_mentioned(git: str, names: Sequence[str]) -> bool:
    """Whether an index that cannot be read, or one that it shares, seems to track some names."""
    data = b""
    try:
        for name in os.listdir(git):
            if name == _INDEX or name.startswith("sharedindex."):
                with open(os.open(os.path.join(git, name), READ), "rb") as file:
                    data += file.read(_MOST_LOOKED_AT)
    except OSError:
        return True
    return any(os.fsencode(name) in data for name in names)


def _modes(root: str, folder: str) -> Iterator[tuple[str, int]]:
    """List the folders from a root down to a folder beneath it, with their modes."""
    parts = folder.split("/")
    for end in range(1, len(parts) + 1):
        path = "/".join(parts[:end])
        yield path, stat.S_IMODE(os.lstat(f"{root}/{path}").st_mode)


def _restore(upper: str, index: PreparedIndex) -> None:
    """Take the marks out of one index; what is no file any more is a change by itself."""
    folder, _, name = index.path.rpartition("/")
    try:
        fd = _open(upper, folder, FOLDER)
    except OSError:
        return  # the folder is gone, or a link is on the way
    try:
        if not _is_file(fd, name):
            return
        status, now = _read(fd, name)
        restored = index.before if now == index.after else clear_skipped(now, index.marked)
        if restored == index.before and stat.S_IMODE(status.st_mode) == index.mode:
            os.unlink(name, dir_fd=fd)
        elif restored != now:
            _write(fd, name, restored, status)
    finally:
        os.close(fd)


def _is_file(folder: int, name: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _open(root: str, path: str, flags: int) -> int:
    """Open beneath a root, following no link."""
    handle = os.open(root, FOLDER)
    try:
        return open_walking(handle, path, flags)
    finally:
        os.close(handle)


def _read(folder: int, name: str) -> tuple[os.stat_result, bytes]:
    fd = os.open(name, READ, dir_fd=folder)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_INDEX_BYTES:
            raise UnreadableIndex("it is no file, or too large")
        return status, file.read()


def _write(folder: int, name: str, data: bytes, status: os.stat_result) -> None:
    """Write a file of a layer again, with the mode and time it had: git compares times with that of its index."""
    mode = stat.S_IMODE(status.st_mode)
    fd = os.open(name, READ, dir_fd=folder)
    try:
        os.fchmod(fd, mode | stat.S_IWUSR)
        with open(os.open(name, _WRITE, dir_fd=folder), "wb") as file:
            file.write(data)
        os.fchmod(fd, mode)
        os.utime(fd, ns=(status.st_atime_ns, status.st_mtime_ns))
    finally:
        os.close(fd)

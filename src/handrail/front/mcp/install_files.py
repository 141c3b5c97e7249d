"""Settings files of clients as they lie on the disk: plain files of a bearable size, replaced whole, a copy kept."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from handrail.errors import SettingsFault

MOST_BYTES = 10 * 1024 * 1024
_MOST_COPIES = 1000
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe that nobody writes to is no reason to wait
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def within(folder: Path, name: str) -> Path:
    """Where a file of a folder really lies; SettingsFault where a link leads out: whoever made it may be a stranger."""
    top = os.path.realpath(folder)
    real = os.path.realpath(os.path.join(top, name))
    if os.path.commonpath([top, real]) != top:
        raise SettingsFault(
            f"{Path(top, name)}: a link leads out of the project, to {real}; nothing is written there: "
            "add the entry by hand, `--print` shows it"
        )
    return Path(real)


def text_of(path: Path) -> str | None:
    """The text of a file with its line ends as they are; None where there is no file."""
    try:
        found = _read(path)
        return None if found is None else found[0].decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise SettingsFault(f"{path}: cannot be read: {reason}; add the entry by hand, `--print` shows it") from None


def replaced(path: Path, before: str | None, after: str, *, keep: bool = True) -> Path | None:
    """Put a text in the place of another, whole or not at all; give where the former one is kept, if it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = _read(path)
    if (None if found is None else found[0]) != (None if before is None else before.encode()):
        raise SettingsFault(f"{path}: has changed since it was read; nothing is written, try again")
    kept = None if found is None or not keep else _copied(path, *found)
    handle, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "wb") as file:
            file.write(after.encode())
            os.fchmod(handle, 0o644 if found is None else found[1].st_mode & 0o777)
            file.flush()
            os.fsync(handle)
        os.replace(made, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(made)
        raise
    return kept


def _read(path: Path) -> tuple[bytes, os.stat_result] | None:
    try:
        handle = os.open(path, _READ)
    except FileNotFoundError:
        return None
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise SettingsFault(f"{path}: is not a regular file; nothing is read or written there")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise SettingsFault(f"{path}: is larger than {MOST_BYTES:,} bytes; add the entry by hand, `--print` shows it")
    return data, status


def _copied(path: Path, data: bytes, status: os.stat_result) -> Path:
    """Keep a copy beside a file, under a name that nothing has: not even a link that leads nowhere."""
    for number in range(1, _MOST_COPIES):
        copy = path.with_name(f"{path.name}.bak{number if number > 1 else ''}")
        try:
            handle = os.open(copy, _NEW, 0o600)
        except FileExistsError:
            continue
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(handle, status.st_mode & 0o777)
            os.utime(handle, ns=(status.st_atime_ns, status.st_mtime_ns))
        return copy
    raise SettingsFault(f"{path}: has too many copies beside it ({path.name}.bak and so on); remove some of them")

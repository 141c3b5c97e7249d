"""Pre-images: what files held before calls changed them, by content, so that undo can put it back."""

from __future__ import annotations

import errno
import os
from hashlib import file_digest, sha256
from io import FileIO
from pathlib import Path

from handrail.errors import Code, Problem
from handrail.store.private import SAFE, draft_of, make_folder, sync_folder, write_all

CHUNK = 1 << 20
_NO_COPY = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF, errno.ETXTBSY}


class Images:
    """Unredacted contents in the run's archive as `images/<sha256>`, bounded in total."""

    def __init__(self, archive: Path, max_total_bytes: int) -> None:
        self._folder = archive / "images"
        self._bound = max_total_bytes
        self._total: int | None = None

    def room(self, size: int) -> bool:
        """Whether a further image of this size fits the bound."""
        return self._used() + size <= self._bound

    @property
    def left(self) -> int:
        """How many bytes may still be kept."""
        return max(0, self._bound - self._used())

    def has(self, digest: str) -> bool:
        """Whether this content is kept."""
        return self.path(digest).is_file()

    def path(self, digest: str) -> Path:
        """Where this content is, or would be."""
        if len(digest) != 64 or not digest.isalnum():
            raise ValueError(f"{digest!r} is not a sha256")
        return self._folder / digest

    def keep(self, source: int | Path, digest: str) -> bool:
        """Copy a file durably, from its beginning; False when there is no room.

        Raises Problem STALE_FILE when it does not hold what it should, IO_ERROR when it cannot be copied.
        """
        target = self.path(digest)
        try:
            if target.is_file():
                return True
            handle = source if isinstance(source, int) else os.open(source, os.O_RDONLY | SAFE)
            try:
                size = os.fstat(handle).st_size
                if not self.room(size):
                    return False
                self._store(handle, size, target, digest)
            finally:
                if handle is not source:
                    os.close(handle)
        except OSError as error:
            raise Problem(
                Code.IO_ERROR, f"What would be changed cannot be kept for undo ({error.strerror}).", errno=error.errno
            ) from error
        return True

    def takes(self, folder: int) -> bool:
        """Whether files can be renamed from the file system of an open folder to where images are."""
        self._used()
        return os.stat(self._folder).st_dev == os.fstat(folder).st_dev

    def take(self, folder: int, name: str, digest: str, size: int) -> bool:
        """Rename a file of a folder to where images are; copy it where that cannot be. False: no room.

        Who renames makes it durable with everything else that was renamed.
        """
        target = self.path(digest)
        if target.is_file():
            return True
        if not self.room(size):
            return False
        try:
            os.rename(name, target, src_dir_fd=folder)
            os.chmod(target, 0o600)
        except OSError:
            handle = os.open(name, os.O_RDONLY | SAFE, dir_fd=folder)
            try:
                return self.keep(handle, digest)
            finally:
                os.close(handle)
        self._total = self._used() + size
        return True

    def load(self, digest: str) -> bytes:
        """Give a content back, checked; Problem NOT_FOUND or IO_ERROR when it is gone or damaged."""
        try:
            with open(os.open(self.path(digest), os.O_RDONLY | SAFE), "rb") as file:
                data = file.read()
        except OSError as error:
            raise Problem(
                Code.NOT_FOUND, f"The pre-image {digest[:12]}… is not there ({error.strerror}).", errno=error.errno
            ) from error
        if sha256(data).hexdigest() != digest:
            raise Problem(Code.IO_ERROR, f"The pre-image {digest[:12]}… is damaged.")
        return data

    def _used(self) -> int:
        if self._total is None:
            make_folder(self._folder)
            with os.scandir(self._folder) as entries:
                self._total = sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
        return self._total

    def _store(self, source: int, size: int, target: Path, digest: str) -> None:
        draft = draft_of(target)
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | SAFE, 0o600)
        try:
            with open(handle, "rb", buffering=0) as copy:
                if _copied(source, size, copy) != digest:
                    raise Problem(
                        Code.STALE_FILE, "The file changed while its content was kept for undo.", mend="read it again"
                    )
                os.fsync(handle)
            os.rename(draft, target)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        sync_folder(self._folder)
        self._total = self._used() + size


def _copied(source: int, size: int, copy: FileIO) -> str:
    """Copy all bytes, a few of them at once; gives the hash of the copy."""
    if 0 < size < CHUNK and len(data := os.pread(source, CHUNK, 0)) == size:
        write_all(copy.fileno(), data)
        return sha256(data).hexdigest()
    _copy(source, copy.fileno())
    return file_digest(copy, "sha256").hexdigest()


def _copy(source: int, target: int) -> None:
    """Copy all bytes, in the kernel and sharing blocks where the file system can; neither position moves."""
    offset = 0
    try:
        while count := os.copy_file_range(source, target, CHUNK * 64, offset, offset):
            offset += count
    except OSError as error:
        if error.errno not in _NO_COPY:
            raise
    # The rest, or everything where the kernel cannot; also files that claim to be empty, as in /proc.
    while chunk := os.pread(source, CHUNK, offset):
        os.lseek(target, offset, os.SEEK_SET)
        write_all(target, chunk)
        offset += len(chunk)
    os.lseek(target, 0, os.SEEK_SET)

"""Where the whole of a cut output goes: numbered files in the run's observations."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from handrail.errors import Code, Problem
from handrail.store.private import SAFE, draft_of, write_all
from handrail.words import Ref

_Given = TypeVar("_Given")
_NUMBER = re.compile(r"(?:.*_)?([0-9]{1,18})\.[a-z]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
STREAM_BYTES = 64 * 1024 * 1024  # kept of one stream; of more than this both ends
# Of a write: for larger ones, file systems look for larger pages, whose memory the host of a virtual machine may have
# to give first; measured, that takes up to eight times as long as writing.
_PART = 1 << 18


class FileSpill:
    """Keeps texts in the run's observations as `<n>.txt` or `<name>_<n>.txt`; no number is used twice."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: int | None = None

    def put(self, text: str, name: str = "") -> Ref:
        """Keep a text, redacted by its caller, and name it."""
        return self.keep(text.encode("utf-8", "backslashreplace"), name)

    def keep(self, data: bytes | Sequence[bytes], name: str = "", *, hashed: bool = True) -> Ref:
        """Keep a text, redacted by its caller, that is UTF-8 already; `hashed=False` leaves the hash to the caller."""
        parts = (data,) if isinstance(data, bytes) else data
        draft = self.draft(name)
        try:
            for part in parts:
                draft.add(part)
            return draft.keep(_hash(parts) if hashed else "")
        except BaseException:
            draft.discard()
            raise

    def draft(self, name: str = "") -> FileDraft:
        """Begin a text, redacted by its caller, that is UTF-8 already and comes in parts."""
        if name and _NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r} cannot name an observation")
        try:
            if self._last is None:
                self._last = self._highest()
            return FileDraft(self, name, *_opened(self._folder))
        except OSError as error:
            raise _not_kept(error) from error

    def stream(self, name: str, max_bytes: int = STREAM_BYTES) -> FileSpool:
        """Start keeping a text, redacted by its caller, that comes in parts."""
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r} cannot name an observation")
        try:
            file, handle = self.numbered(name, _made)
        except OSError as error:
            raise _not_kept(error) from error
        return FileSpool(self._folder / file, handle, max_bytes)

    def numbered(self, name: str, take: Callable[[Path], _Given]) -> tuple[str, _Given]:
        """Take the next name that nobody has; gives it, and what taking it gave."""
        if self._last is None:
            self._last = self._highest()
        while True:
            self._last += 1
            file = f"{name}_{self._last}.txt" if name else f"{self._last}.txt"
            try:
                return file, take(self._folder / file)
            except FileExistsError:
                continue

    def _highest(self) -> int:
        os.makedirs(self._folder, 0o700, exist_ok=True)
        found = [_NUMBER.fullmatch(name) for name in os.listdir(self._folder)]
        return max((int(match[1]) for match in found if match), default=0)


class FileDraft:
    """One observation that has no number yet: kept or discarded in the end.

    A process that dies leaves none, but where the file system has no files without a name.
    """

    def __init__(self, spill: FileSpill, name: str, handle: int, path: Path | None) -> None:
        self._spill, self._name = spill, name
        self._handle, self._path = handle, path  # no path: it has no name at all
        self._size = 0

    def add(self, part: bytes | memoryview) -> None:
        """Write further bytes; Problem IO_ERROR where that fails."""
        try:
            for start in range(0, len(part), _PART):
                write_all(self._handle, memoryview(part)[start : start + _PART])
        except OSError as error:
            raise _not_kept(error) from error
        self._size += len(part)

    def keep(self, sha256: str = "") -> Ref:
        """End and name it; without a hash, that is left to the caller."""
        try:
            file, target = self._spill.numbered(self._name, self._take)
            handle, self._handle = self._handle, -1
            try:
                os.close(handle)  # some file systems tell only now that there is no room
            except OSError:
                target.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise _not_kept(error) from error
        finally:
            self.discard()
        return Ref(f"run:observations/{file}", sha256, self._size)

    def discard(self) -> None:
        """Remove it, if it was not kept."""
        handle, self._handle = self._handle, -1  # first: a number that was closed may be another's at once
        if handle >= 0:
            with suppress(OSError):  # what is wrong with a file that goes is nobody's concern
                os.close(handle)
            if self._path is not None:
                with suppress(OSError):
                    self._path.unlink(missing_ok=True)

    def _take(self, target: Path) -> Path:
        if self._path is None:
            # Links are followed only where a folder is given, which an absolute path makes no use of.
            os.link(f"/proc/self/fd/{self._handle}", target, src_dir_fd=self._handle, follow_symlinks=True)
        else:
            os.close(_made(target))
            try:
                os.rename(self._path, target)
            except OSError:
                target.unlink(missing_ok=True)
                raise
            self._path = None
        return target


def _made(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFE, 0o600)


def _opened(folder: Path) -> tuple[int, Path | None]:
    """Open a file without a name, else one with a name of its own."""
    with suppress(OSError):  # not every file system has that
        if os.path.exists("/proc/self/fd"):
            return os.open(folder, os.O_TMPFILE | os.O_WRONLY | SAFE, 0o600), None
    path = draft_of(folder / "draft")
    return _made(path), path


class FileSpool:
    """One observation as it comes. Its first half is written as it is, the rest goes round in a file without name."""

    def __init__(self, path: Path, handle: int, max_bytes: int) -> None:
        self._path, self._handle = path, handle
        self._half = max_bytes // 2
        self._head_left = self._half
        self._digest = sha256()
        self._size = 0
        self._round: int | None = None
        self._after = 0  # bytes that came after the first half

    def write(self, text: str) -> None:
        """Keep more of it; OSError where that fails."""
        data = text.encode("utf-8", "backslashreplace")
        if self._round is None:
            if len(data) <= self._head_left:
                self._head_left -= len(data)
                self._append(data)
                return
            edge = _character_start(data, self._head_left)
            self._append(data[:edge])
            data = data[edge:]
            self._round = os.open(self._path.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._go_round(data)

    def finish(self) -> Ref:
        """End and name it: the tail follows the head, with a line between them that counts what was dropped."""
        if self._round is not None:
            start = max(0, self._after - self._half)
            if start:
                text = f"\n[{start} bytes are not kept: of output over {2 * self._half} bytes both ends are]\n"
                self._append(text.encode())
            for part in self._rounds(start):
                self._append(part)
        self._close()
        return Ref(f"run:observations/{self._path.name}", self._digest.hexdigest(), self._size)

    def discard(self) -> None:
        """Remove what was kept."""
        self._close()
        self._path.unlink(missing_ok=True)

    def _append(self, data: bytes) -> None:
        write_all(self._handle, data)
        self._digest.update(data)
        self._size += len(data)

    def _go_round(self, data: bytes) -> None:
        assert self._round is not None
        view = memoryview(data)
        while view:
            at = self._after % self._half
            done = os.pwrite(self._round, view[: self._half - at], at)
            self._after += done
            view = view[done:]

    def _rounds(self, start: int) -> Iterator[bytes]:
        """Give the tail in order, in parts, from the first whole character on."""
        assert self._round is not None
        at, torn = start, start > 0
        while at < self._after:
            place = at % self._half
            part = os.pread(self._round, min(_PART, self._half - place, self._after - at), place)
            if not part:
                raise OSError(errno.EIO, "the kept tail is gone")
            at += len(part)
            if torn:
                part = part.lstrip(_INNER)
                torn = not part
            yield part

    def _close(self) -> None:
        for handle in (self._handle, self._round):
            if handle is not None and handle >= 0:
                os.close(handle)
        self._handle, self._round = -1, None


def _not_kept(error: OSError) -> Problem:
    return Problem(
        Code.IO_ERROR,
        f"The whole output cannot be kept ({error.strerror}).",
        errno=error.errno,
        mend="ask for a smaller part, or free space where runs are kept",
    )


def _hash(parts: Sequence[bytes]) -> str:
    digest = sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


_INNER = bytes(range(0x80, 0xC0))  # bytes that stand within a character


def _character_start(data: bytes, at: int) -> int:
    while 0 < at < len(data) and data[at] & 0xC0 == 0x80:
        at -= 1
    return at

"""What tests of the workspace share: a keeper of pre-images, and a workspace on a folder."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from handrail.errors import Problem
from handrail.words import Place, Root
from handrail.workspace import Images, WorkspaceFiles, names
from handrail.workspace.beneath import OpenerName


class KeptImages:
    """Pre-images in memory, up to a number of bytes each."""

    def __init__(self, most: int = 1 << 30) -> None:
        self.most = most
        self.kept: dict[str, bytes] = {}

    @property
    def left(self) -> int:
        """Say how many bytes may still be kept."""
        return self.most

    def room(self, size: int) -> bool:
        """Whether one of this size is kept."""
        return size <= self.most

    def takes(self, folder_fd: int) -> bool:
        """Whether files are renamed to here: never."""
        return False

    def take(self, folder_fd: int, name: str, sha256: str, size: int) -> bool:
        """Take none by renaming."""
        return False

    def keep(self, source_fd: int, sha256: str) -> bool:
        """Keep it, and see that it is what it is said to be."""
        data = os.pread(source_fd, self.most, 0)
        assert hashlib.sha256(data).hexdigest() == sha256
        self.kept[sha256] = data
        return True


def sha(data: bytes) -> str:
    """The hash that stands for some bytes."""
    return hashlib.sha256(data).hexdigest()


def workspace(folder: Path, *, images: Images | None = None, opener: OpenerName = "auto") -> WorkspaceFiles:
    """A workspace with one root in `ws`, made if it is not there."""
    (folder / "ws").mkdir(exist_ok=True)
    root = Root("workspace", str(folder / "ws"), True)
    return WorkspaceFiles([root], images=images, locks_dir=folder / "locks", opener=opener)


def whole(files: WorkspaceFiles, path: str) -> Place:
    """A folder with all that lies below it now, as it is when a call that takes it away was judged."""
    place = files.resolve(path, follow=False)
    return replace(place, below=frozenset(files.below(place) or ()))


def without_unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for a file system where a file always has a name."""
    monkeypatch.setattr(names, "_unnamed", {})
    monkeypatch.setattr(names, "_try_unnamed", lambda _: False)


def leftovers(folder: Path) -> list[str]:
    """Temporary names that should be gone."""
    return [path.name for path in folder.rglob(".handrail-*")]


async def refused(awaitable: object) -> Problem:
    """Await what must fail, and give its problem."""
    with pytest.raises(Problem) as caught:
        await awaitable  # type: ignore[misc]
    return caught.value


def below(folder: Path) -> dict[str, bytes | str | None]:
    """All that lies below: bytes of files, targets of links, None for folders."""
    found: dict[str, bytes | str | None] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        found[name] = os.readlink(path) if path.is_symlink() else None if path.is_dir() else path.read_bytes()
    return found


def grow(ws: Path) -> None:
    """A folder with files, a link out and a folder in it."""
    (ws / "d/sub").mkdir(parents=True)
    (ws / "d/1").write_bytes(b"1")
    (ws / "d/sub/2").write_bytes(b"2")
    (ws / "d/out").symlink_to(ws.parent)
    (ws / "keep").write_bytes(b"k")


def replaced(path: Path) -> None:
    """Another file takes the name."""
    path.with_name("editor").write_bytes(b"theirs")
    path.with_name("editor").replace(path)


def in_place(path: Path) -> None:
    """The same file gets other bytes."""
    path.write_bytes(b"theirs")

"""Names near one that does not exist: close ones where it was looked for, the same one elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator

from handrail.errors import Problem
from handrail.spelling import nearest
from handrail.words import Place
from handrail.workspace.access import Access
from handrail.workspace.beneath import FOLDER
from handrail.workspace.exclude import Leaves
from handrail.workspace.resolve import check_text

LOOKED_AT = 2000
MAX_DEPTH = 4
MOST = 5
_DULL = frozenset({".git", "node_modules", "__pycache__", ".venv"})


def near(access: Access, place: Place, leaves_out: Leaves) -> list[str]:
    """Give near names as a caller would ask for them; a handful, from a bounded look."""
    folder, _, name = place.path.rpartition("/")
    found = [*_close(access, place, folder, name, leaves_out), *_elsewhere(access, place, name, leaves_out)]
    shown = [place.root.shown(path) for path in dict.fromkeys(found) if path != place.path]
    return shown[:MOST]


def _close(access: Access, place: Place, folder: str, name: str, leaves_out: Leaves) -> list[str]:
    prefix = f"{folder}/" if folder else ""
    names = [name for name, path, _ in _entries(access, place, folder, LOOKED_AT) if not leaves_out(name, path)]
    by_fold = {item.casefold(): item for item in reversed(names)}
    return [prefix + by_fold[fold] for fold in nearest(name.casefold(), by_fold, 3, 0.6)]


def _elsewhere(access: Access, place: Place, name: str, leaves_out: Leaves) -> Iterator[str]:
    """Look for the same name breadth first from the root."""
    wanted, left = name.casefold(), LOOKED_AT
    level = [""]
    for _ in range(MAX_DEPTH):
        below: list[str] = []
        for folder in level:
            for entry, path, is_folder in _entries(access, place, folder, left):
                left -= 1
                if leaves_out(entry, path):
                    continue
                if entry.casefold() == wanted:
                    yield path
                if is_folder and entry not in _DULL:
                    below.append(path)
            if left <= 0:
                return
        level = below


def _entries(access: Access, place: Place, folder: str, most: int) -> list[tuple[str, str, bool]]:
    prefix = f"{folder}/" if folder else ""
    try:
        fd = access.open_beneath(access.roots.handle(place.root), folder, FOLDER, 0)
    except OSError:
        return []
    try:
        with os.scandir(fd) as entries:
            taken = [entry for entry, _ in zip(entries, range(most), strict=False)]
            return [
                (entry.name, prefix + entry.name, entry.is_dir(follow_symlinks=False))
                for entry in taken
                if _acceptable(entry.name)
            ]
    except OSError:
        return []
    finally:
        os.close(fd)


def _acceptable(name: str) -> bool:
    """Whether a tool would take the name; one that it refuses helps nobody and may forge what a person reads."""
    try:
        check_text(name)
    except Problem:
        return False
    return True

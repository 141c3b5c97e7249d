"""Tracked files that are protected: programs do not see them, and git's objects hold them all the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from handrail.runtime import Runtime
    from handrail.words import Exclusion, Root

_MOST_REPOSITORIES = 100
_MOST_BYTES = 64 << 20  # of all indexes together


def find_tracked(runtime: Runtime) -> tuple[str, ...]:
    """List the protected files that repositories of the workspace track; bounded, so it may miss some."""
    asked = runtime.explanation("run_command", {"command": "true"})
    finder = runtime.parts.programs.repositories
    finder.look()
    room = _MOST_BYTES
    found: list[str] = []
    for folder, tree in finder.known[:_MOST_REPOSITORIES]:
        data = _read(os.path.join(folder, "index"), room)
        room -= len(data)
        for root in asked.world.roots if tree and data else ():
            found += _protected(data, tree, root, asked.verdict.excluded)
    return tuple(dict.fromkeys(found))


def _protected(data: bytes, tree: str, root: Root, excluded: tuple[Exclusion, ...]) -> Iterator[str]:
    """List what an index tracks beneath a root and programs do not see."""
    from handrail.workspace.exclude import leaves_out
    from handrail.workspace.git_index import UnreadableIndex, parse_index

    leaves = leaves_out(excluded, root)
    known: dict[str, bool] = {"": False}

    def is_left_out(path: str) -> bool:
        if path not in known:
            above, _, name = path.rpartition("/")
            known[path] = is_left_out(above) or leaves(name, path)
        return known[path]

    try:
        entries = parse_index(data).entries
    except UnreadableIndex:
        return
    for entry in entries:
        path = os.path.join(tree, os.fsdecode(entry.path))
        if path.startswith(f"{root.path.rstrip('/')}/"):
            below = path[len(root.path.rstrip("/")) + 1 :]
            if is_left_out(below):
                yield root.shown(below)


def _read(path: str, most: int) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except OSError:
        return b""
    return data if len(data) <= most else b""

"""Places beneath write roots that decide which programs the person's own shell runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from handrail.words import Root, noun

_MOST_LINKS = 40


@noun
class CallersPath:
    """What of the caller's `PATH` lies beneath write roots."""

    folders: tuple[str, ...] = ()  # where commands are looked for
    spots: tuple[str, ...] = ()  # names on the way to them, these folders included: a link there leads elsewhere


def find_callers_path(roots: Sequence[Root], path: str) -> CallersPath:
    """Find the folders of a `PATH` beneath write roots, and the names that lead to any of its folders."""
    writable = tuple(f"{root.path.rstrip('/')}/" for root in roots if root.writable)
    folders: list[str] = []
    spots: list[str] = []
    for name in path.split(os.pathsep):
        spots += [spot for spot in _steps(os.path.abspath(name)) if spot.startswith(writable)]
        folder = os.path.realpath(name)
        if f"{folder}/".startswith(writable):
            folders.append(folder)
    return CallersPath(tuple(dict.fromkeys(folders)), tuple(dict.fromkeys(spots)))


def _steps(path: str) -> Iterator[str]:
    """List every name that is looked up on the way to a path, each without links above it."""
    names = path.split("/")
    current = ""
    links = 0
    while names:
        name = names.pop(0)
        if name in ("", "."):
            continue
        if name == "..":
            current = current.rpartition("/")[0]
            continue
        spot = f"{current}/{name}"
        yield spot
        target = _target(spot)
        if target is None:
            current = spot
            continue
        links += 1
        if links > _MOST_LINKS:
            return
        if target.startswith("/"):
            current = ""
        names = [*target.split("/"), *names]


def _target(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None

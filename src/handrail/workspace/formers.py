"""What stands where an agent may change something by itself: hashed and kept before it does. Runs in a thread."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence

from handrail.errors import Problem
from handrail.ports.files import Former
from handrail.words import Place, PlaceKind, Root
from handrail.workspace.access import Access
from handrail.workspace.beneath import FOLDER
from handrail.workspace.reading import digest, look, open_regular
from handrail.workspace.threads import Brake


def keep_all(access: Access, places: Sequence[Place], brake: Brake) -> list[Former]:
    """Keep what stands at some places, each once; missing folders on the way come first."""
    found: dict[str, Former] = {}
    for place in places:
        for item in _keep(access, place, brake):
            found.setdefault(item.path, item)
    return list(found.values())


def _keep(access: Access, place: Place, brake: Brake) -> Iterator[Former]:
    try:
        fd, status = open_regular(access, place)
    except Problem:
        yield from _other(access, place)
        return
    try:
        sha256, size = digest(fd, brake)
        kept = access.keep(fd, sha256, size)
        yield Former(place.shown, PlaceKind.FILE, sha256, stat.S_IMODE(status.st_mode), kept)
    finally:
        os.close(fd)


def _other(access: Access, place: Place) -> Iterator[Former]:
    """What is no regular file: nothing, with the folders that are missing on the way, or a thing that is not kept."""
    try:
        found = look(access, place)
    except OSError:
        yield from (Former(folder, PlaceKind.MISSING) for folder in _missing_above(access, place.root, place.path))
        yield Former(place.shown, PlaceKind.MISSING, kept=True)
    else:
        yield Former(place.shown, found.kind, mode=found.mode)


def _missing_above(access: Access, root: Root, path: str) -> list[str]:
    missing: list[str] = []
    while (cut := path.rfind("/")) > 0:
        path = path[:cut]
        try:
            os.close(access.open(Place(root, path, PlaceKind.DIRECTORY), FOLDER))
        except OSError:
            missing.append(f"{Place(root, path, PlaceKind.DIRECTORY).shown}/")
        else:
            break
    return missing[::-1]

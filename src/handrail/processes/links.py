"""Where links lead that a program made, as they will be once its changes are kept."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping

from handrail.processes.effects import is_beneath
from handrail.sandbox.launching import Upper
from handrail.words import Root

_MOST_LINKS = 40


def leads_out(path: str, target: str, inside: Iterable[str], uppers: Mapping[Root, Upper]) -> bool:
    """Say whether a link leads out of some folders, or may do so once another link is changed.

    `..` after a name goes up from where that name leads: a link that comes later would decide. So such a target counts
    as leading out.
    """
    inside = tuple(inside)
    names = [name for name in target.split("/") if name not in ("", ".")]
    above = next((number for number, name in enumerate(names) if name != ".."), len(names))
    if ".." in names[above:]:
        return True
    written = os.path.normpath(os.path.join(os.path.dirname(path), target))
    if not is_beneath(written, inside):
        return True
    return not is_beneath(_resolve(written, uppers), inside)


def _resolve(path: str, uppers: Mapping[Root, Upper]) -> str:
    """Follow the links on the way to a path, those of layers first; what leads in circles leads nowhere."""
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
        target = _target(spot, uppers)
        if target is None:
            current = spot
            continue
        links += 1
        if links > _MOST_LINKS:
            return path
        if target.startswith("/"):
            current = ""
        names = [*target.split("/"), *names]
    return current or "/"


def _target(path: str, uppers: Mapping[Root, Upper]) -> str | None:
    """Read a link as it is in the layer of its root, or on disk; None: there is none."""
    for root, upper in uppers.items():
        above = root.path.rstrip("/")
        if path.startswith(f"{above}/"):
            changed = f"{upper.path}{path[len(above) :]}"
            try:
                kind = os.lstat(changed).st_mode
            except OSError:
                break
            return os.readlink(changed) if stat.S_ISLNK(kind) else None
    try:
        return os.readlink(path)
    except OSError:
        return None

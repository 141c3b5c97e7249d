"""The programs that tools need on this machine, and how to get those that are missing."""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from handrail.errors import SettingsFault


class Needed(NamedTuple):
    """A program, where it comes from, and what it is for."""

    name: str
    package: str  # of Debian and its kin
    why: str
    required: bool = True
    others: tuple[str, ...] = ()  # names that it goes by elsewhere
    tool_mode: bool = False  # `autonous` refuses to start without it, though no tool of ours starts it


PROGRAMS = (
    Needed("bash", "bash", "run_command"),
    Needed("ls", "coreutils", "programs that commands start"),
    Needed("cat", "coreutils", "programs that commands start"),
    Needed("head", "coreutils", "programs that commands start"),
    Needed("tee", "coreutils", "programs that commands start"),
    Needed("sed", "sed", "programs that commands start"),
    Needed("rg", "ripgrep", "grep and find_files"),
    Needed("fd", "fd-find", "commands that look for files; find_files itself takes ripgrep", False, ("fdfind",), True),
    Needed("perl", "perl", "commands that replace text in difficult ways", False),
)


def which(name: str) -> str | None:
    """Where a program lies: with our own scripts, or on the path."""
    own = Path(sysconfig.get_path("scripts"), name)
    return str(own) if name == "rg" and own.exists() else shutil.which(name)


def missing(find: Callable[[str], str | None] = which) -> tuple[Needed, ...]:
    """The programs that are not here, wanted ones too."""
    return tuple(item for item in PROGRAMS if not any(find(name) for name in (item.name, *item.others)))


def require(find: Callable[[str], str | None] = which) -> tuple[str, ...]:
    """Refuse the tool mode of `autonous` where a program of its list is missing; a warning for each only wanted."""
    lost = missing(find)
    if required := [item for item in lost if item.required or item.tool_mode]:
        names = ", ".join(" or ".join((item.name, *item.others)) for item in required)
        raise SettingsFault(f"tools cannot be offered: {names} not found; {install(required)}")
    return tuple(f"{item.name} is not here ({item.why}); {install([item])}" for item in lost)


def install(items: Iterable[Needed]) -> str:
    """The command that brings programs."""
    return f"apt-get install {' '.join(sorted({item.package for item in items}))}"

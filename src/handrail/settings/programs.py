"""The programs that tools need on this machine, and how to get those that are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from handrail.errors import SettingsFault
from handrail.sandbox.executables import find_executable, why_refused
from handrail.settings import paths
from handrail.settings.loading import Loaded


class Needed(NamedTuple):
    """A program, where it comes from, and what it is for."""

    name: str
    package: str  # of Debian and its kin
    why: str
    required: bool = True
    others: tuple[str, ...] = ()  # names that it goes by elsewhere


PROGRAMS = (
    Needed("bash", "bash", "run_command"),
    Needed("rg", "ripgrep", "grep and find_files"),
    Needed("ls", "coreutils", "programs that commands start", required=False),
    Needed("cat", "coreutils", "programs that commands start", required=False),
    Needed("head", "coreutils", "programs that commands start", required=False),
    Needed("tee", "coreutils", "programs that commands start", required=False),
    Needed("sed", "sed", "programs that commands start", required=False),
    Needed("fd", "fd-find", "commands that look for files; find_files takes ripgrep", False, ("fdfind",)),
    Needed("perl", "perl", "commands that replace text in difficult ways", False),
)


def which(name: str) -> str | None:
    """Find a program: with our own scripts, or in the system's folders, where programs in the sandbox find it."""
    return find_executable(name)


def which_in(programs: Mapping[str, str]) -> Callable[[str], str | None]:
    """Give a finder of programs that takes the paths that settings name."""
    return lambda name: find_executable(name, (), programs.get(name))


def check_named(loaded: Loaded, writable: Iterable[str]) -> None:
    """Refuse a path in `programs` that cannot be used, or that tools may replace."""
    folders = tuple(writable)
    for name, path in loaded.settings.programs.named().items():
        if why := why_refused(path, folders):
            where = loaded.where(f"programs.{name}")
            raise SettingsFault(f"{where}: programs.{name}: {path} {why}")
    _check_notify(loaded, folders)


def _check_notify(loaded: Loaded, writable: tuple[str, ...]) -> None:
    """Refuse a command that tells of requests where it cannot be used, or where a project's file names it."""
    setting = loaded.settings.approvals.notify
    if setting is None:
        return
    from handrail.approvals.notify import BELL, why_no_notifier  # few have one, and every start would load it

    if setting == BELL:
        return
    why = why_no_notifier(setting, writable)
    if loaded.origins["approvals.notify"].layer == "project":
        why = f'a project\'s file takes "{BELL}" alone, since the command runs outside the sandbox; write it into your '
        why += f"own settings, {paths.user_file()}"
    if why:
        raise SettingsFault(f"{loaded.where('approvals.notify')}: approvals.notify: {why}")


def missing(find: Callable[[str], str | None] = which) -> tuple[Needed, ...]:
    """The programs that are not here, wanted ones too."""
    return tuple(item for item in PROGRAMS if not any(find(name) for name in (item.name, *item.others)))


def require(find: Callable[[str], str | None] = which) -> tuple[str, ...]:
    """Refuse to start where a program that a tool starts is missing; give a warning for each other one."""
    lost = missing(find)
    if required := [item for item in lost if item.required]:
        names = ", ".join(" or ".join((item.name, *item.others)) for item in required)
        raise SettingsFault(f"tools cannot be offered: {names} not found; {install(required)}")
    return tuple(f"{item.name} is not here ({item.why}); {install([item])}" for item in lost)


def install(items: Iterable[Needed]) -> str:
    """The command that brings programs."""
    return f"apt-get install {' '.join(sorted({item.package for item in items}))}"

"""Programs that Handrail starts itself, outside the sandbox: found in the system's folders, never in a project."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from handrail.own_imports import PACKAGE, SCRIPTS

# PATH is not asked: it may hold relative folders, and folders of the project such as `node_modules/.bin`.
SYSTEM = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/run/current-system/sw/bin",
    "/opt/homebrew/bin",
    "/home/linuxbrew/.linuxbrew/bin",
    "/snap/bin",
)
WITH_US = frozenset({"rg", "ruff", "handrail"})  # programs of packages that Handrail depends on, or its own


def find_executable(name: str, writable: Iterable[str] = (), named: str | None = None) -> str | None:
    """Find a program by name; never beneath one of the given folders, which tools may write.

    A path that settings name is the only one that counts; None where it cannot be used.
    The scripts folder of this interpreter counts for the programs installed with Handrail. Where that folder lies
    beneath a write root, it is locked like the rest of this process's code.
    """
    if named is not None:
        return None if why_refused(named, writable) else named
    beneath = _as_folders(writable)
    if name in WITH_US and _is_executable(own := f"{SCRIPTS}/{name}"):
        return own
    return next((path for path in _candidates(name) if not _is_beneath(path, beneath)), None)


def why_refused(path: str, writable: Iterable[str]) -> str:
    """Say why a path that settings name is not used; empty where it is."""
    if not os.path.isabs(path):
        return "is a relative path; write the whole path, such as /opt/bin/rg"
    if _is_beneath(os.path.normpath(path), _as_folders(writable)):
        return "lies beneath a folder that tools may write; install the program outside the workspace"
    if not os.path.isfile(path):
        return "is not a file; correct the path, or remove the setting"
    if not os.access(path, os.X_OK):
        return "is not executable; run `chmod +x` on it, or remove the setting"
    return ""


def _as_folders(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{path.rstrip('/')}/" for path in paths)


def _candidates(name: str) -> Iterator[str]:
    above = os.path.dirname(PACKAGE)
    # Beside a package that was installed with `--user` or `--target`.
    beside = (os.path.normpath(f"{above}/../../../bin"), f"{above}/bin") if name in WITH_US else ()
    for folder in (*beside, *SYSTEM):
        if _is_executable(path := f"{folder}/{name}"):
            yield path


def _is_beneath(path: str, folders: tuple[str, ...]) -> bool:
    return path.startswith(folders) or os.path.realpath(path).startswith(folders)


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)

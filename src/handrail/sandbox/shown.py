"""Paths in the system's own folders that no program may see: Handrail's files, key material, sockets and FIFOs."""

from __future__ import annotations

import os
import pwd
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from handrail.policy.builtin import KEY_MATERIAL
from handrail.policy.patterns import excluded, path_matches
from handrail.sandbox.system import is_below, system
from handrail.sandbox.toolchains import CODE_NAMES, CREDENTIAL_FILES
from handrail.words import Exclusion, Root
from handrail.workspace.exclude import last_names

_MACHINE = Root("machine", "/", writable=False)
_KEYS = tuple(Exclusion(pattern, "builtin.key-material") for pattern in KEY_MATERIAL)
_CREDENTIALS = tuple(Exclusion(pattern, "builtin.key-material", except_for=CODE_NAMES) for pattern in CREDENTIAL_FILES)
_PLAIN = tuple(pattern for pattern in KEY_MATERIAL if "*" not in pattern)
_LOCAL = ("/opt", "/usr/local")  # what no package of the system has put there
_DEEPEST = 3  # deeper down, files belong to packages, of which there are too many for every start
_DEEPEST_OF_TOOLCHAINS = 6  # as `nodejs/22.1.0/lib/node_modules/npm/npmrc` is, below `.asdf/installs`
_GLOBAL = ("/usr/etc/npmrc", "/usr/share/npm/npmrc", "/usr/lib/node_modules/npm/npmrc")
_MOST_ENTRIES = 100_000


def find_hidden(own: Iterable[str], roots: Iterable[str], sockets: Sequence[str] = ()) -> Iterator[str]:
    """Give existing paths in shown folders that must be hidden; what is beneath a root is found with that root.

    `sockets` are patterns of sockets and FIFOs that programs may use; here those count that begin with a slash.
    """
    folders = system().folders
    beneath = list(roots)
    for path in (*own, *_keys()):
        if is_below(path, folders) and not is_below(path, beneath) and os.path.lexists(path):
            allowed = any(path_matches(pattern, path) for pattern in sockets if pattern.startswith("/"))
            if not (allowed and _is_endpoint(path)):
                yield path


@cache
def _keys() -> tuple[str, ...]:
    """Look once for keys and services: of the interpreter, in local folders, in toolchains and in shown homes."""
    seen = system()
    found: dict[str, None] = {}
    for folder in (*seen.interpreter, *(path for path in _LOCAL if is_below(path, seen.folders))):
        found |= dict.fromkeys(_walk(folder))
    found |= dict.fromkeys(path for path in _GLOBAL if os.path.isfile(path) and not os.path.islink(path))
    for folder in seen.toolchains:
        found |= dict.fromkeys(_walk(folder, _DEEPEST_OF_TOOLCHAINS))
    for home in _homes():
        if is_below(home, seen.folders):
            paths = (os.path.join(home, name) for name in _PLAIN)
            found |= dict.fromkeys(path for path in paths if os.path.lexists(path) and not os.path.islink(path))
    return tuple(found)


def _is_endpoint(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode)


def _homes() -> set[str]:
    homes = {entry.pw_dir for entry in pwd.getpwall()} | {os.path.expanduser("~")}
    return {os.path.realpath(home) for home in homes if home.startswith("/")}


def _walk(top: str, deepest: int = _DEEPEST) -> Iterator[str]:
    """Find key material, sockets and FIFOs below a folder, following no link."""
    suspicious = last_names((*_KEYS, *_CREDENTIALS)).fullmatch
    waiting = deque([(top, deepest)])  # the folder at hand before those in it: what tools keep is seldom deep down
    left = _MOST_ENTRIES
    while waiting and left > 0:
        folder, deeper = waiting.popleft()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        left -= len(entries)
        for entry in entries:
            if entry.is_symlink():
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            # A folder called `credentials` is a package's code; a file of that name is what a tool keeps.
            looked_for = _KEYS if is_folder else (*_KEYS, *_CREDENTIALS)
            is_key = suspicious(entry.name) and excluded(looked_for, _MACHINE, entry.path[1:]) is not None
            if is_key or not (is_folder or entry.is_file(follow_symlinks=False)):
                yield entry.path  # what is neither folder, file nor link is a service, or a device that none needs
            elif deeper > 1 and is_folder:
                waiting.append((entry.path, deeper - 1))

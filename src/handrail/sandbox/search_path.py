"""Folders that programs look for commands in: the project's own, those of the caller that are shown, the system's."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from handrail.policy.shell.harmless import LOOKED_UP
from handrail.sandbox.plan import PATH
from handrail.sandbox.system import is_below, system
from handrail.words import Root

PROJECT = (".venv/bin", "node_modules/.bin")
_PYENV_SHIMS = ".pyenv/shims"
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
_NAME = r"['‘\"]?([^\s/:'‘’\"]{1,100})['’\"]?"
# How shells, make, wrappers, Python and node say that there is no such command.
_MISSING = re.compile(
    rf"""(?x)
    ^ [^\n:]{{1,200}}:\ line\ [0-9]+:\ {_NAME}:\ command\ not\ found $
    | ^ [^\n:]{{1,200}}:\ [0-9]+:\ {_NAME}:\ not\ found $
    | ^ (?:/\S*/)? (?:make|env|xargs|nice|nohup|timeout|stdbuf|setsid) (?:\[[0-9]+\])? :
      \ (?:failed\ to\ (?:run|execute)\ (?:command|process)?:?\ )? {_NAME}: \ No\ such\ file\ or\ directory $
    | ^ FileNotFoundError:\ \[Errno\ 2\]\ No\ such\ file\ or\ directory:\ {_NAME} $
    | \bspawn\ {_NAME}\ ENOENT\b""",
    re.MULTILINE,
)
_MOST_NAMED = 3


class SearchPath:
    """The folders of a run's programs, looked at each time: a program may make them."""

    def __init__(self, roots: Sequence[Root], environment: Mapping[str, str]) -> None:
        self._roots = tuple(root.path for root in roots)
        self._writable = tuple(root.path for root in roots if root.writable)
        self._home = self._roots[0] if self._roots else ""
        self._linked: set[str] | None = None
        self._fixed: dict[str, str] = {}  # folders of the caller that no tool can change, as programs see them
        self._system = [folder for folder in PATH.split(":") if not self._is_writable(folder)]
        self._caller = [folder for folder in environment.get("PATH", "").split(":") if folder.startswith("/")]

    def value(self, *, project: bool = True) -> str:
        """Give the value of PATH; without the folders that tools may write where `project` is false."""
        return ":".join(dict.fromkeys(self._folders(project=project)))

    def shadowed(self) -> tuple[str, ...]:
        """List the harmless names that would run what lies beneath a write root."""
        if self._linked is None:
            self._linked = self._find_links()
        found = set(self._linked)
        fixed = {*self._fixed.values(), *self._system}
        for folder in self._folders(project=True):
            if folder not in fixed and self._is_writable(folder):
                found |= _names_in(folder)
        return tuple(sorted(found))

    def _find_links(self) -> set[str]:
        """List the names in folders that tools cannot write, once, that are links to what they can write."""
        found: set[str] = set()
        for folder in dict.fromkeys(map(os.path.realpath, self._folders(project=False))):
            found |= {name for name in _names_in(folder) if self._leads_inside(f"{folder}/{name}")}
        return found

    def variables(self) -> dict[str, str]:
        """Give the variable by which a pip of the system installs into the project's venv, where that has none."""
        folder = f"{self._home}/{PROJECT[0]}"
        if not self._home or not os.path.isfile(f"{folder}/python") or os.path.lexists(f"{folder}/pip"):
            return {}
        return {"PIP_PYTHON": f"{folder}/python"}

    def describe_missing(self, *streams: str) -> list[str]:
        """Say of commands that were not found where the caller has them, and how the folder can be shown."""
        found = []
        missed = ("".join(groups) for stream in streams for groups in _MISSING.findall(stream))
        for name in list(dict.fromkeys(missed))[:_MOST_NAMED]:
            folder = self._hidden_folder(name)
            if folder:
                how = f'add workspace.read = ["{folder}"] to the settings to show it, read-only'
                found.append(f"`{name}` is in {folder}, which the sandbox does not show; {how}")
        return found

    def _folders(self, *, project: bool) -> Iterator[str]:
        if project and self._home:
            for name in PROJECT:
                if os.path.isdir(folder := f"{self._home}/{name}"):
                    yield folder
        for folder in self._caller:
            fixed = self._fixed.get(folder)
            seen = fixed or self._seen(folder)
            if seen and (fixed or project or not self._is_writable(seen)):
                yield seen
        yield from PATH.split(":")

    def _seen(self, folder: str) -> str:
        """Give a folder of the caller as programs see it; empty where they do not."""
        shown = (*system().folders, *self._roots)
        real = os.path.realpath(_installed(folder))
        if not os.path.isdir(real) or not is_below(real, shown) or ":" in real:
            return ""
        if not is_below(folder, self._writable) and not is_below(real, self._writable):
            self._fixed[folder] = real
        return real

    def _is_writable(self, folder: str) -> bool:
        return is_below(folder, self._writable) or is_below(os.path.realpath(folder), self._writable)

    def _leads_inside(self, path: str) -> bool:
        return os.path.islink(path) and is_below(os.path.realpath(path), self._writable)

    def _hidden_folder(self, name: str) -> str:
        for folder in self._caller:
            path = f"{folder}/{name}"
            if not self._seen(folder) and os.path.isfile(path) and os.access(path, os.X_OK):
                return os.path.realpath(folder)
        return ""


def _names_in(folder: str) -> set[str]:
    try:
        return set(LOOKED_UP.intersection(os.listdir(folder)))
    except OSError:
        return set()


def _installed(folder: str) -> str:
    """Give the folder that pyenv's shims stand for: of the version that the user has chosen for all projects."""
    if not folder.rstrip("/").endswith(f"/{_PYENV_SHIMS}"):
        return folder
    base = folder.rstrip("/").removesuffix("/shims")
    try:
        with open(f"{base}/version", encoding="utf-8", errors="replace") as chosen:
            version = chosen.read(200).split()
    except OSError:
        return folder
    if not version or _VERSION.fullmatch(version[0]) is None:
        return folder
    return f"{base}/versions/{version[0]}/bin"

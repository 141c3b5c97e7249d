"""Imports of this process that must not come from a folder that tools may write.

Handrail and its libraries load many modules late. With `python agent.py` the project itself comes first on `sys.path`,
so a file that a tool wrote there could become part of the gate. The finder below comes first on `sys.meta_path`. It
lets the other finders answer, and steps in only where they found something beneath a write root and the import is not
one of the user's own code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType
from typing import Any

PACKAGE = os.path.dirname(os.path.realpath(__file__))
# Resolved now: a link such as `.venv/bin/python` may lead elsewhere later.
INTERPRETER = os.path.realpath(sys.executable) if sys.executable else ""
SCRIPTS = f"{os.path.realpath(sys.prefix)}/bin"
_MACHINERY = ("importlib", "_frozen_importlib", __name__)
_INSTALLED = ("/site-packages", "/dist-packages", ".zip", ".whl", ".egg")
_USER = "user"
_OURS = "ours"


class OwnImports:
    """A finder that keeps modules beneath write roots away from Handrail and the libraries it uses."""

    def __init__(self) -> None:
        self._roots: tuple[str, ...] = ()
        self._locked: tuple[str, ...] = (_as_folder(PACKAGE),)
        self._doubted: tuple[str, ...] = ()  # folders of the path that may turn out to be write roots
        self._installed: tuple[str, ...] = ()  # not doubted, although such a folder may hold them: a project's `.venv`
        self._alone = False  # no code of the user runs in this process
        self._linked: dict[str, str] = {}  # folders that were reached by a link beneath a root, and where they lie

    def work_alone(self) -> None:
        """Count every import as Handrail's: for a process that runs no code of the user, such as the command line."""
        self._alone = True

    def doubt_path(self) -> None:
        """Until write roots are known, load nothing for Handrail from folders that no installer made.

        Those are the folder of a script, `PYTHONPATH`, and what editable installs add. Python's own modules and others
        try names that exist on other systems alone (`nt`, `msvcrt`), or plugins: a tool could have made one of them.
        """
        if self._roots:
            return
        installed: set[str] = set()
        doubted: set[str] = set()
        for entry in sys.path:
            forms = (_as_folder(os.path.abspath(entry)), _as_folder(os.path.realpath(entry)))
            (installed if _is_installed(entry) else doubted).update(forms)
        self._doubted = tuple(doubted)
        self._installed = tuple(installed)
        self._come_first()

    def protect(self, roots: Iterable[str], locked: Iterable[str]) -> None:
        """Refuse imports from beneath further write roots, except from locked folders. They stay known for good."""
        self._doubted = ()
        self._roots = tuple({*self._roots, *map(_as_folder, roots)})
        self._locked = tuple({*self._locked, *map(_as_folder, locked)})
        for entry in sys.path:
            real = os.path.realpath(entry)
            if self.is_unsafe(entry) and not self._is_beneath(real):
                self._linked[os.path.abspath(entry)] = real
        self._come_first()

    def is_unsafe(self, path: str) -> bool:
        """Tell whether a tool could replace what a path names."""
        if not self._roots and not self._doubted:
            return False
        return self._is_beneath(os.path.abspath(path)) or self._is_beneath(os.path.realpath(path))

    def safe_path(self, entries: Sequence[str] | None = None) -> list[str]:
        """List the folders of a path that no tool may write; links are replaced by where they led at the start."""
        known = [self._resolve(os.path.abspath(entry)) for entry in (sys.path if entries is None else entries)]
        return [entry for entry in known if not self.is_unsafe(entry)]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module as ever, unless Handrail would load it from beneath a write root."""
        spec = self._ask_others(name, path, target)
        if spec is None or not any(map(self.is_unsafe, _places(spec))):
            return spec
        nearest, decisive = self._importers()
        if nearest == _USER:
            return spec
        if decisive != _OURS and name.partition(".")[0] not in sys.stdlib_module_names:
            return spec
        safe = PathFinder.find_spec(name, self.safe_path(path), target)
        if safe is None and decisive == _OURS:
            raise ModuleNotFoundError(
                f"No module named {name!r}: {spec.origin} lies beneath a folder that tools may write, "
                f"and Handrail loads nothing from there. Install it with Handrail, outside the workspace.",
                name=name,
            )
        return safe or spec

    def _come_first(self) -> None:
        if sys.meta_path[0] is not self:
            sys.meta_path[:] = [self, *(finder for finder in sys.meta_path if finder is not self)]

    def _ask_others(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find: Any = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None:
                return spec
        return None

    def _importers(self) -> tuple[str, str]:
        """Say whose code imports now, and whose comes first on the way up: the user's or Handrail's."""
        if self._alone:
            return _OURS, _OURS
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # the only way to see who imports
        nearest: str | None = None
        while frame is not None:
            module = str(frame.f_globals.get("__name__", ""))
            if not module.startswith(_MACHINERY):
                whose = self._whose(frame, module)
                nearest = whose if nearest is None else nearest
                if whose:
                    return nearest, whose
            frame = frame.f_back
        return nearest or "", ""

    def _whose(self, frame: FrameType, module: str) -> str:
        file = frame.f_globals.get("__file__")
        if not isinstance(file, str):
            return _USER if module == "__main__" else ""
        if os.path.realpath(file).startswith(f"{PACKAGE}/"):
            return _OURS
        return _USER if self.is_unsafe(file) else ""

    def _is_beneath(self, path: str) -> bool:
        folder = f"{path}/"
        if folder.startswith(self._locked):
            return False
        return folder.startswith(self._roots) or (
            folder.startswith(self._doubted) and not folder.startswith(self._installed)
        )

    def _resolve(self, entry: str) -> str:
        for linked, real in self._linked.items():
            if f"{entry}/".startswith(f"{linked}/"):
                return real + entry[len(linked) :]
        return entry


def _as_folder(path: str) -> str:
    return f"{path.rstrip('/')}/"


def _is_installed(entry: str) -> bool:
    """Tell whether a folder of the path belongs to the interpreter, or is one that packages are installed into."""
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    version = f"python{sys.version_info.major}"
    places = {form for prefix in prefixes for form in (os.path.abspath(prefix), os.path.realpath(prefix))}
    inside = tuple(f"{place}/{lib}/{version}" for place in places for lib in ("lib", "lib64"))
    real = os.path.realpath(entry)
    if real.startswith(inside) or os.path.abspath(entry).startswith(inside):
        return True
    return real == os.path.dirname(PACKAGE) or real.endswith(_INSTALLED)


def _places(spec: ModuleSpec) -> list[str]:
    """List where a module would be loaded from; nothing for one that is built into the interpreter."""
    if spec.has_location and spec.origin:
        return [spec.origin]
    return [str(place) for place in spec.submodule_search_locations or ()]


OWN_IMPORTS = OwnImports()

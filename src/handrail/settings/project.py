"""A look at a project for `handrail init`: what it is written in, how it is tested, and the settings that fit it.

A project may be a stranger's. So nothing of its text is taken over: what is found is told in words of ours.
"""

from __future__ import annotations

import json
import os
import re
import stat
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from handrail.words import noun

_MOST_BYTES = 256 * 1024  # of a file that is looked into
_MOST_NAMES = 5000
_TEMPLATE = Path(__file__).parent.parent / "presets" / "start.toml"
_MOST_FOLDERS = 50
_OF_OTHERS = ("node_modules", "venv", "target", "vendor")
_PYTHON = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile")
_PYTEST = ("pytest.ini", "conftest.py", "tests/conftest.py")
_TOLD_BY = ("pyproject.toml", "tox.ini", "setup.cfg", "requirements.txt", "requirements-dev.txt", "Pipfile")
_MANAGERS = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}
_SCRIPTS = ("build", "lint", "typecheck")
_TARGETS = ("test", "check", "lint", "build")
_NO_TEST = "no test specified"  # what `npm init` writes
# What stands in `exec.allow` for what is found, where that is not its own name.
_PATTERNS = {
    "pytest": ("pytest *", "python -m pytest *"),
    "unittest": ("python -m unittest *",),
    "ruff": ("ruff check *", "ruff format *"),
    "cargo test": ("cargo test *",),
    "cargo build": ("cargo build *",),
    "cargo clippy": ("cargo clippy *",),
    "go test": ("go test *",),
    "go build": ("go build *",),
    "go vet": ("go vet *",),
}


@noun
class Project:
    """What was found in a folder."""

    languages: tuple[str, ...] = ()  # such as "Python (.venv)"
    tests: tuple[str, ...] = ()  # such as "pytest", "npm test"
    others: tuple[str, ...] = ()  # linters, builds
    git: bool = False
    hints: tuple[str, ...] = ()  # what a person may want to do first

    def describe(self) -> str:
        """Say what was found in one line."""
        parts = [", ".join(self.languages) or "no project of Python, Node, Rust, Go or make"]
        if self.tests:
            parts.append(f"tests: {', '.join(self.tests)}")
        if self.others:
            parts.append(f"also: {', '.join(self.others)}")
        parts.append("git" if self.git else "no git repository")
        return "; ".join(parts)


def look_at_project(folder: Path) -> Project:
    """Look at the files in a folder; nothing is run, and what cannot be read is passed over."""
    view = _View(folder)
    languages: list[str] = []
    tests: list[str] = []
    others: list[str] = []
    hints: list[str] = []
    for look in (_python, _node, _rust, _go, _make):
        found = look(view)
        if found is not None:
            languages += found.languages
            tests += found.tests
            others += found.others
            hints += found.hints
    return Project(tuple(languages), tuple(tests), tuple(others), view.has(".git"), tuple(hints))


def settings_text(project: Project) -> str:
    """Write the settings file of a coding project, short, with what was found and what is left out."""
    found = [*project.tests, *project.others] or ["make test"]
    commands = [pattern for name in found for pattern in _PATTERNS.get(name, (name,))]
    allow = ", ".join(json.dumps(command) for command in commands)
    described = textwrap.fill(f"Found: {project.describe()}.", 116, initial_indent="# ", subsequent_indent="#   ")
    return _TEMPLATE.read_text(encoding="utf-8").replace("{found}", described).replace("{allow}", f"[{allow}]")


class _View:
    """The files of a folder, as far as they are looked at."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> Iterator[str]:
        """List names in the folder, not endlessly many."""
        try:
            with os.scandir(self._folder) as entries:
                for _, entry in zip(range(_MOST_NAMES), entries, strict=False):
                    yield entry.name
        except OSError:
            return

    def has_python(self) -> bool:
        """Whether modules lie in the folder, or in one of its own that is neither hidden nor for packages."""
        names = [*self.names()]
        inner = [name for name in names if not name.startswith(".") and name not in _OF_OTHERS]
        looks = (_View(self._folder / name).names() for name in inner[:_MOST_FOLDERS])
        return any(name.endswith(".py") for names_of in (names, *looks) for name in names_of)

    def has(self, *names: str) -> bool:
        """Whether one of some paths is there."""
        return any(os.path.lexists(self._folder / name) for name in names)

    def text(self, name: str) -> str:
        """Read the beginning of a file; empty where there is none, or where it is a link or no file."""
        try:
            handle = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return ""
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return ""
            return file.read(_MOST_BYTES).decode("utf-8", "replace")

    def environment(self) -> str:
        """Name the folder of the project's virtual environment; empty where it has none."""
        return next((name for name in (".venv", "venv") if self.has(f"{name}/pyvenv.cfg")), "")


def _python(view: _View) -> Project | None:
    if not view.has(*_PYTHON) and not view.has_python():
        return None
    environment = view.environment()
    told = "\n".join(view.text(name) for name in _TOLD_BY)
    tests: tuple[str, ...] = ()
    if view.has(*_PYTEST, f"{environment}/bin/pytest") or re.search(r"\bpytest\b", told):
        tests = ("pytest",)
    elif view.has("tests", "test"):
        tests = ("unittest",)
    ruff = view.has("ruff.toml", ".ruff.toml", f"{environment}/bin/ruff") or re.search(r"\bruff\b", told)
    hints: tuple[str, ...] = ()
    if not environment:
        hints = ("Python has no environment here: `python3 -m venv .venv` makes one, and `pip install` works in it.",)
    name = f"Python ({environment})" if environment else "Python"
    return Project((name,), tests, ("ruff",) if ruff else (), hints=hints)


def _node(view: _View) -> Project | None:
    if not view.has("package.json"):
        return None
    manager = next((manager for lock, manager in _MANAGERS.items() if view.has(lock)), "npm")
    scripts = _scripts(view.text("package.json"))
    test = str(scripts.get("test", ""))
    tests = (f"{manager} test",) if test and _NO_TEST not in test else ()
    others = tuple(f"{manager} run {name}" for name in _SCRIPTS if name in scripts)
    hints: tuple[str, ...] = ()
    if not view.has("node_modules"):
        hints = (f"Packages of Node are not installed: `{manager} install` does that, here or by the agent.",)
    return Project((f"Node ({manager})",), tests, others, hints=hints if _depends(view.text("package.json")) else ())


def _scripts(text: str) -> dict[str, Any]:
    found = _loaded(text).get("scripts")
    return found if isinstance(found, dict) else {}


def _depends(text: str) -> bool:
    """Whether a package needs others."""
    told = _loaded(text)
    return bool(told.get("dependencies") or told.get("devDependencies"))


def _loaded(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _rust(view: _View) -> Project | None:
    if not view.has("Cargo.toml"):
        return None
    return Project(("Rust",), ("cargo test",), ("cargo build", "cargo clippy"))


def _go(view: _View) -> Project | None:
    if not view.has("go.mod"):
        return None
    return Project(("Go",), ("go test",), ("go build", "go vet"))


def _make(view: _View) -> Project | None:
    name = next((name for name in ("Makefile", "makefile", "GNUmakefile") if view.has(name)), "")
    if not name:
        return None
    text = view.text(name)
    targets = [target for target in _TARGETS if re.search(rf"^{target}\s*:(?!=)", text, re.MULTILINE)]
    tests = tuple(f"make {target}" for target in targets if target == "test")
    return Project(("make",), tests, tuple(f"make {target}" for target in targets if target != "test"))

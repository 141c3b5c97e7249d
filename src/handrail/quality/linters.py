"""Which linter checks which file: the operator's first, then the ones known here, where they are installed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from handrail.ports import Linter
from handrail.sandbox.executables import find_executable
from handrail.words import Place, PlaceKind, Root

RUFF = ("check", "--output-format=json-lines", "--no-cache", "--no-fix", "--exit-zero", "--quiet")
SHELL = ("*.sh", "*.bash", "*.ksh")
# What a language's files are called, for linters that name a language and no files.
FILES: Mapping[str, tuple[str, ...]] = {
    "python": ("*.py", "*.pyi"),
    "shell": SHELL,
    "bash": SHELL,
    "javascript": ("*.js", "*.mjs", "*.cjs", "*.jsx"),
    "typescript": ("*.ts", "*.tsx"),
    "go": ("*.go",),
    "rust": ("*.rs",),
    "c": ("*.c", "*.h"),
    "cpp": ("*.cc", "*.cpp", "*.hpp", "*.cxx"),
    "java": ("*.java",),
    "ruby": ("*.rb",),
    "php": ("*.php",),
    "css": ("*.css",),
    "html": ("*.html", "*.htm"),
    "markdown": ("*.md",),
    "sql": ("*.sql",),
    "json": ("*.json",),
    "toml": ("*.toml",),
    "yaml": ("*.yaml", "*.yml"),
}


def find_linter(path: str, settings: Mapping[str, Mapping[str, Any]], ruff: str | None = None) -> Linter | None:
    """Find the linter for a file, with the `ruff` that settings name.

    None where there is none, or where the file is checked without a program.
    """
    name = path.rpartition("/")[2]
    for language, given in settings.items():
        patterns = given.get("files") or FILES.get(language, (f"*.{language}",))
        if any(fnmatchcase(path if "/" in pattern else name, pattern) for pattern in patterns):
            return _given(language, given)
    if name.endswith((".py", ".pyi")):
        return _ruff(ruff)
    if any(fnmatchcase(name, pattern) for pattern in SHELL):
        return Linter("shell", "bash", ("bash", "--norc", "--noprofile", "-n"), "bash", exit_codes=(0, 1, 2))
    return None


def _given(language: str, given: Mapping[str, Any]) -> Linter:
    argv = tuple(given["command"])
    program = argv[0]
    reads = (_folder_of(program),) if os.path.isabs(program) and os.path.isfile(program) else ()
    return Linter(
        language,
        os.path.basename(program),
        argv,
        given.get("format", "gcc"),
        given.get("input", "stdin") == "stdin",
        tuple(given.get("exit_codes", (0, 1))),
        reads,
    )


@cache
def _ruff(named: str | None) -> Linter | None:
    """Describe ruff, where it is installed beside this program or on the machine."""
    program = find_executable("ruff", (), named)
    if program is None:
        return None
    real = os.path.realpath(program)
    argv = (real, *RUFF, "--stdin-filename", "{path}", "-")
    return Linter("python", "ruff", argv, "ruff", exit_codes=(0,), reads=(_folder_of(real),))


def _folder_of(program: str) -> Place:
    folder = os.path.dirname(os.path.realpath(program))
    return Place(Root("linter", folder, writable=False), "", PlaceKind.DIRECTORY)

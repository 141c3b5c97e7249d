"""Folders that tools make again by themselves. A closed table: a name that is missing here is ordinary work."""

from __future__ import annotations

from types import MappingProxyType

NAMES = frozenset(
    {
        "__pycache__",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".hypothesis",
        ".tox",
        ".nox",
        "node_modules",
        ".parcel-cache",
        ".turbo",
        ".vite",
        ".gradle",
    }
)
# Only beside the file that says whose they are: the same names are used for other things.
BESIDE = MappingProxyType(
    {"target": ("Cargo.toml", "pom.xml"), ".build": ("Package.swift",), "zig-cache": ("build.zig",)}
)


def cache_folder(path: str) -> tuple[str, tuple[str, ...]] | None:
    """Find the outermost cache that a path lies in: the folder, and the files of which one must be beside it."""
    parts = path.split("/")
    for index, name in enumerate(parts[:-1]):
        if name in NAMES or name in BESIDE:
            return "/".join(parts[: index + 1]), BESIDE.get(name, ())
    return None

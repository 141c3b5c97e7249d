"""The catalog's own tools: one file a tool, in the folder of its toolset. The file's name is the tool's."""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import partial
from importlib import import_module
from pathlib import Path

from handrail.catalog import Tool


def builtin(*, without: Set[str] = frozenset(), where: Set[str] = frozenset()) -> dict[str, Callable[[], Tool]]:
    """Find every tool file without importing it; a leading underscore marks a file that is no tool.

    A tool named in `without` is left out where `where`, the disabled tools and toolsets, has it.
    """
    found: dict[str, Callable[[], Tool]] = {}
    for file in sorted(Path(__file__).parent.glob("*/*.py")):
        name = file.stem
        toolset = file.parent.name
        replaced = name in without and (name in where or toolset in where)
        if not name.startswith("_") and not replaced:
            found[name] = partial(_load, toolset, name)
    return found


def _load(toolset: str, name: str) -> Tool:
    loaded: Tool = getattr(import_module(f"handrail.tools.{toolset}.{name}"), name)
    return loaded

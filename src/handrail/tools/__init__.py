"""The catalog's own tools: one file a tool, in the folder of its toolset. The file's name is the tool's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path

from handrail.catalog import Tool


def builtin() -> dict[str, Callable[[], Tool]]:
    """Find every tool file without importing it; a leading underscore marks a file that is no tool."""
    found: dict[str, Callable[[], Tool]] = {}
    for file in sorted(Path(__file__).parent.glob("*/*.py")):
        if not file.name.startswith("_"):
            found[file.stem] = partial(_load, file.parent.name, file.stem)
    return found


def _load(toolset: str, name: str) -> Tool:
    loaded: Tool = getattr(import_module(f"handrail.tools.{toolset}.{name}"), name)
    return loaded

"""Modules that are installed, found without importing them."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from importlib.util import find_spec


def find_module(name: str) -> ModuleSpec | None:
    """Find a top-level module; None where it is absent, or where Handrail refuses to import it from a write root."""
    try:
        return find_spec(name)
    except ModuleNotFoundError:
        return None

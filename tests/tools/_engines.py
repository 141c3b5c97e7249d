"""The engine that a runtime searches for secrets with, chosen by a test."""

from __future__ import annotations

import os

import pytest

from engines import DATABASE
from handrail.settings import paths
from handrail.store import databases
from handrail.store.private import make_folder

__all__ = ["DATABASE", "searching_with"]


def searching_with(name: str) -> str:
    """Have runtimes of the test's own user search with the fast engine or the plain one; gives its name."""
    if name == "fast":
        if DATABASE is None:
            assert os.environ.get("CI") != "true"
            pytest.skip("hyperscan is not installed")
        make_folder(paths.cache_dir())
        databases._file(paths.cache_dir()).write_bytes(DATABASE)
    return name

"""Packages of frameworks that may be missing: skipped with the reason, but where CI=true they must be there."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest


def need(module: str, reason: str) -> None:
    """Skip what cannot be tested without a module; with CI=true that is a failure."""
    if find_spec(module) is None:
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)

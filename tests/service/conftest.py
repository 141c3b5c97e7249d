"""One service for all tests of a module: starting one takes a second."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service._serving import Served, serving

pytest.importorskip("fastapi")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with one identity for each role and one workspace, `demo`."""
    base = tmp_path_factory.mktemp("served")
    with serving(base / "home", base / "work") as found:
        yield found


@pytest.fixture
def file(served: Served, request: pytest.FixtureRequest) -> Path:
    """A file of this test's own in the workspace, with a line in it."""
    path = served.work / f"{request.node.name[:60].replace('/', '_').replace('[', '_').replace(']', '')}.txt"
    path.write_text("before\n")
    return path

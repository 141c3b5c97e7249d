"""A workspace by itself, as its tests use it; each file says how it is made."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from handrail.workspace import WorkspaceFiles, beneath
from handrail.workspace.bound import BoundFiles
from workspaces import KeptImages, workspace


@pytest.fixture
def images() -> KeptImages:
    """Where pre-images go."""
    return KeptImages()


@pytest.fixture(params=["openat2", "walk", "no-exchange"])
async def files(
    tmp_path: Path, images: KeptImages, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[WorkspaceFiles]:
    """A workspace, with each way to open, and on a system that can neither exchange nor rename without replacing."""
    if request.param == "no-exchange":
        monkeypatch.setattr(beneath, "_renameat2", beneath._missing_renameat2)
    if request.param == "walk":
        monkeypatch.setattr(beneath, "has_openat2", lambda: False)
    made = workspace(tmp_path, images=images)
    yield made
    await made.close()


@pytest.fixture
def ws(tmp_path: Path, files: WorkspaceFiles) -> Path:
    """Where the workspace lies on the disk."""
    return tmp_path / "ws"


@pytest.fixture
def call(files: WorkspaceFiles) -> BoundFiles:
    """The workspace of one call."""
    return files.bind("call-1", ())


@pytest.fixture
def removed(tmp_path: Path) -> Iterator[None]:
    """Remove trees that are too deep for whoever clears up after tests."""
    yield
    subprocess.run(["rm", "-rf", str(tmp_path)], check=False)

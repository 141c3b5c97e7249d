"""Every test has a user of its own: home, state, settings and cache lie in its temporary folder."""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from fast import is_fast
from handrail import Runtime

# How long something takes is for benchmarks to say: a busy machine breaks no law.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
# Whoever starts tests in the background has interrupts ignored; the programs that tests start must hear them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup make test` ignores it, and what tests start would, too


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of `make test-fast`."""
    for item in items:
        if is_fast(item.path, item.name):
            item.add_marker(pytest.mark.fast)


_NUMBERS = itertools.count()


@pytest.fixture(autouse=True)
def own_home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Create a test's home, and remove it when the test passed.

    `mktemp` reads the whole folder to find a free number, and keeps what it made until the session ends: with
    thousands of homes that took longer than most tests.
    """
    folder = tmp_path_factory.getbasetemp() / f"home{next(_NUMBERS)}"
    folder.mkdir(mode=0o700)
    failed = request.session.testsfailed
    yield folder
    if request.session.testsfailed == failed:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def own_user(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep a test away from the user's real state, settings and secrets."""
    monkeypatch.setenv("HOME", str(own_home))
    for name, folder in (("STATE", "state"), ("CONFIG", "config"), ("CACHE", "cache")):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(own_home / folder))
    for name in list(os.environ):
        if name.startswith("HANDRAIL_") and name != "HANDRAIL_TEST_SCALE":
            monkeypatch.delenv(name)
    return own_home


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """Have a test that runs a command in its own process keep no other from hearing what is logged."""
    yield
    logging.getLogger("handrail").setLevel(logging.NOTSET)


@pytest.fixture
def scale() -> int:
    """How long attacks and faults go on: 1 in `make test`, more in `make test-full`."""
    return int(os.environ.get("HANDRAIL_TEST_SCALE", "1"))


Opens = Callable[..., Runtime]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """An empty workspace."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def opens(work: Path) -> Opens:
    """Open a runtime on the workspace; keyword arguments of `Runtime.open`, `enable` for tools to enable."""

    def make(*, enable: tuple[str, ...] = (), config: dict[str, Any] | None = None, **how: Any) -> Runtime:
        settings: dict[str, Any] = {**(config or {})}
        if enable:
            settings["tools"] = {**settings.get("tools", {}), "enable": list(enable)}
        return Runtime.open(work, config=settings, **how)

    return make

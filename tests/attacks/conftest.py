"""What is done once for all attacks, however many processes test at once."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attacks._at_border import BORDER, UNLESS_ALLOWED, open_at_border, runs_twice

SCALE = int(os.environ.get("HANDRAIL_TEST_SCALE", "1"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make attacks a second time where commands run without a question."""
    module = metafunc.module.__name__.rpartition(".")[2]
    if runs_twice(module, metafunc.function.__name__, SCALE):
        metafunc.parametrize("asks", [UNLESS_ALLOWED, BORDER], indirect=True)


@pytest.fixture(autouse=True)
def asks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """When programs ask: as ever, or at the border alone."""
    when: str = getattr(request, "param", UNLESS_ALLOWED)
    if when == BORDER:
        open_at_border(monkeypatch)
    return when


class Once:
    """Long work by a name; whoever comes while it is done waits for it, and whoever comes later is given its JSON."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Any] = {}

    def __call__(self, name: str, work: Callable[[], Any]) -> Any:
        """What the work gave to the first who asked; where it raises, the next one does it again."""
        if name not in self._known:
            with (self._folder / f"{name}.json").open("a+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.seek(0)
                if not (told := file.read()):
                    told = json.dumps(work())
                    file.write(told)
            self._known[name] = json.loads(told)
        return self._known[name]


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Work shared by all processes of this run of the tests, and with no other run."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "once"
    folder.mkdir(mode=0o700, exist_ok=True)
    return Once(folder)

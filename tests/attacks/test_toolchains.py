"""Toolchains of the home: programs run what is installed there, and see no credentials that lie beside it."""

from __future__ import annotations

import json
import os
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from attacks import _sandbox_users as users
from behaviour._commands import need_sandbox

SCENE = Path(__file__).parent / "_toolchains_scene.py"
SECRET = "tok" + "en-5d1f7c"


@pytest.fixture(scope="module", params=users.USERS)
def told(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What came of each line, for this user and for an ordinary one."""
    need_sandbox()
    user: str = request.param
    packages = os.pathsep.join([str(users.SOURCE), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    if users.run(user, "import orjson, pydantic", PYTHONPATH=packages).returncode != 0:
        users.missing("the Python that an ordinary user can reach cannot load this one's packages")
    with users.folder(user) as place:
        done = users.run(user, SCENE, str(place), PYTHONPATH=packages, HOME=str(_home(place, user)))
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def _home(place: Path, user: str) -> Path:
    home = place / "home"
    home.mkdir()
    if user != "this user":
        os.chown(home, users.ORDINARY, users.ORDINARY)
    return home


def test_what_is_installed_below_the_home_runs(told: dict[str, Any]) -> None:
    """Found by the caller's PATH, and started inside."""
    assert [told["tool"][0], told["rust"][0]] == [True, True], told
    assert told["tool"][1].startswith("it runs\n")


def test_no_credentials_can_be_read_beside_it(told: dict[str, Any]) -> None:
    """Neither those in folders that are shown, nor those in folders of the home that are not."""
    assert [name for name, (_, content) in told.items() if SECRET in content] == []
    readable = [name for name, (ok, _) in told.items() if ok and "/" in name]
    assert readable == []


def test_code_that_is_called_like_credentials_can_be_read(told: dict[str, Any]) -> None:
    """Packages have modules of that name."""
    assert told["plain"][1].startswith("just = 'code'\n")


def test_nothing_of_it_can_be_written(told: dict[str, Any]) -> None:
    """Toolchains are the person's."""
    assert not told["written"][0]
    assert told["written"][1].count("Read-only file system") == 2


def test_a_command_that_is_not_shown_is_explained_first(told: dict[str, Any]) -> None:
    """The caller has it in `~/.local/bin`, which is never shown by itself."""
    ok, content = told["missing"]
    assert not ok
    first = content.partition("\n")[0]
    assert "/.local/bin, which the sandbox does not show" in first
    assert 'workspace.read = ["' in first

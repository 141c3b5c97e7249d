"""The probes of the sandbox once more at the border, through a runtime whose person says yes: none gets anywhere."""

from __future__ import annotations

import json
import os
import secrets
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from attacks._sandbox_probes import PROBES
from attacks._sandbox_users import SOURCE, USERS, folder, missing, run, run_planted
from attacks.conftest import Once
from behaviour._commands import need_sandbox

SCENE = Path(__file__).with_name("_border_scene.py")
# Of what tier A lets programs do by design, at the border neither repositories nor protected files come of it.
DESIGNED = {
    "see the system's programs", "change what is not protected", "read the layout", "use a processor",
    "talk among themselves",
}  # fmt: skip


def _ran(user: str) -> tuple[int, str, str]:
    packages = os.pathsep.join([str(SOURCE), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    if run(user, "import orjson, pydantic", PYTHONPATH=packages).returncode != 0:
        missing("the Python that an ordinary user can reach cannot load this one's packages")
    secret = f"secret-{secrets.token_hex(12)}"
    with folder(user) as place:
        given = {"PYTHONPATH": packages, "HOME": str(place), "PROBE_SECRET": secret}
        done = run_planted(user, secret, place, SCENE, str(place), secret, **given)
    return done.returncode, done.stdout, done.stderr


def outcome(once: Once, user: str) -> dict[str, Any]:
    """Run every probe once as a user."""
    need_sandbox("native")
    code, printed, errors = once(f"border {user}", lambda: _ran(user))
    assert code == 0, errors
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


@pytest.mark.parametrize("user", USERS)
def test_no_probe_gets_anywhere_at_the_border(once: Once, user: str) -> None:
    """Every one of them was tried; what a person was asked for, they allowed."""
    told = outcome(once, user)
    found = told["found"]
    assert {*PROBES} <= {*found}
    got = {name for name in found if found[name]}
    assert got & {*PROBES} == set(), [told["said"][name] for name in got & {*PROBES}]


@pytest.mark.parametrize("user", USERS)
def test_what_programs_may_do_at_the_border_is_less_than_without(once: Once, user: str) -> None:
    """No repository with hooks, and no settings file, is left behind by them."""
    found = outcome(once, user)["found"]
    assert {name for name in found if found[name]} == DESIGNED

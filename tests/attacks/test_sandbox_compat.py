"""What daily work needs goes on in tier A, as root and as an ordinary user."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from attacks._sandbox_compat import CASES
from attacks._sandbox_users import USERS, folder, missing, run
from attacks.conftest import Once

PROGRAM = Path(__file__).with_name("_sandbox_compat.py")


def _ran(backend: str, user: str) -> dict[str, Any]:
    with folder(user) as place:
        done = run(user, PROGRAM, backend, str(place))
    return {"error": done.stderr} if done.returncode else json.loads(done.stdout)


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("backend", ["A", "bwrap"])
@pytest.mark.parametrize("case", [*CASES, "pip install from a wheel"])
def test_daily_work_goes_on_inside(once: Once, case: str, backend: str, user: str) -> None:
    """Each program ends with code 0."""
    if backend == "bwrap" and shutil.which("bwrap") is None:
        missing("bubblewrap is not installed")
    told = once(f"daily work {backend} {user}", lambda: _ran(backend, user))
    assert "error" not in told, told["error"]
    if case not in told["ran"]:
        missing("this interpreter has no pip")
    failed = told["failed"].get(case)
    if isinstance(failed, str):
        missing(failed)
    assert failed is None

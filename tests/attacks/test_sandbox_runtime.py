"""Review, undo, time limits and the proxy need no privileges: one runtime does all of it as root and as anybody."""

from __future__ import annotations

import json
import os
import random
import sysconfig
from pathlib import Path

import pytest

from attacks._sandbox_users import ORDINARY, SOURCE, USERS, folder, missing, run

RUNTIME = Path(__file__).with_name("_sandbox_runtime.py")


@pytest.mark.parametrize("user", USERS)
def test_a_runtime_needs_no_privileges(user: str) -> None:
    """Changes are kept and undone, what will not end is gone, another host is refused: in tier A, whoever runs it."""
    packages = os.pathsep.join([str(SOURCE), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    if run(user, "import orjson, pydantic", PYTHONPATH=packages).returncode != 0:
        missing("the Python that an ordinary user can reach cannot load this one's packages")
    with folder(user) as place:
        mark = str(random.randrange(10**9, 10**10))
        done = run(user, RUNTIME, str(place), mark, PYTHONPATH=packages, HOME=str(place))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    said, who = told.pop("said"), os.geteuid() if user == "this user" else ORDINARY
    assert told == {
        "runs as": who,
        "owner": who,
        "kept": {"a.txt": "two\n", "n/x": "hi\n"},
        "undone": True,
        "limit": {"code": "TIMEOUT", "seen": True, "left": 0},
        "proxy": "403\n",
    }, said

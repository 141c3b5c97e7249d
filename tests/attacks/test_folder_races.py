"""A second process puts secrets into folders while they are deleted: none of them goes along."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from handrail.settings import preset
from handrail.testing import ScriptedApprover

MANY = {"max_calls": 10**9, "max_prompts": 10**9, "max_repeats": 10**9, "breaker_failures": 10**9}
CONFIG: dict[str, Any] = {**preset("coding"), "tools": {"enable": ["fs", "delete_path"]}, "limits": MANY}
SEEN = {"done", "STALE_FILE", "POLICY_DENIED"}  # a test that never meets the moments in between would say little
_PLANTER = """
import os, sys, time
work = sys.argv[1]
print("planting", flush=True)
while os.getppid() != 1:
    for name in os.listdir(work):
        if name.startswith("d") and not os.path.exists(f"{work}/../planted/{name}"):
            time.sleep(int(name[1:]) % 20 / 2000)  # so that every moment of a call is met
            try:
                os.mkdir(f"{work}/{name}/sub/secrets")
            except OSError:
                continue
            os.mkdir(f"{work}/../planted/{name}")
"""


@contextmanager
def planting(work: Path) -> Iterator[None]:
    """Make `secrets` in every folder that appears, once, and note each that could be made."""
    with subprocess.Popen([sys.executable, "-c", _PLANTER, str(work)], stdout=subprocess.PIPE) as planter:
        assert planter.stdout is not None
        assert planter.stdout.readline() == b"planting\n"
        try:
            yield
        finally:
            planter.kill()


@pytest.mark.slow
async def test_no_secret_is_deleted_that_appears_while_its_folder_is(
    opens: Any, work: Path, tmp_path: Path, scale: int
) -> None:
    """What was made is still there, whatever the call had seen by then; and some calls do delete their folder."""
    (tmp_path / "planted").mkdir()
    happened: Counter[str] = Counter()
    async with opens(config=CONFIG, approver=ScriptedApprover("once")) as runtime:
        with planting(work):
            began = time.monotonic()
            for number in range(10**6):
                took = time.monotonic() - began
                if took > 60 or (took > 3 * scale and set(happened) >= SEEN):
                    break
                folder = work / f"d{number}"
                (tmp_path / "grown/sub").mkdir(parents=True)
                for name in range(20):
                    (tmp_path / f"grown/sub/{name}").touch()
                (tmp_path / "grown").rename(folder)
                args = {"path": folder.name, "recursive": True, "confirm": True}
                outcome = await runtime.call("delete_path", args)
                happened["done" if outcome.error is None else outcome.error.code] += 1
    planted = {path.name for path in (tmp_path / "planted").iterdir()}
    assert planted == {path.name for path in work.iterdir() if (path / "sub/secrets").is_dir()} & planted
    assert SEEN <= set(happened) <= SEEN | {"APPROVAL_DENIED"}, happened

"""Programs are confined wherever temporary files and workspaces lie, though a sandbox has a /var/tmp of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from behaviour._commands import need_sandbox, run, runtime
from handrail.sandbox.backends import OFFERED, Offer
from handrail.sandbox.selftest import Finding, self_test

STRONG = [offer for offer in OFFERED if offer.tier == "A"]


@pytest.fixture(params=STRONG, ids=lambda offer: offer.backend)
def offer(request: pytest.FixtureRequest) -> Offer:
    """A way to confine programs that works here."""
    found: Offer = request.param
    need_sandbox(found.backend)
    return found


@pytest.fixture(params=["/var/tmp", "/dev/shm", "a long path"])
def area(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder for temporary files that is not the usual one."""
    if request.param == "a long path":
        (long := tmp_path / ("long" * 30)).mkdir()
        yield long
    else:
        with tempfile.TemporaryDirectory(dir=request.param) as folder:
            yield Path(folder)


def test_the_self_test_holds_wherever_temporary_files_go(
    offer: Offer, area: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandbox that works is not given up because of TMPDIR, and nothing is left there."""
    monkeypatch.setattr(tempfile, "tempdir", str(area))
    sandbox = offer.make()
    try:
        found = self_test(offer, sandbox)
    finally:
        sandbox.close()
    assert found == Finding(offer.backend, "A", True, "holds: the self-test's attacks failed")
    assert os.listdir(area) == []


@pytest.mark.parametrize(("backend", "changes"), [("native", "direct"), ("native", "review"), ("bwrap", "direct")])
async def test_a_workspace_below_var_tmp_is_shown_at_its_place_and_nothing_beside_it(
    backend: str, changes: str
) -> None:
    """The program reads and writes in the workspace; what lies beside it in the real /var/tmp is not there."""
    need_sandbox(backend)
    line = "cat a.txt; pwd; cat .env; ls /var/tmp; echo made > made.txt; cat made.txt"
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, tempfile.TemporaryDirectory(dir="/var/tmp"):
        (work := Path(folder).resolve()).joinpath("a.txt").write_text("text\n")
        work.joinpath(".env").write_text("SECRET=1\n")
        config = {"exec": {"sandbox": backend, "workspace": changes}}
        async with runtime(work, config=config) as opened:
            outcome = await run(opened, line)
    assert (outcome.status, outcome.data["stdout"]) == ("ok", f"text\n{work}\n{work.name}\nmade\n")

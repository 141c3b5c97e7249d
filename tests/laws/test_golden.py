"""What other programs rely on stays: names, commands, settings, codes, tools, digests, and runs that 0.1.0 wrote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from handrail import Runtime
from handrail.front.cli.root import handrail
from handrail.gates import asking
from handrail.settings.paths import state_dir
from handrail.words import How, Touch, TouchKind
from laws.public_names import collect

GOLDEN = Path(__file__).parent / "golden"
RECORDED: dict[str, list[str]] = json.loads((GOLDEN / "public-0.1.0.json").read_text())


@pytest.mark.parametrize("kind", RECORDED)
def test_everything_public_of_the_first_version_is_still_there(kind: str) -> None:
    """More may be added."""
    missing = set(RECORDED[kind]) - set(collect()[kind])
    assert missing == set()


def test_the_digest_of_a_call_is_that_of_the_first_version() -> None:
    """Approvals that were given before an update stay bound to the same call."""
    touches = (Touch(TouchKind.FS_WRITE, "a.txt", how=How.REPLACE), Touch(TouchKind.PROC_EXEC, "git status"))
    call = ("write_file", "1.0.0", {"path": "a.txt", "content": "x", "n": 1, "f": 1.5, "b": None})
    prints = {"/srv/shop/a.txt": "0" * 64}
    digest = asking.call_digest(call, touches, prints, "policy", "/srv/shop", {"tier": "A"})
    assert digest == "6c4616e61ed524fe813a5c5c11c7c9b986058f2083b19e0c86fb954de71b87ee"
    assert (
        asking.digest_of("read_file", {"path": "é"})
        == "c02860eff6a377edd72ee19495695452209c30de7d71ab0f6553f82690cc5d85"
    )


@pytest.fixture
def run(own_user: Path) -> str:
    """A run that 0.1.0 wrote, in the state folder of this version."""
    folder = state_dir() / "runs/golden"
    shutil.copytree(GOLDEN / "run-0.1.0", folder)
    return folder.name


def call_command(*words: str) -> Any:
    """Run a command line and return its result."""
    return CliRunner().invoke(handrail, list(words))


def test_a_run_of_the_first_version_is_verified_and_shown(run: str) -> None:
    """Its chain is whole, and its calls are listed."""
    assert call_command("runs", "verify", run).exit_code == 0
    shown = call_command("runs", "show", run, "--json")
    assert shown.exit_code == 0, shown.output
    calls = json.loads(shown.stdout)["calls"]
    assert [call["tool"] for call in calls] == ["read_file", "edit_file", "write_file", "read_file", "delete_path"]


async def test_a_run_of_the_first_version_goes_on(run: str, tmp_path: Path) -> None:
    """Its checkpoint is read: a key that was used gives the first outcome, and nothing runs."""
    (tmp_path / "a.txt").write_text("one\n")
    config = {"tools": {"enable": ["fs"]}}
    async with Runtime.open(tmp_path, config=config, run_id=run, mode="headless") as runtime:
        args = {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]}
        outcome = await runtime.call("edit_file", args, idempotency_key="k1")
    assert outcome.ok, outcome.content
    assert (tmp_path / "a.txt").read_text() == "one\n"

"""Where nobody can be asked at once: a command and its effects are approved one after the other, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox
from handrail import Outcome, Runtime
from handrail.ports import Reply

CONFIG: dict[str, Any] = {
    "tools": {"enable": ["exec"]},
    "exec": {"workspace": "review"},
    "approvals": {"keep_after_run": True},  # each call is made in a run of its own
}
LINE = {"command": "sed -i s/one/two/ a.txt"}


@pytest.fixture(autouse=True)
def file(work: Path, own_user: Path) -> Path:
    """A file to change, and a sandbox to change it in."""
    need_sandbox()
    made = work / "a.txt"
    made.write_text("one\n")
    return made


async def called(work: Path, approval: str | None = None) -> Outcome:
    """Make the call in a run of its own."""
    async with Runtime.open(work, config=CONFIG, mode="headless") as runtime:
        return await runtime.call("run_command", LINE, approval=approval)


async def granted(work: Path, outcome: Outcome) -> str:
    """Have a person say yes to what waits."""
    assert outcome.error is not None
    assert outcome.error.code == "APPROVAL_REQUIRED", outcome.content
    request: str = outcome.error.details["approval"]["id"]
    async with Runtime.open(work, config=CONFIG, mode="headless") as runtime:
        runtime.parts.ledger.answer(request, Reply("granted", by="ann"))
    return request


async def approved_effects(work: Path) -> str:
    """Approve the command, run it, approve what it changed; gives the second request."""
    await granted(work, await called(work))
    waiting = await called(work)
    assert waiting.error is not None
    assert "+two" in waiting.error.details["approval"]["diff"]
    return await granted(work, waiting)


@pytest.mark.parametrize("named", [False, True], ids=["repeated", "replayed by its id"])
async def test_the_approval_of_effects_covers_running_the_command_again(work: Path, file: Path, named: bool) -> None:
    """Two answers are enough, and neither counts twice."""
    request = await approved_effects(work)
    assert file.read_text() == "one\n"
    kept = await called(work, request if named else None)
    assert (kept.status, file.read_text()) == ("ok", "two\n")
    file.write_text("one\n")
    assert ((await called(work)).status, file.read_text()) == ("pending", "one\n")


async def test_other_effects_than_the_approved_ones_are_asked_for_anew(work: Path, file: Path) -> None:
    """The diff that a person saw is the diff that is kept."""
    await approved_effects(work)
    file.write_text("one one\n")
    again = await called(work)
    assert (again.status, file.read_text()) == ("pending", "one one\n")


async def test_the_approval_of_effects_covers_no_other_command(work: Path, file: Path) -> None:
    """Another line is another call."""
    request = await approved_effects(work)
    async with Runtime.open(work, config=CONFIG, mode="headless") as runtime:
        other = await runtime.call("run_command", {"command": "sed -i s/one/three/ a.txt"}, approval=request)
    assert (other.error and other.error.code, file.read_text()) == ("APPROVAL_DENIED", "one\n")

"""A command that was approved runs in any run of the same workspace, once, and only under the same confinement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox
from handrail import Runtime
from handrail.ports import Reply
from handrail.words import Outcome

# Each call is made in a run of its own.
ENABLED: dict[str, Any] = {"tools": {"enable": ["exec"]}, "approvals": {"keep_after_run": True}}


@pytest.fixture(autouse=True)
def confined() -> None:
    """All of it needs a sandbox."""
    need_sandbox()


async def called(work: Path, config: dict[str, Any] = ENABLED, **args: Any) -> Outcome:
    """Make the call in a run of its own, where nobody can be asked."""
    async with Runtime.open(work, config=config, mode="headless") as runtime:
        return await runtime.call("run_command", {"command": "make -v >made.txt", **args})


async def approved(work: Path) -> None:
    """Have it asked for in one run, and granted elsewhere."""
    pending = await called(work)
    assert pending.error is not None
    async with Runtime.open(work, config=ENABLED, mode="headless") as runtime:
        runtime.parts.ledger.answer(pending.error.details["approval"]["id"], Reply("granted", by="ann"))


async def test_an_approval_given_for_one_run_is_used_in_the_next_and_no_more(work: Path, own_user: Path) -> None:
    """The digest names folders of the run as the run's, so that a later process finds the grant."""
    await approved(work)
    assert [(await called(work)).status for _ in range(2)] == ["ok", "pending"]


@pytest.mark.parametrize(
    ("config", "args"),
    [
        ({**ENABLED, "exec": {"max_processes": 7}}, {}),
        ({**ENABLED, "exec": {"workspace": "review"}}, {}),
        (ENABLED, {"env": {"A": "b"}}),
        (ENABLED, {"stdin": "x"}),
    ],
    ids=["other limits", "reviewed", "other environment", "other input"],
)
async def test_what_changed_since_is_asked_for_anew(
    work: Path, own_user: Path, config: dict[str, Any], args: dict[str, Any]
) -> None:
    """An approval covers the confinement that was shown, too."""
    await approved(work)
    assert (await called(work, config, **args)).status == "pending"
    assert not (work / "made.txt").exists()

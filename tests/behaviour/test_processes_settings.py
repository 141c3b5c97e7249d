"""What settings say of programs is what holds for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import run, runtime
from handrail.errors import Code
from handrail.programs import terms_of
from handrail.sandbox import landlock
from handrail.sandbox.backends import OFFERED
from handrail.sandbox.plan import Bounds
from handrail.settings import Settings


def test_each_limit_comes_from_its_own_setting() -> None:
    """Six different numbers, none of them a default."""
    told: dict[str, Any] = {
        "max_memory_bytes": 101,
        "max_processes": 102,
        "max_file_bytes": 103,
        "max_open_files": 104,
        "max_cpu_seconds": 105,
        "max_scratch_bytes": 106,
        "max_layer_bytes": 107,
    }
    settings = Settings.model_validate({"exec": told})
    assert terms_of(settings).bounds == Bounds(
        memory_bytes=101, processes=102, file_bytes=103, open_files=104, cpu_seconds=105, scratch_bytes=106
    )
    assert terms_of(settings).layer_bytes == 107


@pytest.mark.parametrize(("least", "code"), [("A", Code.SANDBOX_UNAVAILABLE), ("B", None)])
async def test_the_least_tier_is_what_settings_say(
    work: Path, monkeypatch: pytest.MonkeyPatch, least: str, code: Code | None
) -> None:
    """On a machine that has tier B alone, whoever demands A gets nothing run."""
    if landlock.abi() == 0:
        if os.environ.get("CI") == "true":
            pytest.fail("this kernel has no Landlock")
        pytest.skip("this kernel has no Landlock")
    monkeypatch.setattr("handrail.sandbox.choose.OFFERED", [offer for offer in OFFERED if offer.tier == "B"])
    async with runtime(work, config={"exec": {"min_tier": least}}) as opened:
        outcome = await run(opened, "echo x > ran")
    assert (outcome.error and outcome.error.code, (work / "ran").exists()) == (code, code is None), outcome.content


async def test_a_denied_line_says_which_of_its_commands_was_meant(work: Path) -> None:
    """A model that is told the part mends the part; a line of one command needs no such word."""
    rule = {"effect": "deny", "touch": "proc.exec", "target": "git push *", "why": "not on Fridays"}
    async with runtime(work, config={"rules": [rule]}) as opened:
        several = await run(opened, "make && git push origin main | cat")
        one = await run(opened, "git push origin main")
    assert several.error is not None
    assert one.error is not None
    assert several.error.message == "Denied, because of `git push origin main`: not on Fridays."
    assert one.error.message == "Denied: not on Fridays."


async def test_the_budget_of_programs_holds_over_a_reopened_run(work: Path) -> None:
    """What a run has started is on record, so that opening it again gives no more."""
    used = []
    for _ in range(2):
        async with runtime(work, config={"limits": {"max_processes": 1}}, run_id="r") as opened:
            outcomes = [await run(opened, f"echo {word}") for word in ("hi", "ho")]
            used += [None if outcome.error is None else outcome.error.code for outcome in outcomes]
    assert used == [None, *[Code.BUDGET_EXHAUSTED] * 3]

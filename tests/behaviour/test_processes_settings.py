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
    }
    settings = Settings.model_validate({"exec": told})
    assert terms_of(settings).bounds == Bounds(
        memory_bytes=101, processes=102, file_bytes=103, open_files=104, cpu_seconds=105, scratch_bytes=106
    )


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

"""What a run may use, through the whole way of a call: time, and room for undo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conftest import Opens
from handrail.settings import paths
from handrail.store.reader import events
from handrail.testing import FixedClock, ScriptedApprover


def edit(path: str) -> dict[str, Any]:
    """An edit that replaces a file."""
    return {"path": path, "edits": [{"old": "x\n", "new": "y\n"}]}


async def test_the_budget_of_time_is_that_since_the_run_was_started(opens: Opens) -> None:
    """Also where calls take none of it, and after it was opened again; each refusal is an event."""
    clock = FixedClock(1_700_000_000.0)
    config = {"limits": {"max_wall_seconds": 60}}
    async with opens(config=config, clock=clock, run_id="r") as runtime:
        assert (await runtime.call("now", {})).ok
        clock.advance(40)
        assert (await runtime.call("now", {})).ok
    clock.advance(21)
    async with opens(config=config, clock=clock, run_id="r") as runtime:
        refused = await runtime.call("now", {})
        assert refused.error is not None
    told = refused.error.details
    assert (refused.error.code, told["budget"], told["bound"], told["used"]) == (
        "BUDGET_EXHAUSTED", "wall_ms", 60_000, 61_000
    )  # fmt: skip
    assert "limits.max_wall_seconds" in refused.content
    found = [event for event in events(paths.runs_dir() / "r") if event["kind"] == "limit.hit"]
    known = ("trace_id", "tool", "code", "budget", "bound", "used")
    assert [{name: event[name] for name in known} for event in found] == [
        dict(zip(known, ("r", "now", "BUDGET_EXHAUSTED", "wall_ms", 60_000, 61_000), strict=True))
    ]


async def test_what_there_is_no_more_room_to_undo_is_asked_for(opens: Opens, work: Path) -> None:
    """The bound is that of all that is kept for a run; what is done without it is told."""
    for name in ("a", "b", "c"):
        (work / name).write_text("x\n" * 1 + "z" * 258)
    asked = ScriptedApprover("once")
    config = {"undo": {"max_bytes": 300}}
    async with opens(enable=("fs",), config=config, approver=asked) as runtime:
        first, second = [await runtime.call("edit_file", edit(name)) for name in ("a", "b")]
    assert (first.ok, first.decision, first.warnings) == (True, "allow", ())
    assert (second.ok, second.decision) == (True, "ask")
    assert second.rules[-1] == "defaults.too-large-to-undo"
    assert second.warnings == ("no room to keep what stood in b (undo.max_bytes): no undo",)

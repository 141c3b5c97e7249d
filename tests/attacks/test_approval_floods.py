"""A flood of calls that must be asked for: what waits is bounded, for a run in number and bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail import Runtime
from handrail.settings import paths

MIB = 1024 * 1024


def taken(folder: Path) -> int:
    """Count the bytes of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


async def test_forty_refused_calls_of_a_megabyte_leave_the_state_small(work: Path, own_user: Path) -> None:
    """Once the bound is reached no request is put on record, and the error says what to do."""
    (work / "a.txt").write_text("old\n")
    codes = []
    async with Runtime.open(work, config={"tools": {"enable": ["fs"]}}, mode="headless") as runtime:
        before = taken(paths.state_dir())
        for number in range(40):
            content = f"{number}\n" + "x" * MIB
            args = {"path": "a.txt", "content": content, "mode": "overwrite", "expected_sha256": "*"}
            outcome = await runtime.call("write_file", args)
            assert outcome.error is not None
            codes.append(outcome.error.code)
        grown = taken(paths.state_dir()) - before
    assert outcome.error is not None
    assert (codes[0], codes[-1]) == ("APPROVAL_REQUIRED", "BUDGET_EXHAUSTED")
    assert outcome.error.details["budget"] == "max_pending_bytes"
    assert "handrail approvals list" in outcome.error.message
    assert grown < 40 * MIB
    assert (work / "a.txt").read_text() == "old\n"


async def test_the_same_call_repeated_takes_no_room(work: Path, own_user: Path) -> None:
    """Equal calls share a request, and the journal does not write it down whole each time."""
    (work / "a.txt").write_text("old\n")
    limits = {"max_repeats": 0, "breaker_failures": 0}
    async with Runtime.open(work, config={"tools": {"enable": ["fs"]}, "limits": limits}, mode="headless") as runtime:
        args = {"path": "a.txt", "content": "x" * MIB, "mode": "overwrite", "expected_sha256": "*"}
        await runtime.call("write_file", args)
        before = taken(paths.state_dir())
        for _ in range(10):
            outcome = await runtime.call("write_file", args)
            assert outcome.error is not None
            assert outcome.error.code == "APPROVAL_REQUIRED"
        assert taken(paths.state_dir()) - before < MIB


@pytest.mark.parametrize("freed", [False, True])
async def test_a_run_has_only_so_many_requests_waiting(work: Path, own_user: Path, freed: bool) -> None:
    """One that is answered makes room for the next."""
    config = {"tools": {"enable": ["delete_path"]}, "approvals": {"max_pending": 3}}
    async with Runtime.open(work, config=config, mode="headless") as runtime:
        for number in range(4):
            (work / f"{number}.txt").write_text("x")
        ends = [await runtime.call("delete_path", {"path": f"{number}.txt", "confirm": True}) for number in range(3)]
        assert [end.error and end.error.code for end in ends] == ["APPROVAL_REQUIRED"] * 3
        if freed:
            from handrail.ports import Reply

            first = ends[0].error
            assert first is not None
            runtime.parts.ledger.answer(first.details["approval"]["id"], Reply("denied", by="ann"))
        last = await runtime.call("delete_path", {"path": "3.txt", "confirm": True})
        assert last.error is not None
        assert last.error.code == ("APPROVAL_REQUIRED" if freed else "BUDGET_EXHAUSTED")

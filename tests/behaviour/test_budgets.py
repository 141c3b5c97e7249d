"""Budgets of a run through the kernel: what each counts, and that the call after the last one is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from handrail.catalog import Writes, tool
from handrail.errors import Code
from handrail.ports import Reply, Request
from handrail.testing import ScriptedApprover

TEN = "0123456789"
# Budget, its bound, the calls that are let through (numbered), and what these have used.
COUNTED: list[tuple[str, int, str, int, int]] = [
    ("calls", 3, "read_file", 3, 3),
    ("calls", 3, "stat_path", 3, 3),
    ("bytes_read", 20, "read_file", 2, 20),
    ("bytes_read", 21, "read_file", 3, 30),
    ("bytes_written", 20, "write_file", 2, 20),
    ("bytes_written", 21, "write_file", 3, 30),
    ("files_changed", 2, "write_file", 2, 2),
    ("files_changed", 3, "write_file", 3, 3),
]


def args_of(name: str, number: int) -> dict[str, Any]:
    """Arguments of the call of a number: every one another file of ten bytes."""
    return {"path": f"new{number}", "content": TEN} if name == "write_file" else {"path": f"old{number}"}


@pytest.mark.parametrize(("budget", "bound", "name", "passes", "used"), COUNTED)
async def test_a_budget_of_a_run_counts_what_calls_did_and_refuses_the_next(
    opens: Any, work: Path, budget: str, bound: int, name: str, passes: int, used: int
) -> None:
    """The refusal names the budget, and what was refused did not happen."""
    for number in range(6):
        (work / f"old{number}").write_text(TEN)
    async with opens(enable=("fs",), config={"limits": {f"max_{budget}": bound}}) as runtime:
        outcomes = [await runtime.call(name, args_of(name, number)) for number in range(5)]
    assert [outcome.ok for outcome in outcomes] == [number < passes for number in range(5)]
    for outcome in outcomes[passes:]:
        told = {key: outcome.error.details[key] for key in ("budget", "bound", "used")}
        assert (outcome.error.code, told["budget"], told["bound"]) == (Code.BUDGET_EXHAUSTED, budget, bound)
        assert told["used"] >= used
    if budget != "calls":
        assert outcomes[-1].error.details["used"] == used
    written = sorted(path.name for path in work.glob("new*"))
    assert written == [f"new{number}" for number in range(passes if name == "write_file" else 0)]


@pytest.mark.parametrize(
    ("budget", "name"), [("bytes_read", "write_file"), ("bytes_written", "read_file"), ("files_changed", "read_file")]
)
async def test_a_budget_counts_nothing_of_another_kind(opens: Any, work: Path, budget: str, name: str) -> None:
    """A bound of one is never reached by what is not counted for it."""
    for number in range(3):
        (work / f"old{number}").write_text(TEN)
    async with opens(enable=("fs",), config={"limits": {f"max_{budget}": 1}}) as runtime:
        assert [(await runtime.call(name, args_of(name, number))).ok for number in range(3)] == [True] * 3


async def test_what_a_run_has_used_is_still_used_when_it_is_opened_again(opens: Any, work: Path) -> None:
    """Closing is no way to a new budget."""
    (work / "old0").write_text(TEN)
    config = {"limits": {"max_bytes_read": 10}}
    async with opens(config=config) as runtime:
        assert (await runtime.call("read_file", {"path": "old0"})).ok
        run_id = runtime.run_id
    async with opens(config=config, run_id=run_id) as runtime:
        again = await runtime.call("read_file", {"path": "old0"})
    assert again.error.code == Code.BUDGET_EXHAUSTED


LIMIT = 0.3


@tool(risk="low", timeout_seconds=LIMIT)
async def put(path: Writes, seconds: float = 0) -> str:
    """Take a while."""
    await asyncio.sleep(seconds)
    return "done"


class SlowPerson(ScriptedApprover):
    """Says yes after a while."""

    async def ask(self, request: Request) -> Reply:
        """Think for longer than the tool may take."""
        await asyncio.sleep(2 * LIMIT)
        return await super().ask(request)


@pytest.mark.parametrize(("seconds", "code"), [(0.0, None), (LIMIT / 10, None), (100 * LIMIT, Code.TIMEOUT)])
async def test_the_deadline_of_a_tool_does_not_count_the_time_a_person_takes(
    opens: Any, work: Path, seconds: float, code: Code | None
) -> None:
    """A yes that comes later than the deadline is a yes; the tool has all of its time after it, and no more."""
    (work / "a.txt").write_text("old")
    person = SlowPerson("once")
    async with opens(tools=[put], approver=person) as runtime:
        outcome = await asyncio.wait_for(runtime.call("put", {"path": "a.txt", "seconds": seconds}), 20)
    assert len(person.asked) == 1
    assert (None if outcome.error is None else outcome.error.code) == code

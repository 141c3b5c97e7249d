"""A key makes a repeated call return the outcome of the first that started."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from handrail.catalog import tool
from handrail.store.reader import events
from handrail.store.state import KeyRecord


def counting() -> tuple[Any, list[int]]:
    """A tool that counts how often it ran."""
    ran: list[int] = []

    @tool(risk="low", pure=True)
    async def count(number: int = 0) -> int:
        """Count."""
        ran.append(number)
        await asyncio.sleep(0)
        return len(ran)

    return count, ran


async def test_the_same_key_gives_the_first_outcome_also_after_reopening(opens: Any) -> None:
    """The tool runs once."""
    count, ran = counting()
    async with opens(tools=[count], run_id="r") as runtime:
        first = await runtime.call("count", idempotency_key="k")
        second = await runtime.call("count", idempotency_key="k")
    async with opens(tools=[count], run_id="r") as runtime:
        third = await runtime.call("count", idempotency_key="k")
    assert first == second == third
    assert ran == [0]


async def test_a_call_in_flight_is_waited_for(opens: Any) -> None:
    """Two at once are one."""
    count, ran = counting()
    async with opens(tools=[count]) as runtime:
        first, second = await asyncio.gather(*(runtime.call("count", idempotency_key="k") for _ in range(2)))
    assert first == second
    assert ran == [0]


async def test_the_same_key_with_other_arguments_is_an_error(opens: Any) -> None:
    """A key stands for one call."""
    count, _ = counting()
    async with opens(tools=[count]) as runtime:
        await runtime.call("count", {"number": 1}, idempotency_key="k")
        other = await runtime.call("count", {"number": 2}, idempotency_key="k")
    assert other.error.code == "INVALID_ARGS"


async def test_without_a_key_every_call_runs(opens: Any) -> None:
    """Keys are never made up."""
    count, ran = counting()
    async with opens(tools=[count]) as runtime:
        await runtime.call("count")
        await runtime.call("count")
    assert ran == [0, 0]


async def test_a_call_that_never_started_does_not_hold_its_key(opens: Any, work: Path) -> None:
    """Denied first, allowed later under the same key."""
    async with opens(run_id="r") as runtime:
        denied = await runtime.call("write_file", {"path": "a", "content": "b"}, idempotency_key="k")
    async with opens(run_id="r", enable=("fs",)) as runtime:
        allowed = await runtime.call("write_file", {"path": "a", "content": "b"}, idempotency_key="k")
    assert denied.error.code == "POLICY_DENIED"
    assert allowed.ok


async def test_replaying_still_needs_the_tool_to_be_allowed(opens: Any, work: Path) -> None:
    """A stored outcome is not a way around policy."""
    async with opens(run_id="r", enable=("fs",)) as runtime:
        first = await runtime.call("write_file", {"path": "a", "content": "b"}, idempotency_key="k")
    async with opens(run_id="r") as runtime:
        replayed = await runtime.call("write_file", {"path": "a", "content": "b"}, idempotency_key="k")
    assert first.ok
    assert replayed.error.code == "POLICY_DENIED"


async def test_a_call_that_a_crash_cut_off_is_unknown_and_not_run_again(opens: Any) -> None:
    """Started, and no end on record: never guessed."""
    from handrail.gates.asking import digest_of

    count, ran = counting()
    async with opens(tools=[count], run_id="r") as runtime:
        digest = digest_of("count", {"number": 0})
        runtime.parts.journal.append(
            "tool.started", "lost", {"tool": "count", "key": "k", "args_digest": digest, "trace_id": "t"}
        )
        runtime.parts.journal.flush()
        runtime.parts.journal.state.keys["k"] = KeyRecord("lost", digest, done=False)
    async with opens(tools=[count], run_id="r") as runtime:
        outcome = await runtime.call("count", idempotency_key="k")
        ends = [event for event in events(runtime.parts.folder.path) if event["kind"] == "tool.failed"]
    assert outcome.error.code == "OUTCOME_UNKNOWN"
    assert ran == []
    assert ends[-1]["code"] == "OUTCOME_UNKNOWN"


async def test_a_call_whose_numbers_cannot_be_written_down_is_refused_and_recorded(opens: Any, work: Path) -> None:
    """With a key and without, in what is given and in what comes out: one end on record each, and never our own bug."""
    (work / "a.json").write_text(f'{{"n": {10**30}}}')
    calls: list[tuple[str, dict[str, Any]]] = [
        ("json_select", {"path": "a.json", "expression": "n"}),
        ("json_select", {"json": {"n": 10**30}, "expression": "n"}),
        ("render_template", {"template": "{{n}}", "data": {"n": 10**5000}}),
        ("render_template", {"template": "{{n}}", "data": {"n": float("inf")}}),
        ("read_file", {"path": "a.json", "offset": 10**30}),
    ]
    async with opens() as runtime:
        outcomes = [
            await runtime.call(name, args, idempotency_key=f"{number}" if keyed else None)
            for keyed in (True, True, False)
            for number, (name, args) in enumerate(calls)
        ]
        ends = [event["code"] for event in events(runtime.parts.folder.path) if event["kind"] == "tool.failed"]
    assert [outcome.error.code for outcome in outcomes] == ["INVALID_ARGS"] * 15
    assert set(ends) == {"INVALID_ARGS"}
    assert len(ends) == 14  # the one that had begun gives its kept outcome to the repeated key
    assert outcomes[0] == outcomes[5]

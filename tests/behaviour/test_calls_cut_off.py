"""Calls and runs that are cut off in the middle: every one of them ends, is on record, and lets go of what it held."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Writes
from handrail.catalog import tool
from handrail.errors import Code, Misuse, Problem
from handrail.ports import Reply, Request
from handrail.programs import Programs
from handrail.store.outcomes import Outcomes
from handrail.store.reader import events
from handrail.testing import ScriptedApprover
from handrail.words import Call, Status

ALLOW = [{"effect": "allow", "touch": "tool.use"}]


def kinds(runtime: Any) -> list[str]:
    return [event["kind"] for event in events(runtime.parts.folder.path)]


def ends_of(runtime: Any) -> list[tuple[str, str]]:
    found = events(runtime.parts.folder.path)
    return [(event["kind"], event["effect"]) for event in found if event["kind"] in ("tool.completed", "tool.failed")]


# ── outcomes that cannot be kept ──


async def test_a_call_whose_outcome_cannot_be_kept_is_done_once(opens: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told as done, with a warning, and on record; its key never makes it run a second time."""
    ran: list[int] = []

    @tool(risk="low", pure=True)
    async def pay(amount: int) -> int:
        """Pay."""
        ran.append(amount)
        return amount

    def full(*_: Any) -> None:
        raise Problem(Code.IO_ERROR, "No space left on the device.")

    async with opens(tools=[pay]) as runtime:
        with monkeypatch.context() as patch:
            patch.setattr(Outcomes, "put", full)
            first = await runtime.call("pay", {"amount": 1}, idempotency_key="k")
        again = await runtime.call("pay", {"amount": 1}, idempotency_key="k")
        told = ends_of(runtime)
        used = runtime.parts.limits.used(0.0)["calls"]
    assert (first.status, first.data, ran) == (Status.OK, 1, [1])
    assert first.warnings == ("this outcome is not kept for its idempotency key: No space left on the device.",)
    assert again.error is not None
    assert again.error.code == Code.OUTCOME_UNKNOWN
    assert told[0] == ("tool.completed", "none")
    assert used == 1


# ── cancelling ──


async def test_calls_in_a_queue_that_are_cancelled_together_are_all_cancelled(opens: Any) -> None:
    """None of them goes on, and the path is free afterwards."""
    begun = asyncio.Event()

    @tool(risk="low")
    async def hold(path: Writes) -> str:
        """Hold a path."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    async with opens(tools=[hold], config={"rules": [{"effect": "allow", "touch": "fs.write"}]}) as runtime:
        tasks = [asyncio.create_task(runtime.call("hold", {"path": "new.txt"})) for _ in range(4)]
        await begun.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        begun.clear()
        after = asyncio.create_task(runtime.call("hold", {"path": "new.txt"}))
        await asyncio.wait_for(begun.wait(), 10)
        after.cancel()
        await asyncio.gather(after, return_exceptions=True)
    assert [type(item) for item in ended] == [asyncio.CancelledError] * 4


async def test_a_deadline_never_cancels_more_than_its_own_call(opens: Any) -> None:
    """Also after a tool that took no notice of its own, and in a task that is being cancelled."""

    @tool(risk="low", pure=True, timeout_seconds=0.05)
    async def deaf() -> str:
        """Take no notice."""
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "late"

    @tool(risk="low", pure=True, timeout_seconds=0.05)
    async def slow() -> str:
        """Never end."""
        await asyncio.Event().wait()
        return "never"

    async with opens(tools=[deaf, slow]) as runtime:
        task = asyncio.current_task()
        assert task is not None
        late = await runtime.call("deaf", {})
        seen = [late.data, task.cancelling()]
        timed_out = await runtime.call("slow", {})

        async def cleaning_up() -> Any:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return await runtime.call("slow", {})

        cleaning = asyncio.create_task(cleaning_up())
        await asyncio.sleep(0)
        cleaning.cancel()
        in_clean_up = await asyncio.wait_for(cleaning, 10)
    assert seen == ["late", 0]
    assert [item.error.code for item in (timed_out, in_clean_up)] == [Code.TIMEOUT, Code.TIMEOUT]


@pytest.mark.parametrize("waits_first", [True, False])
async def test_a_person_who_thinks_costs_the_callers_above_nothing(opens: Any, work: Path, waits_first: bool) -> None:
    """The deadline of the call that a nested one belongs to stands still, whether it had begun or not."""
    (work / "a.txt").write_text("old")
    held: list[Any] = []

    class Thinking(ScriptedApprover):
        async def ask(self, request: Request) -> Reply:
            await asyncio.sleep(0.6)
            return await super().ask(request)

    @tool(risk="low")
    async def put(path: Writes) -> str:
        """Put."""
        return "done"

    @tool(risk="low", pure=True, timeout_seconds=0.3)
    async def outer() -> str:
        """Call another."""
        if waits_first:
            await asyncio.sleep(0.001)
        return str((await held[0].kernel.call(Call("put", {"path": "a.txt"}, parent="p"))).status)

    async with opens(tools=[outer, put], approver=Thinking("once")) as runtime:
        held.append(runtime)
        outcome = await runtime.call("outer", {}, call_id="p")
    assert (outcome.error, outcome.data) == (None, "ok")


# ── tools that end the wrong way ──


@pytest.mark.parametrize(
    "error", [SystemExit(3), Misuse("wrong"), KeyError("x")], ids=lambda error: type(error).__name__
)
async def test_however_a_tool_ends_its_end_is_on_record(opens: Any, error: BaseException) -> None:
    """A tool that wants to end the program fails alone; a mistake in the program's use of us is raised as well."""

    @tool(risk="low", pure=True)
    async def odd() -> str:
        """Fail."""
        raise error

    async with opens(tools=[odd]) as runtime:
        if isinstance(error, Misuse):
            with pytest.raises(Misuse, match="wrong"):
                await runtime.call("odd", {})
        else:
            assert (await runtime.call("odd", {})).error.code == Code.INTERNAL
        assert ends_of(runtime) == [("tool.failed", "none")]


async def test_a_tool_of_unknown_effect_is_on_record_before_it_acts(opens: Any) -> None:
    """What an agent brings along may do anything: its start is durable first, and its end says that it was done."""
    from handrail.front import pydantic_ai
    from handrail.policy.skills import GOVERNED

    seen: list[list[str]] = []
    async with opens(config={"rules": ALLOW}) as runtime:
        runtime.add(pydantic_ai._governed())

        async def work() -> int:
            seen.append(kinds(runtime))
            return 1

        mark = pydantic_ai._running.set(pydantic_ai._Running("drop_table", work, runtime, {}))
        try:
            outcome = await runtime.call(GOVERNED, {"tool": "drop_table", "arguments": {}})
        finally:
            pydantic_ai._running.reset(mark)
        told = ends_of(runtime)
    assert outcome.ok, outcome.content
    assert [found[-1] for found in seen] == ["tool.started"]
    assert told == [("tool.completed", "done")]


# ── opening and closing ──


async def test_a_run_that_is_closed_while_its_caller_is_cancelled_is_free_again(opens: Any, monkeypatch: Any) -> None:
    """Programs are ended, the journal is whole, and the next one can open it."""
    closing, go_on = asyncio.Event(), asyncio.Event()
    ended: list[str] = []
    real = Programs.close

    async def slow(self: Programs) -> None:
        closing.set()
        await go_on.wait()
        await real(self)
        ended.append("programs")

    monkeypatch.setattr(Programs, "close", slow)

    async def use() -> None:
        async with opens(run_id="one") as runtime:
            await runtime.call("now", {})

    task = asyncio.create_task(use())
    await closing.wait()
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with opens(run_id="one") as runtime:
        assert kinds(runtime).count("run.finished") == 1
    assert ended == ["programs", "programs"]


async def test_what_fails_to_close_keeps_nothing_else_open(opens: Any, monkeypatch: Any) -> None:
    """The error is told, and every handle is let go."""
    runtime = opens()
    async with runtime:
        await runtime.call("now", {})
    before = len(os.listdir("/proc/self/fd"))

    async def broken(self: Programs) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Programs, "close", broken)
    with pytest.raises(OSError, match="Input/output"):
        async with opens() as runtime:
            await runtime.call("now", {})
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_fails_to_open_leaves_nothing_open(opens: Any, monkeypatch: Any) -> None:
    """Neither the run's lock nor a handle."""

    def broken(self: Programs) -> None:
        raise OSError(5, "Input/output error")

    opens(run_id="two")  # what is loaded once is loaded
    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(Programs, "mend", broken)
        with pytest.raises(OSError, match="Input/output"):
            asyncio.run(_opened(opens))
    assert len(os.listdir("/proc/self/fd")) == before


async def _opened(opens: Callable[..., Any]) -> None:
    async with opens(run_id="three"):
        pass


def test_a_program_without_standard_input_opens_a_run(tmp_path: Path) -> None:
    """As services are started."""
    code = "import asyncio, sys\nfrom handrail import Runtime\nassert sys.stdin is None\n"
    code += "async def main():\n    async with Runtime.open(sys.argv[1]) as runtime:\n"
    code += "        print((await runtime.call('now', {})).status)\nasyncio.run(main())\n"
    line = f'exec "{sys.executable}" -c "$CODE" "$0" <&-'
    done = subprocess.run(
        ["sh", "-c", line, str(tmp_path)], capture_output=True, text=True, check=False, env={**os.environ, "CODE": code}
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")

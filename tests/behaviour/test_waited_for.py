"""What a call waited for may have changed the world: it is resolved and judged again before it acts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox
from handrail import Reads, Writes
from handrail.catalog import Tool, tool
from handrail.errors import Code
from handrail.store import journal
from handrail.testing import ScriptedApprover
from handrail.words import Call, Outcome


class Gate:
    """Lets a call begin, and go on when told."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def wait(self) -> str:
        """Say that it has begun, and wait."""
        self.begun.set()
        await self.go_on.wait()
        return "done"


def holding(gate: Gate) -> Tool:
    @tool(risk="low")
    async def hold(path: Writes) -> str:
        """Hold a path until told to go on."""
        return await gate.wait()

    return hold


def looking(gate: Gate) -> Tool:
    @tool(risk="low")
    async def look(path: Reads, first: bool = False) -> str:
        """Look at a file; the first one waits."""
        return await gate.wait() if first else "seen"

    return look


async def second_after(gate: Gate, runtime: Any, first: Any, second: Any, meanwhile: Callable[[], None]) -> Outcome:
    """Begin one call, let another wait for it, change the world, and give the other's outcome."""
    before = asyncio.ensure_future(runtime.call(*first))
    await gate.begun.wait()
    waiting = asyncio.ensure_future(runtime.call(*second))
    while len(runtime.kernel._active) < 2:
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    meanwhile()
    gate.go_on.set()
    assert (await before).ok
    outcome: Outcome = await waiting
    return outcome


async def test_a_path_that_was_waited_for_is_judged_where_it_leads_now(opens: Any, work: Path) -> None:
    """A folder on the way became a link to the repository's hooks while the call stood in the queue."""
    (work / "d").mkdir()
    (work / "d/a.txt").write_text("x")
    (work / ".git/hooks").mkdir(parents=True)
    (work / ".git/hooks/a.txt").write_text("hook")

    def swap() -> None:
        (work / "d").rename(work / "e")
        (work / "d").symlink_to(".git/hooks")

    gate = Gate()
    async with opens(tools=[holding(gate)], enable=("fs",), approver=ScriptedApprover("once")) as runtime:
        append = ("write_file", {"path": "d/a.txt", "content": "more", "mode": "append"})
        outcome = await second_after(gate, runtime, ("hold", {"path": "d/a.txt"}), append, swap)
    assert outcome.error is not None
    assert outcome.error.code == Code.PATH_PROTECTED
    assert (work / ".git/hooks/a.txt").read_text() == "hook"


async def test_a_call_that_waited_for_a_slot_is_judged_again(opens: Any, work: Path) -> None:
    """The file became a link to a protected one while others used the tool."""
    (work / "a.txt").write_text("x")
    (work / ".env").write_text("s")

    def swap() -> None:
        (work / "a.txt").unlink()
        (work / "a.txt").symlink_to(".env")

    gate = Gate()
    async with opens(tools=[looking(gate)], config={"limits": {"concurrency": {"look": 1}}}) as runtime:
        first, second = ("look", {"path": "a.txt", "first": True}), ("look", {"path": "a.txt"})
        outcome = await second_after(gate, runtime, first, second, swap)
    assert outcome.error is not None
    assert outcome.error.code == Code.PATH_PROTECTED


async def test_a_nested_call_needs_no_slot_of_its_own(opens: Any) -> None:
    """A tool that may run once at a time calls itself, and does not wait for itself."""
    held: list[Any] = []

    @tool(risk="low", pure=True)
    async def outer(inner: bool = False) -> str:
        """Call itself once."""
        if inner:
            return "in"
        return str((await held[0].kernel.call(Call("outer", {"inner": True}, parent="p"))).status)

    async with opens(tools=[outer], config={"limits": {"concurrency": {"outer": 1}}}) as runtime:
        held.append(runtime)
        outcome = await asyncio.wait_for(runtime.call("outer", {}, call_id="p"), 20)
    assert outcome.data == "ok"


async def test_a_long_run_keeps_checkpoints_while_it_goes_on(opens: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening it after a crash never reads all of it."""
    monkeypatch.setattr(journal, "CHECKPOINT_EVERY", 10)
    async with opens() as runtime:
        kept = runtime.parts.folder.path / "checkpoint.json"
        assert not kept.exists()
        for _ in range(20):
            await runtime.call("hash_text", {"text": "x"})
            await runtime.call("now", {})
        await runtime.parts.journal._syncer.done(lambda: None)
        assert kept.exists()


@pytest.mark.parametrize("changes", [True, False])
async def test_a_script_that_a_rule_allows_runs_as_it_was_judged(opens: Any, work: Path, changes: bool) -> None:
    """Changed while the call stood in the queue, it is not run; as it was, it is."""
    need_sandbox()
    script = work / "case.sh"
    script.write_text("echo first\n")
    gate = Gate()
    config = {"exec": {"allow": ["bash case.sh"]}}
    async with opens(enable=("exec", "hold"), config=config, tools=[holding(gate)], mode="headless") as runtime:
        before = asyncio.ensure_future(runtime.call("hold", {"path": "out.txt"}))
        await gate.begun.wait()
        waiting = asyncio.ensure_future(runtime.call("run_command", {"command": "bash case.sh > out.txt"}))
        while not any(step.scripts for step in runtime.kernel._active.values()):
            await asyncio.sleep(0.001)
        script.write_text("echo second\n" if changes else "echo first\n")
        gate.go_on.set()
        assert (await before).ok
        outcome = await waiting
    if changes:
        assert outcome.error.code == Code.STALE_FILE
        assert not (work / "out.txt").exists()
    else:
        assert outcome.ok, outcome.content
        assert (work / "out.txt").read_text() == "first\n"

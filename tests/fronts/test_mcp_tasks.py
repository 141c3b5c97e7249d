"""Tasks: what waits for a person may be stopped, what a person granted goes on, and one yes is good for one call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fronts.mcp_talk import Talk
from handrail import Code, Problem, Scope, Tool, tool
from handrail.front.mcp.door import RESET, Door
from handrail.front.mcp.opening import Opening
from handrail.gates.step import Step
from handrail.ports import Reply, Request
from handrail.store.reader import events
from handrail.words import Call, Outcome

GRANTED = Reply("granted", Scope.CALL, by="ann")
TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


class Slow:
    """A tool that a person must approve, and that ends when it is told to."""

    def __init__(self) -> None:
        self.began, self.go_on, self.times = asyncio.Event(), asyncio.Event(), 0

    def made(self) -> Tool:
        """The tool."""

        @tool(risk="low", permissions=("tool.use",))
        async def slow() -> str:
            """Wait for a sign."""
            self.times += 1
            self.began.set()
            await self.go_on.wait()
            return "done"

        return slow


class Scene:
    """A client with tasks, the server, and the person elsewhere."""

    def __init__(self, door: Door, talk: Talk, slow: Slow) -> None:
        self.door, self.talk, self.slow = door, talk, slow

    async def parked(self) -> str:
        """Begin a call that waits, and give its task."""
        return str((await self.talk.call("slow", {}))["taskId"])

    def pending(self) -> tuple[Request, ...]:
        """What a person is asked."""
        parts = self.door.runtime.parts
        return tuple(parts.ledger.pending(parts.clock.now()))

    def grant(self) -> None:
        """Say yes to all that waits."""
        for request in self.pending():
            self.door.runtime.parts.ledger.answer(request.id, GRANTED)

    async def state(self, task: str) -> dict[str, Any]:
        """How a task stands."""
        told: dict[str, Any] = (await self.talk.ask("tasks/get", {"taskId": task}))["result"]
        return told

    async def ended(self, task: str) -> dict[str, Any]:
        """Wait for the end of a task."""
        async with asyncio.timeout(10):
            while (told := await self.state(task))["status"] == "working":
                await asyncio.sleep(0.005)
        return told


@asynccontextmanager
async def opened(work: Path) -> AsyncIterator[Scene]:
    """A server whose one tool is asked for."""
    slow = Slow()
    rules = [{"effect": "ask", "touch": "tool.use", "target": "slow"}]
    async with Door(Opening(str(work), {"rules": rules}, tools=(slow.made(),))) as door:
        talk = Talk(door, modern=True, capabilities=TASKS)
        await talk.greet()
        yield Scene(door, talk, slow)
        slow.go_on.set()
        await talk.close()


async def test_a_granted_task_that_runs_outlives_a_change_of_settings(work: Path, own_user: Path) -> None:
    """It is waited for as other calls are; the run is opened anew once it has ended."""
    async with opened(work) as scene:
        task = await scene.parked()
        assert "waits for approval" in (await scene.state(task))["statusMessage"]
        scene.grant()
        await scene.slow.began.wait()
        assert not await scene.door.reopen()
        assert not await scene.door.reopen(patience=0.01)
        told = await scene.state(task)
        assert (told["status"], "waits for approval" in told["statusMessage"]) == ("working", False)
        scene.slow.go_on.set()
        result = (await scene.ended(task))["result"]
        assert (result["isError"], result["structuredContent"]) == (False, {"result": "done"})
        assert await scene.door.reopen(patience=1.0)


async def test_a_task_that_waits_is_stopped_by_a_change_of_settings_and_says_why(work: Path, own_user: Path) -> None:
    """A later yes finds nothing that waits for it."""
    async with opened(work) as scene:
        task = await scene.parked()
        async with asyncio.timeout(10):
            while not await scene.door.reopen():
                await asyncio.sleep(0.005)
        told = await scene.ended(task)
        scene.grant()
        assert (told["status"], told["statusMessage"], scene.slow.times) == ("cancelled", RESET, 0)


async def test_equal_calls_that_share_one_yes_are_told_that_another_has_used_it(work: Path, own_user: Path) -> None:
    """One of them runs; nobody said no, so neither the others nor the journal say so."""
    async with opened(work) as scene:
        tasks = [await scene.parked() for _ in range(3)]
        assert len(scene.pending()) == 1
        scene.slow.go_on.set()
        scene.grant()
        results = [(await scene.ended(task))["result"] for task in tasks]
        codes = sorted(str((_outcome(result)["error"] or {}).get("code")) for result in results)
        texts = {result["content"][0]["text"].splitlines()[0] for result in results if result["isError"]}
        kinds = [event["kind"] for event in events(scene.door.runtime.parts.folder.path)]
        assert (codes, scene.slow.times) == (["APPROVAL_DENIED", "APPROVAL_DENIED", "None"], 1)
        used = "The approval was granted, and used by an equal call or taken back. Repeat the call to ask anew."
        assert (texts, "approval.denied" in kinds) == ({f"APPROVAL_DENIED: {used}"}, False)
        again = await scene.talk.call("slow", {})
        assert (again["resultType"], len(scene.pending())) == ("task", 1)


def _outcome(result: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = result["_meta"]["handrail/outcome"]
    return told


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "stateless"])
async def test_an_approval_that_names_no_request_is_answered_as_an_error(
    work: Path, own_user: Path, monkeypatch: pytest.MonkeyPatch, modern: bool
) -> None:
    """What a call touches may need a person only by its turn, when no request stands yet."""
    async with opened(work) as scene:
        talk = Talk(scene.door, modern=modern)
        await talk.greet()

        async def call(*_: Any, **__: Any) -> Outcome:
            problem = Problem(Code.APPROVAL_REQUIRED, "Now a person must approve it. Repeat the call.")
            finisher = scene.door.runtime.parts.kernel.parts.finisher
            return finisher.failed(Step(Call("slow", {}), "1", 0.0), problem, 0.0)

        monkeypatch.setattr(scene.door.runtime, "call", call)
        result = await talk.call("slow", {})
        assert (result["isError"], "Repeat the call." in result["content"][0]["text"]) == (True, True)
        await talk.close()

"""Pydantic AI: the gate around an agent's own tools beside dialects, skills, hooks, crashes and each other."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip("pydantic_ai", reason="needs the extra [agent]")

from pydantic import BaseModel
from pydantic_ai import FunctionToolset
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.tools import DeferredToolRequests

from fronts.governing import asked, governed, ran, unwatched
from fronts.test_pydantic_ai import Calls, agent, scripted
from handrail import Runtime, dialects
from handrail.ports import Reply, Request
from handrail.pydantic_ai import Governance, HandrailToolset
from handrail.store import reader
from handrail.testing import ScriptedApprover
from tools._skill_desk import put_skill


@pytest.fixture
async def runtime(work: Path, own_user: Path) -> AsyncIterator[Runtime]:
    """A runtime that nobody watches; tools whose names begin with `free` may run."""
    async with unwatched(work) as opened:
        yield opened


class Hook(AbstractCapability[Any]):
    """A program that looks at what its tools are given, or changes it."""

    def __init__(self, change: Callable[[dict[str, Any]], Any]) -> None:
        self.change = change

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any]) -> dict[str, Any]:
        changed = self.change(args)
        return changed if isinstance(changed, dict) else args


def pay(amount: int) -> str:
    ran.append(amount)
    return "paid"


def free_pay(amount: int) -> str:
    return pay(amount)


async def approved(runtime: Runtime, *functions: Any, calls: Calls, **how: Any) -> str:
    """What the agent says once a person said yes to all that it asked for."""
    made: Any = governed(runtime, *functions, calls=calls, **how)
    history, requests = await asked(made)
    results = requests.build_results(approve_all=True, metadata=requests.metadata)
    done = await made.run(message_history=history, deferred_tool_results=results)
    said: str = done.output
    return said


# ── dialects and skills ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dialect", dialects.names())
async def test_governed_tools_work_whatever_dialect_the_runtime_speaks(
    work: Path, own_user: Path, dialect: str
) -> None:
    """Allowed by a rule or by a person: their names are no dialect's."""
    ran.clear()
    rules = [{"effect": "allow", "touch": "tool.use", "target": "free*"}]
    async with Runtime.open(work, config={"rules": rules}, mode="headless", dialect=dialect) as runtime:
        await governed(runtime, free_pay, calls=[("free_pay", {"amount": 1})]).run("go")
        assert await approved(runtime, pay, calls=[("pay", {"amount": 2})]) == "success: paid"
    assert ran == [1, 2]


@pytest.mark.parametrize(
    ("listed", "runs"),
    [("read_file", []), ("read_file agent_tool", []), ("read_file free_pay", [1]), ("free_pay(1)", [1]), (None, [1])],
)
async def test_an_active_skill_narrows_an_agents_own_tools(
    runtime: Runtime, work: Path, listed: str | None, runs: list[int]
) -> None:
    """Even where a rule allows them; those that it lists by their own names go on."""
    put_skill(work / ".agents/skills", "narrow", *([] if listed is None else [f"allowed-tools: {listed}"]))
    made = governed(runtime, free_pay, calls=[("free_pay", {"amount": 1})])
    assert (await runtime.call("load_skill", {"skill_id": "narrow"})).ok
    result = await made.run("go")
    assert ran == runs
    if not runs:
        denied = "failed: POLICY_DENIED: Denied: the active skill narrow does not list free_pay in its allowed-tools."
        assert result.output.startswith(denied)


async def test_a_skill_that_lists_other_tools_of_the_agent_opens_more(runtime: Runtime, work: Path) -> None:
    """So a person is asked before it takes the place of the active one."""
    put_skill(work / ".agents/skills", "first", "allowed-tools: read_file pay")
    put_skill(work / ".agents/skills", "second", "allowed-tools: pay refund")
    Governance(runtime)
    assert (await runtime.call("load_skill", {"skill_id": "first"})).ok
    outcome = await runtime.call("load_skill", {"skill_id": "second"})
    assert (str(outcome.status), "would open refund, which" in str(outcome.error)) == ("pending", True)


# ── what runs is what was approved ───────────────────────────────────────────────────────────


def listed(names: deque[str]) -> str:
    ran.append(list(names))
    return "done"


async def test_a_hook_that_changes_any_collection_in_place_is_noticed(runtime: Runtime) -> None:
    """Nobody is shown what the model wrote in the place of what would run."""
    hooked = {"capabilities": [Hook(lambda args: args["names"].append("eve"))]}
    result = await governed(runtime, listed, calls=[("listed", {"names": ["bob"]})], **hooked).run("go")
    assert result.output.startswith("failed: APPROVAL_DENIED: listed must be approved, and what it would be given")
    assert ran == []


def pay_all(amounts: list[int]) -> str:
    ran.append(list(amounts))
    return "paid"


class Thinking(ScriptedApprover):
    """A person who says yes, while another task of the program works on the arguments."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__("once")
        self.meanwhile, self.seen = meanwhile, list[Any]()

    async def ask(self, request: Request) -> Reply:
        self.seen.append(deepcopy(request.params["arguments"]))
        self.meanwhile()
        return await super().ask(request)


@pytest.mark.parametrize("changes", [True, False])
async def test_arguments_that_change_while_a_person_thinks_never_run(work: Path, own_user: Path, changes: bool) -> None:
    """The yes was to what was shown."""
    ran.clear()
    held: list[dict[str, Any]] = []
    person = Thinking(lambda: held[0]["amounts"].append(1000) if changes else None)
    async with Runtime.open(work, config={}, mode="interactive", approver=person) as runtime:
        hooked = {"capabilities": [Hook(held.append)]}
        result = await governed(runtime, pay_all, calls=[("pay_all", {"amounts": [1]})], **hooked).run("go")
    assert (person.seen, ran) == ([{"amounts": [1]}], [] if changes else [[1]])
    told = "APPROVAL_DENIED: The program changed the arguments of pay_all after they were judged; nothing was run."
    assert (told in result.output) is changes


def free_sum(numbers: Iterable[int], label: Any = None) -> str:
    ran.append(list(numbers))
    return "done"


async def test_what_can_be_read_only_once_reaches_the_tool_beside_what_a_hook_put_in(runtime: Runtime) -> None:
    """Writing the arguments down takes nothing from them."""
    hooked = {"capabilities": [Hook(lambda args: {**args, "label": object()})]}
    await governed(runtime, free_sum, calls=[("free_sum", {"numbers": [1, 2]})], **hooked).run("go")
    assert ran == [[1, 2]]


class Order(BaseModel):
    amount: int

    @cached_property
    def doubled(self) -> int:
        return 2 * self.amount


def order(order: Order, path: Path) -> str:
    ran.append((order.amount, str(path)))
    return "done"


async def test_looking_at_arguments_does_not_change_them(runtime: Runtime) -> None:
    """Paths keep their texts and properties their values, which are no other arguments."""

    def look(args: dict[str, Any]) -> None:
        _ = str(args["path"]), hash(args["path"]), args["order"].doubled

    calls: Calls = [("order", {"order": {"amount": 1}, "path": "a/b"})]
    assert await approved(runtime, order, calls=calls, capabilities=[Hook(look)]) == "success: done"
    assert ran == [(1, "a/b")]


async def test_a_path_that_a_hook_puts_in_is_another_argument(runtime: Runtime) -> None:
    """Equal paths are equal, and no others."""
    calls: Calls = [("order", {"order": {"amount": 1}, "path": "a/b"})]
    hooked = {"capabilities": [Hook(lambda args: args.update(path=Path("a/c")))]}
    result = await governed(runtime, order, calls=calls, **hooked).run("go")
    assert (result.output[:24], ran) == ("failed: APPROVAL_DENIED:", [])


# ── one tool and the others ──────────────────────────────────────────────────────────────────


def by_name(tool: str) -> dict[str, Any]:
    text = f'{{"tool": "{tool}", "arguments": {{}}}}'
    return {"id": "x", "type": "function", "function": {"name": "agent_tool", "arguments": text}}


@pytest.mark.parametrize("named", ["free_again", "free_other", "other"])
async def test_nobody_runs_a_tool_by_the_name_that_stands_for_all_of_them(runtime: Runtime, named: str) -> None:
    """Neither from within a running tool nor without one; and nobody is asked about it."""
    said: list[Any] = []

    async def free_again() -> str:
        ran.append("again")
        said.append(await runtime.call_from(by_name(named)))
        return "done"

    await governed(runtime, free_again, calls=[("free_again", {})]).run("go")
    said.append(await runtime.call_from(by_name(named)))
    assert [one["content"].partition(":")[0] for one in said] == ["UNKNOWN_TOOL", "UNKNOWN_TOOL"]
    assert (ran, runtime.parts.ledger.list()) == (["again"], ())


async def test_a_tool_that_crashes_says_its_own_name_and_stops_no_other(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    """However often; the trace is in the log under the call's id."""

    def free_bad(number: int) -> str:
        raise LookupError("a bug")

    def free_missing(number: int) -> str:
        raise FileNotFoundError(2, "No such file or directory")

    bad: list[Calls] = [[(name, {"number": number})] for name in ("free_bad", "free_missing") for number in range(6)]
    said: list[str] = []

    def telling(calls: Calls) -> Callable[[list[Any]], Calls]:
        def told(back: list[Any]) -> Calls:
            said.extend(part.content for part in back)
            return calls

        return told

    model = scripted(bad[0], *map(telling, [*bad[1:], [("free_pay", {"amount": 1})]]), "done")
    toolset: FunctionToolset[None] = FunctionToolset([free_bad, free_missing, free_pay])
    await agent(model, toolset, capabilities=[Governance(runtime)]).run("go")  # type: ignore[arg-type]
    assert [text.partition("(")[0] for text in said[:6]] == ["INTERNAL: free_bad failed in an unforeseen way "] * 6
    assert [text.splitlines()[0] for text in said[6:]] == ["IO_ERROR: No such file or directory."] * 6
    assert ran == [1]
    logged = [record.getMessage() for record in caplog.records if record.name == "handrail"]
    assert (len(logged), " of free_bad failed\n" in logged[0], "LookupError: a bug" in logged[0]) == (6, True, True)


async def test_a_tool_that_takes_too_long_says_its_own_name_and_stops_no_other(work: Path, own_user: Path) -> None:
    """The default limit of the settings holds for it."""
    ran.clear()

    async def free_slow() -> str:
        await asyncio.Event().wait()
        return "never"

    rules = [{"effect": "allow", "touch": "tool.use", "target": "free*"}]
    config = {"rules": rules, "limits": {"timeout_seconds": 0.05}}
    calls: Calls = [*[("free_slow", {})] * 6]
    async with Runtime.open(work, config=config, mode="headless") as runtime:
        result = await governed(runtime, free_slow, calls=calls).run("go")
        await governed(runtime, free_pay, calls=[("free_pay", {"amount": 1})]).run("go")
    assert (result.output.count("TIMEOUT: free_slow did not finish within 0.05 s."), ran) == (6, [1])


# ── our own tools ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("governs", [True, False])
async def test_a_name_that_stands_twice_in_arguments_for_our_own_tools_is_refused(
    runtime: Runtime, work: Path, governs: bool
) -> None:
    """Neither the first nor the last one wins, also where an agent's other tools are governed."""
    (work / "a.txt").write_text("one\n")
    text: Any = '{"path": "b.txt", "path": "a.txt"}'
    said: list[str] = []

    def tell(back: list[Any]) -> str:
        said.extend(str(part.content) for part in back)
        return "done"

    how = {"capabilities": [Governance(runtime)]} if governs else {}
    model = scripted([("read_file", text)], [("read_file", '{"path": "a.txt"}')], tell)  # type: ignore[list-item]
    result = await agent(model, HandrailToolset(runtime), **how).run("go")
    assert not isinstance(result.output, DeferredToolRequests)
    runtime.parts.journal.flush()
    found = [event for event in reader.events(runtime.parts.folder.path) if event["kind"].startswith("tool")]
    kinds = [(event["kind"], event.get("code")) for event in found]
    assert kinds == [("tool.failed", "INVALID_ARGS"), ("tool.started", None), ("tool.completed", None)]
    assert said == ["one\n"]

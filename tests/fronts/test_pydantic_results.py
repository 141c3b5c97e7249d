"""Pydantic AI: what an agent's own tools tell and give through the gate, and our own tools, which have theirs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip("pydantic_ai", reason="needs the extra [agent]")

from pydantic_ai import FunctionToolset, ModelRetry, RunContext
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed, UsageLimitExceeded
from pydantic_ai.messages import BinaryContent, ImageUrl, TextContent, ToolReturn, ToolReturnPart, UserPromptPart
from pydantic_ai.tools import DeferredToolRequests
from pydantic_ai.toolsets import CombinedToolset

from fronts.governing import asked, governed, ran, unwatched, with_set
from fronts.test_pydantic_ai import Calls, kinds
from handrail import Runtime
from handrail.pydantic_ai import APPROVAL, Governance, HandrailToolset
from handrail.store import reader

KEY = f"ghp_{'a1B2c3D4e5F6' * 3}"


@pytest.fixture
async def runtime(work: Path, own_user: Path) -> AsyncIterator[Runtime]:
    """A runtime that nobody watches; tools whose names begin with `free` may run."""
    async with unwatched(work) as opened:
        yield opened


# ── what a tool tells Pydantic AI ────────────────────────────────────────────────────────────


def ended(runtime: Runtime) -> list[tuple[str | None, str | None]]:
    """How the calls ended, as the journal has it."""
    runtime.parts.journal.flush()
    found = reader.events(runtime.parts.folder.path)
    return [
        (item.get("code"), item.get("message")) for item in found if item["kind"] in ("tool.completed", "tool.failed")
    ]


async def test_a_tool_that_defers_its_call_is_waited_for(runtime: Runtime) -> None:
    """As without the gate: the program gets the call, with the tool's own metadata."""

    def free_later() -> str:
        raise CallDeferred(metadata={"job": 1})

    result = await governed(runtime, free_later, calls=[("free_later", {})]).run("go")
    assert isinstance(result.output, DeferredToolRequests)
    assert [call.tool_name for call in result.output.calls] == ["free_later"]
    assert list(result.output.metadata.values()) == [{"job": 1}]
    assert ended(runtime) == [
        ("OUTCOME_UNKNOWN", "free_later is done elsewhere, and how that ends is not known here: CallDeferred.")
    ]


async def test_a_tool_that_wants_approval_of_its_own_gets_it(runtime: Runtime) -> None:
    """Where a rule allows the tool, its own question is the only one."""

    async def free_asks(ctx: RunContext[None]) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"why": "mine"})
        ran.append("own")
        return "done"

    agent = governed(runtime, free_asks, calls=[("free_asks", {})])
    history, requests = await asked(agent)
    assert list(requests.metadata.values()) == [{"why": "mine"}]
    await agent.run(message_history=history, deferred_tool_results=requests.build_results(approve_all=True))
    assert ran == ["own"]
    told = ("APPROVAL_REQUIRED", "free_asks wants an approval by the program: ApprovalRequired.")
    assert ended(runtime) == [told, (None, None)]


async def test_a_limit_that_a_tool_reaches_ends_the_agents_run(runtime: Runtime) -> None:
    """And is on record as a call that failed."""

    def free_limit() -> str:
        raise UsageLimitExceeded("stop here")

    with pytest.raises(UsageLimitExceeded, match="stop here"):
        await governed(runtime, free_limit, calls=[("free_limit", {})]).run("go")
    assert ended(runtime) == [("UPSTREAM_ERROR", "free_limit ended the agent's run: UsageLimitExceeded.")]


@pytest.mark.parametrize(
    ("signal", "outcome", "words"),
    [
        (ModelRetry, "retried", "asked for another try: ModelRetry"),
        (ToolFailed, "failed", "said that it failed: ToolFailed"),
    ],
)
async def test_what_a_tool_says_to_the_model_is_told_without_secrets(
    runtime: Runtime, signal: type[Exception], outcome: str, words: str
) -> None:
    """Another try and a failure stay what they are."""

    def free_says() -> str:
        raise signal(f"use {KEY}")

    result = await governed(runtime, free_says, calls=[("free_says", {})]).run("go")
    assert result.output.startswith(f"{outcome}: use ***REDACTED***")
    assert ended(runtime) == [("UPSTREAM_ERROR", f"free_says {words}.")]


PNG = BinaryContent(b"\x89PNG", media_type="image/png")


async def parts_of(runtime: Runtime, value: Any) -> list[Any]:
    """What the model is sent of what a tool returned."""

    def free_gives() -> Any:
        return value

    result = await governed(runtime, free_gives, calls=[("free_gives", {})]).run("go")
    kept = (ToolReturnPart, UserPromptPart)
    return [part for message in result.all_messages() for part in message.parts if isinstance(part, kept)][1:]


async def test_content_beside_a_result_reaches_the_model(runtime: Runtime) -> None:
    """Its texts without secrets, its files as they are; the tool's metadata stays, the outcome stands beside it."""
    content: Any = [f"look {KEY}", PNG, TextContent(f"and {KEY}", metadata=7)]
    returned, said = await parts_of(runtime, ToolReturn("x", content=content, metadata={"m": 1}))
    assert (returned.content, returned.metadata["m"], returned.metadata["handrail"]["status"]) == ("x", 1, "ok")
    assert said.content == ["look ***REDACTED***", PNG, TextContent("and ***REDACTED***", metadata=7)]


@pytest.mark.parametrize(
    ("value", "given"),
    [
        (PNG, PNG),
        ([f"a {KEY}", PNG], ["a ***REDACTED***", PNG]),
        ({"list": [1, {"image": PNG}], "key": KEY}, {"list": [1, {"image": PNG}], "key": "***REDACTED***"}),
        (ImageUrl("https://example.com/a.png"), ImageUrl("https://example.com/a.png")),
        (
            BinaryContent(f"key {KEY}".encode(), media_type="text/plain"),
            BinaryContent(b"key ***REDACTED***", media_type="text/plain"),
        ),
        ([1, {"a": None}], [1, {"a": None}]),
    ],
)
async def test_a_file_that_a_tool_returns_reaches_the_model_as_one(runtime: Runtime, value: Any, given: Any) -> None:
    """Wherever it stands in the result; the record has its type and size alone."""
    (returned,) = await parts_of(runtime, value)
    assert returned.content == given
    assert "iVBOR" not in str(returned.metadata)


async def test_files_of_a_result_that_is_too_large_stand_beside_what_is_said(runtime: Runtime) -> None:
    """The values are kept with the run, and the model is told where."""
    returned, said = await parts_of(runtime, ["x" * 2_000_000, PNG])
    assert ("[cut: " in returned.content, said.content) == (True, [PNG])


# ── our own tools ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", ["prefixed", "renamed", "combined", "filtered"])
async def test_our_own_tools_are_governed_once_whatever_wraps_them(runtime: Runtime, work: Path, way: str) -> None:
    """One question, one approval, one run."""
    ours = HandrailToolset(runtime)
    both = CombinedToolset([ours, FunctionToolset([with_set])])
    wrapped, name = {
        "prefixed": (ours.prefixed("x"), "x_write_file"),
        "renamed": (ours.renamed({"put": "write_file"}), "put"),
        "combined": (both.prefixed("y"), "y_write_file"),
        "filtered": (ours.prefixed("x").filtered(lambda *_: True).prefixed("z"), "z_x_write_file"),
    }[way]
    calls: Calls = [(name, {"path": "asked/x.txt", "content": "x"})]
    agent = governed(runtime, calls=calls, toolsets=[wrapped])
    history, requests = await asked(agent)
    results = requests.build_results(approve_all=True, metadata=requests.metadata)
    done = await agent.run(message_history=history, deferred_tool_results=results)
    assert done.output.startswith("success: Created asked/x.txt"), done.output
    assert kinds(runtime) == [
        ("approval.required", None),
        ("tool.failed", "APPROVAL_REQUIRED"),
        ("approval.granted", None),
        ("tool.started", None),
        ("tool.completed", None),
    ]


async def test_another_tool_beside_ours_is_governed(runtime: Runtime) -> None:
    """What wraps both takes nothing from the gate."""
    both = CombinedToolset([HandrailToolset(runtime), FunctionToolset([with_set])]).prefixed("y")
    await asked(governed(runtime, calls=[("y_with_set", {"names": ["a"]})], toolsets=[both]))
    assert ran == []


async def test_a_call_that_passes_two_gates_of_one_runtime_is_asked_for_once(runtime: Runtime) -> None:
    """Governance given twice, by the agent and by a run of it, say, is as good as once."""
    agent = governed(runtime, with_set, calls=[("with_set", {"names": ["a"]})], capabilities=[Governance(runtime)])
    history, requests = await asked(agent)
    results = requests.build_results(approve_all=True, metadata=requests.metadata)
    done = await agent.run(message_history=history, deferred_tool_results=results)
    assert (done.output, ran, len(runtime.parts.ledger.list())) == ("success: done", [["a"]], 1)


@pytest.mark.parametrize(
    ("named", "by"),
    [
        ("ann", "pydantic-ai:ann"),
        ("terminal", "pydantic-ai:terminal"),
        (None, "pydantic-ai"),
        (["x"], "pydantic-ai:['x']"),
        ("x" * 1000, "pydantic-ai:a str of length 1000"),
        ("\ud800", "pydantic-ai:'\ufffd'"),
    ],
)
async def test_whom_the_program_names_is_told_from_those_who_answered_us(runtime: Runtime, named: Any, by: str) -> None:
    """A name in the metadata is the program's word."""
    agent = governed(runtime, with_set, calls=[("with_set", {"names": ["a"]})])
    history, requests = await asked(agent)
    (call_id, told) = next(iter(requests.metadata.items()))
    metadata = {call_id: {APPROVAL: {**told[APPROVAL], "by": named}}}
    await agent.run(
        message_history=history, deferred_tool_results=requests.build_results(approve_all=True, metadata=metadata)
    )
    (record,) = runtime.parts.ledger.list()
    assert (ran, record.reply and record.reply.by) == ([["a"]], by)


async def test_tools_that_say_they_failed_close_the_gate_for_no_other(runtime: Runtime) -> None:
    """Each answers for itself, however often one says so."""

    def free_fails(number: int) -> str:
        raise ToolFailed(f"no {number}")

    def free_works() -> str:
        return "works"

    calls: Calls = [*(("free_fails", {"number": number}) for number in range(8)), ("free_works", {})]
    result = await governed(runtime, free_fails, free_works, calls=calls).run("go")
    assert result.output.split("; ") == [*(f"failed: no {number}" for number in range(8)), "success: works"]

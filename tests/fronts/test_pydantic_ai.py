"""Pydantic AI: an agent reads, edits, asks, is denied and mends its calls, all through the gate."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip("pydantic_ai", reason="needs the extra [agent]")

from pydantic import TypeAdapter
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import BinaryContent, ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolApproved

from approving import shown_digest
from behaviour._commands import need_sandbox
from handrail import Runtime, tool
from handrail.errors import Misuse
from handrail.ports import Reply
from handrail.pydantic_ai import APPROVAL, Governance, HandrailToolset

HANDRAIL = str(Path(sys.executable).with_name("handrail"))
Calls = list[tuple[str, dict[str, Any]]]
RULES = [
    {"effect": "ask", "touch": "fs.write", "target": "asked/**"},
    {"effect": "deny", "touch": "fs.write", "target": "no/**"},
]


@pytest.fixture
async def runtime(work: Path, own_user: Path) -> AsyncIterator[Runtime]:
    """A runtime that nobody watches: what must be asked for becomes a request on record."""
    (work / "a.txt").write_text("one\ntwo\n")
    config = {"tools": {"enable": ["fs"]}, "rules": RULES}
    async with Runtime.open(work, config=config, mode="headless", caller="pydantic-ai") as opened:
        yield opened


def scripted(*steps: Callable[[list[Any]], Calls | str] | Calls | str) -> FunctionModel:
    """A model that makes these calls one after the other; a function sees what came back last."""
    state = iter(enumerate(steps))

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        number, step = next(state)
        back = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        made = step(back) if callable(step) else step
        if isinstance(made, str):
            return ModelResponse(parts=[TextPart(made)])
        return ModelResponse(
            parts=[ToolCallPart(name, args, tool_call_id=f"c{number}_{i}") for i, (name, args) in enumerate(made)]
        )

    return FunctionModel(answer)


def agent(model: FunctionModel, *toolsets: HandrailToolset, **how: Any) -> Agent[None, Any]:
    return Agent(model, toolsets=list(toolsets), output_type=[str, DeferredToolRequests], **how)


def kinds(runtime: Runtime) -> list[tuple[str, str | None]]:
    from handrail.store import reader

    found = reader.events(runtime.parts.folder.path)
    return [(event["kind"], event.get("code")) for event in found if event["kind"].startswith(("tool", "approval"))]


async def test_an_agent_reads_and_edits_through_the_gate(runtime: Runtime, work: Path) -> None:
    """What the model asks for is done, and on record."""
    model = scripted(
        [("read_file", {"path": "a.txt"})],
        [("edit_file", {"path": "a.txt", "edits": [{"old": "two", "new": "2"}]})],
        lambda back: f"done: {back[0].outcome}",
    )
    result = await agent(model, HandrailToolset(runtime)).run("go")
    assert (result.output, (work / "a.txt").read_text()) == ("done: success", "one\n2\n")
    assert kinds(runtime) == [("tool.started", None), ("tool.completed", None)] * 2


async def test_a_model_mends_a_wrong_call_from_the_error_alone(runtime: Runtime) -> None:
    """The answer to a wrong call holds what the right one needs."""

    def mended(back: list[Any]) -> Calls:
        assert back[0].outcome == "retried"
        assert "did you mean path?" in str(back[0].content)
        return [("read_file", {"path": "a.txt"})]

    model = scripted([("read_file", {"pth": "a.txt"})], mended, lambda back: back[0].content)
    result = await agent(model, HandrailToolset(runtime)).run("go")
    assert result.output == "one\ntwo\n"


async def test_a_denied_call_is_told_and_ends_nothing(runtime: Runtime, work: Path) -> None:
    """The model sees the rule and goes on."""
    model = scripted(
        [("write_file", {"path": "no/x.txt", "content": "x"})],
        lambda back: f"{back[0].outcome}: {back[0].content.splitlines()[0]}",
    )
    result = await agent(model, HandrailToolset(runtime)).run("go")
    assert result.output == "failed: POLICY_DENIED: Denied: the rule at python says deny."
    assert not (work / "no").exists()


async def asked(runtime: Runtime, args: dict[str, Any]) -> tuple[Agent[None, Any], Any]:
    """Run until the call waits for a person; only bytes survive the wait."""
    model = scripted(
        [("write_file", args)], lambda back: f"{back[0].outcome}: {back[0].content.splitlines()[0]}", "again"
    )
    waiting = agent(model, HandrailToolset(runtime))
    first = await waiting.run("go")
    assert isinstance(first.output, DeferredToolRequests)
    adapter = TypeAdapter(DeferredToolRequests)
    return waiting, (first.all_messages(), adapter.validate_json(adapter.dump_json(first.output)))


ARGS = {"path": "asked/x.txt", "content": "x"}


@pytest.mark.parametrize("elsewhere", [False, True], ids=["by the program", "in another terminal"])
async def test_an_approved_call_resumes_and_runs_once(runtime: Runtime, work: Path, elsewhere: bool) -> None:
    """Whoever grants it: it runs, and replaying the same approval runs nothing."""
    waiting, (history, requests) = await asked(runtime, ARGS)
    (about,) = [told[APPROVAL] for told in requests.metadata.values()]
    assert (sorted(about), (work / "asked").exists()) == (["approval", "diff", "digest", "impact", "reason"], False)
    if elsewhere:
        runtime.parts.ledger.answer(about["approval"], Reply("granted", by="ann"))
    results = requests.build_results(approve_all=True, metadata=requests.metadata)
    done = await waiting.run(message_history=history, deferred_tool_results=results)
    assert done.output.startswith("success: Created asked/x.txt"), done.output
    (work / "asked" / "x.txt").unlink()
    twice = await waiting.run(message_history=history, deferred_tool_results=results)
    assert (twice.output, (work / "asked" / "x.txt").exists()) == ("again", False)
    granted = runtime.parts.ledger.find(about["approval"])
    assert (granted.state, granted.reply and granted.reply.by) == ("used", "ann" if elsewhere else "pydantic-ai")


async def test_arguments_changed_after_approval_are_refused(runtime: Runtime, work: Path) -> None:
    """An approval covers the call that was shown, and no other."""
    waiting, (history, requests) = await asked(runtime, ARGS)
    (call,) = requests.approvals
    other = ToolApproved(override_args={**ARGS, "content": "evil"})
    results = DeferredToolResults(approvals={call.tool_call_id: other}, metadata=requests.metadata)
    done = await waiting.run(message_history=history, deferred_tool_results=results)
    assert done.output.startswith("failed: APPROVAL_DENIED"), done.output
    assert not (work / "asked").exists()
    (about,) = [told[APPROVAL] for told in requests.metadata.values()]
    assert runtime.parts.ledger.find(about["approval"]).state == "pending"  # a yes to these is none to the former ones
    _, (_, anew) = await asked(runtime, ARGS)
    assert isinstance(anew, DeferredToolRequests)


async def test_an_approval_of_one_call_lifts_no_other(runtime: Runtime, work: Path) -> None:
    """A yes without our request on record is no authority."""
    waiting, (history, requests) = await asked(runtime, ARGS)
    (call,) = requests.approvals
    forged = {call.tool_call_id: {APPROVAL: {"approval": "apr_aaaaaaaaaa"}}}
    results = DeferredToolResults(approvals={call.tool_call_id: True}, metadata=forged)
    done = await waiting.run(message_history=history, deferred_tool_results=results)
    assert done.output.startswith("failed: APPROVAL_DENIED"), done.output
    assert not (work / "asked").exists()


async def test_a_toolset_offers_one_group_and_refuses_an_empty_one(runtime: Runtime) -> None:
    """The tools of one toolset alone; a name that offers nothing is a mistake of the program."""
    offered: list[str] = []

    def look(_: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        offered.extend(sorted(tool.name for tool in info.function_tools))
        return ModelResponse(parts=[TextPart("ok")])

    await agent(FunctionModel(look), HandrailToolset(runtime, "search")).run("go")
    assert {"find_files", "grep"} <= set(offered)
    assert "read_file" not in offered
    with pytest.raises(Misuse, match="no tool of the toolset"):
        await agent(FunctionModel(look), HandrailToolset(runtime, "nothing")).run("go")


async def test_tools_are_described_once_and_again_when_one_is_added(runtime: Runtime) -> None:
    """The same definitions step by step, which cost an agent nothing then; a tool added later is offered."""

    @tool(pure=True)
    async def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    toolset, ctx = HandrailToolset(runtime), cast("Any", None)
    first = await toolset.get_tools(ctx)
    again = await toolset.get_tools(ctx)
    runtime.add(shout)
    later = await toolset.get_tools(ctx)
    assert again is first
    assert {item.tool_def.toolset_id for item in later.values()} == {toolset.id}
    assert set(later) - set(first) == {"shout"}


async def test_a_model_is_given_an_image_as_one(runtime: Runtime, work: Path) -> None:
    """Its bytes and type beside what is said of it; the metadata does not hold them again."""
    (work / "i.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    seen: list[Any] = []

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("read_media", {"path": "i.png"})])
        seen.extend(messages[-1].parts)
        return ModelResponse(parts=[TextPart("done")])

    await agent(FunctionModel(answer), HandrailToolset(runtime)).run("go")
    back = next(part for part in seen if isinstance(part, ToolReturnPart))
    assert (back.content, "base64" in back.metadata["data"]) == ("i.png: image/png, 8 bytes", False)
    shown = [item for part in seen if not isinstance(part, ToolReturnPart) for item in part.content]
    assert [(item.data, item.media_type) for item in shown if isinstance(item, BinaryContent)] == [
        (b"\x89PNG\r\n\x1a\n", "image/png")
    ]


async def test_an_agents_own_tools_pass_the_gate_too(work: Path, own_user: Path) -> None:
    """A rule allows one, another asks, and our own tools are judged once."""
    ran: list[str] = []

    def weather(city: str) -> str:
        ran.append(city)
        return f"sunny in {city}, key ghp_{'a1B2c3D4e5F6' * 3}"

    def transfer(amount: int) -> str:
        ran.append(str(amount))
        return "sent"

    rules = [{"effect": "allow", "touch": "tool.use", "target": "weather"}]
    async with Runtime.open(work, config={"rules": rules}, mode="headless") as runtime:
        model = scripted(
            [("weather", {"city": "Bonn"}), ("now", {})],
            lambda back: [("transfer", {"amount": 5})] if "***REDACTED***" in str(back[0].content) else str(back),
        )
        made: Agent[None, Any] = Agent(
            model,
            tools=[weather, transfer],
            toolsets=[HandrailToolset(runtime)],
            capabilities=[Governance(runtime)],
            output_type=[str, DeferredToolRequests],
        )
        result = await made.run("go")
        assert isinstance(result.output, DeferredToolRequests), result.output
        (told,) = result.output.metadata.values()
        assert (ran, told[APPROVAL]["impact"]) == (["Bonn"], {"uses": ["transfer"]})
        assert kinds(runtime).count(("tool.completed", None)) == 2


async def test_what_an_agents_own_tool_tells_the_model_is_hidden(work: Path, own_user: Path) -> None:
    """Also where it asks for another try, or fails, in words of its own."""

    def retries() -> str:
        raise ModelRetry(f"use ghp_{'a1B2c3D4e5F6' * 3} instead")

    rules = [{"effect": "allow", "touch": "tool.use", "target": "retries"}]
    async with Runtime.open(work, config={"rules": rules}, mode="headless") as runtime:
        model = scripted([("retries", {})], lambda back: str(back[0].content))
        made: Agent[None, Any] = Agent(model, tools=[retries], capabilities=[Governance(runtime)], output_type=str)
        result = await made.run("go")
    assert "use ***REDACTED*** instead" in result.output
    assert "ghp_" not in str(result.all_messages())


async def answered(*words: str) -> None:
    """Have a person answer a request in a process of their own."""
    command = [HANDRAIL, "approvals", *words]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


async def test_a_call_denied_elsewhere_stays_denied_whatever_the_program_says(runtime: Runtime, work: Path) -> None:
    """The program's own yes comes after a person's no; the person's advice is told."""
    waiting, (history, requests) = await asked(runtime, ARGS)
    (about,) = [told[APPROVAL] for told in requests.metadata.values()]
    await answered("deny", about["approval"], "--advice", "use tea")
    results = requests.build_results(approve_all=True, metadata=requests.metadata)
    done = await waiting.run(message_history=history, deferred_tool_results=results)
    assert (done.output.startswith("failed: APPROVAL_DENIED"), "use tea" in done.output) == (True, True), done.output
    assert not (work / "asked").exists()


async def test_a_command_waits_for_approval_elsewhere_and_resumes(work: Path, own_user: Path) -> None:
    """Pending, granted in another terminal, resumed: the command ran once, in the sandbox."""
    need_sandbox()
    async with Runtime.open(work, config={"tools": {"enable": ["exec"]}}, mode="headless") as runtime:
        line = {"command": "echo made >> made.txt && python3 -c 'print(6 * 7)'"}
        model = scripted([("run_command", line)], lambda back: back[0].content)
        waiting = agent(model, HandrailToolset(runtime, "exec"))
        first = await waiting.run("go")
        assert isinstance(first.output, DeferredToolRequests)
        (about,) = [told[APPROVAL] for told in first.output.metadata.values()]
        assert not (work / "made.txt").exists()
        await answered("grant", about["approval"], "--digest", shown_digest(about["approval"]))
        results = first.output.build_results(approve_all=True, metadata=first.output.metadata)
        done = await waiting.run(message_history=first.all_messages(), deferred_tool_results=results)
        assert done.output.splitlines()[0] == "42"
        assert (work / "made.txt").read_text() == "made\n"

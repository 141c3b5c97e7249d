"""Function-calling APIs: tools described and calls answered in the form of OpenAI and Anthropic, and two frameworks."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fronts._packages import need
from handrail import Runtime, tool
from handrail.errors import Misuse
from handrail.store.reader import events


@pytest.fixture
async def runtime(work: Path, own_user: Path) -> AsyncIterator[Runtime]:
    """A runtime that nobody watches."""
    (work / "a.txt").write_text("one\n")
    async with Runtime.open(work, config={}, mode="headless") as opened:
        yield opened


TAKEN = re.compile("[a-zA-Z0-9_-]{1,64}")  # the names that function-calling APIs take
ARGS = '{"path": "a.txt"}'
TWICE = '{"path": "a.txt", "path": "b.txt"}'
CALLS = {
    "chat": {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": ARGS}},
    "responses": {"type": "function_call", "call_id": "c1", "name": "read_file", "arguments": ARGS},
    "anthropic": {"type": "tool_use", "id": "c1", "name": "read_file", "input": {"path": "a.txt"}},
}
ANSWERS = {
    "chat": {"role": "tool", "tool_call_id": "c1", "content": "one\n"},
    "responses": {"type": "function_call_output", "call_id": "c1", "output": "one\n"},
    "anthropic": {"type": "tool_result", "tool_use_id": "c1", "content": "one\n", "is_error": False},
}


@pytest.mark.parametrize("form", CALLS)
async def test_a_call_is_answered_in_the_form_it_came_in(runtime: Runtime, form: str) -> None:
    """The same read, three ways to ask."""
    assert await runtime.call_from(CALLS[form]) == ANSWERS[form]


async def test_tools_are_described_as_each_api_wants_them(runtime: Runtime) -> None:
    """The same schema under each API's names."""
    native = {spec["name"]: spec for spec in runtime.tools()}["hash_file"]
    chat = [item for item in runtime.tools(format="openai") if item["function"]["name"] == "hash_file"]
    messages = [item for item in runtime.tools(format="anthropic") if item["name"] == "hash_file"]
    told = {"name": "hash_file", "description": native["description"]}
    assert chat == [{"type": "function", "function": {**told, "parameters": native["args_schema"]}}]
    assert messages == [{**told, "input_schema": native["args_schema"]}]
    with pytest.raises(Misuse, match="no format 'x'; there are: openai, anthropic"):
        runtime.tools(format="x")


async def test_a_key_that_stands_twice_is_refused_and_on_record(runtime: Runtime) -> None:
    """Neither the first nor the last one wins."""
    call = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": TWICE}}
    answer = await runtime.call_from(call)
    assert answer["content"].startswith(
        "INVALID_ARGS: The arguments are no JSON object: the key 'path' stands twice in one object."
    )


@pytest.mark.parametrize("wrong", [{"type": "text"}, {"type": "tool_use", "id": "x"}, "read_file", {"function": {}}])
async def test_what_is_no_call_is_misuse(runtime: Runtime, wrong: Any) -> None:
    """A program that hands in something else is told so."""
    with pytest.raises(Misuse):
        await runtime.call_from(wrong)


async def test_langchain_calls_through_the_gate(runtime: Runtime) -> None:
    """Content for the model, the whole outcome as artifact, errors as text."""
    need("langchain_core", "needs langchain-core")
    from handrail.langchain import tools

    read = {tool.name: tool for tool in tools(runtime, "fs")}["read_file"]
    message = await read.ainvoke({"name": "read_file", "args": {"path": "a.txt"}, "id": "c1", "type": "tool_call"})
    assert (message.content, message.artifact["status"]) == ("one\n", "ok")
    assert (await read.ainvoke({"path": "nothing"})).startswith("NOT_FOUND: nothing does not exist.")


@pytest.mark.parametrize("name", ["self", "config", "run_manager", "callbacks", "args", "kwargs", "coroutine", "x"])
async def test_langchain_hands_every_argument_to_the_gate(runtime: Runtime, name: str) -> None:
    """None is dropped or crashes because LangChain uses its name: the gate says that there is no such argument."""
    need("langchain_core", "needs langchain-core")
    from handrail.langchain import tools

    read = {tool.name: tool for tool in tools(runtime, "fs")}["read_file"]
    call = {"name": "read_file", "args": {"path": "a.txt", name: 1}, "id": "c1", "type": "tool_call"}
    message = await read.ainvoke(call)
    assert (message.status, f"`{name}`: not known" in message.content) == ("error", True)


async def test_langchain_takes_an_argument_named_as_its_own_things(work: Path, own_user: Path) -> None:
    """Where a tool has one, it is given what the model wrote."""
    need("langchain_core", "needs langchain-core")
    from handrail.langchain import tools

    @tool(pure=True)
    async def told(config: str, run_manager: int) -> str:
        """Tell what was given."""
        return f"{config} {run_manager}"

    async with Runtime.open(work, config={}, mode="headless", tools=[told]) as runtime:
        (ours,) = [item for item in tools(runtime) if item.name == "told"]
        assert await ours.ainvoke({"config": "a", "run_manager": 1}) == "a 1"


@pytest.mark.parametrize("given", [[], 7, True, 0, [{"path": "a.txt"}]])
async def test_arguments_that_are_no_object_are_refused(runtime: Runtime, given: Any) -> None:
    """They are not taken for none."""
    for call in (
        {"type": "tool_use", "id": "c1", "name": "list_dir", "input": given},
        {"type": "function_call", "call_id": "c1", "name": "list_dir", "arguments": given},
    ):
        answer = await runtime.call_from(call)
        told = answer.get("content") or answer["output"]
        assert told.startswith(f"INVALID_ARGS: The arguments are no JSON object: it is of type {type(given).__name__}.")


async def test_openai_agents_call_through_the_gate(runtime: Runtime) -> None:
    """The model's own text is read strictly."""
    need("agents", "needs openai-agents")
    from handrail.openai_agents import tools

    read = {tool.name: tool for tool in tools(runtime)}["read_file"]
    context: Any = None
    assert await read.on_invoke_tool(context, ARGS) == "one\n"
    assert (await read.on_invoke_tool(context, TWICE)).startswith("INVALID_ARGS: The arguments are no JSON object")


READS = {
    "skills-agent": "read_file",
    "clude": "read_file",
    "tool-hub": "core_fs_readText",  # no API takes `core/fs.readText`
    "kgent": "read_file",
    "autonous": "read",
}
MISSING = "NOT_FOUND: nothing does not exist."


def tools_called(runtime: Runtime) -> list[str]:
    """The tools that the journal names, in our words."""
    runtime.parts.journal.flush()
    return [event["tool"] for event in events(runtime.parts.folder.path) if event["kind"] == "tool.started"]


@pytest.mark.parametrize("dialect", READS)
async def test_langchain_offers_a_dialects_tools(work: Path, dialect: str) -> None:
    """Under names that its APIs take, with the dialect's arguments, and read by the same tool of ours."""
    need("langchain_core", "needs langchain-core")
    from handrail.langchain import tools

    (work / "a.txt").write_text("one\n")
    async with Runtime.open(work, config={}, mode="headless", dialect=dialect) as runtime:
        offered = {tool.name: tool for tool in tools(runtime)}
        read = offered[READS[dialect]]
        told = await read.ainvoke({"name": read.name, "args": {"path": "a.txt"}, "id": "c1", "type": "tool_call"})
        missing = await read.ainvoke({"path": "nothing"})
        assert tools_called(runtime) == ["read_file"] * 2
    assert (told.content, told.artifact["status"], missing.splitlines()[0]) == ("one\n", "ok", MISSING)
    assert [name for name in offered if not TAKEN.fullmatch(name)] == []


@pytest.mark.parametrize("dialect", READS)
async def test_openai_agents_offer_a_dialects_tools(work: Path, dialect: str) -> None:
    """Likewise."""
    need("agents", "needs openai-agents")
    from handrail.openai_agents import tools

    (work / "a.txt").write_text("one\n")
    context: Any = None
    async with Runtime.open(work, config={}, mode="headless", dialect=dialect) as runtime:
        offered = {tool.name: tool for tool in tools(runtime)}
        read = offered[READS[dialect]]
        told = await read.on_invoke_tool(context, ARGS)
        missing = await read.on_invoke_tool(context, '{"path": "nothing"}')
        twice = await read.on_invoke_tool(context, TWICE)
        assert tools_called(runtime) == ["read_file"] * 2
    assert (told, missing.splitlines()[0]) == ("one\n", MISSING)
    assert twice.startswith("INVALID_ARGS: The arguments are no JSON object")
    assert [name for name in offered if not TAKEN.fullmatch(name)] == []


@pytest.mark.parametrize(("package", "module"), [("langchain_core", "langchain"), ("agents", "openai_agents")])
async def test_a_toolset_that_is_not_there_is_misuse(runtime: Runtime, package: str, module: str) -> None:
    """An agent without tools would tell nobody of the slip."""
    need(package, f"needs {package}")
    tools = import_module(f"handrail.{module}").tools
    with pytest.raises(Misuse, match="no tool of the toolset 'nope' is enabled; see `handrail tools list`"):
        tools(runtime, "nope")


def test_a_missing_framework_fails_where_everything_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere it is skipped, with the reason."""
    monkeypatch.setenv("CI", "true")
    with pytest.raises(AssertionError, match="needs nothing"):
        need("no_such_framework", "needs nothing")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="needs nothing"):
        need("no_such_framework", "needs nothing")

"""Half of a surrogate pair in a message: nobody waits for ever, and a model is told which argument to mend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fronts.mcp_talk import Talk
from fronts.test_mcp_codec import talking
from handrail.front.mcp import wire
from handrail.front.mcp.guard import Stopped, parsed
from handrail.store.reader import events

HALF = "cut \ud83d"
CALL = {"name": "write_file", "arguments": {"path": "w.txt", "content": HALF}}
OLD = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}


def line(method: str, params: Any, request_id: Any = 7) -> bytes:
    """A request, written as JSON that `json` alone reads."""
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode() + b"\n"


async def answer(talk: Talk, request_id: Any = 7) -> dict[str, Any]:
    """What is answered to a request."""
    return await talk.until(lambda message: message.get("id") == request_id)


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "stateless"])
async def test_a_call_with_half_a_pair_is_refused_with_its_argument(work: Path, modern: bool) -> None:
    """As a result that a model can mend, on record like every wrong call; nothing is written."""
    async with talking(work, modern=modern, config={"tools": {"enable": ["fs"]}}) as (talk, door):
        talk.say("tools/call", CALL, 7)
        result = (await answer(talk))["result"]
        folder = door.runtime.parts.folder.path
        door.runtime.parts.journal.flush()
        codes = [event.get("code") for event in events(folder) if event["kind"] == "tool.failed"]
    said = "The arguments do not fit: `content` cannot be written as JSON: half of a surrogate pair at character 5."
    assert (result["isError"], said in result["content"][0]["text"], codes) == (True, True, ["INVALID_ARGS"])
    assert (work / "w.txt").exists() is False


@pytest.mark.parametrize(
    "args",
    [
        {"path": "\ud83d"},
        {"\udc00": 1, "path": "a"},
        {"path": "a", "x": ["\ud83d", {"\ud83d": {}}]},
        {"path": ["\ud83d"]},
    ],
)
@pytest.mark.parametrize("tool", ["read_file", "list_dir", "no_such", "grep", "find_files"])
async def test_wherever_in_the_arguments_half_a_pair_stands_the_call_is_refused(
    work: Path, tool: str, args: dict[str, Any]
) -> None:
    """With an answer under its id, and the next request is answered."""
    async with talking(work) as (talk, _):
        talk.raw(line("tools/call", {"name": tool, "arguments": args}))
        told = await answer(talk)
        assert told["result"]["isError"] is True
        assert (await talk.ask("ping"))["result"] == {}


@pytest.mark.parametrize(
    "params",
    [
        {"name": "\ud83d", "arguments": {}},
        {"name": "now", "arguments": {}, "_meta": {"progressToken": "\ud83d"}},
        {"name": "now", "arguments": ["\ud83d"]},
        {"name": "now", "arguments": {"a": "\ud83d"}, "_meta": {"progressToken": {}}},
    ],
)
async def test_half_a_pair_elsewhere_in_a_call_is_an_error_under_its_id(work: Path, params: Any) -> None:
    """No name and no token can have it."""
    async with talking(work) as (talk, _):
        talk.raw(line("tools/call", params, "mine"))
        told = await answer(talk, "mine")
    assert told["error"]["code"] == -32600


async def test_a_client_of_an_old_version_is_answered_too(work: Path) -> None:
    """Its calls are the SDK's, which takes no such message."""
    async with talking(work) as (first, door):
        talk = Talk(door, modern=False)
        talk.raw(line("initialize", OLD, 1))
        assert (await answer(talk, 1))["result"]["protocolVersion"] == "2024-11-05"
        talk.raw(line("tools/call", CALL))
        told = await answer(talk)
        await talk.close()
        assert (await first.ask("ping"))["result"] == {}
    assert told["error"] == {
        "code": -32600,
        "message": "The message is no strict JSON: half of a surrogate pair at character 5",
    }


def test_over_http_the_same_holds() -> None:
    """A call with crooked arguments goes on to their gate; any other message is stopped under its id."""
    assert parsed(line("tools/call", CALL))["params"] == CALL
    with pytest.raises(Stopped) as stopped:
        parsed(line("ping", {"a": HALF}))
    assert (stopped.value.status, json.loads(stopped.value.body)["id"]) == (400, 7)
    with pytest.raises(Stopped) as stopped:
        parsed(b"{")
    assert (stopped.value.status, json.loads(stopped.value.body)["id"]) == (400, None)


def test_arguments_with_a_second_fault_are_no_call() -> None:
    """A key twice or a depth without end is never guessed at."""
    twice = line("tools/call", CALL).replace(b'"path"', b'"content": 1, "path"')
    deep = line("tools/call", CALL).replace(b'"w.txt"', b"[" * 300 + b"]" * 300)
    assert [wire.crooked(twice), wire.crooked(deep), wire.crooked(b"[" * 100_000)] == [
        (7, None),
        (7, None),
        (None, None),
    ]

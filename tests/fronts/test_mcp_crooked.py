"""Requests that are shaped otherwise than the protocol says: refused alike, whichever way they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fronts.mcp_ends import CLIENT
from fronts.mcp_http import session, told
from fronts.mcp_talk import Talk
from handrail.front.mcp.door import Door
from handrail.front.mcp.opening import Opening

METHODS = ("ping", "tools/list", "resources/list", "prompts/list", "tools/call")
CROOKED: list[Any] = [5, [], "x", {"progressToken": 1.5}, {"progressToken": None}, {"progressToken": []}]
METAS: list[Any] = [*CROOKED, None, {}]
IDS: list[Any] = [None, 1.5, True, [], {}]


def _params(method: str, meta: Any) -> dict[str, Any]:
    return {"_meta": meta, **({"name": "now", "arguments": {}} if method == "tools/call" else {})}


async def _code(talk: Talk, method: str, meta: Any) -> Any:
    """Ask on stdio, and give the code of a refusal."""
    talk._number += 1
    number = talk._number
    talk.raw(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": _params(method, meta)}).encode())
    answer = await talk.until(lambda message: message.get("id") == number)
    return answer.get("error", {}).get("code")


async def _codes(door: Door, *, sdk: bool) -> dict[tuple[str, str], Any]:
    talk = Talk(door, modern=False, sdk=sdk)
    await talk.greet()
    found = {(method, str(meta)): await _code(talk, method, meta) for method in METHODS for meta in METAS}
    await talk.close()
    return found


async def test_the_codec_refuses_the_meta_that_the_sdk_refuses(work: Path, own_user: Path) -> None:
    """For every method that it answers itself, with the same code."""
    async with Door(Opening(str(work), {})) as door:
        codec, sdk = await _codes(door, sdk=False), await _codes(door, sdk=True)
    assert codec == sdk
    assert {codec[method, str(meta)] for method in METHODS for meta in CROOKED} == {-32602}
    assert {codec[method, "{}"] for method in METHODS} == {None}


async def test_a_handshake_with_a_crooked_meta_is_refused(work: Path, own_user: Path) -> None:
    """And so is what follows it, until there is a right one."""
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT, "_meta": 5}
    async with Door(Opening(str(work), {})) as door:
        talk = Talk(door, modern=False)
        assert (await talk.ask("initialize", about))["error"]["code"] == -32602
        assert "error" in await talk.ask("tools/list")
        assert "result" in await talk.greet()
        assert "result" in await talk.ask("tools/list")
        await talk.close()


@pytest.mark.parametrize("way", [{}, {"Mcp-Param-X": "1"}], ids=["short", "sdk"])
async def test_crooked_requests_over_http_are_refused(work: Path, own_user: Path, way: dict[str, str]) -> None:
    """With an answer that says so: an id that is none makes no notification, and metadata has its shape."""
    async with session(Opening(str(work), {})) as http:
        for crooked in IDS:
            answer = await http.post({"id": crooked, "method": "ping"}, **way)
            assert (answer.status_code, told(answer)["id"], told(answer)["error"]["code"]) == (400, None, -32600)
        for method in METHODS:
            for meta in CROOKED:
                answer = await http.post({"id": 1, "method": method, "params": _params(method, meta)}, **way)
                assert told(answer)["error"]["code"] == -32602, (method, meta)
            answer = await http.post({"id": 1, "method": method, "params": _params(method, {})}, **way)
            assert "result" in told(answer)

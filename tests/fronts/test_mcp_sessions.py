"""A session over HTTP that ends takes its calls with it, and those of nobody else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fronts.mcp_http import Http, session
from handrail import Tool, tool
from handrail.front.mcp import http as fronts
from handrail.front.mcp.opening import Opening

WAYS = pytest.mark.parametrize("meta", [{}, {"_meta": {"progressToken": "p"}}], ids=["short", "sdk"])


class Waits:
    """A tool that waits until it is stopped."""

    def __init__(self) -> None:
        self.began: asyncio.Queue[int] = asyncio.Queue()
        self.stopped: asyncio.Queue[int] = asyncio.Queue()

    def made(self) -> Tool:
        """The tool."""

        @tool(pure=True)
        async def waits(number: int) -> str:
            """Wait for ever."""
            self.began.put_nowait(number)
            try:
                await asyncio.Event().wait()
            finally:
                self.stopped.put_nowait(number)
            return "never"

        return waits


async def _begun(http: Http, waits: Waits, number: int, more: dict[str, Any]) -> asyncio.Task[Any]:
    params = {"name": "waits", "arguments": {"number": number}, **more}
    calling = asyncio.ensure_future(http.post({"id": 1, "method": "tools/call", "params": params}))
    assert await asyncio.wait_for(waits.began.get(), 10) == number
    return calling


@WAYS
async def test_leaving_a_session_stops_its_calls(work: Path, own_user: Path, meta: dict[str, Any]) -> None:
    """However they are answered; the same id of another session names another call."""
    waits = Waits()
    async with asyncio.timeout(30), session(Opening(str(work), {}, tools=(waits.made(),))) as http:
        other = await http.another()
        calls = [await _begun(http, waits, 1, meta), await _begun(other, waits, 2, meta)]
        assert await http.leave() == 200
        assert await waits.stopped.get() == 1
        assert (waits.stopped.empty(), (await other.post({"id": 2, "method": "ping"})).status_code) == (True, 200)
        assert await other.leave() == 200
        assert await waits.stopped.get() == 2
        await asyncio.gather(*calls, return_exceptions=True)


@WAYS
async def test_a_session_that_makes_room_for_another_takes_its_calls_with_it(
    work: Path, own_user: Path, monkeypatch: pytest.MonkeyPatch, meta: dict[str, Any]
) -> None:
    """Nobody could ever stop them else."""
    monkeypatch.setattr(fronts, "MOST_SESSIONS", 1)
    waits = Waits()
    async with asyncio.timeout(30), session(Opening(str(work), {}, tools=(waits.made(),))) as http:
        calling = await _begun(http, waits, 1, meta)
        await http.another()
        assert await waits.stopped.get() == 1
        await asyncio.gather(calling, return_exceptions=True)
        assert http.front._asked == {}

"""The MCP front ends: `handrail mcp` asked by lines over stdio, and over HTTP by the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from fronts.front_ends import RUN, CliFront, Done, Front, Place
from fronts.scenarios import Do
from fronts.zygote import Zygote
from handrail import Problem
from handrail.compose import SystemClock
from handrail.front.mcp.door import Door
from handrail.front.mcp.guard import guard_for
from handrail.front.mcp.http import application
from handrail.front.mcp.opening import Opening
from handrail.front.mcp.results import outcome_of
from handrail.store.ledger import SqliteLedger

TOKEN = "a-token-for-the-scenarios"
CLIENT = {"name": "scenarios", "version": "1"}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
HANDSHAKE: list[dict[str, Any]] = [
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


class McpFront:
    """What both transports share; approvals are answered and runs undone as people do it."""

    def __init__(self, place: Place, era: str) -> None:
        self.place, self.era = place, era
        self._elsewhere = CliFront(place)

    def call(self, do: Do) -> Done:
        kinds = None if do.permissions is None else do.permissions.split(",")
        meta = {"handrail/key": do.key, "handrail/permissions": kinds, "handrail/skill": do.skill}
        return self._made(do.tool, dict(do.args), {name: value for name, value in meta.items() if value is not None})

    def replay(self, request: str) -> Done:
        book = SqliteLedger(self.place.home / "state" / "handrail" / "ledger.db", SystemClock())
        try:
            args, asked = book.args(request), book.find(request).request
        except Problem as problem:
            return Done(None, code=problem.code.value)
        return self._made(asked.tool, args, {"handrail/approval": request})

    def undo(self) -> Done:
        return self._elsewhere.undo()

    def answer(self, request: str, word: str) -> None:
        self._elsewhere.answer(request, word)

    def _made(self, tool: str, args: dict[str, Any], meta: dict[str, Any]) -> Done:
        outcome = outcome_of(self.result(tool, args, meta))
        return Done(outcome, code=(outcome["error"] or {}).get("code"))

    def result(self, tool: str, args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
        """Make one call, and give its result as it came."""
        raise NotImplementedError


class StdioFront(McpFront):
    """`handrail mcp`, asked by lines; each call is a process of its own in the same run."""

    def result(self, tool: str, args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
        modern = self.era == "stateless"
        params = {"name": tool, "arguments": args, "_meta": {**meta, **(ENVELOPE if modern else {})}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        lines = "".join(f"{json.dumps(line)}\n" for line in ([] if modern else HANDSHAKE) + [call])
        place = self.place
        argv = ["mcp", "--run", RUN, "--config", str(place.config)]
        with answered(place.zygote, lines.encode()):
            ended = place.zygote.run(argv, place.work, self._elsewhere._env)
        assert (ended.code, "Traceback" in ended.err) == (0, False), ended
        answers = [json.loads(line) for line in ended.out.splitlines()]
        result: dict[str, Any] = next(answer["result"] for answer in answers if answer.get("id") == 1)
        return result


@contextmanager
def answered(zygote: Zygote, lines: bytes) -> Iterator[None]:
    """Give the next command these lines, and keep its stdin open until it has answered the request with the id 1.

    What still runs when stdin ends is stopped, which is no business of a scenario.
    """
    base = zygote._folder / f"{zygote._number + 1}"
    source, target, over = base.with_suffix(".in"), base.with_suffix(".out"), threading.Event()
    os.mkfifo(source)

    def hold(handle: int) -> None:
        with open(handle, "wb", buffering=0) as stdin:
            left = memoryview(lines)
            while left:
                left = left[stdin.write(left) :]
            while not over.wait(0.005) and not (target.exists() and b'"id":1,' in target.read_bytes()):
                pass

    # For reading too, so that it opens before anybody reads.
    holding = threading.Thread(target=hold, args=(os.open(source, os.O_RDWR | os.O_CLOEXEC),))
    holding.start()
    try:
        yield
    finally:
        over.set()
        holding.join()


class HttpFront(McpFront):
    """The application behind a real socket, asked by the SDK's own client, in a home of its own."""

    def result(self, tool: str, args: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
        async def run() -> dict[str, Any]:
            opening = Opening(str(self.place.work), str(self.place.config), RUN)
            async with connected(opening, self.era) as client:
                result = await client.call_tool(tool, args, meta=cast("Any", meta))
                return result.model_dump(by_alias=True, mode="json")

        with self._home():
            return asyncio.run(run())

    @contextmanager
    def _home(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("STATE", "CONFIG", "CACHE"):
                patch.setenv(f"XDG_{name}_HOME", str(self.place.home / name.lower()))
            yield


@asynccontextmanager
async def serving(front: Any) -> AsyncIterator[str]:
    """An application on a free port."""
    config = uvicorn.Config(front, "127.0.0.1", 0, log_level="warning", access_log=False)
    config.load()
    server = uvicorn.Server(config)
    # As `serve` does, but without its loop, which looks only ten times a second whether to end.
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        await server.shutdown()


@asynccontextmanager
async def connected(opening: Opening, era: str, **how: Any) -> AsyncIterator[Client]:
    """The SDK's client, connected over HTTP."""
    mode: Any = "legacy" if era == "handshake" else "2026-07-28"
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with (
        Door(opening) as door,
        serving(application(door, guard_for("127.0.0.1", TOKEN))[0]) as url,
        httpx2.AsyncClient(headers=headers, verify=False) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, **how) as client,
    ):
        yield client


ENDS: dict[str, Callable[[Place, str], Front]] = {"stdio": StdioFront, "http": HttpFront}

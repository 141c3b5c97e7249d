"""MCP over HTTP in the service: one run for each identity and workspace, loaded when a client first asks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from handrail.errors import Code, Fault
from handrail.front.web.access import KEY, Access
from handrail.front.web.problems import problem_response
from handrail.service.identities import Identity
from handrail.service.inbox import Refusal
from handrail.service.service import Service

if TYPE_CHECKING:
    from handrail.front.mcp.door import Door
    from handrail.front.mcp.http import Front

log = logging.getLogger("handrail.service")
PATH = "/mcp"
Key = tuple[str, str]  # identity, workspace


@dataclass(slots=True)
class Mounted:
    """One MCP server: its run, its application, the task that holds it open."""

    door: Door
    front: Front
    task: asyncio.Task[None]
    ends: asyncio.Event
    used: float = 0.0
    busy: int = 0


class McpMount:
    """The ASGI application at `/mcp` and `/mcp/WORKSPACE`; who asks is known by now."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._mounted: dict[Key, Mounted] = {}
        self._lock = asyncio.Lock()

    def serves(self, path: str) -> bool:
        """Whether a path is one of MCP's."""
        return path == PATH or path.startswith(f"{PATH}/")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        try:
            mounted = await self._of(scope)
        except (Refusal, Fault) as error:
            from handrail.front.web.problems import of_error

            told = of_error(error)
            await problem_response(told.status, told.code, told.message)(scope, receive, send)
            return
        mounted.busy += 1
        try:
            await mounted.front({**scope, "path": PATH, "raw_path": PATH.encode()}, receive, send)
        finally:
            mounted.busy -= 1
            mounted.used = time.monotonic()

    async def _of(self, scope: Any) -> Mounted:
        access: Access = scope[KEY]
        identity = access.identity
        if identity is None:
            raise Refusal(401, Code.POLICY_DENIED, "A bearer token is needed.")
        if not identity.has("caller"):
            raise Refusal(403, Code.POLICY_DENIED, f"{identity.name} may not make calls: that needs the role caller.")
        name = str(scope["path"])[len(PATH) :].strip("/")
        names = self._service.runs.names(identity)
        chosen = name or (names[0] if names else "")
        if chosen not in names:
            raise Refusal(404, Code.NOT_FOUND, f"There is no workspace {chosen[:100]!r} for {identity.name}.")
        async with self._lock:
            key = (identity.name, chosen)
            found = self._mounted.get(key)
            if found is None or found.task.done():
                found = self._mounted[key] = await self._open(identity, chosen)
            return found

    async def _open(self, identity: Identity, workspace: str) -> Mounted:
        """Open the run of an identity in a workspace for its MCP clients; the SDK is loaded here."""
        from handrail.front.mcp.door import Door
        from handrail.front.mcp.guard import Guard
        from handrail.front.mcp.http import application
        from handrail.front.mcp.opening import Opening

        class Known(Guard):
            """Lets everything in: the service's own guard has checked it."""

            def check(self, headers: Any, raw: Iterable[Any]) -> None:
                """Refuse nothing."""

        url = self._service.url
        opening = Opening(
            self._service.runs.workspace_of(identity, workspace),
            asked_by=identity.name,
            console=lambda request_id: f"{url}/requests/{request_id}",
        )
        door = await Door(opening).__aenter__()
        front, sdk = application(door, Known(b"", frozenset()))
        ends, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
        task = asyncio.create_task(_held(door, front, sdk, ready, ends))
        await ready
        return Mounted(door, front, task, ends, time.monotonic())

    async def close_idle(self, seconds: float) -> None:
        """Close the runs that no client used for a while."""
        now = time.monotonic()
        for key, mounted in list(self._mounted.items()):
            if not mounted.busy and now - mounted.used > seconds:
                del self._mounted[key]
                await _end(mounted)

    async def close(self) -> None:
        """Close all of them."""
        mounted, self._mounted = self._mounted, {}
        for item in mounted.values():
            await _end(item)


async def _end(mounted: Mounted) -> None:
    mounted.front.end()
    mounted.ends.set()
    await asyncio.wait((mounted.task,), timeout=5)


async def _held(door: Door, front: Front, sdk: Any, ready: asyncio.Future[None], ends: asyncio.Event) -> None:
    """Hold an application's lifespan open until it is told to end; what it was opened in, it is closed in."""
    from handrail.front.mcp.watch import watching

    sent = asyncio.Event()

    async def receive() -> dict[str, str]:
        if not sent.is_set():
            sent.set()
            return {"type": "lifespan.startup"}
        await ends.wait()
        return {"type": "lifespan.shutdown"}

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"].startswith("lifespan.startup") and not ready.done():
            ready.set_result(None)

    try:
        async with watching(door, sdk.changed):
            await front({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
    except Exception:
        log.exception("an MCP server ended")
    finally:
        if not ready.done():
            ready.set_result(None)
        await door.__aexit__(None, None, None)

"""The SDK's server over the door: all of the protocol, both eras. Imported only where the thin codec is not enough."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from pydantic import Field

from handrail import __version__
from handrail.front.mcp.door import INSTRUCTIONS, NAME, Door
from handrail.front.mcp.ongoing import Ongoing, Peer, describe_client
from handrail.front.mcp.shapes import stamped
from handrail.front.mcp.wire import CLIENT_KEY, MODERN_VERSION, TASKS, Refused

Context = ServerRequestContext[Any, Any]
MOST_SESSIONS = 1000
PATIENCE_SECONDS = 2.0
_LISTS = ("tool", "resource", "prompt")


class TaskParams(types.RequestParams):
    """The params of `tasks/get` and `tasks/cancel`."""

    task_id: str = Field(alias="taskId")


class Announcing(Server[Any]):
    """A server that says in every handshake what it does: it tells when its lists change, however it is connected."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *given: Any, **named: Any
    ) -> InitializationOptions:
        """What the handshake tells."""
        changing = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().create_initialization_options(notification_options or changing, *given, **named)

    def get_capabilities(self, *given: Any, **named: Any) -> types.ServerCapabilities:
        """What is offered; in the stateless era, too, lists are told of and never one resource."""
        offered = super().get_capabilities(*given, **named)
        if named.get("protocol_version") == MODERN_VERSION and offered.resources is not None:
            offered.resources.subscribe = False
        return offered


class Listeners(ListenHandler):
    """Listeners to lists; of what they ask for besides, nothing is promised."""

    async def __call__(self, ctx: Context, params: types.SubscriptionsListenRequestParams) -> Any:
        """Serve one of them."""
        wanted = params.notifications.model_copy(update={"resource_subscriptions": None})
        return await super().__call__(ctx, params.model_copy(update={"notifications": wanted}))


class SdkServer:
    """The SDK's `Server` with every handler answered by the door."""

    def __init__(self, door: Door) -> None:
        self.door, self._bus = door, InMemorySubscriptionBus()
        self._sessions: dict[int, Any] = {}
        self.server: Server[Any] = Announcing(
            NAME,
            version=__version__,
            instructions=INSTRUCTIONS,
            get_tool_input_schema=door.input_schema,
            on_list_tools=self._answer,
            on_call_tool=self._call,
            on_list_resources=self._answer,
            on_list_resource_templates=self._answer,
            on_read_resource=self._answer,
            on_list_prompts=self._answer,
            on_get_prompt=self._answer,
            on_subscriptions_listen=Listeners(self._bus),
        )
        self.server.extensions[TASKS] = {}
        for method in ("tasks/get", "tasks/cancel"):
            self.server.add_request_handler(method, TaskParams, self._answer)
        self.server.add_notification_handler("notifications/initialized", types.NotificationParams, self._greeted)

    async def changed(self) -> None:
        """Tell everybody who listens that the lists are others now."""
        for event in (ToolsListChanged(), ResourcesListChanged(), PromptsListChanged()):
            await self._bus.publish(event)
        await asyncio.gather(*(self._tell(number, *_LISTS) for number in list(self._sessions)))

    async def resources_changed(self) -> None:
        """Tell everybody who listens that the list of resources is another now."""
        await self._bus.publish(ResourcesListChanged())
        await asyncio.gather(*(self._tell(number, "resource") for number in list(self._sessions)))

    async def _tell(self, number: int, *lists: str) -> None:
        try:
            session = self._sessions[number]
            async with asyncio.timeout(PATIENCE_SECONDS):
                for name in lists:
                    await getattr(session, f"send_{name}_list_changed")()
        except Exception:  # noqa: BLE001  a session that is gone hears nothing
            self._sessions.pop(number, None)

    async def _greeted(self, ctx: Context, _: types.NotificationParams) -> None:
        number = id(ctx.session.client_params)  # of the connection; the SDK makes a session for each message
        self._sessions.pop(number, None)
        if len(self._sessions) >= MOST_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))
        self._sessions[number] = ctx.session

    async def _answer(self, ctx: Context, _: Any) -> Any:
        peer = peer_of(ctx)
        try:
            result = await self.door.answer(peer, ctx.method, ctx.params or {})
        except Refused as refused:
            raise MCPError(refused.code, refused.message, refused.data) from None
        return stamped(ctx.method, result) if peer.modern else result

    async def _call(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        token = None if ctx.meta is None else ctx.meta.get("progress_token")
        reports = Reports(ctx)
        ongoing = Ongoing(peer_of(ctx), params.name, token, reports.put)
        try:
            result = await reports.sending(self.door.call(ongoing, ctx.params or {}))
        except Refused as refused:
            raise MCPError(refused.code, refused.message, refused.data) from None
        return stamped(ctx.method, result) if ongoing.peer.modern else result


class Reports:
    """Progress of one call, sent in order while it goes on."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._queue: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue(1000)
        self._sender: asyncio.Task[None] | None = None

    def put(self, params: Mapping[str, Any]) -> None:
        """Take one report; a client that does not keep up misses some."""
        if self._sender is None:
            self._sender = asyncio.ensure_future(self._pass_on())
        if self._queue.qsize() < 999:
            self._queue.put_nowait(params)

    async def sending(self, work: Awaitable[Any]) -> Any:
        """Do the work, and end when all of its reports are sent."""
        try:
            result = await work
        except BaseException:
            if self._sender is not None:
                self._sender.cancel()
            raise
        if self._sender is not None:
            self._queue.put_nowait(None)
            await self._sender
        return result

    async def _pass_on(self) -> None:
        while (report := await self._queue.get()) is not None:
            total = report.get("total")
            await self._ctx.session.report_progress(report["progress"], total, report["message"])


def peer_of(ctx: Context) -> Peer:
    """The client behind a request."""
    offered = ctx.session.client_capabilities
    capabilities = {} if offered is None else offered.model_dump(by_alias=True, mode="json", exclude_none=True)

    async def elicit(params: Mapping[str, Any]) -> Mapping[str, Any]:
        session, asked = ctx.session, ctx.request_id
        if params.get("mode") == "url":
            answer = await session.elicit_url(params["message"], params["url"], params["elicitationId"], asked)
        else:
            answer = await session.elicit_form(params["message"], params["requestedSchema"], asked)
        return answer.model_dump(by_alias=True, mode="json")

    back = ctx.protocol_version != MODERN_VERSION and ctx.session.can_send_request
    return Peer(ctx.protocol_version, capabilities, elicit if back else None, _client_of(ctx))


def _client_of(ctx: Context) -> str:
    """Name the client of a request that came by the SDK: by its handshake, or by what came with the request."""
    params = getattr(ctx.session, "client_params", None)
    info = getattr(params, "client_info", None)
    if info is not None:
        return describe_client({"name": info.name, "version": info.version})
    return describe_client(dict(ctx.meta or {}).get(CLIENT_KEY))

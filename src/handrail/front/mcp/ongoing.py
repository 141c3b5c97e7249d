"""Who is at the other end, and one call of theirs while it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from handrail.front.mcp.wire import MODERN_VERSION, TASKS
from handrail.ports import Request

BEAT_SECONDS = 5.0

Elicit = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
Notify = Callable[[Mapping[str, Any]], None]  # takes the params of a progress notification; must not wait


@dataclass(frozen=True, slots=True)
class Peer:
    """A client as it described itself."""

    version: str
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    elicit: Elicit | None = None  # the back channel of the handshake era, where there is one

    @property
    def modern(self) -> bool:
        """Whether every request stands for itself."""
        return self.version == MODERN_VERSION

    @property
    def has_tasks(self) -> bool:
        """Whether it takes a task in place of a result."""
        extensions = self.capabilities.get("extensions")
        return self.modern and isinstance(extensions, Mapping) and TASKS in extensions

    @property
    def has_forms(self) -> bool:
        """Whether it can show a form to whoever sits there."""
        offered = self.capabilities.get("elicitation")
        return isinstance(offered, Mapping) and (not offered or "form" in offered)


class Ongoing:
    """One `tools/call` while it goes on."""

    __slots__ = ("_beats", "_count", "_notify", "_timer", "_token", "parked", "peer", "tool")

    def __init__(self, peer: Peer, tool: str, token: str | int | None = None, notify: Notify | None = None) -> None:
        self.peer, self.tool = peer, tool
        self.parked: asyncio.Future[Request] | None = None  # set: it may go on in the background
        self._token, self._notify = token, notify if token is not None else None
        self._count, self._beats = 0, 0
        self._timer: asyncio.TimerHandle | None = None

    def tell(self, message: str) -> None:
        """Report progress, if the client asked for it."""
        if self._notify is not None:
            self._count += 1
            self._notify({"progressToken": self._token, "progress": self._count, "message": message})

    def start(self) -> None:
        """Say now and then that a long call still runs."""
        if self._notify is not None:
            self._timer = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)

    def _beat(self) -> None:
        self._beats += 1
        self.tell(f"{self.tool} has been running for {self._beats * BEAT_SECONDS:g} s")
        self.start()

    def stop(self) -> None:
        """Report nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        self._notify = None


# Tools run in the task of their call, so this names the call that something is shown or asked for.
ONGOING: ContextVar[Ongoing | None] = ContextVar("handrail-mcp-ongoing", default=None)


def show(fields: Mapping[str, Any]) -> None:
    """Pass what a tool displays on as progress of its call; a sink for `Runtime.on_display`."""
    ongoing = ONGOING.get()
    if ongoing is not None:
        title, content = fields.get("title"), str(fields.get("content", ""))
        ongoing.tell(f"{title}: {content}" if title else content)

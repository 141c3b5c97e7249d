"""Who is at the other end, and one call of theirs while it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from handrail.front.mcp.wire import CAPABILITIES_KEY, CLIENT_KEY, MODERN_VERSION, TASKS
from handrail.ports import Request

if TYPE_CHECKING:
    from handrail.processes.sink import Written

BEAT_SECONDS = 5.0  # after which a call that has told nothing says that it still runs
LOOK_SECONDS = 0.25  # between two reports of how far a program or a download is
LINE_CHARS = 200

Elicit = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]  # takes the params of `elicitation/create`
Notify = Callable[[Mapping[str, Any]], None]  # takes the params of a progress notification; must not wait


@dataclass(frozen=True, slots=True)
class Peer:
    """A client as it described itself."""

    version: str
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    elicit: Elicit | None = None  # the back channel of the handshake era, where there is one
    client: str = ""  # its name and version, and the session, as it gave them

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

    @property
    def has_pages(self) -> bool:
        """Whether it can open a page for whoever sits there."""
        offered = self.capabilities.get("elicitation")
        return isinstance(offered, Mapping) and "url" in offered


def describe_client(info: Any, session: str = "") -> str:
    """Name a client for the record: its own name and version, and the end of its session's id."""
    if not isinstance(info, Mapping):
        return ""
    words = [str(info.get(name) or "")[:64] for name in ("name", "version")]
    told = "".join(char for char in " ".join(word for word in words if word) if char.isprintable())
    return f"{told} (session {session[-8:]})" if told and session else told


def modern_peer(meta: Mapping[str, Any]) -> Peer:
    """Read the client of a request of the stateless era from what comes with it."""
    return Peer(MODERN_VERSION, meta[CAPABILITIES_KEY], client=describe_client(meta.get(CLIENT_KEY)))


class Ongoing:
    """One `tools/call` while it goes on."""

    __slots__ = (
        "_at", "_began", "_loaded", "_notify", "_seen", "_spoke", "_timer", "_token", "_written", "parked", "peer",
        "returned", "tool", "waits",
    )  # fmt: skip

    def __init__(self, peer: Peer, tool: str, token: str | int | None = None, notify: Notify | None = None) -> None:
        self.peer, self.tool = peer, tool
        self.returned = False  # it was asked back before, and brings what the client said
        self.parked: asyncio.Future[Request] | None = None  # set: it may go on in the background
        self.waits = False  # in the background, for a person; nothing of it has begun
        self._token, self._notify = token, notify if token is not None else None
        self._at = 0  # what was told last; each report must tell more than the one before
        self._began = self._spoke = self._loaded = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._written: Callable[[], Written] | None = None
        self._seen: Written | None = None

    def tell(self, message: str, done: int | None = None, total: int | None = None) -> None:
        """Report progress, if the client asked for it: one step more, or how much is done of how much."""
        if self._notify is None or (done is not None and done <= self._at):
            return
        self._at = self._at + 1 if done is None else done
        report = {"progressToken": self._token, "progress": self._at, "message": message}
        self._notify(report if not total else {**report, "total": total})
        self._spoke = asyncio.get_running_loop().time()

    def start(self) -> None:
        """Look now and then how far a long call is, and say at least that it still runs."""
        if self._notify is not None:
            self._began = self._spoke = asyncio.get_running_loop().time()
            self._again()

    def follow(self, written: Callable[[], Written]) -> None:
        """Look at what a program of the call writes."""
        if self._notify is not None:
            self._written = written
            self._again()

    def loads(self, done: int, total: int) -> None:
        """Tell how far a download is: a few times a second, and its end."""
        if self._notify is None:
            return
        now = asyncio.get_running_loop().time()
        if now - self._loaded >= LOOK_SECONDS or done == total:
            self._loaded = now
            self.tell(
                f"{done} of {total} bytes" if total else f"{done} bytes", done, max(total, done) if total else None
            )

    def stop(self) -> None:
        """Report nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        self._notify = self._written = None

    def _again(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(BEAT_SECONDS if self._written is None else LOOK_SECONDS, self._look)

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        found = None if self._written is None else self._written()
        if found is not None and found.lines and found != self._seen:
            self._seen = found
            self.tell(f"{found.lines} lines: {_short(found.last)}")
        elif now - self._spoke >= BEAT_SECONDS:
            self.tell(f"{self.tool} has been running for {now - self._began:.0f} s")
        self._again()


def _short(line: str) -> str:
    return line if len(line) <= LINE_CHARS else f"{line[:LINE_CHARS]}…"


# Tools run in the task of their call, so this names the call that something is shown or asked for.
ONGOING: ContextVar[Ongoing | None] = ContextVar("handrail-mcp-ongoing", default=None)


def show(fields: Mapping[str, Any]) -> None:
    """Pass what a tool displays on as progress of its call; a sink for `Runtime.on_display`."""
    ongoing = ONGOING.get()
    if ongoing is not None:
        title, content = fields.get("title"), str(fields.get("content", ""))
        ongoing.tell(f"{title}: {content}" if title else content)


def follow(_: str, written: Callable[[], Written]) -> None:
    """Tell what a program writes as progress of the call that waits for it."""
    ongoing = ONGOING.get()
    if ongoing is not None:
        ongoing.follow(written)


def load(_: str, done: int, total: int) -> None:
    """Tell how far a download is as progress of its call."""
    ongoing = ONGOING.get()
    if ongoing is not None:
        ongoing.loads(done, total)

"""The connections of the HTTP server: no more than the process can bear, and none that is held with nothing asked.

Who has not shown the token yet makes room for others, the oldest first, so that nobody can keep a client out that has
it. Imported only where something listens: it loads uvicorn.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from handrail.front.mcp.http import SHOWN

log = logging.getLogger("handrail.mcp")

HEAD_SECONDS = 10.0  # for the lines before a body
SWEEP_SECONDS = 1.0
ENOUGH_FILES = 8192
MOST = 2048
_OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Connections:
    """Those that are open, by names of their own, the oldest first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._strangers: dict[object, Any] = {}  # no request of theirs had the token yet
        self._known: dict[object, Any] = {}
        self._told = False

    def opened(self, name: object, connection: Any) -> None:
        """Take one in; the oldest stranger makes room."""
        self._strangers[name] = connection
        if len(self._strangers) + len(self._known) > self.most:
            self._strangers.pop(next(iter(self._strangers))).transport.abort()

    def known(self, name: object) -> None:
        """Note that one has shown the token."""
        connection = self._strangers.pop(name, None)
        if connection is not None:
            self._known[name] = connection

    def closed(self, name: object) -> None:
        """Forget one."""
        self._strangers.pop(name, None)
        self._known.pop(name, None)

    def sweep(self, now: float) -> None:
        """Close those that have been asked nothing for too long."""
        for connection in self._strangers.values():
            if connection.idle_seconds(now) > HEAD_SECONDS:
                connection.transport.abort()
        for connection in self._known.values():
            if connection.idle_seconds(now) > HEAD_SECONDS:
                connection.transport.close()  # after what is still to be sent

    def fault(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Take a fault of the event loop; one for want of file handles is told once, and strangers make room."""
        error = context.get("exception")
        if "socket" not in context or not isinstance(error, OSError) or error.errno not in _OUT_OF_FILES:
            loop.default_exception_handler(context)
            return
        for connection in self._strangers.values():
            connection.transport.abort()
        if not self._told:
            self._told = True
            log.error("no connection can be taken (%s), so those without the token are closed", error.strerror)

    @asynccontextmanager
    async def swept(self) -> AsyncIterator[None]:
        """Look after them for as long as this lasts."""
        loop = asyncio.get_running_loop()
        former = loop.get_exception_handler()
        loop.set_exception_handler(self.fault)
        sweeping = asyncio.ensure_future(self._sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            loop.set_exception_handler(former)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep(asyncio.get_running_loop().time())


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """One connection, which says how long it was asked nothing."""

    app_state: dict[str, Any]
    cycle: Any

    def __init__(self, among: Connections, **how: Any) -> None:
        super().__init__(**how)
        self._among, self._name = among, object()  # a name, since what a request holds must not hold the connection
        self.app_state = {**self.app_state, SHOWN: partial(among.known, self._name)}
        self._last: Any = None
        self._since: float = self.loop.time()

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        super().connection_made(transport)
        self._among.opened(self._name, self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._among.closed(self._name)
        super().connection_lost(exc)

    def idle_seconds(self, now: float) -> float:
        """How long no request has been worked on, nor a new one begun, as far as was looked."""
        cycle = self.cycle
        if cycle is not self._last or (cycle is not None and not cycle.response_complete):
            self._last, self._since = cycle, now
        return now - self._since


class Listening(uvicorn.Server):
    """A server that ends what would never end by itself before it waits for the rest."""

    def __init__(self, config: uvicorn.Config, end: Callable[[], None]) -> None:
        super().__init__(config)
        self._end = end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End."""
        self._end()
        await super().shutdown(sockets)


def room() -> int:
    """Have more files where that is allowed, and give how many of them connections may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        wanted = ENOUGH_FILES if hard == resource.RLIM_INFINITY else min(hard, ENOUGH_FILES)
        if soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return MOST if soft == resource.RLIM_INFINITY else min(MOST, soft // 2)


def protocol(among: Connections) -> Any:
    """What makes a connection, as uvicorn asks for it."""
    return partial(Connection, among)

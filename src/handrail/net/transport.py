"""aiohttp on vetted addresses: our resolver, our sockets, our pool; nothing taken from the environment.

A connection is kept for the scheme, host and port it was opened for, and for nothing else. Redirects, cookies,
decompression and proxies are all off: they are dealt with, or refused, by the client.
"""

from __future__ import annotations

import select
import socket
import ssl
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from handrail.errors import Code, Problem
from handrail.net.gate import Gate, is_address
from handrail.urls import Url

MAX_HEADERS, MAX_HEADER_BYTES = 128, 16 * 1024
KEEP_SECONDS = 15.0
READ_BYTES = 1024 * 1024


@dataclass(slots=True)
class Dialled:
    """What happened underneath one request."""

    address: str = ""
    opened: int = 0  # sockets
    fresh: bool = False  # whether the last connection taken was a new one


_dialled: ContextVar[Dialled] = ContextVar("handrail_dialled")


class Unvetted(OSError):
    """A socket was asked for to an address that nobody vetted."""


class Resolving(AbstractResolver):
    """Gives aiohttp the vetted addresses of a name."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002  the seam's own
    ) -> list[ResolveResult]:
        """Resolve and vet; Problem where an address must not be dialled."""
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in await self._gate.addresses(host, port)
        ]

    async def close(self) -> None:
        """Nothing to let go."""


class Pool(aiohttp.TCPConnector):
    """Connections to vetted addresses; each is looked at again when it is taken."""

    def __init__(self, gate: Gate, tls: ssl.SSLContext | bool) -> None:
        super().__init__(
            resolver=Resolving(gate),
            use_dns_cache=False,
            limit=0,  # the client bounds requests
            keepalive_timeout=KEEP_SECONDS,
            ssl=tls,
            socket_factory=self._open,
        )
        self._vetting = gate

    def _open(self, info: Any) -> socket.socket:
        """Open a socket, the last moment at which an address can be refused."""
        family, kind, protocol, _, place = info
        if (why := self._vetting.refused(str(place[0]))) is not None:
            raise Unvetted(f"{place[0]} is not public: {why}")
        _dialled.get().opened += 1
        return socket.socket(family, kind, protocol)

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:
        """Take a connection, and note whom it leads to."""
        dialled = _dialled.get()
        if dialled.fresh:  # aiohttp would try once more by itself: that is for a kept connection only
            raise aiohttp.ServerDisconnectedError
        opened = dialled.opened
        connection = await super().connect(req, traces, timeout)
        while dialled.opened == opened and _spoke(connection):
            connection.close()
            connection = await super().connect(req, traces, timeout)
        dialled.fresh = dialled.opened > opened
        peer = connection.transport.get_extra_info("peername") if connection.transport else None
        address = str(peer[0]) if peer else ""
        if self._vetting.refused(address) is not None:
            connection.close()
            raise Unvetted(f"{address or 'an unknown peer'} answered, which was not vetted")
        dialled.address = address
        return connection


def _spoke(connection: aiohttp.connector.Connection) -> bool:
    """Whether a kept connection holds what nobody asked for: it would be taken for the answer to the next request."""
    protocol, transport = connection.protocol, connection.transport
    if protocol is None or transport is None or protocol.should_close:
        return True
    waiting = select.poll()
    waiting.register(transport.get_extra_info("socket"), select.POLLIN)
    return bool(waiting.poll(0))


class Transport:
    """Sends one request to one URL and gives the answer once its headers are there."""

    def __init__(self, gate: Gate, user_agent: str, ca_file: str | None = None) -> None:
        tls: ssl.SSLContext | bool = True if ca_file is None else ssl.create_default_context(cafile=ca_file)
        self._gate = gate
        self._session = aiohttp.ClientSession(
            connector=Pool(gate, tls),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": user_agent, "Accept-Encoding": "gzip, deflate", "Accept": "*/*"},
            skip_auto_headers=("Content-Type",),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            auto_decompress=False,
            trust_env=False,
            read_bufsize=READ_BYTES,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
        )

    async def send(
        self, url: Url, method: str, headers: dict[str, str], body: bytes | None
    ) -> tuple[aiohttp.ClientResponse, str]:
        """Send; gives the answer and the address that was dialled."""
        target = URL(url.text, encoded=True)
        if target.raw_host != url.host or target.port != url.port:  # checked and used must be the same
            raise Problem(Code.INVALID_ARGS, f"{url.shown} is read in two ways and is not reached.")
        if is_address(url.host):  # aiohttp asks no resolver for these
            self._gate.check(url.host, url.host)
        dialled = Dialled()
        token = _dialled.set(dialled)
        try:
            response = await self._session.request(
                method, target, headers=headers, data=body, allow_redirects=False, proxy=None
            )
        finally:
            _dialled.reset(token)
        return response, dialled.address

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

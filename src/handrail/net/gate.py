"""Names to vetted addresses: the one place that decides what may be dialled."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from handrail.errors import Code, Problem
from handrail.net.addresses import CREDENTIALS, METADATA_NAMES, networks, refused

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
MAX_ANSWERS, MOST_KNOWN, MOST_LOOKUPS = 32, 4096, 16


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """Ask the system, off the event loop."""
    asking = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_threads(), asking)
    return list(dict.fromkeys(str(item[4][0]) for item in found))


@cache
def _threads() -> ThreadPoolExecutor:
    """Threads for nothing else: a lookup that hangs cannot be ended, and must not keep other work waiting."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(MOST_LOOKUPS, "handrail-names")


os.register_at_fork(after_in_child=_threads.cache_clear)  # a fork has none of the threads that would do the work


class Unresolved(OSError):
    """A name that leads nowhere, at least now."""


class Gate:
    """Resolves a name once and lets through only addresses that may be dialled."""

    def __init__(
        self, allowed: Sequence[str] = (), blocked: Sequence[str] = (), resolver: Resolver = system_resolver
    ) -> None:
        self._allowed, self._blocked = networks(allowed), networks(blocked)
        self._public: set[str] = set()  # found to be so: settings do not change in a run
        self.resolver = resolver

    async def addresses(self, host: str, port: int) -> tuple[str, ...]:
        """Every address of a host, all of them vetted: one that is not to be dialled refuses them all.

        Raises Unresolved where the name leads nowhere.
        """
        if is_address(host):
            self.check(host, host)
            return (host,)
        if host in METADATA_NAMES:
            raise not_public(host, host, CREDENTIALS)
        try:
            found = tuple(await self.resolver(host, port))
        except (OSError, UnicodeError) as error:
            raise Unresolved(f"{host} cannot be found: {getattr(error, 'strerror', None) or error}") from None
        if not found:
            raise Unresolved(f"{host} has no address")
        for address in found:
            self.check(host, address)
        return found[:MAX_ANSWERS]

    def check(self, host: str, address: str) -> None:
        """Refuse an address that must not be dialled."""
        why = self.refused(address)
        if why is not None:
            raise not_public(host, address, why)

    def refused(self, address: str) -> str | None:
        """Why an address must not be dialled; None when it may be."""
        if address in self._public:
            return None
        why = refused(address, self._allowed, self._blocked)
        if why is None and len(self._public) < MOST_KNOWN:
            self._public.add(address)
        return why


def is_address(host: str) -> bool:
    """Whether a canonical host is an address and no name."""
    return ":" in host or host.replace(".", "").isdigit()


def not_public(host: str, address: str, why: str) -> Problem:
    """The problem of a host that leads to an address that must not be dialled."""
    named = address if host == address else f"{host} leads to {address}, which"
    allowed = "Inner networks are reached only where http.allowed_networks names them."
    return Problem(
        Code.HOST_NOT_ALLOWED,
        f"{named} is not public: {why}. {'No setting allows it.' if why == CREDENTIALS else allowed}",
        host=host,
        address=address,
        reason=why,
        rule="confine.addresses",
    )

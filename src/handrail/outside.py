"""The run's way out, put together from settings; made when a call first needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from handrail import ports
from handrail.errors import SettingsFault
from handrail.settings import Settings
from handrail.worlds import Ground

if TYPE_CHECKING:
    from handrail.net.client import Network, Told
    from handrail.net.gate import Resolver


class Outside:
    """Holds the network of a run, once there is one."""

    def __init__(self, ground: Ground, resolver: Resolver | None = None) -> None:
        self._ground = ground
        self._network: Network | None = None
        self.resolver = resolver  # tests set their own before the first request
        self.progress: Told | None = None  # a front end sets its own, to show how far downloads are

    @property
    def network(self) -> Network:
        """The network, made now if it was not yet."""
        if self._network is None:
            self._network = _network(self._ground, self.resolver)
            self._network.progress = self._told
        return self._network

    def _told(self, call_id: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(call_id, done, total)

    def bind(self, work: ports.Work) -> ports.Net:
        """Give the network of one call."""
        return self.network.bind(work)

    async def close(self) -> None:
        """Close every connection."""
        network, self._network = self._network, None
        if network is not None:
            await network.close()


def _network(ground: Ground, resolver: Resolver | None) -> Network:
    from handrail import __version__
    from handrail.net.bounds import NetBounds
    from handrail.net.client import Network
    from handrail.net.credentials import Credentials
    from handrail.net.gate import Gate, system_resolver

    http, limits = ground.settings.http, ground.settings.limits
    bounds = NetBounds(
        max_bytes=http.max_bytes,
        max_download_bytes=http.max_download_bytes,
        timeout_seconds=http.timeout_ms / 1000,
        max_retries=http.max_retries,
        retry_post=http.retry_post,
        rate_per_minute=http.rate_per_minute,
        max_connections=http.max_connections,
        breaker_failures=limits.breaker_failures,
        breaker_seconds=limits.breaker_seconds,
        spill_large=http.spill_large,
        user_agent=http.user_agent if "/" in http.user_agent else f"{http.user_agent}/{__version__}",
        ca_file=http.ca_file,
    )
    gate = Gate(http.allowed_networks, http.blocked_networks, resolver or system_resolver)
    return Network(bounds, gate, Credentials(http.credentials, ground.redactor.learn), ground.clock)


def secrets_of(settings: Settings, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The credentials that are known before any is used, to be hidden from the start; checks the `http` section."""
    http = settings.http
    if http.allowed_networks or http.blocked_networks:
        from handrail.net.addresses import networks

        try:
            networks((*http.allowed_networks, *http.blocked_networks))
        except ValueError as error:
            raise SettingsFault(f"http.allowed_networks or http.blocked_networks: {error}") from None
    if not http.credentials:
        return ()
    from handrail.net.credentials import standing

    return tuple(standing(http.credentials, environment))

"""What is known of each host in a run: how often it may be asked, and whether it answers. Time is passed in."""

from __future__ import annotations

from handrail.errors import Code, Problem
from handrail.limits import Breaker, Rate
from handrail.net.bounds import NetBounds

MOST_HOSTS = 10_000


class Hosts:
    """A breaker and a rate for each host and port."""

    def __init__(self, bounds: NetBounds) -> None:
        self._bounds = bounds
        self._rates: dict[str, Rate] = {}
        self._breakers: dict[str, Breaker] = {}

    def admit(self, host: str, now: float) -> None:
        """Let a request go; Problem CIRCUIT_OPEN or RATE_LIMITED with the seconds to wait."""
        breaker = self._breakers.get(host)
        if breaker is not None and (wait := breaker.wait(now)):
            failures = self._bounds.breaker_failures
            raise _later(Code.CIRCUIT_OPEN, f"{host} failed {failures} times in a row and is left alone", host, wait)
        if self._bounds.rate_per_minute and (wait := self._rate(host).take(now)):
            if breaker is not None:
                breaker.released()
            raise _later(Code.RATE_LIMITED, f"{host} is asked too often", host, wait)

    def ended(self, host: str, ok: bool, now: float) -> None:
        """Note whether a host answered."""
        breaker = self._breakers.get(host)
        if breaker is None:
            if ok or not self._bounds.breaker_failures:
                return
            _make_room(self._breakers)
            breaker = Breaker(self._bounds.breaker_failures, self._bounds.breaker_seconds)
            self._breakers[host] = breaker
        breaker.ended(ok, now)

    def released(self, host: str) -> None:
        """Note that an admitted request was given up, which says nothing of the host."""
        if breaker := self._breakers.get(host):
            breaker.released()

    def _rate(self, host: str) -> Rate:
        found = self._rates.get(host)
        if found is None:
            _make_room(self._rates)
            found = self._rates[host] = Rate(self._bounds.rate_per_minute)
        return found


def _make_room(known: dict[str, Rate] | dict[str, Breaker]) -> None:
    if len(known) >= MOST_HOSTS:
        del known[next(iter(known))]


def _later(code: Code, what: str, host: str, seconds: float) -> Problem:
    return Problem(code, f"{what}; try again in {seconds:.1f} s.", host=host, retry_after_seconds=round(seconds, 3))

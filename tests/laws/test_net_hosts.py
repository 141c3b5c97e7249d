"""Breaker and rate of each host, on a clock that is passed in."""

from __future__ import annotations

import pytest

from handrail.errors import Code, Problem
from handrail.net.bounds import NetBounds
from handrail.net.hosts import Hosts


def code_of(hosts: Hosts, host: str, now: float) -> Code | None:
    """Admit, or give the code that refuses."""
    try:
        hosts.admit(host, now)
    except Problem as problem:
        told = problem.details
        return problem.code if told["host"] == host and told["retry_after_seconds"] > 0 else Code.INTERNAL
    return None


def test_a_breaker_opens_half_opens_and_closes() -> None:
    """Three failures open it for ten seconds; then one may try; that one decides."""
    hosts = Hosts(NetBounds(breaker_failures=3, breaker_seconds=10.0))
    for _ in range(3):
        assert code_of(hosts, "a:443", 0.0) is None
        hosts.ended("a:443", False, 0.0)
    assert code_of(hosts, "a:443", 9.9) is Code.CIRCUIT_OPEN
    assert code_of(hosts, "b:443", 9.9) is None
    assert code_of(hosts, "a:443", 10.0) is None
    assert code_of(hosts, "a:443", 10.0) is Code.CIRCUIT_OPEN
    hosts.ended("a:443", False, 10.0)
    assert code_of(hosts, "a:443", 19.9) is Code.CIRCUIT_OPEN
    assert code_of(hosts, "a:443", 20.0) is None
    hosts.ended("a:443", True, 20.0)
    assert [code_of(hosts, "a:443", 20.0) for _ in range(5)] == [None] * 5


def test_a_try_that_was_given_up_lets_the_next_one_try() -> None:
    """Giving up says nothing of the host."""
    hosts = Hosts(NetBounds(breaker_failures=1, breaker_seconds=10.0))
    hosts.ended("a:1", False, 0.0)
    assert code_of(hosts, "a:1", 10.0) is None
    hosts.released("a:1")
    assert code_of(hosts, "a:1", 10.0) is None


@pytest.mark.parametrize("count", [1, 30, 60])
def test_a_rate_is_kept_for_each_host_alone(count: int) -> None:
    """So many at once, then one each time its share of a minute has passed."""
    hosts = Hosts(NetBounds(rate_per_minute=count))
    assert [code_of(hosts, "a:1", 0.0) for _ in range(count)] == [None] * count
    assert code_of(hosts, "a:1", 0.0) is Code.RATE_LIMITED
    assert code_of(hosts, "b:1", 0.0) is None
    assert code_of(hosts, "a:1", 60.0 / count + 0.001) is None

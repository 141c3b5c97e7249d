"""The guard by itself: pages of other addresses, and bodies that never come."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from handrail.front.mcp import guard as module
from handrail.front.mcp.guard import Stopped, guard_for

TOKEN = "a-token-for-the-guard"


def checked(listening: str, host: str, origin: str) -> int:
    """How a request is met: 200, or the status that it is stopped with."""
    headers = {b"host": host.encode(), b"origin": origin.encode(), b"authorization": f"Bearer {TOKEN}".encode()}
    try:
        guard_for(listening, TOKEN).check(headers, list(headers.items()))
    except Stopped as stopped:
        return stopped.status
    return 200


@pytest.mark.parametrize(
    ("listening", "host", "origin", "status"),
    [
        ("0.0.0.0", "192.0.2.7:8420", "http://192.0.2.7:8420", 200),
        ("0.0.0.0", "192.0.2.7:8420", "http://198.51.100.9", 403),
        ("0.0.0.0", "192.0.2.7:8420", "http://[2001:db8::1]", 403),
        ("0.0.0.0", "192.0.2.7:8420", "http://evil.example", 403),
        ("0.0.0.0", "192.0.2.7:8420", "null", 403),
        ("0.0.0.0", "localhost:8420", "http://198.51.100.9", 403),
        ("0.0.0.0", "192.0.2.7:8420", "http://localhost:3000", 200),
        ("::", "[2001:db8::1]:8420", "http://[2001:db8::1]:8420", 200),
        ("127.0.0.1", "127.0.0.1:8420", "http://192.0.2.7", 403),
        ("127.0.0.1", "192.0.2.7", "http://192.0.2.7", 403),
        ("127.0.0.1", "127.0.0.1:8420", "HTTPS://LocalHost:8443", 200),
        ("127.0.0.1", "127.0.0.1:8420", "http://[::1]evil.example", 403),
        ("127.0.0.1", "127.0.0.1:8420", "http://evil.example[::1]", 403),
        ("127.0.0.1", "127.0.0.1:8420", "http://evil.example@localhost", 403),
        ("127.0.0.1", "127.0.0.1:8420", "http://localhost:@evil.example", 403),
        ("127.0.0.1", "127.0.0.1:8420", "http://[::1]:@evil.example", 403),
        ("127.0.0.1", "127.0.0.1:8420", "\x01http://localhost", 403),
        ("127.0.0.1", "127.0.0.1:8420", "http://", 403),
    ],
)
def test_a_page_of_another_address_may_not_ask(listening: str, host: str, origin: str, status: int) -> None:
    """Where other machines are served, an address as Origin counts only when it is the one that is asked."""
    assert checked(listening, host, origin) == status


@pytest.mark.parametrize("pieces", [0, 1])
async def test_a_body_that_does_not_come_is_waited_for_no_longer_than_a_while(
    monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    """Its first piece as well as the next."""
    monkeypatch.setattr(module, "BODY_SECONDS", 0.01)
    given: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": b"{", "more_body": True}] * pieces

    async def receive() -> MutableMapping[str, Any]:
        if given:
            return given.pop()
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(Stopped) as stopped:
        await asyncio.wait_for(guard_for("127.0.0.1", TOKEN).body(receive), 10)
    assert stopped.value.status == 408


async def test_a_client_that_leaves_before_its_body_is_not_answered_as_if_it_had_sent_one() -> None:
    """It is stopped as a bad request."""

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    with pytest.raises(Stopped) as stopped:
        await guard_for("127.0.0.1", TOKEN).body(receive)
    assert stopped.value.status == 400

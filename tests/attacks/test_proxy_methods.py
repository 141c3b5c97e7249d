"""What a confined program asks its proxy for is judged by what it would do there: read, or send."""

from __future__ import annotations

import asyncio
import socket

import pytest

from handrail.errors import Code, Problem
from handrail.net.gate import Gate
from handrail.net.proxy import Proxy
from handrail.words import Touch, TouchKind


@pytest.mark.parametrize(
    ("line", "sends"),
    [
        ("GET http://a.test:81/x", False),
        ("HEAD http://a.test:81/x", False),
        ("CONNECT a.test:81", False),
        ("POST http://a.test:81/x", True),
        ("DELETE http://a.test:81/x", True),
        ("ANYTHING http://a.test:81/x", True),
    ],
)
async def test_a_plain_request_that_sends_is_not_judged_as_reading(line: str, sends: bool) -> None:
    """What goes through a tunnel nobody sees; a plain request says what it is."""
    judged: list[Touch] = []

    def judge(touch: Touch) -> None:
        judged.append(touch)
        raise Problem(Code.HOST_NOT_ALLOWED, "no")

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    proxy = Proxy(Gate(), judge)
    await proxy.serve(listener)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{line} HTTP/1.1\r\n\r\n".encode())
        async with asyncio.timeout(10):
            said = await reader.read()
        writer.close()
    finally:
        await proxy.close()
    assert (said.partition(b"\r\n")[0], judged) == (
        b"HTTP/1.1 403 Forbidden",
        [Touch(TouchKind.NET_CONNECT, "a.test:81", unsafe=sends)],
    )

"""Where `handrail mcp --http` listens."""

from __future__ import annotations

import asyncio
import socket

import pytest

from fronts.conftest import Cli
from handrail.errors import Misuse
from handrail.front.mcp.http import _listening, place


@pytest.mark.parametrize(
    ("address", "where"),
    [
        (":8420", ("127.0.0.1", 8420)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:1", ("::1", 1)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
    ],
)
def test_nobody_else_is_listened_to_unless_a_host_says_so(address: str, where: tuple[str, int]) -> None:
    """A port alone is one of this machine."""
    assert place(address) == where


@pytest.mark.parametrize("address", ["foo", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:-1", ""])
def test_what_names_no_port_is_misuse(address: str) -> None:
    """And shows how it is written."""
    with pytest.raises(Misuse, match="HOST:PORT"):
        place(address)


def test_a_port_that_is_taken_is_named(cli: Cli) -> None:
    """Before anything is opened, and with an exit code that says so."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = cli("mcp", "--http", address)
    assert done.code == 2
    assert address in done.err
    assert "Traceback" not in done.err


async def test_no_answer_waits_for_its_first_half_to_be_confirmed() -> None:
    """Every connection sends at once what is written to it: else each call takes 40 ms longer."""
    at_once: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def met(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        end = writer.get_extra_info("socket")
        at_once.set_result(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listener = _listening("127.0.0.1", 0)
    async with await asyncio.start_server(met, sock=listener):
        _, writer = await asyncio.open_connection(*listener.getsockname())
        assert await asyncio.wait_for(at_once, 10) != 0
        writer.close()

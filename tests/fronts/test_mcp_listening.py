"""Where `handrail mcp --http` listens."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fronts.conftest import Cli
from handrail.errors import Misuse
from handrail.front.mcp.address import listening, place

HANDRAIL = str(Path(sys.executable).with_name("handrail"))


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


@pytest.mark.parametrize("folder", [".", "a b/c", "/srv"])
def test_a_folder_that_stands_alone_is_told_its_place(cli: Cli, folder: str) -> None:
    """As other servers take it; an unknown verb is still one."""
    ended = cli("mcp", "--dialect", "mcp-filesystem", folder)
    assert (ended.code, "--workspace" in ended.err) == (2, True)
    assert "No such command 'serve'" in cli("mcp", "serve").err


async def test_no_answer_waits_for_its_first_half_to_be_confirmed() -> None:
    """Every connection sends at once what is written to it: else each call takes 40 ms longer."""
    at_once: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def met(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        end = writer.get_extra_info("socket")
        at_once.set_result(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listener = listening("127.0.0.1", 0)
    async with await asyncio.start_server(met, sock=listener):
        _, writer = await asyncio.open_connection(*listener.getsockname())
        assert await asyncio.wait_for(at_once, 10) != 0
        writer.close()


def start(env: dict[str, str], work: Path) -> tuple[str, list[str]]:
    """Start a server and end it once it listens: its address, and what it has said before."""
    command = [HANDRAIL, "mcp", "--http", "127.0.0.1:0"]
    said: list[str] = []
    with subprocess.Popen(command, cwd=work, env=env, stderr=subprocess.PIPE, stdin=-3, text=True) as server:
        assert server.stderr is not None
        try:
            while (line := server.stderr.readline()) and not line.startswith("listening on "):
                said.append(line)
        finally:
            server.kill()
    return line, said


def test_a_later_start_says_where_the_token_is_and_never_what_it_is(work: Path, own_user: Path) -> None:
    """The first one prints it; whoever starts it again is told the file; one that is given needs no word."""
    env = {name: value for name, value in os.environ.items() if name != "HANDRAIL_TOKEN"}
    first, second = start(env, work), start(env, work)
    given = start({**env, "HANDRAIL_TOKEN": "a-token-that-a-person-gave"}, work)
    kept = Path(env["XDG_STATE_HOME"], "handrail", "token")
    token = kept.read_text().strip()
    assert [bool(address) for address, _ in (first, second, given)] == [True, True, True]
    assert (first[1], given[1]) == ([f"token: {token}\n"], [])
    assert second[1] == [f"the token of the first start still counts; it is kept in {kept}\n"]

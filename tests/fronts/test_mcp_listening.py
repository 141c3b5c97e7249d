"""Where `handrail mcp --http` listens."""

from __future__ import annotations

import socket

from fronts.conftest import Cli


def test_a_port_that_is_taken_is_named(cli: Cli) -> None:
    """Before anything is opened, and with an exit code that says so."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = cli("mcp", "--http", address)
    assert done.code == 2
    assert address in done.err
    assert "Traceback" not in done.err

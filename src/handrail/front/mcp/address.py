"""Where the HTTP server listens."""

from __future__ import annotations

import socket

from handrail.errors import Misuse

BACKLOG = 2048


def listening(host: str, port: int) -> socket.socket:
    """Listen at once: what stands in the way is said before anything is opened."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
        # Connections have it from here. The loop sets it only on sockets that name their protocol, which this one does
        # not, and without it every answer waits 40 ms for the client to confirm its first half.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        text = f"{host}:{port} cannot be listened on ({_reason(error)}); give another host or port to --http"
        raise Misuse(text) from None


def _reason(error: OSError) -> str:
    """What the system says, without the address, which is said already."""
    return str(error.strerror).partition(" (while ")[0]


def place(address: str) -> tuple[str, int]:
    """Read HOST:PORT."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise Misuse(f"{address!r}: write where to listen as HOST:PORT, such as 127.0.0.1:8420")
    return host.strip("[]") or "127.0.0.1", int(port)

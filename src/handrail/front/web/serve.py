"""Serving: the address and what it demands, the first admin, uvicorn."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn

from handrail.compose import SystemClock
from handrail.errors import SettingsFault
from handrail.front.web.app import build
from handrail.front.web.guard import LOOPBACK, Address
from handrail.service.identities import Identities
from handrail.service.service import Service
from handrail.settings import Loaded
from handrail.words import noun

ADMIN = "admin"
TOKEN_FILE = "admin.token"  # noqa: S105  (the name of a file)


@noun
class Listening:
    """What `handrail serve` was asked for."""

    host: str = "127.0.0.1"
    port: int = 8421
    cert: str | None = None
    key: str | None = None
    proxy: str | None = None  # the public address, where a proxy stands before


def address_of(asked: Listening) -> tuple[Address, str]:
    """Give what the address demands, and the URL that people open; SettingsFault where it is not safe."""
    if bool(asked.cert) != bool(asked.key):
        raise SettingsFault("--tls-cert and --tls-key go together")
    is_local = asked.host in LOOPBACK or asked.host.startswith("127.")
    if not is_local and not asked.cert and not asked.proxy:
        raise SettingsFault(
            f"{asked.host} can be reached from other machines, and nothing would be encrypted. Give --tls-cert and "
            "--tls-key, or --behind-proxy URL where a proxy with TLS stands before it."
        )
    if asked.proxy:
        return _behind_proxy(asked.proxy)
    hosts = LOOPBACK if is_local else LOOPBACK | {asked.host.lower(), os.uname().nodename.lower()}
    scheme = "https" if asked.cert else "http"
    shown = f"[{asked.host}]" if ":" in asked.host else asked.host
    return Address(hosts | {asked.host.lower()}, bool(asked.cert), not is_local), f"{scheme}://{shown}:{asked.port}"


def _behind_proxy(url: str) -> tuple[Address, str]:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        raise SettingsFault("--behind-proxy is the address that people open, such as https://handrail.example.org")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise SettingsFault("--behind-proxy needs https://: without TLS anybody on the way reads tokens and cookies")
    hosts = LOOPBACK | {parts.hostname.lower()}
    return Address(hosts, parts.scheme == "https", proxied=True), url.rstrip("/")


def make_admin(identities: Identities, state: Path) -> bool:
    """Make the first admin where there is none; its token is kept in a file that only its owner reads."""
    if any(item.has("admin") for item in identities.list()):
        return False
    token = identities.add(ADMIN, ["admin"])
    handle = os.open(state / TOKEN_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(f"{token}\n")
    return True


async def serve(loaded: Loaded, asked: Listening) -> None:
    """Listen until the process is told to end."""
    address, url = address_of(asked)
    service = Service(loaded, SystemClock())
    config = uvicorn.Config(
        build(service, address), asked.host, asked.port, log_level="warning", access_log=False, server_header=False,
        timeout_graceful_shutdown=2, timeout_keep_alive=30, ws="none", lifespan="on", proxy_headers=False,
        ssl_certfile=asked.cert, ssl_keyfile=asked.key, backlog=512,
    )  # fmt: skip
    server = uvicorn.Server(config)
    telling = asyncio.ensure_future(_tell(server, service, url, asked))
    try:
        await server.serve()
    finally:
        telling.cancel()


async def _tell(server: uvicorn.Server, service: Service, url: str, asked: Listening) -> None:
    """Say where it listens, once it does, and how the first admin logs in."""
    while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
        await asyncio.sleep(0.005)
    if asked.port == 0:
        port = server.servers[0].sockets[0].getsockname()[1]
        url = f"{url.rpartition(':')[0]}:{port}"
    first = make_admin(service.identities, service.state)
    service.lock.tell({"url": url, "pid": os.getpid()})
    service.url = url
    sys.stderr.write(f"listening on {url}\n")
    if first:
        code = service.identities.make_link(ADMIN)
        sys.stderr.write(f"log in once with this link: {url}/login/{code}\n")
        sys.stderr.write(f"the token of {ADMIN} is kept in {service.state / TOKEN_FILE}\n")
    sys.stderr.flush()


def unit_text(words: list[str]) -> str:
    """Write a systemd unit of the user that starts the service."""
    import shlex

    command = shlex.join([sys.executable, "-m", "handrail", "serve", *words])
    return f"""[Unit]
Description=Handrail: inbox, timeline and REST for governed agents
After=network.target

[Service]
ExecStart={command}
Restart=on-failure
RestartSec=2
NoNewPrivileges=yes
# No PrivateTmp, ProtectHome or the like: the service makes approved calls in your workspaces, each in its own sandbox.

[Install]
WantedBy=default.target
"""


def qr_lines(text: str) -> str:
    """Draw a QR code for a terminal."""
    import io

    import segno

    out = io.StringIO()
    segno.make(text, error="m").terminal(out, compact=True)
    return out.getvalue()

"""The network has one way out: no module but those of `net` looks up a name or dials an address."""

from __future__ import annotations

import ast
from pathlib import Path

import handrail

SOURCE = Path(handrail.__file__).parent
CLIENTS = {"aiohttp", "httpx", "httpx2", "requests", "urllib3", "urllib.request", "http.client", "ftplib", "smtplib"}
CLIENTS |= {"poplib", "imaplib", "telnetlib", "xmlrpc.client", "websockets", "websocket", "pycurl", "grpc"}
DIALS = {"create_connection", "open_connection", "getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr"}
DIALS |= {"sock_connect", "connect_ex", "getnameinfo", "create_datagram_endpoint"}
SOCKETS = {"socket", "_socket"}
# Where a socket is connected outside of `net`, and why.
CONNECTS = {
    "sandbox/selftest.py": "a confined child tries to reach this machine itself, and must fail",
    "hooks/client.py": "the UNIX socket of the daemon of this account",
    "hooks/ending.py": "the UNIX socket of the daemon of this account",
}
# What tells people goes to the address that the user's own settings name; no agent chooses it.
NOTICES = {"service/telling.py": {"aiohttp"}}


def ways_out(text: str) -> set[str]:
    """What a module uses that leads out of the machine."""
    found: set[str] = set()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {item.name for item in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{item.name}" for item in node.names)}
            found |= {item.name for item in node.names} & DIALS
        elif isinstance(node, ast.Attribute) and node.attr in DIALS:
            found.add(node.attr)
    connects = {"connect"} if SOCKETS & {name.partition(".")[0] for name in found} and _connects(tree) else set()
    return connects | {n for n in found if n in DIALS or n in CLIENTS or n.partition(".")[0] in CLIENTS}


def _connects(tree: ast.Module) -> bool:
    """Whether a module that has sockets connects something, also in the text of a program that it starts."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr == "connect")
        or (isinstance(node, ast.Constant) and ".connect(" in str(node.value))
        for node in ast.walk(tree)
    )


def test_only_the_network_package_leads_out() -> None:
    """The http tools, the sandbox's proxy, memory and models all go through it."""
    modules = {path.relative_to(SOURCE).as_posix(): path.read_text() for path in SOURCE.rglob("*.py")}
    leading = {name: found for name, text in modules.items() if (found := ways_out(text))}
    outside = {name: found for name, found in leading.items() if not name.startswith("net/")}
    assert outside == {name: {"connect"} for name in CONNECTS} | NOTICES
    assert {"net/transport.py", "net/gate.py", "net/proxy.py"} <= set(leading)


def test_a_way_out_is_seen_however_it_is_spelled() -> None:
    """The negative control."""
    spellings = [
        *("import urllib.request", "from urllib import request", "from http.client import HTTPConnection"),
        *("import aiohttp.client as a", "from socket import create_connection", "import socket\nsocket.getaddrinfo"),
        "async def f(loop):\n    await loop.create_connection()",
        *("import socket\nsocket.socket().connect(('h', 1))", "from socket import socket as s\nreach = s().connect"),
        "def f():\n    import _socket as s\n    s.socket().connect(('h', 1))",
    ]
    assert [bool(ways_out(text)) for text in spellings] == [True] * len(spellings)
    assert ways_out("import socket\nfrom urllib.parse import quote\nimport http") == set()
    assert ways_out("import sqlite3\nsqlite3.connect('x')") == set()

"""MCP: reads of 1 KB over stdio against the npm reference filesystem server, over HTTP against the SDK's own server.

One thin client for all: it writes a message and reads the answer. The contestants take turns. The reference server is
looked for in `HANDRAIL_NODE_MODULES` (a node_modules folder with @modelcontextprotocol/server-filesystem in it) and run
by the Node that lies beside it, else by the system's. Every tool of its that has a cost of its own is measured, so that
nothing is said to be faster that is not.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROUNDS = int(os.environ.get("HANDRAIL_BENCH_ROUNDS", "15"))
TURNS, EACH = max(5, ROUNDS // 2), 20  # of each tool of the dialect
BATCH, CONNECTIONS, REQUESTS = 300, 32, 1600
TEXT = "".join(f"line {number:4} of a small file of about a kilobyte\n" for number in range(21))
TOKEN = "a-token-for-the-benchmark"
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}


class Thin:
    """A client of one process over its pipes."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, bufsize=0
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()

    def ask(self, message: bytes) -> bytes:
        """Send one line, wait for one line."""
        os.write(self._in, message)
        read = os.read(self._out, 1 << 20)
        while not read.endswith(b"\n"):
            read += os.read(self._out, 1 << 20)
        return read

    def greet(self) -> None:
        """Shake hands."""
        self.ask(line(INITIALIZE))
        os.write(self._in, line({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


def line(message: Any) -> bytes:
    """One message."""
    return json.dumps(message).encode() + b"\n"


def call(number: int, tool: str, **args: Any) -> bytes:
    """The line of a call."""
    params = {"name": tool, "arguments": args}
    return line({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})


def node() -> str | None:
    """The Node that the packages bring, else the system's."""
    modules = Path(os.environ.get("HANDRAIL_NODE_MODULES", "nowhere"))
    places = ("node/bin/node", "node-linux-*/bin/node", "node/node_modules/*/bin/node")
    beside = [found for place in places for found in modules.glob(place)]
    return str(beside[0]) if beside else shutil.which("node")


def reference(root: Path) -> list[str] | None:
    """The command of the npm reference server, where it is installed."""
    modules = os.environ.get("HANDRAIL_NODE_MODULES", "")
    script = Path(modules, "@modelcontextprotocol", "server-filesystem", "dist", "index.js")
    runs = node()
    return [runs, str(script), str(root)] if runs and modules and script.exists() else None


def ours(root: Path, *flags: str) -> list[str]:
    """The command of our server."""
    return [str(Path(sys.executable).with_name("handrail")), "mcp", "--workspace", str(root), *flags]


DIALECT = ("--dialect", "mcp-filesystem", "--preset", "mcp-filesystem")


def stdio(root: Path, env: Mapping[str, str]) -> dict[str, float]:
    """Calls a second of each, in turns."""
    commands: dict[str, tuple[list[str], Callable[[int], bytes]]] = {
        "handrail mcp": (ours(root), lambda number: call(number, "read_file", path=f"{number % 8}.txt")),
        "handrail mcp --dialect mcp-filesystem": (
            ours(root, *DIALECT),
            lambda number: call(number, "read_text_file", path=str(root / f"{number % 8}.txt")),
        ),
    }
    if (peer := reference(root)) is not None:
        commands["npm server-filesystem"] = (
            peer,
            lambda number: call(number, "read_text_file", path=str(root / f"{number % 8}.txt")),
        )
    clients = {name: Thin(command, env) for name, (command, _) in commands.items()}
    times: dict[str, list[float]] = {name: [] for name in clients}
    for client in clients.values():
        client.greet()
    number = 0
    for warm in range(ROUNDS + 3):
        for name, client in clients.items():
            start = time.perf_counter()
            for _ in range(BATCH):
                number += 1
                answer = client.ask(commands[name][1](number))
                assert b"line    0" in answer, answer
                assert b'"isError":true' not in answer
            if warm >= 3:
                times[name].append(BATCH / (time.perf_counter() - start))
    for client in clients.values():
        client.close()
    return {name: statistics.median(taken) for name, taken in times.items()}


# What is asked of each tool of the dialect: ten folders with twenty files of a kilobyte each lie below the root.
ASKED: dict[str, Callable[[Path, int], dict[str, Any]]] = {
    "read_text_file": lambda root, n: {"path": str(root / f"d{n % 10}/f{n % 20}.txt")},
    "read_multiple_files": lambda root, _: {"paths": [str(root / f"d{i}/f{i}.txt") for i in range(10)]},
    "list_directory": lambda root, n: {"path": str(root / f"d{n % 10}")},
    "list_directory_with_sizes": lambda root, n: {"path": str(root / f"d{n % 10}")},
    "directory_tree": lambda root, _: {"path": str(root)},
    "search_files": lambda root, n: {"path": str(root), "pattern": f"**/f{n % 10}*.txt"},
    "get_file_info": lambda root, n: {"path": str(root / f"d{n % 10}/f{n % 20}.txt")},
    "write_file": lambda root, n: {"path": str(root / f"w{n % 10}.txt"), "content": f"{n}\n{TEXT}"},
    "edit_file": lambda root, n: {
        "path": str(root / f"d{n % 10}/f0.txt"),
        "edits": [{"oldText": "line    0", "newText": f"line    0 {n % 7}"}],
    },
}


def dialect(folder: Path, env: Mapping[str, str]) -> dict[str, tuple[float, float]]:
    """Calls a second of every tool of the dialect and of the reference server, in turns; nothing without it."""
    roots = [folder / "dialect", folder / "reference"]
    for root in roots:
        for number in range(200):
            (root / f"d{number // 20}").mkdir(parents=True, exist_ok=True)
            (root / f"d{number // 20}/f{number % 20}.txt").write_text(TEXT)
    peer = reference(roots[1])
    if peer is None:
        return {}
    clients = [Thin(ours(roots[0], *DIALECT), env), Thin(peer, env)]
    for client in clients:
        client.greet()
    rates: dict[str, tuple[float, float]] = {}
    for tool in ASKED:
        taken: tuple[list[float], list[float]] = ([], [])
        for turn in range(TURNS + 1):
            for client, root, times in zip(clients, roots, taken, strict=True):
                times.append(_turn(client, root, tool, turn * EACH))
        rates[tool] = (EACH / statistics.median(taken[0][1:]), EACH / statistics.median(taken[1][1:]))
    for client in clients:
        client.close()
    return rates


def _turn(client: Thin, root: Path, tool: str, first: int) -> float:
    """Seconds for a few calls of a tool, each answered without an error."""
    start = time.perf_counter()
    for number in range(first, first + EACH):
        answer = client.ask(call(number, tool, **ASKED[tool](root, number)))
        assert b'"isError":true' not in answer, answer
        assert b'"result"' in answer, answer
    return time.perf_counter() - start


def first_answer(root: Path, env: Mapping[str, str]) -> dict[str, float]:
    """Seconds from the start of a process to its first answer, and to its list of tools; the quickest of each."""
    peer = reference(root)
    commands = {"handrail mcp": ours(root)} | ({} if peer is None else {"npm server-filesystem": peer})
    listing = line({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    found: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            start = time.perf_counter()
            client = Thin(command, env)
            client.greet()
            first = time.perf_counter() - start
            client.ask(listing)
            listed = time.perf_counter() - start
            client.close()
            for what, seconds in ((f"{name}: first answer", first), (f"{name}: list of tools", listed)):
                found[what] = min(seconds, found.get(what, 9e9))
    return found


# ── HTTP ─────────────────────────────────────────────────────────────────────────────────────


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def listening(command: Sequence[str], port: int, env: Mapping[str, str]) -> Iterator[None]:
    """A server for as long as this lasts."""
    process = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
    try:
        for _ in range(400):
            with socket.socket() as trying:
                if trying.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.025)
        yield
    finally:
        process.kill()
        process.wait()


def post(port: int, number: int) -> bytes:
    """One call of the stateless era, as bytes."""
    params = {"name": "read_file", "arguments": {"path": f"{number % 8}.txt"}, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        f"MCP-Protocol-Version: {VERSION}\r\nMcp-Method: tools/call\r\nMcp-Name: read_file\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def one_connection(port: int, requests: int, offset: int) -> None:
    """Ask again and again over one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in range(requests):
        writer.write(post(port, number + offset))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        assert b"line    0" in body, body
    writer.close()


async def rate(port: int) -> float:
    """Calls a second with all connections at once."""
    start = time.perf_counter()
    await asyncio.gather(*(one_connection(port, REQUESTS // CONNECTIONS, offset) for offset in range(CONNECTIONS)))
    return REQUESTS / (time.perf_counter() - start)


def http(root: Path, env: Mapping[str, str]) -> dict[str, float]:
    """Calls a second of each, in turns."""
    ports = {"handrail mcp --http": free_port(), "mcp SDK, minimal server": free_port()}
    first, second = ports.values()
    config = root.parent / "http.toml"  # so many clients at once ask for the same thing several times in a row
    config.write_text("limits.max_repeats = 0\n")
    command = ours(root, "--config", str(config), "--http", f"127.0.0.1:{first}")
    theirs = [sys.executable, str(HERE / "mcp_peers.py"), str(second), str(root)]
    times: dict[str, list[float]] = {name: [] for name in ports}
    with listening(command, first, env), listening(theirs, second, env):
        for warm in range(max(5, ROUNDS // 3)):
            for name, port in ports.items():
                found = asyncio.run(rate(port))
                if warm:
                    times[name].append(found)
    return {name: statistics.median(taken) for name, taken in times.items()}


def main() -> None:
    """Print what was measured, and what does not hold."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "work")
        root.mkdir()
        for number in range(8):
            (root / f"{number}.txt").write_text(TEXT)
        homes = {f"XDG_{name}_HOME": f"{folder}/{name.lower()}" for name in ("STATE", "CONFIG", "CACHE")}
        env = {**os.environ, **homes, "HANDRAIL_TOKEN": TOKEN}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        prepare = "import handrail.store.databases as d, handrail.settings.paths as p; d.prepare(p.cache_dir())"
        subprocess.run([sys.executable, "-c", prepare], env=env, check=True)
        for title, rows, unit in (
            ("stdio, read of 1 KB", stdio(root, env), "calls/s"),
            ("HTTP, 32 connections", http(root, env), "calls/s"),
            ("start", {name: seconds * 1000 for name, seconds in first_answer(root, env).items()}, "ms"),
        ):
            print(f"{title}")
            values = list(rows.values())
            for name, value in rows.items():
                ratio = f"   {values[0] / value:5.2f} times" if unit == "calls/s" and len(values) > 1 else ""
                print(f"    {name:38} {value:9.0f} {unit}{ratio}")
        tell(dialect(Path(folder), env))


def tell(rates: Mapping[str, tuple[float, float]]) -> None:
    """Print how the tools of the dialect compare, and what ran the reference server."""
    if not rates:
        print("the npm reference server is not installed: set HANDRAIL_NODE_MODULES to compare with it")
        return
    print("stdio, every tool of the dialect: handrail, npm server-filesystem")
    for tool, (mine, other) in rates.items():
        print(f"    {tool:38} {mine:9.0f} {other:9.0f} calls/s   {mine / other:5.2f} times")
    version = subprocess.check_output([node() or "node", "--version"], text=True).strip()
    print(f"npm server-filesystem runs on Node {version}")


if __name__ == "__main__":
    main()

"""`handrail mcp --http` in a process of its own, for whoever attacks it: raw bytes in, one answer out."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

TOKEN = "a-token-for-the-attacks"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "attacker", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Answer(NamedTuple):
    """What came back; 0 where the connection was just closed."""

    status: int
    body: bytes


class Server(NamedTuple):
    """A running server."""

    port: int
    process: subprocess.Popen[str]

    def send(self, raw: bytes, *, more: Iterable[bytes] = (), seconds: float = 20) -> Answer:
        """Send bytes over a connection of its own, and read one answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as there:
            try:
                there.sendall(raw)
                for piece in more:
                    there.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it had enough; what it said may still be there
            return _read(there)

    def post(self, body: bytes, **headers: str | None) -> Answer:
        """Post a body, with headers changed or (None) left out."""
        return self.send(self.head(len(body), **headers) + body)

    def head(self, length: int | None, **changed: str | None) -> bytes:
        """The lines before a body."""
        headers: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {TOKEN}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "read_file",
            "Content-Length": None if length is None else str(length),
            **{name.replace("_", "-"): value for name, value in changed.items()},
        }
        lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
        return ("POST /mcp HTTP/1.1\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def memory(self) -> int:
        """Its resident memory at most so far, in bytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.partition("VmHWM:")[2].split()[0]) * 1024


def _read(there: socket.socket) -> Answer:
    data = b""
    try:
        while b"\r\n\r\n" not in data:
            piece = there.recv(65536)
            if not piece:
                return Answer(0, data)
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        length = int((head.lower().partition(b"content-length:")[2].split() or [b"0"])[0])
        while len(body) < length and (piece := there.recv(65536)):
            body += piece
    except (ConnectionResetError, TimeoutError):
        return Answer(0, data)
    return Answer(int(head.split()[1]), body)


@contextmanager
def serving(folder: Path, most_files: int | None = None) -> Iterator[Server]:
    """A server of a folder with one file in it; it ends in order, and no fault of it is left untold."""
    work = folder / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    homes = {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("STATE", "CONFIG", "CACHE")}
    env = {**os.environ, **homes, "HANDRAIL_TOKEN": TOKEN}
    command = [str(Path(sys.executable).with_name("handrail")), "mcp", "-w", str(work), "--http", "127.0.0.1:0"]
    if most_files is not None:
        command = ["sh", "-c", f'ulimit -n {most_files} && exec "$@"', "sh", *command]
    process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = _until_listening(process.stderr)
        yield Server(int(said.split(":")[2].partition("/")[0]), process)
        rest = ended(process)
        assert "Traceback" not in rest, rest
    finally:
        process.kill()
        process.wait()


def ended(process: subprocess.Popen[str]) -> str:
    """End it, and give what it said since it listened; nothing once that was given."""
    if process.returncode is not None:
        return ""
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=20)[1]


def _until_listening(stderr: Any) -> str:
    """The line that says where it listens; what else it says is told where there is none."""
    said = []
    for line in stderr:
        if line.startswith("listening on http://127.0.0.1:"):
            return str(line)
        said.append(line)
    return pytest.fail(f"it does not listen: {''.join(said)}")


def call(arguments: Any = None, **changed: Any) -> bytes:
    """The body of a call."""
    params = {"name": "read_file", "arguments": arguments or {"path": "a.txt"}, "_meta": META}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params, **changed}).encode()

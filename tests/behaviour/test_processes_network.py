"""Programs reach the hosts that `exec.allowed_hosts` names, through the runtime's proxy, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from behaviour._commands import need_sandbox
from handrail import Runtime
from handrail.front.cli.root import handrail
from handrail.store import reader

CLIENT = """
import http.client, sys
for host in sys.argv[2:]:
    line = http.client.HTTPConnection("127.0.0.1", 3128)
    line.request("GET", f"http://{host}:{sys.argv[1]}/")
    answer = line.getresponse()
    print(host, answer.status, answer.read(20).decode("ascii", "replace").strip())
"""

PLAIN_CLIENT = """
import os, sys, urllib.request
print(urllib.request.urlopen(f"http://good.test:{sys.argv[1]}/").read().decode())
try:
    urllib.request.urlopen(f"https://good.test:{sys.argv[1]}/")
except OSError as error:
    print(type(error).__name__)
print(*(f"{name}={value}" for name, value in sorted(os.environ.items()) if "proxy" in name.lower()), sep="\\n")
"""
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
SAID = ("kind", "host", "method", "address", "bytes_sent", "bytes_received", "problem")


class Server:
    """A server on loopback that counts who came."""

    def __init__(self) -> None:
        self.heard = 0
        self.port = 0

    async def answer(self, stream: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        self.heard += 1
        if await stream.readexactly(1) == b"\x16":  # TLS, which it does not speak
            out.close()
            return
        await stream.readuntil(b"\r\n\r\n")
        out.write(ANSWER)
        await out.drain()
        out.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """One server, and a sandbox to reach it from."""
    need_sandbox()
    made = Server()
    serving = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.port = serving.sockets[0].getsockname()[1]
    yield made
    serving.close()


def settings(*hosts: str, **more: Any) -> dict[str, Any]:
    return {
        "tools": {"enable": ["exec"]},
        "exec": {"allowed_hosts": list(hosts), "sandbox": more.get("sandbox", "auto")},
        "http": {"allowed_networks": ["127.0.0.0/8"]},
        "rules": [{"effect": "allow", "touch": "proc.exec"}, *more.get("rules", ())],
    }


async def visited(
    work: Path, config: dict[str, Any], server: Server, *hosts: str, client: str = CLIENT
) -> tuple[list[str], list[Any]]:
    """Let a program ask for hosts; what it got, and what the journal says of each connection."""
    (work / "client.py").write_text(client)

    async def resolve(host: str, port: int) -> list[str]:
        return ["169.254.169.254" if host.startswith("inner") else "127.0.0.1"]

    async with Runtime.open(work, config=config, mode="headless") as runtime:
        runtime.parts.outside.resolver = resolve
        line = f"python3 client.py {server.port} {' '.join(hosts)}"
        outcome = await runtime.call("run_command", {"command": line})
        assert outcome.ok, outcome.content
        events = [e for e in reader.events(runtime.parts.folder.path) if e["kind"].startswith("net.")]
        assert {event["call_id"] for event in events} <= {outcome.call_id}
        made = [{name: event[name] for name in SAID if name in event} for event in events]
    return outcome.data["stdout"].splitlines(), made


@pytest.mark.parametrize("sandbox", ["native", "bwrap"])
async def test_an_allowed_host_answers_and_each_connection_is_on_record(
    work: Path, own_user: Path, server: Server, sandbox: str
) -> None:
    """Judged, counted, journaled; another host is refused and never dialled, whatever makes the sandbox."""
    need_sandbox(sandbox)
    config = settings(f"good.test:{server.port}", sandbox=sandbox)
    got, made = await visited(work, config, server, "good.test", "evil.test")
    assert [line.split()[:2] for line in got] == [["good.test", "200"], ["evil.test", "403"]]
    refused, answered = sorted(made, key=lambda event: event["host"])
    why = refused.pop("problem")
    assert (refused.pop("kind"), answered.pop("kind")) == ("net.refused", "net.connected")
    nothing = {"method": "GET", "address": "", "bytes_sent": 0, "bytes_received": 0}
    assert (server.heard, refused) == (1, {"host": f"evil.test:{server.port}", **nothing})
    assert why.startswith("HOST_NOT_ALLOWED: ")
    counts = [answered.pop("bytes_sent"), answered.pop("bytes_received")]
    assert answered == {"host": f"good.test:{server.port}", "method": "GET", "address": "127.0.0.1"}
    assert counts[0] > len("GET / HTTP/1.1\r\n\r\n")
    assert counts[1] == len(ANSWER)


async def test_programs_that_know_proxies_find_theirs(work: Path, own_user: Path, server: Server) -> None:
    """By the variables that clients look at, for plain and for encrypted connections; Node's has one of its own."""
    got, made = await visited(work, settings(f"good.test:{server.port}"), server, client=PLAIN_CLIENT)
    way, near = "http://127.0.0.1:3128", "localhost,127.0.0.1,::1"
    assert got == [
        "ok",
        "URLError",  # the server speaks no TLS
        f"HTTPS_PROXY={way}",
        f"HTTP_PROXY={way}",
        "NODE_USE_ENV_PROXY=1",
        f"NO_PROXY={near}",
        f"http_proxy={way}",
        f"https_proxy={way}",
        f"no_proxy={near}",
    ]
    assert [(event["host"], event["method"]) for event in made] == [
        (f"good.test:{server.port}", "GET"),
        (f"good.test:{server.port}", "CONNECT"),
    ]


async def test_an_allowed_name_that_leads_inside_is_refused(work: Path, own_user: Path, server: Server) -> None:
    """The same classifier as for the http tools: a name is no way to an inner address."""
    got, made = await visited(work, settings(f"inner.test:{server.port}"), server, "inner.test")
    assert (got[0].split()[1], server.heard, made[0]["problem"][:16]) == ("403", 0, "HOST_NOT_ALLOWED")


async def test_a_rule_denies_a_host_that_settings_allow(work: Path, own_user: Path, server: Server) -> None:
    """Rules on net.connect hold for programs, too."""
    rules = [{"effect": "deny", "touch": "net.connect", "target": "good.test"}]
    got, _ = await visited(work, settings(f"good.test:{server.port}", rules=rules), server, "good.test")
    assert (got[0].split()[1], server.heard) == ("403", 0)


async def test_a_refused_connection_is_told_in_the_outcome_the_tree_the_table_and_the_logs(
    work: Path, own_user: Path, server: Server
) -> None:
    """As refused, with the host and the reason; the connection that was made is told as made."""
    host, other = f"evil.test:{server.port}", f"good.test:{server.port}"
    (work / "client.py").write_text(CLIENT)

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with Runtime.open(work, config=settings(other), mode="headless") as runtime:
        runtime.parts.outside.resolver = resolve
        line = f"python3 client.py {server.port} good.test evil.test evil.test"
        outcome = await runtime.call("run_command", {"command": line})
        folder = runtime.parts.folder.path
    told = [warning for warning in outcome.warnings if "refused" in warning]
    assert [warning.partition(" was refused: HOST_NOT_ALLOWED: ")[0] for warning in told] == [f"a connection to {host}"]
    assert f"Denied on the way: {host} is not in exec.allowed_hosts (allowed: {other})" in told[0]
    drawn = invoke("runs", "tree", folder.name, workspace=work)
    assert drawn.count(f"connection refused: {host} (HOST_NOT_ALLOWED") == 2
    assert drawn.count(f"connected to {other}") == 1
    assert invoke("runs", "show", folder.name, workspace=work).count(f"connection refused: {host}") == 2
    logged = json.loads((folder / "logs" / "tools.jsonl").read_text())
    assert logged["artifacts"]["connections_refused"] == [host, host]


def invoke(*words: str, workspace: Path) -> str:
    """Run a verb of the command line and give its output, unwrapped."""
    done = CliRunner().invoke(handrail, [*words, "--workspace", str(workspace)], env={"COLUMNS": "400"})
    assert done.exit_code == 0, done.output
    return done.output


async def test_without_hosts_there_is_no_way_out(work: Path, own_user: Path, server: Server) -> None:
    """No listener inside, and the machine's loopback is another one."""
    async with Runtime.open(work, config=settings(), mode="headless") as runtime:
        for port in (3128, server.port):
            line = f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 2)'"
            outcome = await runtime.call("run_command", {"command": line})
            assert outcome.error is not None
            assert "refused" in outcome.content
    assert server.heard == 0

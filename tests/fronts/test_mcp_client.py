"""`handrail mcp` as a client has it: the official SDK's client, real processes, nothing but the protocol on stdout."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from fronts._every_tool import everything, holds, offered
from fronts.conftest import Cli
from fronts.mcp_ends import ENVELOPE, connected
from fronts.terminal import at_terminal
from handrail import tool
from handrail.front.mcp.opening import Opening

HANDRAIL = str(Path(sys.executable).with_name("handrail"))
ERAS = pytest.mark.parametrize("era", ["handshake", "stateless"])
MODE: dict[str, Any] = {"handshake": "legacy", "stateless": "auto"}
SETTINGS = '[tools]\nenable = ["fs", "delete_path"]\n[[rules]]\neffect = "allow"\ntouch = "fs.delete"\ntarget = "**"\n'


def parameters(work: Path, config: Path) -> StdioServerParameters:
    """How a client starts the server."""
    return StdioServerParameters(
        command=HANDRAIL, args=["mcp", "--config", str(config)], cwd=str(work), env=dict(os.environ)
    )


@pytest.fixture
def config(work: Path, tmp_path: Path) -> Path:
    """Settings that enable all files' tools, and something to read."""
    (work / "a.txt").write_text("one\n")
    made = tmp_path / "settings.toml"
    made.write_text(SETTINGS)
    return made


@ERAS
async def test_the_official_client_lists_and_calls_every_tool(work: Path, tmp_path: Path, era: str) -> None:
    """Over stdio, all toolsets enabled; each result is the real one, and what the listed schema says."""
    async with (
        everything(work, tmp_path / "settings.toml") as calls,
        Client(stdio_client(parameters(work, tmp_path / "settings.toml")), mode=MODE[era]) as client,
    ):
        assert client.protocol_version == {"handshake": "2025-11-25", "stateless": "2026-07-28"}[era]
        schemas = {item.name: item.output_schema for item in (await client.list_tools()).tools}
        assert set(schemas) == {tool for tool, _, _ in calls} == offered()
        for name, args, want in calls:
            result = await client.call_tool(name, args)
            assert not result.is_error, (name, result.content)
            assert result.structured_content is not None
            jsonschema.validate(result.structured_content, schemas[name] or False)
            assert holds(result.structured_content, want), (name, result.structured_content)


@ERAS
async def test_the_rest_of_the_protocol_is_there_too(work: Path, config: Path, era: str) -> None:
    """What the thin codec leaves to the SDK, on the same connection."""
    async with Client(stdio_client(parameters(work, config)), mode=MODE[era]) as client:
        await client.call_tool("read_file", {"path": "a.txt"})
        with pytest.raises(MCPError, match="Method not found"):
            await client.session.complete({"type": "ref/prompt", "name": "x"}, {"name": "a", "value": "b"})  # type: ignore[arg-type]
        assert not (await client.call_tool("read_file", {"path": "a.txt"})).is_error


@ERAS
async def test_leaving_a_call_over_http_stops_its_work(work: Path, era: str) -> None:
    """By the notification of the one era, by the closed connection of the other."""
    began, stopped = asyncio.Event(), asyncio.Event()

    @tool(pure=True)
    async def wait_for_ever() -> str:
        """Wait."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    async with connected(Opening(str(work), {}, tools=(wait_for_ever,)), era) as client:
        calling = asyncio.ensure_future(client.call_tool("wait_for_ever", {}))
        await asyncio.wait_for(began.wait(), 10)
        calling.cancel()
        await asyncio.wait_for(stopped.wait(), 10)


@ERAS
async def test_progress_comes_over_http(work: Path, era: str) -> None:
    """From what a tool shows."""
    told: list[tuple[float, str | None]] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    async with connected(Opening(str(work), {}), era) as client:
        result = await client.call_tool("display", {"content": "hello"}, progress_callback=heard)
    assert (result.is_error, told) == (False, [(1.0, "hello")])


def test_nothing_but_the_protocol_reaches_stdout(tmp_path: Path) -> None:
    """Prints, programs and logs end on stderr; stdin is empty for them."""
    code = (
        "import os, sys, logging\n"
        "from handrail.front.mcp.streams import claim\n"
        "logging.basicConfig(stream=sys.stderr)\n"
        "source, target = claim()\n"
        "print('printed', flush=True); os.system('echo echoed; cat')\n"
        "os.write(1, b'written'); logging.error('logged')\n"
        "os.write(target, os.read(source, 100))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=b"the protocol", capture_output=True, check=True)
    assert done.stdout == b"the protocol"
    assert all(word in done.stderr for word in (b"printed", b"echoed", b"written", b"logged"))


LOUD = (
    "import os, subprocess\n"
    "from handrail import tool\n"
    "print('imported')\n"
    "@tool(pure=True)\n"
    "async def shout() -> str:\n"
    '    """Make noise."""\n'
    "    print('printed', flush=True)\n"
    "    os.system('echo echoed')\n"
    "    os.write(1, b'written')\n"
    "    subprocess.run(['echo', 'spawned'])\n"
    "    return 'told'\n"
)


def test_a_loud_tool_of_an_installed_package_does_not_reach_stdout(work: Path, tmp_path: Path) -> None:
    """The server as clients start it: every line on its stdout is a message, whatever its tools print."""
    about = tmp_path / "site" / "loud-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[handrail.tools]\nshout = loud:shout\n")
    (about.parent / "loud.py").write_text(LOUD)
    params = {"name": "shout", "arguments": {}, "_meta": ENVELOPE}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": ENVELOPE}}
    path = os.pathsep.join(filter(None, [str(about.parent), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [HANDRAIL, "mcp"],
        cwd=work,
        env={**os.environ, "PYTHONPATH": path},
        input=f"{json.dumps(call)}\n{json.dumps(listing)}\n",
        capture_output=True,
        text=True,
        check=True,
    )
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert {answer["jsonrpc"] for answer in answers.values()} == {"2.0"}
    assert (sorted(answers), answers[1]["result"]["content"][0]["text"]) == ([1, 2], "told")
    assert [word for word in ("imported", "printed", "echoed", "written", "spawned") if word not in done.stderr] == []


def test_watch_in_another_terminal_answers_a_call_over_mcp(cli: Cli) -> None:
    """The request appears there by itself; once it is granted, the waiting call goes on."""
    params = {"name": "delete_path", "arguments": {"path": "a.txt", "confirm": True}, "_meta": ENVELOPE}
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode() + b"\n"
    with at_terminal(["approvals", "watch"], cli.work, cli.env) as terminal:
        terminal.wait_for("Waiting for approval requests")
        server = subprocess.Popen(
            [HANDRAIL, "mcp"], cwd=cli.work, env=cli.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(call)
        server.stdin.flush()
        terminal.wait_for("Answer (once, no, advice")
        terminal.type("once\n")
        result = json.loads(server.stdout.readline())["result"]
        server.communicate(timeout=20)
        terminal.type("\x03")
        terminal.end()
    assert (result["isError"], (cli.work / "a.txt").exists()) == (False, False)


@pytest.mark.parametrize("settings", ["tools.enabel = 1\n", "not toml"])
def test_settings_that_cannot_be_taken_end_it_before_a_word(work: Path, tmp_path: Path, settings: str) -> None:
    """The reason stands on stderr, nothing on stdout."""
    file = tmp_path / "settings.toml"
    file.write_text(settings)
    command = [HANDRAIL, "mcp", "--config", str(file)]
    done = subprocess.run(command, cwd=work, input="", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (2, "", False)
    assert "settings.toml" in done.stderr


@ERAS
async def test_a_client_is_told_that_the_run_cannot_be_opened(work: Path, tmp_path: Path, era: str) -> None:
    """By an answer instead of a closed connection; what is wrong with the settings is for the operator alone."""
    file = tmp_path / "settings.toml"
    file.write_text("tools.enabel = 1\n")
    told: BaseException | None = None
    try:
        async with asyncio.timeout(30), Client(stdio_client(parameters(work, file)), mode=MODE[era]):
            pass
    except Exception as error:
        told = error
    while isinstance(told, BaseExceptionGroup):
        (told,) = told.exceptions
    assert (type(told), "cannot open its run" in str(told), "enabel" in str(told)) == (MCPError, True, False)


def test_without_its_packages_it_says_what_to_install(work: Path) -> None:
    """Before anything is served, and with the exit code of wrong usage."""
    for missing, argv in (("mcp", []), ("mcp_types", []), ("uvicorn", ["--http", "127.0.0.1:0"])):
        code = f"import sys; sys.modules[{missing!r}] = None; from handrail.front.cli import main; main()"
        command = [sys.executable, "-c", code, "mcp", *argv]
        done = subprocess.run(command, cwd=work, input="", capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (2, "", False), done.stderr
        assert "pip install 'handrail[mcp]'" in done.stderr


def test_a_message_that_is_too_long_is_refused_and_the_next_is_answered(work: Path) -> None:
    """And its bytes are not kept."""
    begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}).encode()
    ping = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"}).encode()
    flood = b'{"jsonrpc": "2.0", "id": 3, "method": "' + b"x" * (40 * 1024 * 1024) + b'"}'
    lines = b"\n".join([hello, flood, ping, b""])
    done = subprocess.run([HANDRAIL, "mcp"], cwd=work, input=lines, capture_output=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(answer["id"], answer.get("error", {}).get("code")) for answer in answers] == [
        (1, None),
        (None, -32600),
        (2, None),
    ]

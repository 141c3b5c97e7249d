"""The client and the daemon as processes: started once, closed to others, and never open when something fails."""

from __future__ import annotations

import ast
import fcntl
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from handrail.hooks import client
from handrail.hooks.agents import AGENTS
from handrail.hooks.ending import end_daemon, find_daemon
from handrail.hooks.install import FAILED, line_of
from handrail.store.reader import events
from hooking import ALL, BEFORE, SHELL, decided, payload_of, settings
from hooks.conftest import CLIENT, Hooks


def bash(agent: str, work: Path, line: str, session: str = "s1", number: int = 1) -> dict[str, Any]:
    """The payload before a shell line."""
    more: dict[str, Any] = {"tool_name": SHELL[agent], "tool_input": {"command": line}, "tool_use_id": f"c{number}"}
    return payload_of(agent, BEFORE[agent], work, session, **more)


def daemons(state: Path) -> list[int]:
    """The daemons of a state folder."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"handrail.hooks.daemon" in words and os.fsencode(str(state)) in words:
            found.append(int(folder.name))
    return found


def test_the_client_needs_nothing_but_what_is_built_in() -> None:
    """It must start in the time of a bare interpreter."""
    text = Path(CLIENT).read_text()
    outer = {name.name for node in ast.parse(text).body if isinstance(node, ast.Import) for name in node.names} | {
        node.module for node in ast.parse(text).body if isinstance(node, ast.ImportFrom)
    }
    assert outer == {"__future__", "os", "sys", "time"}
    every = {
        (node.module if isinstance(node, ast.ImportFrom) else name.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in node.names
    }
    assert every <= {
        "__future__",
        "os",
        "sys",
        "time",
        "_json",
        "_socket",
        "fcntl",
        "json",
        "collections.abc",
        "typing",
    }


def test_a_hook_is_answered_with_and_without_a_daemon(hook: Hooks, state: Path, work: Path) -> None:
    """Alike."""
    agent = "claude-code"
    for words in ((), ("--no-daemon",)):
        assert decided(hook(agent, bash(agent, work, "ls"), *words).stdout) == ("silent", "")
        done = hook(agent, bash(agent, work, "git push"), *words)
        assert (decided(done.stdout)[0], done.returncode, done.stderr) == ("deny", 0, b"")
        if not words:
            assert len(daemons(state)) == 1
            end_daemon(str(state))
    assert daemons(state) == []


def test_the_first_hooks_start_one_daemon(hook: Hooks, state: Path, work: Path) -> None:
    """However many come at once; none is lost, and each is on record."""
    with ThreadPoolExecutor(8) as pool:
        payloads = [
            (ALL[number % 3], bash(ALL[number % 3], work, f"ls {number}", number=number)) for number in range(24)
        ]
        done = list(pool.map(lambda item: hook(*item), payloads))
    assert [decided(item.stdout) for item in done] == [("silent", "")] * 24
    assert len(daemons(state)) == 1
    end_daemon(str(state))
    written = [
        event["args"]["command"]
        for agent in ALL
        for event in events(state / "runs" / f"{agent}-s1")
        if event["kind"] == "tool.started"
    ]
    assert sorted(written) == sorted(f"ls {number}" for number in range(24))


def test_the_socket_is_for_this_account_alone(hook: Hooks, state: Path, work: Path) -> None:
    """A private folder, a private socket."""
    hook("codex", bash("codex", work, "ls"))
    assert stat.S_IMODE(os.stat(state / "hooks").st_mode) == 0o700
    assert stat.S_IMODE(os.stat(state / "hooks" / client.SOCKET).st_mode) == 0o600


def test_a_daemon_that_was_killed_is_started_again(hook: Hooks, state: Path, work: Path) -> None:
    """What it left behind is in nobody's way, and the session goes on."""
    hook("codex", bash("codex", work, "ls"))
    pid = find_daemon(str(state))
    os.kill(pid, signal.SIGKILL)
    assert decided(hook("codex", bash("codex", work, "pwd")).stdout) == ("silent", "")
    assert daemons(state) != [pid]
    end_daemon(str(state))
    lines = [event["args"]["command"] for event in events(state / "runs/codex-s1") if event["kind"] == "tool.started"]
    assert lines == ["ls", "pwd"]


@pytest.mark.parametrize("agent", ALL)
@pytest.mark.parametrize(
    "spoil", ["no interpreter", "no client", "a client that dies", "a client that is killed", "a client that babbles"]
)
def test_the_installed_line_denies_whatever_becomes_of_the_client(
    tmp_path: Path, state: Path, work: Path, agent: str, spoil: str
) -> None:
    """By itself, in the agent's form, with exit code 0."""
    hook = next(item for item in AGENTS[agent].hooks if item.event == BEFORE[agent])
    line = line_of(AGENTS[agent], hook, state)
    broken = tmp_path / "client.py"
    broken.write_text(
        {
            "a client that dies": "raise SystemExit(7)",
            "a client that is killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            "a client that babbles": 'print(\'{"decision": "allow"}\', flush=True); raise SystemExit(1)',
        }.get(spoil, "")
    )
    if spoil == "no interpreter":
        line = line.replace(sys.executable, "/nowhere/python")
    elif spoil == "no client":
        line = line.replace(CLIENT, "/nowhere/client.py")
    else:
        line = line.replace(CLIENT, str(broken))
    data = json.dumps(bash(agent, work, "ls")).encode()
    done = subprocess.run(["/bin/sh", "-c", line], input=data, capture_output=True, check=False)
    assert (decided(done.stdout), done.returncode) == (("deny", FAILED), 0)


@pytest.mark.parametrize("agent", ALL)
def test_the_installed_line_answers(state: Path, work: Path, agent: str) -> None:
    """Silence for what is allowed, a deny for what is not."""
    hook = next(item for item in AGENTS[agent].hooks if item.event == BEFORE[agent])
    for command, expected in (("ls", "silent"), ("handrail approvals grant x", "deny")):
        data = json.dumps(bash(agent, work, command)).encode()
        line = line_of(AGENTS[agent], hook, state)
        done = subprocess.run(["/bin/sh", "-c", line], input=data, capture_output=True, check=False)
        assert (decided(done.stdout)[0], done.returncode) == (expected, 0)


@contextmanager
def impostor(folder: Path, answer: bytes) -> Iterator[None]:
    """Have something else answer at the socket."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    here = os.getcwd()
    os.chdir(folder)
    try:
        listener.bind(client.SOCKET)
    finally:
        os.chdir(here)
    listener.listen(5)

    def serve() -> None:
        for _ in range(1000):
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

    thread = Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)
        listener.close()


def test_a_socket_that_nobody_stands_behind_is_not_asked(hook: Hooks, state: Path, work: Path) -> None:
    """Whatever put it there does not hold the daemon's lock."""
    (state / "hooks").mkdir(parents=True, mode=0o700)
    with impostor(state / "hooks", client.MARK + b" 0\n"):
        done = hook("codex", bash("codex", work, "git push"))
    assert decided(done.stdout)[0] == "deny"


@pytest.mark.parametrize("answer", [b"garbage\n", client.MARK + b" 5\nabc"], ids=["garbage", "cut"])
def test_an_answer_that_is_none_is_not_taken(hook: Hooks, state: Path, work: Path, answer: bytes) -> None:
    """The hook decides in its own process."""
    (state / "hooks").mkdir(parents=True, mode=0o700)
    with (state / "hooks" / client.LOCK).open("w") as lock, impostor(state / "hooks", answer):
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = hook("codex", bash("codex", work, "git push"), "--seconds", "3")
    assert decided(done.stdout)[0] == "deny"


def test_a_folder_that_others_may_write_is_not_trusted(hook: Hooks, state: Path, work: Path) -> None:
    """Whoever put a socket there could allow everything."""
    (state / "hooks").mkdir(parents=True)
    os.chmod(state / "hooks", 0o777)
    with impostor(state / "hooks", client.MARK + b" 0\n"):
        done = hook("codex", bash("codex", work, "git push"))
    assert decided(done.stdout)[0] == "deny"
    assert stat.S_IMODE(os.stat(state / "hooks").st_mode) == 0o700


def test_a_daemon_of_other_code_is_not_asked(hook: Hooks, state: Path, work: Path, tmp_path: Path) -> None:
    """After an update the old one ends, and a new one answers."""
    hook("codex", bash("codex", work, "ls"))
    first = find_daemon(str(state))
    found = os.stat(CLIENT)
    os.utime(CLIENT, ns=(found.st_atime_ns, found.st_mtime_ns + 1))
    try:
        assert decided(hook("codex", bash("codex", work, "pwd")).stdout) == ("silent", "")
        assert find_daemon(str(state)) not in (0, first)
    finally:
        os.utime(CLIENT, ns=(found.st_atime_ns, found.st_mtime_ns))
        end_daemon(str(state))


def test_an_agent_that_gives_up_is_not_waited_for(state: Path, work: Path, own_user: Path) -> None:
    """The question it had asked is not answered for nothing: the call is on record as given up."""
    command = [sys.executable, "-I", "-S", CLIENT, "codex", "PreToolUse", "--state", str(state)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as waiting:
        assert waiting.stdin is not None
        waiting.stdin.write(json.dumps(bash("codex", work, "npm test")).encode())
        waiting.stdin.close()
        run = state / "runs" / "codex-s1"
        end = time.monotonic() + 20
        while time.monotonic() < end and "approval.required" not in _kinds(run):
            time.sleep(0.05)
        waiting.kill()
    while time.monotonic() < end and "tool.failed" not in _kinds(run):
        time.sleep(0.05)
    (failed,) = [event for event in events(run) if event["kind"] == "tool.failed"]
    assert failed["code"] == "CANCELLED"


def _kinds(run: Path) -> list[str]:
    return [event["kind"] for event in events(run)] if (run / "events.jsonl").exists() else []


def test_the_environment_of_an_agent_decides_nothing(hook: Hooks, state: Path, work: Path, own_user: Path) -> None:
    """A project's settings of an agent choose it: neither rules nor folders nor code come from there."""
    evil = work / "evil"
    (evil / "handrail").mkdir(parents=True)
    (evil / "handrail" / "config.toml").write_text('exec.allow = ["*"]\n')
    (evil / "sitecustomize.py").write_text(f"open({str(work / 'ran')!r}, 'w')\n")
    (evil / "json.py").write_text(f"open({str(work / 'ran')!r}, 'w')\n")
    env = {
        "HANDRAIL_EXEC__ALLOW": '["git push"]',
        "HANDRAIL_MODE": "interactive",
        "XDG_CONFIG_HOME": str(evil),
        "XDG_STATE_HOME": str(evil),
        "HOME": str(evil),
        "PYTHONPATH": str(evil),
        "PYTHONSTARTUP": str(evil / "sitecustomize.py"),
        "PYTHONHOME": "/nowhere",
        "LD_LIBRARY_PATH": str(evil),
    }
    settings(own_user, "")
    (state / "hooks").mkdir(parents=True, mode=0o700)
    places = {
        "HOME": str(own_user),
        "XDG_CONFIG_HOME": str(own_user / "config"),
        "XDG_CACHE_HOME": str(own_user / "cache"),
    }
    (state / "hooks" / client.PLACE).write_text(json.dumps(places))
    for words in ((), ("--no-daemon",)):
        done = hook("codex", bash("codex", work, "git push"), *words, env=env)
        assert decided(done.stdout)[0] == "deny"
        assert not (work / "ran").exists()
        assert not (evil / "handrail" / "hooks").exists()
        end_daemon(str(state))


def test_the_verb_answers_as_the_client_does(state: Path, work: Path) -> None:
    """`handrail hook AGENT`, as a person would try it."""
    data = json.dumps(bash("gemini-cli", work, "git push")).encode()
    verb = [sys.executable, "-m", "handrail", "hook", "gemini"]
    done = subprocess.run(verb, input=data, capture_output=True, check=True)
    assert json.loads(done.stdout)["decision"] == "deny"


def test_a_payload_that_is_too_large_is_denied(hook: Hooks, state: Path, work: Path) -> None:
    """Without reading all of it."""
    done = hook("codex", b"x" * (client.MOST_BYTES + 10))
    assert decided(done.stdout)[0] == "deny"
    assert daemons(state) == []


def test_many_hooks_at_once_are_all_answered(hook: Hooks, state: Path, work: Path, scale: int) -> None:
    """From ten sessions; each gets its own answer, and all are on record."""
    count = 60 * scale

    def one(number: int) -> bool:
        agent = ALL[number % 3]
        denied = number % 4 == 0
        line = f"handrail runs show {number}" if denied else f"ls {number}"
        told = decided(hook(agent, bash(agent, work, line, f"s{number % 10}", number)).stdout)
        return told[0] == ("deny" if denied else "silent")

    with ThreadPoolExecutor(10) as pool:
        assert all(pool.map(one, range(count)))
    end_daemon(str(state))
    written = [
        event["args"]["command"].rpartition(" ")[2]
        for run in (state / "runs").glob("[!.]*")
        for event in events(run)
        if event["kind"] in ("tool.started", "tool.failed")
    ]
    assert sorted(map(int, written)) == list(range(count))

"""Who puts a question to the person: the agent where people see it, and else the inbox."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from handrail import Runtime
from handrail.compose import SystemClock
from handrail.hooks.ancestry import is_interactive
from handrail.ports import Reply
from handrail.store.ledger import SqliteLedger
from handrail.words import Scope
from hooking import ALL, payload_of, settings, speaking


def ledger(home: Path) -> SqliteLedger:
    """The user's ledger."""
    return SqliteLedger(home / "state" / "handrail" / "ledger.db", SystemClock())


async def answer_next(home: Path, reply: Reply) -> str:
    """Answer the next request, as a person elsewhere; gives its id."""
    book = ledger(home)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if waiting := book.pending(time.time()):
            book.answer(waiting[0].id, reply)
            return waiting[0].id
        await asyncio.sleep(0.02)
    raise AssertionError("nobody asked")


@pytest.mark.parametrize(
    ("mode", "asks"),
    [
        ("default", True),
        ("plan", True),
        ("acceptEdits", True),
        ("bypassPermissions", False),
        ("auto", False),
        ("dontAsk", False),
        ("someday", False),
        ("", False),
    ],
)
async def test_claude_code_asks_itself_only_where_people_see_it(
    work: Path, own_user: Path, mode: str, asks: bool
) -> None:
    """In bypassPermissions an ask was answered by itself."""
    settings(own_user, "approvals.wait_seconds = 0\n")
    async with speaking("claude-code", work) as claude:
        decided, why = await claude.run("npm test", permission_mode=mode or None)
        assert (decided, why != "") == ("ask" if asks else "deny", True)
        assert len(ledger(own_user).pending(time.time())) == (0 if asks else 1)


@pytest.mark.parametrize("agent", ALL)
async def test_a_question_of_ours_is_answered_in_the_inbox(work: Path, own_user: Path, agent: str) -> None:
    """The hook waits; what a person says counts, once."""
    settings(own_user, 'hooks.ask = "inbox"\n')
    async with speaking(agent, work) as speaker:
        speaker.seconds = 20.0
        answering = asyncio.ensure_future(answer_next(own_user, Reply("granted", Scope.CALL, by="ann")))
        assert (await speaker.run("npm test"))[0] == "silent"
        await answering
        refusing = asyncio.ensure_future(answer_next(own_user, Reply("denied", by="ann", advice="not today")))
        decided, why = await speaker.run("npm test")
        await refusing
        assert (decided, "not today" in why) == ("deny", True)
        granted = speaker.events(own_user, "approval.granted")
        assert [event["by"] for event in granted] == ["ann"]


@pytest.mark.parametrize("agent", ["codex", "gemini-cli"])
async def test_nobody_answers_in_time(work: Path, own_user: Path, agent: str) -> None:
    """Codex takes an ask for a failed hook, and headless Gemini waits for ever: both are denied, with a reason."""
    async with speaking(agent, work) as speaker:
        speaker.seconds = 0.3
        decided, why = await speaker.run("npm test")
        assert (decided, "A person must approve this first" in why) == ("deny", True)
        assert "handrail approvals" not in why
        waiting = ledger(own_user).pending(time.time())
        assert [request.tool for request in waiting] == ["run_command"]
        ledger(own_user).answer(waiting[0].id, Reply("granted", Scope.CALL, by="ann"))
        assert (await speaker.run("npm test"))[0] == "silent"
        assert (await speaker.run("npm test"))[0] == "deny"


async def test_allow_is_said_only_where_settings_say_so(work: Path, own_user: Path) -> None:
    """Claude's allow skips its own prompt."""
    async with speaking("claude-code", work) as claude:
        assert await claude.run("ls") == ("silent", "")
    settings(own_user, "hooks.allow = true\n")
    async with speaking("claude-code", work, "s2") as claude:
        assert (await claude.run("ls"))[0] == "allow"
        dialog = payload_of(
            "claude-code", "PermissionRequest", work, "s2", tool_name="Bash", tool_input={"command": "ls"}
        )
        assert b'"behavior": "allow"' in await claude.say(dialog)
    async with speaking("codex", work, "s2") as codex:
        assert await codex.run("ls") == ("silent", "")


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
@pytest.mark.parametrize(("line", "expected"), [("ls", "silent"), ("npm test", "silent"), ("rm -rf /", "deny")])
async def test_a_dialog_stays_unless_policy_denies(
    work: Path, own_user: Path, agent: str, line: str, expected: str
) -> None:
    """A question that the agent shows is the person's to answer."""
    async with speaking(agent, work) as speaker:
        more: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": line}}
        out = await speaker.say(payload_of(agent, "PermissionRequest", work, **more))
        assert (b'"behavior": "deny"' in out) == (expected == "deny")
        assert (out == b"") == (expected == "silent")


async def test_an_answer_for_the_sandbox_is_none_for_an_agent(work: Path, own_user: Path) -> None:
    """Whoever allowed `make all` for good inside the sandbox was not asked about running it outside."""
    text = 'tools.enable = ["exec"]\napprovals.max_scope = "always"\napprovals.wait_seconds = 0\n'
    settings(own_user, f'{text}hooks.ask = "inbox"\n')
    async with Runtime.open(work, caller="cli") as runtime:
        await runtime.call("run_command", {"command": "pytest -q"})
        (request,) = ledger(own_user).pending(time.time())
        ledger(own_user).answer(request.id, Reply("granted", Scope.ALWAYS, by="ann"))
        assert runtime.explain("run_command", {"command": "pytest -q"}).decision.word == "allow"
    async with speaking("codex", work) as codex:
        assert (await codex.run("pytest -q"))[0] == "deny"
        (request,) = ledger(own_user).pending(time.time())
        ledger(own_user).answer(request.id, Reply("granted", Scope.ALWAYS, by="ann"))
        assert (await codex.run("pytest -q"))[0] == "silent"
        assert (await codex.run("pytest -x"))[0] == "silent"


async def test_headless_settings_deny_at_once(work: Path, own_user: Path) -> None:
    """Where nobody can be asked, nobody is waited for."""
    settings(own_user, 'mode = "headless"\nhooks.ask = "inbox"\n')
    async with speaking("claude-code", work) as claude:
        claude.seconds = 30.0
        began = time.monotonic()
        assert (await claude.run("npm test"))[0] == "deny"
        assert time.monotonic() - began < 5


_STAND_IN = (
    "import subprocess, sys, time; print(subprocess.run([sys.executable, '-c', {code!r}]).returncode, flush=True)"
)


def started_as_gemini(tmp_path: Path, words: list[str], *, terminal: bool) -> bool:
    """Start a stand-in for Gemini CLI, and look from a process below it."""
    src = str(Path(__file__).parents[2] / "src")
    code = f"import os, sys; sys.path.insert(0, {src!r})\n"
    code += "from handrail.hooks.ancestry import is_interactive\n"
    code += "sys.exit(0 if is_interactive(os.getpid(), 'gemini') else 3)"
    script = tmp_path / "gemini"
    script.write_text(_STAND_IN.format(code=code))
    command = [sys.executable, str(script), *words]
    if not terminal:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        return done.stdout.strip() == "0"
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, check=True)
    finally:
        os.close(ours)
        os.close(theirs)
    return done.stdout.strip() == "0"


@pytest.mark.parametrize(
    ("words", "terminal", "expected"),
    [
        ([], True, True),
        (["--model", "x"], True, True),
        ([], False, False),
        (["-p", "hi"], True, False),
        (["--prompt=hi"], True, False),
        (["do it"], True, False),
    ],
)
def test_gemini_asks_itself_only_at_a_terminal(
    tmp_path: Path, words: list[str], terminal: bool, expected: bool
) -> None:
    """Where it is headless, its question waits for an answer that nobody gives."""
    assert started_as_gemini(tmp_path, words, terminal=terminal) is expected


def test_a_process_that_is_no_agent_asks_nobody() -> None:
    """In doubt it is not interactive."""
    assert not is_interactive(os.getpid(), "gemini")


async def test_gemini_at_a_terminal_asks_itself(work: Path, own_user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its own form."""
    monkeypatch.setattr("handrail.hooks.answering.is_interactive", lambda *_: True)
    async with speaking("gemini-cli", work) as gemini:
        decided, why = await gemini.run("npm test")
        assert (decided, "npm test" in why) == ("ask", True)


async def test_settings_that_change_count_for_the_next_call(work: Path, own_user: Path) -> None:
    """Without a restart, in the same run; what waits under the former ones is denied."""
    settings(own_user, 'hooks.ask = "inbox"\n')
    async with speaking("codex", work) as codex:
        codex.seconds = 30.0
        waiting = asyncio.ensure_future(codex.run("npm test"))
        while not ledger(own_user).pending(time.time()):
            await asyncio.sleep(0.02)
        settings(own_user, 'exec.allow = ["npm test"]\n')
        assert (await codex.run("npm test"))[0] == "silent"
        decided, why = await waiting
        assert (decided, "have changed" in why) == ("deny", True)
    assert len(codex.events(own_user, "run.started")) == 2

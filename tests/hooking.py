"""Test doubles of agents: they speak the protocol of their hooks, and do by themselves what they are allowed to."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from handrail.hooks.answering import answer
from handrail.hooks.sessions import Sessions
from handrail.store.reader import events

BEFORE = {"claude-code": "PreToolUse", "codex": "PreToolUse", "gemini-cli": "BeforeTool"}
AFTER = {"claude-code": "PostToolUse", "codex": "PostToolUse", "gemini-cli": "AfterTool"}
SHELL = {"claude-code": "Bash", "codex": "Bash", "gemini-cli": "run_shell_command"}
ALL = tuple(BEFORE)


def payload_of(agent: str, event: str, cwd: Path | str, session: str = "s1", **more: Any) -> dict[str, Any]:
    """Write a payload as the agent's documentation has it."""
    common: dict[str, Any] = {"session_id": session, "transcript_path": "/t.jsonl", "cwd": str(cwd)}
    common["hook_event_name"] = event
    if agent == "gemini-cli":
        return {**common, "timestamp": "2026-08-21T10:00:00Z", **more}
    if agent == "codex":
        common |= {"turn_id": "t1", "model": "m"}
    return {**common, "permission_mode": "default", **more}


def decided(out: bytes) -> tuple[str, str]:
    """Read an answer: what was decided, and why; silence is `silent`."""
    if not out:
        return "silent", ""
    told = json.loads(out)
    assert isinstance(told, dict)
    if "systemMessage" in told:
        return "message", told["systemMessage"]
    inner = told.get("hookSpecificOutput")
    if inner is None:
        return told["decision"], told["reason"]
    if inner["hookEventName"] == "PermissionRequest":
        return inner["decision"]["behavior"], inner["decision"].get("message", "")
    return inner["permissionDecision"], inner["permissionDecisionReason"]


class Speaker:
    """One session of one agent."""

    def __init__(self, agent: str, cwd: Path, sessions: Sessions, session: str = "s1") -> None:
        self.agent, self.cwd, self.sessions, self.session = agent, cwd, sessions, session
        self._calls = 0
        self.last: dict[str, Any] = {}
        self.seconds = 2.0
        self.pid = os.getpid()

    async def say(self, payload: dict[str, Any] | bytes, event: str = "") -> bytes:
        """Send one payload, as the client hands it over."""
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        return await answer(self.sessions, self.agent, data, event, self.seconds, self.pid)

    async def before(self, tool: str, args: dict[str, Any], **more: Any) -> tuple[str, str]:
        """Ask before a tool; remembers the call."""
        self._calls += 1
        named = {} if self.agent == "gemini-cli" else {"tool_use_id": f"call_{self._calls}"}
        about = {"tool_name": tool, "tool_input": args, **named, **more}
        self.last = payload_of(self.agent, BEFORE[self.agent], more.get("cwd", self.cwd), self.session, **about)
        return decided(await self.say(self.last))

    async def after(self, call: dict[str, Any] | None = None, **more: Any) -> bytes:
        """Tell that a call has ended, the last one if none is named."""
        told = {"tool_response": {"ok": True}, "duration_ms": 12, **more}
        return await self.say({**(call or self.last), "hook_event_name": AFTER[self.agent], **told})

    async def run(self, line: str, **more: Any) -> tuple[str, str]:
        """Ask before a shell line."""
        return await self.before(SHELL[self.agent], {"command": line}, **more)

    @property
    def run_id(self) -> str:
        """The run of this session."""
        return f"{self.agent}-{self.session}"

    def events(self, home: Path, kind: str = "") -> list[dict[str, Any]]:
        """Give the events of the session's run."""
        folder = home / "state" / "handrail" / "runs" / self.run_id
        return [event for event in events(folder) if not kind or event["kind"] == kind]


@asynccontextmanager
async def speaking(agent: str, cwd: Path, session: str = "s1") -> AsyncIterator[Speaker]:
    """Open a session of an agent, in this process."""
    sessions = Sessions()
    try:
        yield Speaker(agent, cwd, sessions, session)
    finally:
        await sessions.close()


def settings(home: Path, text: str) -> None:
    """Write the user's settings."""
    file = home / "config" / "handrail" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def patch(*lines: str) -> str:
    """Write a patch as Codex does."""
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


def apply_patch(cwd: Path, text: str) -> None:
    """Do what Codex does with a patch of plain sections: add, update by whole lines, delete, move."""
    path: Path | None = None
    for line in text.split("\n"):
        word, _, name = line.partition(": ")
        if word in ("*** Add File", "*** Update File", "*** Delete File"):
            path = cwd / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if word == "*** Add File":
                path.write_text("")
            elif word == "*** Delete File":
                path.unlink()
        elif word == "*** Move to" and path is not None:
            path = path.rename(cwd / name)
        elif path is not None and line[:1] == "+":
            path.write_text(path.read_text() + line[1:] + "\n")
        elif path is not None and line[:1] == "-":
            path.write_text(path.read_text().replace(line[1:] + "\n", "", 1))

"""Whether the hooks of an agent are in force here: what its settings say, and what one payload is answered."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handrail import json_edit
from handrail.errors import SettingsFault
from handrail.front.mcp import install_files
from handrail.hooks import install
from handrail.hooks.payloads import Agent, Stage
from handrail.hooks.sessions import PROBE
from handrail.settings import paths

TRY_SECONDS = 30
_COMMAND = "handrail approvals list"  # denied whatever rules say


@dataclass(slots=True)
class HookState:
    """What is known of one agent."""

    agent: Agent
    found: bool  # the agent has been used here, or is installed
    places: list[str] = field(default_factory=list)  # settings files that hold our lines
    problems: list[str] = field(default_factory=list)  # why hooks are not, or not wholly, in force
    tried: str = ""  # what came of one payload; empty: none was sent
    tried_ms: float = 0.0

    @property
    def in_force(self) -> bool:
        """Say whether hooks are installed, and the one that was tried was answered as it must be."""
        return bool(self.places) and not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Give all of it as plain JSON values."""
        return {
            "agent": self.agent.name,
            "found": self.found,
            "in_force": self.in_force,
            "places": self.places,
            "problems": self.problems,
            "tried": self.tried,
            "tried_ms": round(self.tried_ms, 1),
            "not_seen": list(self.agent.holes),
        }


def look(agent: Agent, workspace: Path, *, attempt: bool = True) -> HookState:
    """Look at an agent's settings of the user and of a project, and try one payload."""
    state = HookState(agent, _is_found(agent, workspace))
    line = ""
    for path in _files(agent, workspace):
        text = _text(path)
        ours = install.find_ours(text)
        state.problems += [f"{path}: {why}" for why in _disabled(agent, text)]
        if not ours:
            continue
        state.places.append(str(path))
        state.problems += [f"{path}: {why}" for why in _outdated(agent, text)]
        before = [entry for event, _, entry in ours if agent.stages.get(event) is Stage.BEFORE]
        line = line or next((command for entry in before for command in install.commands_of(entry)), "")
    if state.places and agent.name == "codex" and not _codex_trusts():
        state.problems.append("Codex skips hooks until you trust them: open /hooks in Codex")
    if line and attempt:
        _attempt(state, line, workspace)
    return state


def _is_found(agent: Agent, workspace: Path) -> bool:
    used = any((folder / agent.folder).is_dir() for folder in (paths.home_dir(), workspace))
    return used or any(shutil.which(name) for name in agent.programs)


def _files(agent: Agent, workspace: Path) -> Iterator[Path]:
    yield install.place_of(agent, workspace, user=True)
    try:
        yield install.place_of(agent, workspace, user=False)
    except SettingsFault:
        return


def _text(path: Path) -> str:
    try:
        return install_files.text_of(path) or ""
    except SettingsFault:
        return ""


def _outdated(agent: Agent, text: str) -> Iterator[str]:
    """Say which hooks are missing or name another program than this one."""
    wanted = install.entries_of(agent)
    there = {event: entry for event, _, entry in install.find_ours(text)}
    if missing := [event for event in wanted if event not in there]:
        yield f"no hook for {', '.join(missing)}; `handrail hook install {agent.name}` adds it"
    if [event for event, entry in there.items() if event in wanted and entry != wanted[event]]:
        yield f"written by another version or place of Handrail; `handrail hook install {agent.name}` renews it"


def _disabled(agent: Agent, text: str) -> Iterator[str]:
    try:
        found = json_edit.read(text) if text.strip() else {}
    except ValueError:
        yield "is no JSON, so the agent may not read it"
        return
    if agent.name == "claude-code" and isinstance(found, dict) and found.get("disableAllHooks"):
        yield "disableAllHooks is set, so no hook is called"


def _codex_trusts() -> bool:
    """Say whether Codex has trusted any hook; which one it means only Codex can tell."""
    import tomllib

    try:
        with open(paths.home_dir() / ".codex" / "config.toml", "rb") as file:
            hooks = tomllib.load(file).get("hooks")
    except (OSError, ValueError):
        return False
    return isinstance(hooks, dict) and bool(hooks.get("state"))


def _attempt(state: HookState, line: str, workspace: Path) -> None:
    """Run the installed line as the agent does, with a call that is denied whatever rules say."""
    agent = state.agent
    event = next(name for name, stage in agent.stages.items() if stage is Stage.BEFORE)
    tool = "run_shell_command" if agent.name == "gemini-cli" else "Bash"
    payload = {
        "session_id": f"{PROBE}-{os.urandom(8).hex()}",
        "transcript_path": None,
        "cwd": str(workspace.resolve()),
        "permission_mode": "default",
        "hook_event_name": event,
        "tool_name": tool,
        "tool_input": {"command": _COMMAND},
        "tool_use_id": "probe",
    }
    began = time.monotonic()
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", line], input=json.dumps(payload).encode(), capture_output=True, timeout=TRY_SECONDS,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        state.problems.append(f"the installed line cannot be run: {error}")
        return
    state.tried_ms = (time.monotonic() - began) * 1000
    told = done.stdout.decode("utf-8", "replace")
    if "calls Handrail" in told:
        state.tried = "denied, as it must be"
    elif install.FAILED in told:
        state.problems.append("the client does not start, so every call is denied")
    else:
        state.problems.append(f"one payload was not answered as it must be: {told[:200] or 'silence'}")

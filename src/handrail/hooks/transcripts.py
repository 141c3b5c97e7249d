"""What agents wrote down of earlier sessions, read as past calls. Nothing is run. One broken line costs that line."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from handrail import strict_json

MOST_LINE = 16 * 1024 * 1024
_DENIED = ("Command blocked by PreToolUse hook", "blocked by PreToolUse hook", "The user doesn't want to proceed")


@dataclass(slots=True)
class PastCall:
    """One call of a tool, as a transcript has it."""

    id: str
    tool: str
    args: dict[str, Any]
    cwd: str
    at: float
    parent: str = ""  # the call that started the subagent which made it
    output: Any = None
    ended: float | None = None  # None: the transcript has no end
    ok: bool = True
    denied: bool = False


@dataclass(slots=True)
class PastSession:
    """One transcript."""

    agent: str
    id: str
    path: Path
    cwd: str = ""
    calls: dict[str, PastCall] = field(default_factory=dict)
    broken: list[tuple[str, int, str]] = field(default_factory=list)  # file, line, what is wrong with it
    lines: int = 0
    starters: dict[str, str] = field(default_factory=dict)  # a subagent's id -> the call that started it


def find_transcripts(agent: str, home: Path) -> list[Path]:
    """List the transcripts of an agent, oldest first."""
    if agent == "claude-code":
        found = (home / ".claude" / "projects").glob("*/*.jsonl")
    else:
        found = (home / ".codex" / "sessions").glob("*/*/*/rollout-*.jsonl")
    return sorted(found, key=lambda path: path.stat().st_mtime)


def read_transcript(agent: str, path: Path) -> PastSession:
    """Read one transcript with those of its subagents."""
    session = PastSession(agent, path.stem, path)
    if agent == "codex":
        _read_codex(session)
    else:
        _read_claude(session)
    if not session.cwd:
        session.cwd = next((call.cwd for call in session.calls.values() if call.cwd), "")
    return session


def _lines(session: PastSession, path: Path) -> Iterator[dict[str, Any]]:
    """Give the objects of a file; what is none is noted by its line."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MOST_LINE):
            number += 1
            session.lines += 1
            if not line.strip():
                continue
            try:
                found = strict_json.loads(line)
                if not isinstance(found, dict):
                    raise ValueError("it is no JSON object")
            except (ValueError, RecursionError) as error:
                session.broken.append((path.name, number, str(error)))
                continue
            try:
                yield found
            except GeneratorExit:
                return


def _each(session: PastSession, path: Path, take: Callable[[dict[str, Any]], None]) -> None:
    """Hand every line over; one that has another shape than its type says is noted as broken."""
    before = session.lines
    for found in _lines(session, path):
        try:
            take(found)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            session.broken.append((path.name, session.lines - before, f"{type(error).__name__}: {error}"))


def moment(value: Any) -> float:
    """Read a time as transcripts write it; ValueError where it is none."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return datetime.fromisoformat(str(value)).timestamp()


# ── Claude Code ──────────────────────────────────────────────────────────────────────────────


class _Claude:
    """The lines of one file of Claude Code: the session's own, or a subagent's."""

    def __init__(self, session: PastSession, agent_id: str = "") -> None:
        self.session, self.agent_id = session, agent_id
        self.prompt = ""  # what a subagent was started with
        self.made: list[str] = []  # the calls of this file that belong to a subagent

    def take(self, line: dict[str, Any]) -> None:
        session = self.session
        if isinstance(line.get("sessionId"), str) and not self.agent_id:
            session.id = line["sessionId"]
        if isinstance(line.get("cwd"), str) and not session.cwd:
            session.cwd = line["cwd"]
        message = line.get("message")
        if line.get("type") not in ("assistant", "user") or message is None:
            return
        content = message["content"]
        side = bool(line.get("isSidechain"))
        if side and not self.prompt and line["type"] == "user":
            self.prompt = _text_of(content)
        for part in content if isinstance(content, list) else ():
            if part.get("type") == "tool_use":
                self._begin(line, part, side=side)
            elif part.get("type") == "tool_result":
                self._end(line, part)

    def _begin(self, line: dict[str, Any], part: dict[str, Any], *, side: bool) -> None:
        at = moment(line["timestamp"])
        cwd = str(line.get("cwd") or "")
        made = PastCall(str(part["id"]), str(part["name"]), dict(part["input"]), cwd, at)
        self.session.calls.setdefault(made.id, made)
        if side:
            self.made.append(made.id)

    def _end(self, line: dict[str, Any], part: dict[str, Any]) -> None:
        call = self.session.calls.get(str(part["tool_use_id"]))
        if call is None:
            raise ValueError(f"the result of a call that is not there: {part['tool_use_id']}")
        call.ended = moment(line["timestamp"])
        call.output = part.get("content")
        call.ok = not part.get("is_error")
        said = _text_of(part.get("content"))
        call.denied = bool(line.get("toolDenialKind")) or (not call.ok and said.startswith(_DENIED))
        told = line.get("toolUseResult")
        if isinstance(told, Mapping) and isinstance(told.get("agentId"), str):
            self.session.starters[told["agentId"]] = call.id


def _read_claude(session: PastSession) -> None:
    own = _Claude(session)
    _each(session, session.path, own.take)
    files = [own]
    folder = session.path.with_suffix("") / "subagents"
    for path in sorted(folder.glob("agent-*.jsonl")) if folder.is_dir() else ():
        inner = _Claude(session, path.stem.removeprefix("agent-"))
        _each(session, path, inner.take)
        files.append(inner)
    for file in files:
        _attach(session, file)


def _attach(session: PastSession, file: _Claude) -> None:
    """Put the calls of a subagent below the call that started it: by its id, or by what it was told to do."""
    starter = session.starters.get(file.agent_id, "")
    if not starter and file.prompt:
        starters = [call for call in session.calls.values() if call.tool in ("Task", "Agent")]
        starter = next((call.id for call in starters if call.args.get("prompt") == file.prompt), "")
    for name in file.made:
        if name != starter:
            session.calls[name].parent = starter


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = [part.get("text") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "\n".join(text for text in texts if isinstance(text, str))


# ── Codex ────────────────────────────────────────────────────────────────────────────────────


class _Codex:
    """The lines of one rollout."""

    def __init__(self, session: PastSession) -> None:
        self.session = session
        self.cwd = ""

    def take(self, line: dict[str, Any]) -> None:
        kind, payload = line["type"], line["payload"]
        if kind == "session_meta":
            self.session.id = str(payload["id"])
            self.cwd = self.session.cwd = str(payload.get("cwd") or "")
        elif kind == "turn_context" and payload.get("cwd"):
            self.cwd = str(payload["cwd"])
        elif kind == "response_item":
            self._item(payload, moment(line["timestamp"]))

    def _item(self, item: dict[str, Any], at: float) -> None:
        kind = item.get("type")
        if kind == "function_call":
            given = strict_json.loads(item["arguments"] or "{}")
            if not isinstance(given, dict):
                raise ValueError("the arguments are no JSON object")
            tool, args, cwd = as_hooked(str(item["name"]), given, self.cwd)
            self._begin(str(item["call_id"]), tool, args, cwd, at)
        elif kind == "custom_tool_call":
            self._begin(str(item["call_id"]), str(item["name"]), {"command": str(item["input"])}, self.cwd, at)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._end(str(item["call_id"]), item.get("output"), at)

    def _begin(self, call_id: str, tool: str, args: dict[str, Any], cwd: str, at: float) -> None:
        self.session.calls.setdefault(call_id, PastCall(call_id, tool, args, cwd, at))

    def _end(self, call_id: str, output: Any, at: float) -> None:
        call = self.session.calls.get(call_id)
        if call is None:
            raise ValueError(f"the output of a call that is not there: {call_id}")
        call.output, call.ended = output, at
        content = output.get("content") if isinstance(output, dict) else output
        said = _text_of(content)
        call.denied = said.startswith(_DENIED)
        call.ok = not call.denied and _exit_code(said) == 0


def as_hooked(name: str, given: dict[str, Any], cwd: str) -> tuple[str, dict[str, Any], str]:
    """Name a call of Codex as its hooks would: every way to run a command is `Bash`."""
    if name not in ("exec_command", "shell", "shell_command", "local_shell", "container.exec"):
        return name, given, cwd
    line = given.get("cmd", given.get("command", ""))
    if isinstance(line, list):
        words = [str(word) for word in line]
        shell = words[0].rpartition("/")[2] if len(words) == 3 else ""
        is_shell = shell in ("bash", "sh", "zsh") and words[1] in ("-lc", "-c")
        line = words[2] if is_shell else shlex.join(words)
    return "Bash", {"command": str(line)}, str(given.get("workdir") or cwd)


def _exit_code(output: str) -> int:
    """Read the exit code that an output tells; 0 where it tells none."""
    try:
        told = json.loads(output)
        return int(told["metadata"]["exit_code"])
    except (ValueError, KeyError, TypeError):
        pass
    for line in output.splitlines()[:8]:
        word, colon, rest = line.partition(":")
        if colon and word.strip().lower() == "exit code" and rest.strip().lstrip("-").isdigit():
            return int(rest)
    return 0


def _read_codex(session: PastSession) -> None:
    _each(session, session.path, _Codex(session).take)

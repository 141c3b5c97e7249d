"""What agents send to their hooks, checked: one payload in, one answer out. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from handrail import strict_json
from handrail.hooks import client
from handrail.words import Json, noun

MOST_TEXT = 64 * 1024  # characters of a field that is no argument of a tool
_EVENT = re.compile(r"[A-Za-z]{1,64}")


class Stage(StrEnum):
    """When a hook is called."""

    BEFORE = "before"  # a tool is about to run
    DIALOG = "dialog"  # the agent is about to ask its person
    AFTER = "after"  # a tool has run
    FAILED = "failed"  # a tool has failed
    START = "start"  # a session begins
    END = "end"  # a session ends
    NOTE = "note"  # the agent tells its person something, or has stopped


class BrokenPayload(ValueError):
    """A payload that cannot be read or lacks something; its event as far as that is known."""

    def __init__(self, reason: str, event: str = "") -> None:
        super().__init__(reason)
        self.event = event


@noun
class Payload:
    """One call of a hook."""

    agent: str
    event: str
    stage: Stage
    session: str
    cwd: str
    tool: str = ""
    args: Mapping[str, Json] = field(default_factory=dict)
    call: str = ""  # the agent's own id of the call
    mode: str = ""  # how the agent asks its person
    response: Json = None
    error: str = ""
    duration_ms: float = 0.0
    source: str = ""  # of a session that begins
    message: str = ""  # of a note


class Decided(StrEnum):
    """What an agent is told."""

    ALLOW = "allow"
    ASK = "ask"  # the agent asks its own person
    DENY = "deny"
    SILENT = "silent"  # nothing: the agent does as it would alone


@noun
class HookAnswer:
    """A decision, and why; a deny is never without a reason."""

    decided: Decided
    reason: str = ""


SILENT = HookAnswer(Decided.SILENT)


@noun
class Place:
    """A settings file of an agent in which hooks can be installed."""

    user: str  # below the home
    project: str  # below the project


@noun
class Hook:
    """One event that is hooked: whether it takes a matcher, and how long the agent waits, in its own unit."""

    event: str
    seconds: int
    matched: bool = True


@noun
class Agent:
    """One agent: its events, its answers, its settings, and what its hooks do not see."""

    name: str
    title: str
    programs: tuple[str, ...]  # by which it is started
    stages: Mapping[str, Stage]
    hooks: tuple[Hook, ...]
    place: Place
    unit: int  # of timeouts in its settings, in a second
    render: Callable[[Payload, HookAnswer], dict[str, Json] | None]
    is_asked: Callable[[Payload], bool]  # whether its person sees the agent's own question
    holes: tuple[str, ...]  # what hooks do not see there
    after_install: str = ""
    needs_call: bool = True  # every call has an id of its own
    folder: str = ""  # of its settings, below home and project: where it has been used
    more: Callable[[Mapping[str, Any], dict[str, Any]], None] = lambda _, __: None


def read_payload(agent: Agent, data: bytes, event: str = "") -> Payload:
    """Read what an agent sent; BrokenPayload names what is wrong.

    `event` is what the installed line says; a payload that names another one is broken.
    """
    guessed = event or client.guess_event(agent.name, data)
    try:
        sent = strict_json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BrokenPayload(f"it is no JSON object: {error}", guessed) from None
    if not isinstance(sent, dict):
        raise BrokenPayload("it is no JSON object", guessed)
    named = sent.get("hook_event_name")
    if not isinstance(named, str) or named not in agent.stages:
        raise BrokenPayload("`hook_event_name` names no event that is known", guessed)
    if event and named != event:
        raise BrokenPayload(f"`hook_event_name` is {named}, and the hook was installed for {event}", event)
    stage = agent.stages[named]
    try:
        return _checked(agent, stage, named, sent)
    except BrokenPayload as broken:
        broken.event = named
        raise


def _checked(agent: Agent, stage: Stage, event: str, sent: Mapping[str, Any]) -> Payload:
    found: dict[str, Any] = {
        "session": _text(sent, "session_id"),
        "cwd": _text(sent, "cwd"),
        "mode": _text(sent, "permission_mode", needed=False),
    }
    _text(sent, "transcript_path", needed=False)
    if not found["cwd"].startswith("/"):
        raise BrokenPayload("`cwd` is no absolute path")
    if stage in (Stage.BEFORE, Stage.DIALOG, Stage.AFTER, Stage.FAILED):
        found["tool"] = _text(sent, "tool_name")
        if not isinstance(sent.get("tool_input"), dict):
            raise BrokenPayload("`tool_input` is no object")
        found["args"] = sent["tool_input"]
        needed = agent.needs_call and stage is not Stage.DIALOG
        found["call"] = _text(sent, "tool_use_id", needed=needed)
        if any(name.startswith("@") for name in found["args"]):
            raise BrokenPayload("a name in `tool_input` begins with @")
    if stage in (Stage.AFTER, Stage.FAILED):
        found["response"] = sent.get("tool_response")
        found["error"] = _text(sent, "error", needed=False)
        lasted = sent.get("duration_ms")
        found["duration_ms"] = float(lasted) if isinstance(lasted, (int, float)) and 0 <= lasted < 1e12 else 0.0
    found["source"] = _text(sent, "source", needed=False)
    found["message"] = _text(sent, "message", needed=False) or _text(sent, "last_assistant_message", needed=False)
    agent.more(sent, found)
    return Payload(agent.name, event, stage, **found)


def _text(sent: Mapping[str, Any], name: str, *, needed: bool = True) -> str:
    value = sent.get(name)
    if value is None and not needed:
        return ""
    if not isinstance(value, str) or (needed and not value.strip()) or len(value) > MOST_TEXT or "\0" in value:
        raise BrokenPayload(f"`{name}` is missing or no text")
    return value

"""Gemini CLI's hooks: its events, its answers, its settings, and what they do not see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handrail.hooks.payloads import Agent, Decided, Hook, HookAnswer, Payload, Place, Stage
from handrail.words import Json

INTERACTIVE = "interactive"


def render(payload: Payload, answer: HookAnswer) -> dict[str, Json] | None:
    """Write an answer; None for silence. An allow is silence there: its own policy decides."""
    if payload.stage is Stage.BEFORE and answer.decided in (Decided.ASK, Decided.DENY):
        return {"decision": answer.decided.value, "reason": answer.reason}
    return {"systemMessage": answer.reason} if answer.reason and answer.decided is Decided.DENY else None


def _more(sent: Mapping[str, Any], found: dict[str, Any]) -> None:
    """A tool that failed is told of like one that did not; whether people see its question is looked up elsewhere."""
    found["mode"] = ""
    response = sent.get("tool_response")
    error = response.get("error") if isinstance(response, Mapping) else None
    if error:
        found["error"] = str(error.get("message") or error) if isinstance(error, Mapping) else str(error)


GEMINI_CLI = Agent(
    name="gemini-cli",
    title="Gemini CLI",
    programs=("gemini",),
    stages={
        "BeforeTool": Stage.BEFORE,
        "AfterTool": Stage.AFTER,
        "SessionStart": Stage.START,
        "SessionEnd": Stage.END,
        "Notification": Stage.NOTE,
    },
    hooks=(
        Hook("BeforeTool", 600),
        Hook("AfterTool", 30),
        Hook("SessionStart", 30, matched=False),
        Hook("SessionEnd", 30, matched=False),
        Hook("Notification", 30, matched=False),
    ),
    place=Place(".gemini/settings.json", ".gemini/settings.json"),
    unit=1000,
    render=render,
    is_asked=lambda payload: payload.mode == INTERACTIVE,
    holes=(
        "a folder that nobody trusted: Gemini CLI drops all hooks of settings there, the user's too",
        "a hook that ends with a signal or takes longer than its timeout: the call goes on",
        "protected files below a folder that grep_search searches: hooks cannot leave files out",
        "what a command does beyond its words: it runs outside Handrail's sandbox, as your account",
    ),
    needs_call=False,
    folder=".gemini",
    more=_more,
)

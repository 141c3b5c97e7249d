"""Codex's hooks: its events, its answers, its settings, and what they do not see."""

from __future__ import annotations

from handrail.hooks.payloads import Agent, Decided, Hook, HookAnswer, Payload, Place, Stage
from handrail.words import Json


def render(payload: Payload, answer: HookAnswer) -> dict[str, Json] | None:
    """Write an answer; None for silence. Of a call to come it takes nothing but a deny with a reason."""
    if payload.stage is Stage.BEFORE:
        if answer.decided is not Decided.DENY:
            return None
        told = {"hookEventName": payload.event, "permissionDecision": "deny"}
        return {"hookSpecificOutput": {**told, "permissionDecisionReason": answer.reason}}
    if payload.stage is Stage.DIALOG and answer.decided in (Decided.ALLOW, Decided.DENY):
        said = {"message": answer.reason} if answer.decided is Decided.DENY else {}
        decision = {"behavior": answer.decided.value, **said}
        return {"hookSpecificOutput": {"hookEventName": payload.event, "decision": decision}}
    return {"systemMessage": answer.reason} if answer.reason and answer.decided is Decided.DENY else None


CODEX = Agent(
    name="codex",
    title="Codex",
    programs=("codex",),
    stages={
        "PreToolUse": Stage.BEFORE,
        "PermissionRequest": Stage.DIALOG,
        "PostToolUse": Stage.AFTER,
        "SessionStart": Stage.START,
        "SessionEnd": Stage.END,
        "Stop": Stage.NOTE,
        "SubagentStop": Stage.NOTE,
    },
    hooks=(
        Hook("PreToolUse", 600),
        Hook("PermissionRequest", 600),
        Hook("PostToolUse", 30),
        Hook("SessionStart", 30, matched=False),
        Hook("SessionEnd", 3, matched=False),
        Hook("Stop", 30, matched=False),
    ),
    place=Place(".codex/hooks.json", ".codex/hooks.json"),
    unit=1,
    render=render,
    is_asked=lambda _: False,  # it takes an `ask` for a failed hook, and goes on
    holes=(
        "hooks that nobody trusted yet: Codex skips them until you trust them in /hooks",
        "what is typed into a running command (write_stdin), and web searches that its provider makes",
        "the working folder and the escalation of a command: hooks are not told of them",
        "calls that fail: only those that succeed are reported afterwards",
        "a hook that crashes or takes longer than its timeout: the call goes on",
        "what a command does beyond its words: it runs outside Handrail's sandbox, as your account",
    ),
    after_install="Codex skips new hooks until you trust them: open /hooks in Codex once.",
    folder=".codex",
)

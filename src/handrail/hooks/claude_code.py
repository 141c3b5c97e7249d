"""Claude Code's hooks: its events, its answers, its settings, and what they do not see."""

from __future__ import annotations

from handrail.hooks.payloads import Agent, Decided, Hook, HookAnswer, Payload, Place, Stage
from handrail.words import Json

# Elsewhere its person sees no question: one is answered by itself, or by a model.
_SEEN = frozenset({"default", "plan", "acceptEdits"})


def render(payload: Payload, answer: HookAnswer) -> dict[str, Json] | None:
    """Write an answer; None for silence."""
    if payload.stage is Stage.BEFORE and answer.decided is not Decided.SILENT:
        told = {"hookEventName": payload.event, "permissionDecision": answer.decided.value}
        reason = answer.reason or "allowed by Handrail"
        return {"hookSpecificOutput": {**told, "permissionDecisionReason": reason}}
    if payload.stage is Stage.DIALOG and answer.decided in (Decided.ALLOW, Decided.DENY):
        said = {"message": answer.reason} if answer.decided is Decided.DENY else {}
        decision = {"behavior": answer.decided.value, **said}
        return {"hookSpecificOutput": {"hookEventName": payload.event, "decision": decision}}
    return {"systemMessage": answer.reason} if answer.reason and answer.decided is Decided.DENY else None


CLAUDE_CODE = Agent(
    name="claude-code",
    title="Claude Code",
    programs=("claude",),
    stages={
        "PreToolUse": Stage.BEFORE,
        "PermissionRequest": Stage.DIALOG,
        "PostToolUse": Stage.AFTER,
        "PostToolUseFailure": Stage.FAILED,
        "SessionStart": Stage.START,
        "SessionEnd": Stage.END,
        "Notification": Stage.NOTE,
        "Stop": Stage.NOTE,
        "SubagentStop": Stage.NOTE,
    },
    hooks=(
        Hook("PreToolUse", 600),
        Hook("PermissionRequest", 600),
        Hook("PostToolUse", 30),
        Hook("PostToolUseFailure", 30),
        Hook("SessionStart", 30, matched=False),
        Hook("SessionEnd", 10, matched=False),
        Hook("Notification", 30, matched=False),
        Hook("Stop", 30, matched=False),
    ),
    # Both name programs by their place on this machine, so the project's file is the one that is not shared.
    place=Place(".claude/settings.json", ".claude/settings.local.json"),
    unit=1,
    render=render,
    is_asked=lambda payload: payload.mode in _SEEN,
    holes=(
        "files that a person mentions with @, and skills that a person types as /name",
        "a folder that nobody trusted yet, and sessions started with --bare or --safe-mode: hooks are not called",
        "a hook that takes longer than its timeout: the call goes on",
        "what a command does beyond its words: it runs outside the sandbox, as your account",
        "protected files below a folder that Grep searches: hooks cannot leave files out",
    ),
    folder=".claude",
)

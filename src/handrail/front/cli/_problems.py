"""A problem as a person at a terminal reads it: what happened, by which rule, and the command that goes on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from handrail.words import ErrorInfo, Outcome, Status

# Said in words of their own, or of no use to a person.
_TOLD = frozenset({"rule", "where", "findings", "approval", "errors", "mend", "log_id", "errno"})

_OF_JOBS = frozenset({"job_read", "job_input", "job_stop"})


def problem_lines(outcome: Outcome) -> Iterator[str]:
    """Tell a problem: the message, then what else is known, one thing a line."""
    error = outcome.error
    assert error is not None
    yield f"{error.code}: {error.message}"
    approval = error.details.get("approval")
    if outcome.status is Status.PENDING and isinstance(approval, Mapping):
        yield from _pending(str(approval.get("id", "")), approval.get("replay"))
        return
    yield from _rule(outcome, error)
    for name, value in error.details.items():
        if name not in _TOLD and value not in (None, "", [], {}):
            yield f"  {name}: {_short(value)}"
    if mend := error.details.get("mend"):
        yield f"  {mend}"
    if outcome.tool in _OF_JOBS and error.code == "NOT_FOUND":
        yield "  A background program ends with the command that started it; each `handrail call` is one by itself."
        yield "  What keeps programs between calls: `handrail mcp`, or one `Runtime` in Python."
    elif error.next_call is not None:
        yield f"  try: {command_of(error.next_call)}"
    elif error.code == "UNKNOWN_TOOL":
        near = error.details.get("near") or [""]
        yield f"  try: handrail tools {f'show {near[0]}' if near[0] else 'list'}"


def _pending(request: str, replay: Any) -> Iterator[str]:
    again = replay.get("command") if isinstance(replay, Mapping) else None
    yield f"  look at it: handrail approvals show {request}"
    yield f"  say yes:    handrail approvals grant {request}"
    yield f"  then:       {again or f'handrail call --approval {request}'}"
    yield f"approval: {request}"


def _rule(outcome: Outcome, error: ErrorInfo) -> Iterator[str]:
    rule, where = error.details.get("rule"), error.details.get("where")
    if rule:
        yield f"  rule: {rule}{f' at {where}' if where else ''}"
    if outcome.status is Status.DENIED and rule and outcome.tool != "undo_changes":  # which nobody calls by its name
        yield f"  what would change that: handrail policy explain {outcome.tool} … (the same arguments)"


def command_of(call: Mapping[str, Any]) -> str:
    """Write a call as the command that makes it."""
    args = call.get("args") or {}
    plain = all(isinstance(value, str) and _stays_text(value) for value in args.values())
    if plain:
        return shlex.join(["handrail", "call", str(call["tool"]), *(f"{name}={value}" for name, value in args.items())])
    import orjson

    return shlex.join(["handrail", "call", str(call["tool"]), "--args", orjson.dumps(args, default=str).decode()])


def _stays_text(value: str) -> bool:
    return bool(value) and "\n" not in value and len(value) < 200


def _short(value: Any) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, list) and all(isinstance(item, str) for item in value):
        text = ", ".join(value)
    else:
        import orjson

        text = orjson.dumps(value, default=str).decode()
    return text if len(text) <= 2000 else f"{text[:2000]}…"

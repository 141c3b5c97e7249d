"""A problem as a person at a terminal reads it: what happened, by which rule, and the command that goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from handrail.front.cli._common import harmless
from handrail.front.cli._suggested import explaining, suggested
from handrail.words import ErrorInfo, Outcome, Status

# Said in words of their own, or of no use to a person.
_TOLD = frozenset({"rule", "where", "findings", "approval", "errors", "mend", "log_id", "errno"})

_OF_JOBS = frozenset({"job_read", "job_input", "job_stop"})


def problem_lines(outcome: Outcome, given: Mapping[str, Any], run_id: str = "") -> Iterator[str]:
    """Tell a problem: the message, then what else is known, one thing a line; commands as the one that was given.

    What comes from files and programs cannot steer the terminal, and its further lines are set in, unlike ours.
    """
    for line in _lines(outcome, given, run_id):
        yield harmless(line).replace("\n", "\n    ")


def _lines(outcome: Outcome, given: Mapping[str, Any], run_id: str) -> Iterator[str]:
    error = outcome.error
    assert error is not None
    yield f"{error.code}: {error.message}"
    approval = error.details.get("approval")
    if outcome.status is Status.PENDING and isinstance(approval, Mapping):
        yield from _pending(str(approval.get("id", "")), approval.get("replay"))
        return
    yield from _rule(outcome, error, given)
    for name, value in error.details.items():
        if name == "diff" and error.code == "APPROVAL_DENIED":  # whoever refused it has seen it
            yield f"  diff: dropped; handrail approvals show {approval} shows it"
        elif name not in _TOLD and value not in (None, "", [], {}):
            yield f"  {name}: {_short(value)}"
    if mend := error.details.get("mend"):
        yield f"  {mend}"
    if outcome.tool in _OF_JOBS and error.code == "NOT_FOUND":
        yield "  A background program ends with the command that started it; each `handrail call` is one by itself."
        yield "  What keeps programs between calls: `handrail mcp`, or one `Runtime` in Python."
    elif error.code == "NOT_FOUND" and error.message.startswith("run:") and not given.get("run_id"):
        yield "  Each `handrail call` is a run of its own; `handrail call --run RUN …` looks in one that was before."
    elif error.code == "STALE_FILE" and error.next_call is not None and run_id and not given.get("run_id"):
        yield f"  try: {suggested(error, {**given, 'run_id': run_id})}"
        yield f"  then this call with --run {run_id}, too: each `handrail call` is a run of its own otherwise"
    elif (command := suggested(error, given)) is not None:
        yield f"  try: {command}"


def _pending(request: str, replay: Any) -> Iterator[str]:
    again = replay.get("command") if isinstance(replay, Mapping) else None
    yield f"  look at it: handrail approvals show {request}"
    yield f"  say yes:    handrail approvals grant {request}"
    yield f"  then:       {again or f'handrail call --approval {request}'}"
    yield f"approval: {request}"


def _rule(outcome: Outcome, error: ErrorInfo, given: Mapping[str, Any]) -> Iterator[str]:
    rule, where = error.details.get("rule"), error.details.get("where")
    if rule:
        yield f"  rule: {rule}{f' at {where}' if where else ''}"
    if outcome.status is Status.DENIED and rule and outcome.tool != "undo_changes":  # which nobody calls by its name
        yield f"  what would change that: {explaining(outcome.tool, _at_redirect(error, given))}"


def _at_redirect(error: ErrorInfo, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The call as it would be for the address that was denied: another one than the first where that led on."""
    via = error.details.get("redirects")
    if not isinstance(via, list) or not via:
        return given
    return {**given, "raw": None, "pairs": (f"url={via[-1]}",)}


def _short(value: Any) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, list) and all(isinstance(item, str) for item in value):
        text = ", ".join(value)
    else:
        import orjson

        text = orjson.dumps(value, default=str).decode()
    return text if len(text) <= 2000 else f"{text[:2000]}…"

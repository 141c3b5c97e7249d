"""What the journal is told of a call: events as plain data. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from handrail.ports.files import Former
from handrail.words import Call, Change, Finding, Json, Outcome, Touch, Verdict, noun

MAX_TEXT = 2000  # characters of one argument that an event keeps
MAX_ITEMS = 100
MAX_DEPTH = 64  # of what could not be written as it was


def verdict_fields(touches: Sequence[Touch], verdict: Verdict, policy_digest: str) -> dict[str, Json]:
    """What was judged and how."""
    return {
        "touches": [_touch(touch) for touch in touches[:MAX_ITEMS]],
        "verdict": {
            "decision": verdict.decision.word,
            "findings": [_finding(finding) for finding in verdict.findings[:MAX_ITEMS]],
            "excluded": len(verdict.excluded),
        },
        "policy_digest": policy_digest,
        "sandbox": None,
    }


def texts_of(touches: Sequence[Touch], verdict: Verdict) -> list[str]:
    """All in those fields that somebody else wrote."""
    texts = [touch.shown for touch in touches]
    texts += [touch.skill.id for touch in touches if touch.skill is not None]
    for finding in verdict.findings:
        texts += (finding.rule, finding.where, finding.why)
    return texts


def _touch(touch: Touch) -> dict[str, Json]:
    told: dict[str, Json] = {"kind": str(touch.kind), "target": touch.shown}
    if touch.deep:
        told["deep"] = True
    if touch.how:
        told["how"] = touch.how.value
    if touch.skill is not None:
        told["skill"] = {"id": touch.skill.id, "digest": touch.skill.digest}
    return told


def _finding(finding: Finding) -> dict[str, Json]:
    told: dict[str, Json] = {"rule": finding.rule, "decision": finding.decision.word, "touch": finding.touch}
    if finding.where:
        told["where"] = finding.where
    if finding.decision:
        told["why"] = finding.why
    return told


def end_fields(outcome: Outcome, effect: str) -> dict[str, Json]:
    """How a call ended."""
    fields: dict[str, Json] = {
        "tool": outcome.tool,
        "status": "ok" if outcome.error is None else outcome.status.value,
        "effect": effect,
        "duration_ms": outcome.duration_ms,
        "evidence": [[item.type, item.ref, item.sha256] for item in outcome.evidence],
    }
    if outcome.error is not None:
        fields["code"] = outcome.error.code
        fields["class"] = outcome.error.error_class
        fields["message"] = cut(outcome.error.message)
    if outcome.redacted:
        fields["redacted"] = True
    if outcome.changes:
        fields["files_changed"] = [change_fields(change) for change in outcome.changes]
    if outcome.commands:
        fields["commands_run"] = list(outcome.commands)
    if (code := _exit_code(outcome)) is not None:
        fields["exit_code"] = code
    if outcome.refs:
        fields["refs"] = [{"ref": ref.ref, "sha256": ref.sha256, "bytes": ref.bytes} for ref in outcome.refs]
    if outcome.truncation is not None:
        left = (outcome.truncation.total or 0) - outcome.truncation.shown
        fields["truncated_bytes" if outcome.truncation.by == "bytes" else "truncated_lines"] = max(left, 0)
    if outcome.scope != "none":
        fields["approved"], fields["scope"] = True, outcome.scope
    return fields


def input_digest(args: Mapping[str, Json]) -> str:
    """Name what an agent gave a tool, so that its later word on the call is known to be about the same."""
    given = {name: value for name, value in args.items() if not name.startswith("@")}
    return hashlib.sha256(orjson.dumps(jsonable(given), option=orjson.OPT_SORT_KEYS)).hexdigest()


def handed_over_fields(agent: str, call: Call, formers: Sequence[Former]) -> dict[str, Json]:
    """What is said of a call that an agent carries out itself: whose it is, and what stood where it may write."""
    fields: dict[str, Json] = {"handed_over": {"to": agent, "id": call.agent_call, "digest": input_digest(call.args)}}
    if formers:
        fields["before"] = former_fields(formers)
    return fields


def former_fields(formers: Sequence[Former]) -> list[dict[str, Json]]:
    """What stands where an agent may write, as its later word is compared with it."""
    return [
        {"path": item.path, "kind": item.kind.value, "sha256": item.sha256, "mode": item.mode, "kept": item.kept}
        for item in formers
    ]


def _exit_code(outcome: Outcome) -> int | None:
    """How the program of a call ended; None where there was none, or a signal ended it."""
    known = outcome.data if outcome.error is None else outcome.error.details
    code = known.get("exit_code") if isinstance(known, Mapping) and "stdout" in known else None
    return code if isinstance(code, int) else None


def change_fields(change: Change) -> dict[str, Json]:
    """One change, with what undo needs."""
    told: dict[str, Json] = {"path": change.path, "op": change.op, "before": change.before, "after": change.after}
    for name in ("mode", "source", "link"):
        if (value := getattr(change, name)) is not None:
            told[name] = value
    if not change.kept:
        told["kept"] = False
    return told


def cut(value: Any) -> Any:
    """Shorten what an event keeps of a value; a cut names the length and hash of the whole."""
    if isinstance(value, str):
        if len(value) <= MAX_TEXT:
            return value
        digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{value[:MAX_TEXT]}… ({len(value)} characters, sha256 {digest})"
    if isinstance(value, Mapping):
        return {cut(key): cut(item) for key, item in list(value.items())[:MAX_ITEMS]}
    if isinstance(value, (list, tuple)):
        return [cut(item) for item in value[:MAX_ITEMS]]
    return value


def jsonable(value: Any) -> Any:
    """Give any value as JSON values; what has no JSON form becomes text."""
    try:
        return orjson.loads(orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS))
    except (TypeError, ValueError):
        return _mended(value, MAX_DEPTH)


def _mended(value: Any, depth: int) -> Any:
    """The same with what JSON cannot hold as text: half characters, huge numbers, bottomless nesting."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if value.bit_length() < 64 else f"a number of {value.bit_length()} bits"
    if not isinstance(value, (Mapping, list, tuple)):
        return f"a value of type {type(value).__name__}"
    if depth == 0:
        return "…"
    if isinstance(value, Mapping):
        return {str(_mended(key, depth - 1)): _mended(item, depth - 1) for key, item in value.items()}
    return [_mended(item, depth - 1) for item in value]


@noun
class EventKind:
    """One kind of event: when it is written, and what it carries beyond what every event has."""

    when: str
    fields: tuple[str, ...]


EVERY_EVENT = ("seq", "ts", "run_id", "kind", "call_id", "prev")
EVENTS = {
    "run.started": EventKind(
        "a run is opened, for the first time or again",
        ("trace_id", "workspace", "caller", "user", "pid", "settings_digest", "policy_digest", "files", "warnings",
         "parent_run", "identity", "reopened", "order"),
    ),
    "run.finished": EventKind("a run is closed", ("trace_id", "usage", "order")),
    "agent.started": EventKind(
        "the agent begins a task; `agent` is the task's id",
        ("trace_id", "agent", "task", "provider", "model", "dialect", "limits"),
    ),
    "agent.completed": EventKind(
        "a task ended with an answer", ("trace_id", "agent", "answer", "turns", "calls", "usage", "seconds")
    ),
    "agent.failed": EventKind(
        "a task stopped without an answer: a limit, the model, a person; `reason` is one word, `message` what to do",
        ("trace_id", "agent", "reason", "message", "error_class", "turns", "calls", "usage", "seconds"),
    ),
    "turn.started": EventKind(
        "a model is asked for its next step; calls of the turn carry `id` as `parent`",
        ("trace_id", "turn", "id", "parent"),
    ),
    "turn.finished": EventKind(
        "the calls of a turn have ended, or it gave the answer",
        ("trace_id", "turn", "id", "parent", "usage", "calls", "failures"),
    ),
    "question.asked": EventKind(
        "a task asks a person and waits; `about` is person or outcome",
        ("trace_id", "question", "parent", "about", "text", "choices"),
    ),
    "question.answered": EventKind("a person answered", ("trace_id", "question", "parent", "answer", "by")),
    "message.received": EventKind(
        "a person said something to a running task; it approves nothing", ("trace_id", "parent", "text", "by")
    ),
    "tool.started": EventKind(
        "after the last decision; durable before the effect of a call that changes anything",
        ("trace_id", "tool", "version", "risk", "args", "caller", "touches", "verdict", "policy_digest", "sandbox",
         "grant", "parent", "client", "dialect", "asked", "given_id", "key", "args_digest", "handed_over", "before"),
    ),
    "tool.observed": EventKind(
        "an agent has told how a call ended that it carried out itself; without this event nobody saw the end",
        ("trace_id", "tool", "agent", "status", "args", "changed_input", "duration_ms", "message", "response",
         "files_changed", "warnings", "approved", "seen", "order"),
    ),
    "agent.noted": EventKind(
        "an agent told of something that is no call: a session begins or ends, it waits for its person, it has stopped",
        ("agent", "event", "message"),
    ),
    "tool.completed": EventKind(
        "a tool did what was asked",
        ("trace_id", "tool", "status", "effect", "duration_ms", "evidence", "redacted", "files_changed",
         "commands_run", "exit_code", "refs", "truncated_lines", "truncated_bytes", "approved", "scope", "bytes_read",
         "bytes_written", "processes", "seen", "order"),
    ),
    "tool.failed": EventKind(
        "a call ended in any other way; one that never started carries the fields of `tool.started`, too",
        ("code", "class", "message", "started", "… those of tool.completed"),
    ),
    "approval.required": EventKind("a person must approve", ("trace_id", "request", "asked")),
    "approval.granted": EventKind(
        "an approval is spent, right before the effect", ("trace_id", "grant", "request", "scope", "by")
    ),
    "approval.denied": EventKind(
        "a person said no, or the request expired", ("trace_id", "request", "state", "by", "advice")
    ),
    "approval.fetched": EventKind(
        "a call was given the outcome of an equal one that was made on its behalf when it was granted",
        ("trace_id", "tool", "made_as", "status"),
    ),
    "display": EventKind("a tool shows something to the person", ("content", "level", "title", "thought", "evidence")),
    "limit.hit": EventKind(
        "a budget, rate, breaker or the guard against repeats refuses a call",
        ("trace_id", "tool", "code", "budget", "bound", "used", "host", "retry_after_seconds"),
    ),
    "net.connected": EventKind(
        "a program's connection through the runtime's own proxy has ended; `problem` where it failed",
        ("host", "method", "address", "bytes_sent", "bytes_received", "problem"),
    ),
    "net.refused": EventKind(
        "a program's connection was refused by rules, settings or bounds; nothing was sent",
        ("host", "method", "address", "bytes_sent", "bytes_received", "problem"),
    ),
    "review.dropped": EventKind(
        "what a review was keeping when its runtime was killed was put back, but for what was changed since",
        ("run", "call", "paths", "left", "aside"),
    ),
    "changes.judged": EventKind(
        "not all that a program changed was kept without a question; `judged` has the first hundred of those",
        ("changes", "judged"),
    ),
    "planted.found": EventKind(
        "what programs had made that none may, when their runtime was killed, was set aside, but for what is left",
        ("run", "paths", "aside", "left"),
    ),
    "program.warned": EventKind(
        "a program left something that a person must look at: protected files, links that lead out of the roots",
        ("warnings",),
    ),
    "skill.loaded": EventKind(
        "a skill became the active one of the run; until another does, only its `allowed_tools` may be called",
        ("id", "name", "source", "digest", "allowed_tools", "permissions"),
    ),
    "memory.candidate": EventKind(
        "a note waits in the run's archive for a person to accept it", ("id", "action", "scope", "ref", "sha256")
    ),
    "undo.applied": EventKind("what calls changed was put back", ("run", "calls", "by_call")),
    "journal.mended": EventKind(
        "a line that a crash tore was kept aside and cut", ("reason", "bytes", "kept")
    ),
}  # fmt: skip

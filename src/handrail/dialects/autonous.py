"""autonous: seven tools named as the commands they stand for, one Result for all, tool_call.* events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from handrail.dialects import _autonous_bash
from handrail.dialects._cursor import following, goes_on
from handrail.dialects._dialect import Args, Dialect, Event, Message, Word, one_call
from handrail.dialects._schema import CURSOR, LIMIT, properties
from handrail.dialects._telling import ENDS, asked_for, finished, picked, problem, spoken_call
from handrail.dialects._wording import retold_message
from handrail.errors import FACTS, Code, Problem
from handrail.words import Json, Outcome, Truncation

DEEPEST = 10  # how far `recursive` goes


# ── arguments ────────────────────────────────────────────────────────────────────────────────


def _ls(args: Args) -> Args:
    depth = DEEPEST if args.pop("recursive", False) else 1
    return {**args, "depth": depth}


def _ls_back(args: Args) -> Args | None:
    told = {name: args.pop(name) for name in ("path", "limit", "cursor") if name in args}
    return None if set(args) - {"depth"} else told | ({"recursive": True} if args.get("depth", 1) > 1 else {})


def _read(args: Args) -> Args:
    """Bytes are counted only where bytes are asked for; otherwise the whole file is shown as far as limits go."""
    asked = goes_on(args)
    return {"byte_offset": 0, **asked} if "byte_limit" in asked else asked


def _write(args: Args) -> Args:
    # Its overwrite replaces what is there, read before or not; the former content is kept for undo.
    return args if args["mode"] == "append" else {**args, "expected_sha256": "*"}


def _write_back(args: Args) -> Args | None:
    mode = args.get("mode")
    return {"path": args["path"], "content": args["content"], "mode": mode} if mode in ("append", "overwrite") else None


def _edit(args: Args) -> Args:
    match = "all" if args.get("all") else "first"
    return {"path": args["path"], "edits": [{"old": args["find"], "new": args["replace"], "match": match}]}


def _edit_back(args: Args) -> Args | None:
    edits = args.get("edits") or []
    if len(edits) != 1 or edits[0].get("match") not in ("all", "first"):
        return None
    edit = edits[0]
    return {"path": args["path"], "find": edit["old"], "replace": edit["new"], "all": edit["match"] == "all"}


# ── output ───────────────────────────────────────────────────────────────────────────────────


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _listed(outcome: Outcome) -> str:
    entries = outcome.data["entries"]
    return _lines(f"{item['name']}/" if item["type"] == "directory" else item["name"] for item in entries)


def _found(outcome: Outcome) -> str:
    return _lines(outcome.data["paths"])


def _matched(outcome: Outcome) -> str:
    return _lines(map(_match, outcome.data["matches"]))


def _match(item: Mapping[str, Any]) -> str:
    return f"{item['file']}:{item['line']}:{item['text']}"


def _fits(outcome: Outcome, max_lines: int, max_bytes: int) -> Outcome:
    """Matches as far as they fit with the file's name before each; the cursor goes on behind the last of them."""
    rows, size, count = outcome.data["matches"], 0, 0
    for item in rows:
        size += len(_match(item).encode("utf-8", "surrogatepass")) + 1
        if count == max_lines or size > max_bytes:
            break
        count += 1
    if count == len(rows):
        return outcome
    shown = rows[: max(count, 1)]
    cursor = _behind(shown[-1], outcome.evidence[0].ref)
    cut = Truncation("lines" if count == max_lines else "bytes", len(shown), outcome.data.get("total"), cursor)
    return replace(outcome, data={**outcome.data, "matches": shown, "next_cursor": cursor}, truncation=cut)


def _behind(item: Mapping[str, Any], place: str) -> str | None:
    """The cursor behind a match, from the place that was searched; none for a name that is shown escaped."""
    name = str(item["file"])
    below = "" if name == place else name.removeprefix(f"{place}/")
    return None if "\\" in below else f"{below.replace('%', '%25')}:{item['line']}"


RESULT = properties(
    ok="boolean",
    exit_code="integer",
    stdout="string",
    stderr="string",
    truncated_lines="boolean",
    truncated_bytes="boolean",
    next_page_cursor_="string",
    meta_="object",
)
_WORDS = (
    Word(
        "ls",
        "list_dir",
        "List a directory, one entry a line; `recursive` goes below.",
        properties(path="string", recursive_="boolean", limit_=LIMIT, cursor_=CURSOR),
        inward=_ls,
        back=_ls_back,
        outward=_listed,
    ),
    Word(
        "find",
        "find_files",
        "Find paths whose name fits a pattern.",
        properties(
            path="string",
            name_pattern="string",
            max_depth_={"type": "integer", "minimum": 1, "maximum": 256},
            limit_={**LIMIT, "maximum": 10000},
            cursor_=CURSOR,
        ),
        names={"name_pattern": "pattern", "max_depth": "depth"},
        always={"type": "any"},
        outward=_found,
    ),
    Word(
        "grep",
        "grep",
        "Search files for a pattern; matches come as file:line:text.",
        properties(path="string", pattern="string", glob_="string", limit_={**LIMIT, "maximum": 5000}, cursor_=CURSOR),
        outward=_matched,
        fits=_fits,
    ),
    Word(
        "read",
        "read_file",
        "Read a file, or part of it from a byte offset.",
        properties(path="string", offset_={"type": "integer", "minimum": 0}, limit_bytes_=LIMIT, cursor_=CURSOR),
        names={"offset": "byte_offset", "limit_bytes": "byte_limit"},
        inward=_read,
        outward=lambda outcome: outcome.data["text"],
    ),
    Word(
        "write",
        "write_file",
        "Write a file in one step: overwrite it, or append to it.",
        properties(path="string", content="string", mode_={"type": "string", "enum": ["append", "overwrite"]}),
        defaults={"mode": "overwrite"},
        inward=_write,
        back=_write_back,
        outward=lambda outcome: f"{outcome.data['written']}\n",
    ),
    Word(
        "edit",
        "edit_file",
        "Find and replace text in a file: the first match, or all.",
        properties(path="string", find="string", replace="string", all_="boolean"),
        inward=_edit,
        back=_edit_back,
        spoken={
            "`edits.0`: ": "",
            "`edits.0.old`": "`find`",
            "`edits.0`": "the edit",
            "The edits leave": "The edit leaves",
            "each `new`": "`replace`",
            "`old`": "`find`",
            "`new`": "`replace`",
        },
        outward=lambda outcome: f"{outcome.data['replacements']}\n",
    ),
    Word(
        "bash",
        "run_command",
        "Run a command with bash.",
        properties(
            cmd="string",
            workdir_="string",
            timeout_seconds_={"type": "number", "minimum": 1, "maximum": 600},
            cursor_=CURSOR,
        ),
        names={"cmd": "command", "workdir": "cwd"},
        inward=_autonous_bash.arguments,
        steps=_autonous_bash.pages,
        stepping=frozenset({"cursor"}),
        fits=_autonous_bash.fits,
        outward=lambda outcome: outcome.data.get("stdout") or "",
    ),
)
WORDS = tuple(replace(word, result=RESULT) for word in _WORDS)


def _envelope(outcome: Outcome) -> dict[str, Json]:
    """One Result for every tool; what its document does not have stands in `meta`."""
    ok, cut = outcome.ok, outcome.truncation
    stdout, stderr = _streams(outcome)
    told: dict[str, Json] = {
        "ok": ok,
        "exit_code": _exit_code(outcome),
        "stdout": stdout,
        "stderr": stderr,
        "truncated_lines": cut is not None and cut.by != "bytes",
        "truncated_bytes": cut is not None and cut.by == "bytes",
    }
    cursor = cut.next_cursor if cut is not None else None
    if cursor is not None and outcome.tool == "read_file" and outcome.asked != _autonous_bash.NAME:
        cursor = following(cursor)  # ours names lines, and the path once more
    if cursor is not None:
        told["next_page_cursor"] = cursor
    return {**told, "meta": _meta(outcome)}


def _streams(outcome: Outcome) -> tuple[str, str]:
    if outcome.error is not None:
        details = outcome.error.details
        if "stderr" in details:  # a program ran: what it wrote and nothing else; the reason stands in `meta`
            return str(details.get("stdout") or ""), str(details["stderr"])
        return "", f"{outcome.error.message}\n"
    told = DIALECT.told(outcome)
    if not isinstance(outcome.data, dict) or told is None:
        return outcome.content, ""
    if outcome.tool == "read_file" and _autonous_bash.is_error_stream(outcome):
        return "", str(told)
    return str(told), str(outcome.data.get("stderr") or "") if outcome.tool == "run_command" else ""


def _exit_code(outcome: Outcome) -> int:
    """The program's own where there was one; else 0 or 1."""
    known: Any = outcome.error.details if outcome.error is not None else outcome.data
    code = known.get("exit_code") if isinstance(known, Mapping) else None
    if isinstance(code, int) and (outcome.ok or code != 0):
        return code
    return 0 if outcome.ok else 1


def _meta(outcome: Outcome) -> dict[str, Json]:
    meta: dict[str, Json] = {"call_id": outcome.call_id, "summary": outcome.summary, "redacted": outcome.redacted}
    if outcome.error is not None:
        told = {"message": outcome.error.message, **problem(outcome, DIALECT)}
        if outcome.tool == "run_command":  # what it wrote stands in the streams
            told = {name: value for name, value in told.items() if name not in _autonous_bash.STREAMS}
        meta |= {"error_class": outcome.error.error_class, "error": told}
    if outcome.warnings:
        meta["warnings"] = list(outcome.warnings)
    if outcome.refs:
        meta["refs"] = [ref.ref for ref in outcome.refs]
    return meta


_EVERY = frozenset({"kind", "prev", "trace_id"})  # fields that a payload does not repeat


# ── events, approvals, messages ──────────────────────────────────────────────────────────────


def _events(events: Iterable[Event]) -> Iterator[dict[str, Json]]:
    """Give tool_call.started, then tool_call.completed or .failed, for every call; other events as they are.

    Those of an agent and its turns have a payload, too; `parent` leads from a call to its turn, and on to the agent.
    """
    begun: set[Any] = set()
    for event in finished(events):
        kind = str(event.get("kind"))
        common = picked(event, "seq", "ts", "run_id", "call_id", "parent")
        if kind == "tool.started":
            begun.add(event.get("call_id"))
        elif kind in ENDS and event.get("call_id") not in begun:
            # Refused before it started: the document has both events for every call, with what was asked.
            yield {**common, "kind": "tool_call.started", "payload": _payload("tool.started", event)}
        if kind.startswith("tool."):
            yield {**common, "kind": f"tool_call.{kind.removeprefix('tool.')}", "payload": _payload(kind, event)}
        elif kind.startswith(("agent.", "turn.")):
            told = {name: value for name, value in event.items() if name not in _EVERY and name not in common}
            yield {**common, "kind": kind, "payload": told}
        else:
            yield dict(event)


def _payload(kind: str, event: Event) -> dict[str, Json]:
    name, args = spoken_call(event, DIALECT)
    if kind == "tool.started":
        return {"tool_name": name, "arguments": args}
    if kind == "tool.failed":
        return {
            "tool_name": name,
            "error": retold_message(event, DIALECT) or event.get("code"),
            "error_class": event.get("class", "unknown"),
            "redacted": bool(event.get("redacted")),
        }
    return {
        "tool_name": name,
        "latency_ms": event.get("duration_ms"),
        "exit_code": event.get("exit_code") or 0,
        "truncated_lines": "truncated_lines" in event,
        "truncated_bytes": "truncated_bytes" in event,
    }


def _approval(request: Mapping[str, Any]) -> dict[str, Json]:
    """Its document asks nobody yet; where settings do, the request is ours in its names."""
    return asked_for(request, DIALECT)


def _messages(message: Mapping[str, Any]) -> Message:
    """`{"tool_calls": [{"name", "arguments"}], "final_answer": ""}`: calls, or the answer, never neither."""
    known = isinstance(message, Mapping)
    calls, answer = (message.get("tool_calls") or [], message.get("final_answer") or "") if known else (None, None)
    if not isinstance(calls, list) or not isinstance(answer, str):
        raise Problem(Code.INVALID_ARGS, 'Expected {"tool_calls": [{"name", "arguments"}], "final_answer": ""}.')
    if not calls and not answer:
        raise Problem(Code.INVALID_ARGS, "The message has neither tool calls nor a final answer.")
    asked = tuple(call for item in calls for call in one_call(item, "name", "arguments").calls)
    return Message(asked, "" if calls else answer)


DIALECT = Dialect(
    name="autonous",
    about="autonous, Milestone 4: the tool subsystem of a supervised worker",
    words={word.name: word for word in WORDS},
    errors={code: facts.error_class for code, facts in FACTS.items()},
    envelope=_envelope,
    events=_events,
    approval=_approval,
    messages=_messages,
)

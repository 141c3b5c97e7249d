"""clude-code: ToolCallRequest and ToolCallResult, permissions by name, one audit line a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from handrail.arguments import short
from handrail.dialects._dialect import Args, Dialect, Event, Message, Word, one_call, only_name, refuse_unknown
from handrail.dialects._schema import CURSOR, LIMIT, STRINGS, properties
from handrail.dialects._telling import ENDS, asked_for, files_changed, finished, problem, spoken_call
from handrail.errors import Code, Problem
from handrail.words import Json, Outcome, TouchKind

# As its document prints it; `thought` and `evidence` stand in the last of its examples.
DISPLAY = {
    "type": "object",
    "properties": {
        "content": {"type": "string", "description": "要显示给用户的内容（支持 Markdown）"},
        "level": {
            "type": "string",
            "enum": ["info", "success", "warning", "error", "progress"],
            "default": "info",
            "description": "消息级别（影响显示样式）",
        },
        "title": {"type": "string", "description": "可选标题（用于分段显示）"},
        "thought": {"type": "string"},
        "evidence": STRINGS,
    },
    "required": ["content"],
    "additionalProperties": False,
}
TEXT_OR_NULL = {"type": ["string", "null"]}
REQUEST = ("tool_call_id", "name", "version", "args", "requested_permissions", "trace_id", "timestamp", "tool")
NAMES = ("name", "tool")  # of the tool: in a ToolCallRequest, and in the short form of the document's examples


def _everywhere(args: Args) -> Args:
    """Search the whole workspace where no folder is named."""
    return args if args.get("paths") else {"query": args["query"]}


def _given(args: Args) -> Args:
    """Leave out what a call names only because the document's signature has it: an id of a note that is not there."""
    return {name: value for name, value in args.items() if value not in (None, "")}


WORDS = (
    Word(
        "list_dir",
        "list_dir",
        "List a folder.",
        properties(path="string", ignore_globs_=STRINGS, cursor_=CURSOR),
        names={"ignore_globs": "ignore"},
    ),
    Word(
        "glob_file_search",
        "find_files",
        "Find files by a glob pattern.",
        properties(glob_pattern="string", target_directory_="string", cursor_=CURSOR),
        names={"glob_pattern": "pattern", "target_directory": "path"},
    ),
    Word(
        "read_file",
        "read_file",
        "Read a text file, from a line on.",
        properties(path="string", offset_=LIMIT, limit_=LIMIT),
    ),
    Word(
        "apply_patch",
        "apply_patch",
        "Change files by a patch: the one way to write.",
        properties(patch_text="string"),
        names={"patch_text": "patch"},
    ),
    Word("delete_file", "delete_path", "Delete a file.", properties(path="string"), always={"confirm": True}),
    Word(
        "grep",
        "grep",
        "Search files for a pattern.",
        properties(
            pattern="string",
            path_="string",
            glob_="string",
            multiline_="boolean",
            head_limit_={**LIMIT, "maximum": 5000},
            **{"-i_": "boolean"},
            cursor_=CURSOR,
        ),
        names={"head_limit": "limit", "-i": "ignore_case"},
    ),
    Word(
        "codebase_search",
        "codebase_search",
        "Find the places in the code that a question is about.",
        properties(query="string", target_directories_=STRINGS),
        names={"target_directories": "paths"},
        inward=_everywhere,
    ),
    Word(
        "run_terminal_cmd",
        "run_command",
        "Run a command in the workspace, in the background where asked.",
        properties(command="string", is_background_="boolean"),
        names={"is_background": "background"},
    ),
    Word("job_list", "job_list", "List the commands in the background.", properties()),
    Word(
        "job_read",
        "job_read",
        "Read what a command in the background wrote.",
        properties(job="string", cursor_="integer", wait_seconds_="number"),
    ),
    Word("job_stop", "job_stop", "Stop a command in the background.", properties(job="string")),
    Word("display", "display", "Show progress, a conclusion or a note to the person.", DISPLAY),
    Word("read_lints", "read_lints", "Read what linters say of files.", properties(paths=STRINGS)),
    Word(
        "update_memory",
        "update_memory",
        "Create, update or delete a note that is remembered.",
        properties(
            action={"type": "string", "enum": ["create", "update", "delete"]},
            title_=TEXT_OR_NULL,
            knowledge_to_store_=TEXT_OR_NULL,
            existing_knowledge_id_=TEXT_OR_NULL,
        ),
        names={"knowledge_to_store": "content", "existing_knowledge_id": "id"},
        inward=_given,
    ),
)


def _envelope(outcome: Outcome) -> dict[str, Json]:
    """ToolCallResult."""
    error = outcome.error
    told: dict[str, Json] = {
        "tool_call_id": outcome.call_id,
        "ok": outcome.ok,
        "payload": _payload(outcome),
        "error": None
        if error is None
        else {"code": error.code, "message": error.message, "details": problem(outcome, DIALECT)},
    }
    changed, commands = [change.path for change in outcome.changes], list(outcome.commands)
    if changed or commands:
        told["artifacts"] = {"files_changed": changed, "commands_run": commands}
    return {**told, "duration_ms": outcome.duration_ms}


def _payload(outcome: Outcome) -> Json:
    if not outcome.ok:
        return None
    data = outcome.data if isinstance(outcome.data, dict) else {"value": outcome.data}
    if outcome.data is None and outcome.refs:
        return {"ref": outcome.refs[-1].ref, "sha256": outcome.refs[-1].sha256, "summary": outcome.summary}
    return data


def _events(events: Iterable[Event]) -> Iterator[dict[str, Json]]:
    """One audit line for every call, started or not."""
    return (_audit(event) for event in finished(events) if event.get("kind") in ENDS)


def _audit(event: Event) -> dict[str, Json]:
    name, args = spoken_call(event, DIALECT)
    return {
        "trace_id": event.get("trace_id"),
        "tool_call_id": event.get("call_id"),
        "name": name,
        "version": event.get("version"),
        "args": args,
        "result": {"ok": event.get("status") == "ok"},
        "error": {"code": event["code"]} if event.get("code") else None,
        "duration_ms": event.get("duration_ms"),
        "artifacts": {"files_changed": files_changed(event), "commands_run": list(event.get("commands_run") or ())},
    }


def _approval(request: Mapping[str, Any]) -> dict[str, Json]:
    """REQUIRE_CONFIRMATION(scope): ours in its names, with the scope it would hold for."""
    told = asked_for(request, DIALECT)
    return {**told, "decision": DIALECT.decisions["ask"], "scope": request.get("max_scope")}


def _messages(message: Mapping[str, Any]) -> Message:
    """A ToolCallRequest, or the short form `{"tool": …, "args": …}` of the document's examples.

    A field that it does not have is refused: it may be one that was meant to narrow, misspelt.
    """
    if not isinstance(message, Mapping) or not isinstance(message.get("args"), Mapping):
        raise Problem(Code.INVALID_ARGS, "A ToolCallRequest needs `name` and `args`.")
    refuse_unknown(message, REQUEST, "ToolCallRequest")
    if isinstance(at := message.get("timestamp", 0), bool) or not isinstance(at, (int, float)):
        raise Problem(Code.INVALID_ARGS, f"`timestamp`: expected a number, got {short(at)}.", field="timestamp")
    return one_call(
        message,
        only_name(message, NAMES),
        "args",
        version="version",
        call_id="tool_call_id",
        trace_id="trace_id",
        permissions="requested_permissions",
    )


DIALECT = Dialect(
    name="clude",
    about="clude-code: tool protocol, permissions and sandbox",
    words={word.name: word for word in WORDS},
    errors={code: code.value for code in Code},
    envelope=_envelope,
    events=_events,
    approval=_approval,
    messages=_messages,
    fields={"tool": NAMES, "call_id": ("tool_call_id",), "trace_id": ("trace_id",)},
    former={"message_user": "display"},
    touches={kind.value: (kind.value,) for kind in TouchKind},
    decisions={"allow": "ALLOW", "ask": "REQUIRE_CONFIRMATION", "deny": "DENY"},
)

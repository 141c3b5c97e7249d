"""tool-hub: the core/* tools, ToolResult with evidence and error.kind."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from handrail.dialects import _tool_hub_results as results
from handrail.dialects._dialect import (
    Args,
    Dialect,
    Event,
    Message,
    Word,
    one_call,
    only_name,
    refuse_unknown,
    table,
    text_of,
)
from handrail.dialects._telling import ENDS, asked_for, finished, problem, spoken_call
from handrail.dialects._tool_hub_schemas import ARGS, DEFAULT_GLOB, RESULTS
from handrail.dialects._wording import retold_message
from handrail.errors import Code, Problem
from handrail.words import Json, Outcome

MIB = 1024 * 1024
HEAD_LINES = 20  # of a file that was read, whose hash is evidence
DEEPEST = 10
HTTP = frozenset({"http_fetch", "http_json", "http_head", "http_download"})
CHANGING = frozenset({"core/fs.writeText", "core/fs.deletePath", "core/http.downloadFile"})
INTENT = ("tool", "toolName", "args", "version", "requestId", "taskId", "idempotencyKey", "capabilities")
NAMES = ("tool", "toolName")  # of the tool, in a ToolIntent
_SENSITIVE = ("token", "cookie", "authorization", "secret", "password", "key")


# ── arguments ────────────────────────────────────────────────────────────────────────────────


def _read(args: Args) -> Args:
    """A file over the size that the caller names fails; of any other large file the beginning is shown."""
    return {**args, "whole": True} if "max_bytes" in args else args


def _read_back(args: Args) -> Args | None:
    size = {"maxBytes": args["max_bytes"]} if "max_bytes" in args else {}
    return None if set(args) - {"path", "max_bytes", "whole"} else {"path": args["path"], **size}


def _write(args: Args) -> Args:
    # Its overwrite replaces what is there, read before or not; the former content is kept for undo.
    over = args.pop("overwrite")
    return {**args, "mode": "overwrite", "expected_sha256": "*"} if over else {**args, "mode": "create"}


def _write_back(args: Args) -> Args | None:
    if args.get("mode") == "append" or set(args) - {"path", "content", "mode", "mkdirs", "expected_sha256"}:
        return None
    told = {"path": args["path"], "text": args["content"], "overwrite": args.get("mode") == "overwrite"}
    return {**told, "mkdirp": args["mkdirs"]} if "mkdirs" in args else told


def _list(args: Args) -> Args:
    deep, depth = args.pop("recursive"), args.pop("depth", DEEPEST)
    return {**args, "depth": depth if deep else 1}


def _list_back(args: Args) -> Args | None:
    names = {"path": "path", "limit": "maxEntries", "hidden": "includeHidden", "cursor": "cursor"}
    depth = args.pop("depth", 1)
    if set(args) - set(names):
        return None
    told = {names[name]: value for name, value in args.items()}
    return {**told, "recursive": True, "maxDepth": depth} if depth > 1 else told


FETCH = {"timeoutMs": "timeout_ms", "maxBytes": "max_bytes"}
# What a call leaves out settings say: 15000 ms and 5 MB, unless an operator set them otherwise.
FETCH_DEFAULTS = {"method": "GET"}


def _word(name: str, ours: str, says: str, **more: Any) -> Word:
    return Word(name, ours, says, ARGS[name], result=RESULTS[name], **more)


WORDS = (
    _word(
        "core/fs.readText",
        "read_file",
        "Read a UTF-8 text file.",
        names={"maxBytes": "max_bytes"},
        inward=_read,
        back=_read_back,
        outward=results.of_read,
        capabilities=("read:fs",),
    ),
    _word(
        "core/fs.writeText",
        "write_file",
        "Write a UTF-8 text file; one that exists only with overwrite=true.",
        names={"text": "content", "mkdirp": "mkdirs"},
        defaults={"overwrite": False, "mkdirp": True},
        inward=_write,
        back=_write_back,
        spoken=dict.fromkeys(
            (
                'Read it first, then change it with edit_file or replace it with mode="overwrite".',
                'mode="overwrite" replaces it; edit_file changes a part of it.',
            ),
            "overwrite=true replaces it where policy allows.",
        ),
        outward=results.only("path", "bytes", "sha256"),
        capabilities=("write:fs",),
    ),
    _word(
        "core/fs.listDir",
        "list_dir",
        "List a directory, deeper with recursive=true.",
        names={"maxEntries": "limit", "includeHidden": "hidden", "maxDepth": "depth"},
        defaults={"recursive": False, "maxEntries": 2000, "includeHidden": False},
        inward=_list,
        back=_list_back,
        outward=results.of_list,
        capabilities=("read:fs",),
    ),
    _word(
        "core/fs.searchText",
        "grep",
        "Search the files below a directory for a text.",
        names={"root": "path", "query": "pattern", "maxMatches": "limit", "maxFiles": "max_files"},
        defaults={"glob": DEFAULT_GLOB},
        always={"literal": True},
        outward=results.of_search,
        capabilities=("read:fs",),
    ),
    _word(
        "core/fs.sha256",
        "hash_file",
        "Compute the SHA-256 of a file.",
        outward=results.only("sha256", "bytes"),
        capabilities=("read:fs",),
    ),
    _word(
        "core/fs.deletePath",
        "delete_path",
        "Delete a file or directory; needs confirm=true.",
        always={"recursive": True},
        outward=lambda outcome: {"path": outcome.data["path"], "removed": outcome.data["removed"]},
        capabilities=("danger:destructive", "write:fs"),
    ),
    _word(
        "core/http.fetchText",
        "http_fetch",
        "Fetch a URL as text.",
        names=FETCH,
        defaults=FETCH_DEFAULTS,
        # A larger response is cut, or kept in a file where settings say so.
        always={"format": "text", "cut": True},
        outward=results.of_fetch,
        capabilities=("network",),
    ),
    _word(
        "core/http.fetchJson",
        "http_json",
        "Fetch a URL as JSON.",
        names=FETCH,
        defaults=FETCH_DEFAULTS,
        outward=results.only("json", "status"),
        capabilities=("network",),
    ),
    _word(
        "core/http.downloadFile",
        "http_download",
        "Download a URL into a file of the sandbox.",
        names={"destPath": "path", **FETCH},
        defaults={"overwrite": False},
        outward=results.of_download,
        capabilities=("network", "write:fs"),
    ),
    _word(
        "core/http.head",
        "http_head",
        "Get the headers of a URL.",
        names={"timeoutMs": "timeout_ms"},
        outward=results.only("status", "headers"),
        capabilities=("network",),
    ),
    _word(
        "core/util.json.select",
        "json_select",
        "Select from JSON with a JMESPath expression.",
        names={"path": "expression"},
        spoken={"Give exactly one of `json` and `path`.": "`json` is null; give a value or its text."},
        outward=results.of_select,
    ),
    _word(
        "core/util.text.truncate",
        "truncate_text",
        "Cut a text to a number of characters, with a mark.",
        names={"maxChars": "max_chars"},
        outward=results.of_text,
    ),
    _word("core/util.hash.sha256Text", "hash_text", "Compute the SHA-256 of a text.", outward=results.only("sha256")),
    _word("core/util.time.now", "now", "Tell the time: ISO, epoch ms, time zone.", outward=results.of_now),
    _word("core/util.template.render", "render_template", "Render a Mustache template.", outward=results.of_text),
)


# ── ToolResult ───────────────────────────────────────────────────────────────────────────────


def _envelope(outcome: Outcome) -> dict[str, Json]:
    """ToolResult: result or error, and always evidence."""
    name = DIALECT.tool_name(outcome.tool, outcome.asked)
    told: dict[str, Json] = {"ok": outcome.ok, "toolCallId": outcome.call_id, "tool": name, "result": None}
    told |= {"evidence": _evidence(outcome), "error": None}
    if outcome.warnings:
        told["warnings"] = list(outcome.warnings)
    if outcome.error is not None:
        return told | {"error": _error(outcome)}
    if outcome.data is None:
        return told | {"result": {"fileRef": outcome.refs[-1].ref if outcome.refs else None}}
    result = DIALECT.told(outcome)
    return told | {"result": outcome.data if result is None else result}


def _error(outcome: Outcome) -> dict[str, Json]:
    """The kind, and what would mend the call in the document's words: arguments, and what the tool needs."""
    assert outcome.error is not None
    kind, text, details = error_kind(outcome.error.code, outcome.tool), outcome.error.message, problem(outcome, DIALECT)
    if outcome.error.code == Code.ALREADY_EXISTS:
        text = f"{text.partition(' exists already')[0]} exists already; overwrite=true replaces it where policy allows."
    word, further = DIALECT.of(outcome.tool, outcome.asked), details.pop("needed", [])
    if word is None or kind != "POLICY_DENIED":
        return {"kind": kind, "message": text, "details": details}
    required = [*word.capabilities, *(name for name in further if name not in word.capabilities)]
    if details.get("rule") == "permissions.call":
        text = f"Denied: the call is held to less than it needs, which is {', '.join(required)}."
    return {"kind": kind, "message": text, "details": details | {"requiredCapabilities": required}}


def error_kind(code: str, tool: str) -> str:
    """The document's kind of a code; a timeout is HTTP_TIMEOUT where HTTP was spoken."""
    if code == Code.TIMEOUT and tool in HTTP:
        return "HTTP_TIMEOUT"
    return DIALECT.errors[Code(code)]


def _evidence(outcome: Outcome) -> list[Json]:
    """In the forms that the document gives for each tool; never a secret, since ours holds none."""
    data = outcome.data if outcome.ok and isinstance(outcome.data, dict) else {}
    call = [{"type": "tool", "ref": outcome.call_id, "summary": outcome.summary}]
    if not data:
        return call
    match outcome.tool:
        case "read_file" if "text" in data:
            lines = "".join(data["text"].splitlines(keepends=True)[:HEAD_LINES])
            head = hashlib.sha256(lines.encode("utf-8", "surrogatepass")).hexdigest()
            said = f"bytes={data['bytes']} sha256={data['sha256']} first {HEAD_LINES} lines sha256={head}"
            return [{"type": "file", "ref": outcome.evidence[0].ref, "summary": said}]
        case "write_file":
            return [{"type": "file", "ref": data["path"], "summary": f"bytes={data['bytes']} sha256={data['sha256']}"}]
        case "http_download":
            said = f"bytes={data['bytes']} sha256={data['sha256']} sourceUrl={data.get('url') or _source(outcome)}"
            return [{"type": "file", "ref": data["path"], "summary": said}]
        case "http_fetch" | "http_json" | "http_head":
            return [{"type": "tool", "ref": outcome.call_id, "summary": f"status={data['status']}{_fields(data)}"}]
    ours = [{"type": item.type, "ref": item.ref, "summary": item.summary} for item in outcome.evidence]
    return [item if item["type"] == "file" else {**item, "type": "tool", "ref": outcome.call_id} for item in ours]


def _source(outcome: Outcome) -> str:
    return next((item.ref for item in outcome.evidence if item.type == "http"), "")


def _fields(data: Mapping[str, Any]) -> str:
    """The top fields of a JSON answer, by name; never those that sound secret."""
    value = data.get("json")
    names = list(value) if isinstance(value, Mapping) else []
    shown = [str(name) for name in names if not any(word in str(name).lower() for word in _SENSITIVE)][:10]
    if isinstance(value, list):
        return f" items={len(value)}"
    return f" fields={','.join(shown)}" if shown else ""


# ── events, approvals, messages ──────────────────────────────────────────────────────────────


def _events(events: Iterable[Event]) -> Iterator[dict[str, Json]]:
    """Our events with the document's tool names, arguments and error kinds."""
    for event in finished(events):
        if not str(event.get("kind")).startswith("tool."):
            yield dict(event)
            continue
        name, args = spoken_call(event, DIALECT)
        told = {**event, "tool": name, "args": args}
        if event.get("kind") in ENDS and event.get("code"):
            told["errorKind"] = error_kind(str(event["code"]), str(event.get("tool")))
            told["message"] = retold_message(event, DIALECT)
        told.pop("asked", None)
        yield told


def _approval(request: Mapping[str, Any]) -> dict[str, Json]:
    return asked_for(request, DIALECT)


def idempotency_key(request_id: str, task_id: str, tool: str, args: Mapping[str, Json]) -> str:
    """The key that joins retries of one step: request, task, tool and a hash of the arguments."""
    import orjson

    try:
        digest = hashlib.sha256(orjson.dumps(args, option=orjson.OPT_SORT_KEYS)).hexdigest()
    except TypeError as error:
        raise Problem(Code.INVALID_ARGS, f"The arguments cannot be written as JSON: {error}.") from None
    return f"{request_id}:{task_id}:{tool}:{digest}"


def _key(request: str, tool: str, args: Mapping[str, Json], task: str = "") -> str | None:
    """Make the key of a call that changes something; None for one that does not, or whose arguments are no JSON."""
    name = DIALECT.tool_name("", tool)
    if name not in CHANGING and args.get("method") != "POST":
        return None
    try:
        return idempotency_key(request, task, name, args)
    except Problem:
        return None  # refused, and on record, where every wrong call is


def _messages(message: Mapping[str, Any]) -> Message:
    """Read a ToolIntent; a field that it does not have is refused: it may be one that was meant to narrow, misspelt.

    A call that names its task has its key here: it is one step, however often it is sent.
    """
    known = message if isinstance(message, Mapping) else {}
    refuse_unknown(known, INTENT, "ToolIntent")
    intent = one_call(
        message,
        only_name(known, NAMES),
        "args",
        version="version",
        idempotency_key="idempotencyKey",
        trace_id="requestId",
        permissions="capabilities",
    )
    (call,) = intent.calls
    task = text_of(message, "taskId")
    if call.idempotency_key is not None or task is None:
        return intent
    return Message((replace(call, idempotency_key=_key(call.trace_id or "", call.tool, call.args, task)),))


def _needed(_: Word, args: Mapping[str, Json]) -> frozenset[str]:
    """To overwrite is destructive, whatever stands there."""
    return frozenset({"danger:destructive"} if args.get("overwrite") else ())


DIALECT = Dialect(
    name="tool-hub",
    about="tool-hub, core tools on the PTC Runtime: fs, http, util",
    words={word.name: word for word in WORDS},
    errors=table(
        {
            "validation": "INPUT_SCHEMA_INVALID",
            "policy": "POLICY_DENIED",
            "tool_exec": "UPSTREAM_ERROR",
            "timeout": "UPSTREAM_ERROR",
            "unknown": "UPSTREAM_ERROR",
        },
        PATH_OUTSIDE_ROOTS="PATH_OUTSIDE_SANDBOX",
        HOST_NOT_ALLOWED="HTTP_DISALLOWED_HOST",
        FILE_TOO_LARGE="FILE_TOO_LARGE",
        HTTP_TOO_LARGE="HTTP_TOO_LARGE",
        INVALID_RESULT="OUTPUT_SCHEMA_INVALID",
        ALREADY_EXISTS="POLICY_DENIED",
    ),
    special={"HTTP_TIMEOUT": "`TIMEOUT` of the `core/http` tools"},
    envelope=_envelope,
    events=_events,
    approval=_approval,
    messages=_messages,
    fields={"tool": NAMES, "trace_id": ("requestId",)},
    sandboxed=True,
    by_request=True,
    key=_key,
    former={word.name.removeprefix("core/"): word.name for word in WORDS},
    needed=_needed,
    touches={
        "read:fs": ("fs.read",),
        "write:fs": ("fs.write",),
        "network": ("net.connect",),
        "danger:destructive": ("fs.delete",),
    },
)

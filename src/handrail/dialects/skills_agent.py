"""skills-agent: result objects with excerpts and references, its approval request, its audit record."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from posixpath import normpath
from typing import Any

from handrail.arguments import short
from handrail.dialects._dialect import Args, Dialect, Event, Message, Word, one_call, overwriting, table
from handrail.dialects._schema import CURSOR, LIMIT, OBJECTS, STRINGS, properties
from handrail.dialects._telling import ENDS, finished, picked, problem, spoken_call, stamp
from handrail.errors import Code, Problem
from handrail.words import Json, Outcome

ARGUMENTS = {"type": "array", "items": {"type": "string", "maxLength": 4096}, "maxItems": 64}
SKILL = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "source": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}


# ── arguments ────────────────────────────────────────────────────────────────────────────────


def _grep(args: Args) -> Args:
    return {**args, "mode": "files"} if args.pop("files_only", False) else args


def _grep_back(args: Args) -> Args | None:
    mode = args.pop("mode", "content")
    args.pop("keep", None)
    known = {"pattern", "path", "glob", "limit", "cursor"}
    if set(args) - known or mode == "count":
        return None
    return {**args, "files_only": True} if mode == "files" else args


def _script(args: Args) -> Args:
    """`{name, source}` as the one id that skills have here; its scratch folder is its sandbox."""
    path = args["script"]
    if "\0" not in path and not normpath(path).startswith("scripts/"):
        text = f"{short(path)} does not lie beneath scripts/ of the skill; relative_path is such as scripts/fill.py."
        raise Problem(Code.PATH_OUTSIDE_ROOTS, text, path=short(path))
    skill = args["skill"]
    told = {**args, "skill": f"{skill['source']}:{skill['name']}" if skill.get("source") else skill["name"]}
    return {**told, "cwd": "skill"} if args.get("cwd") == "skill" else {**told, "cwd": "scratch"}


def _script_back(args: Args) -> Args:
    told: Args = {
        "skill": _skill(str(args.get("skill"))),
        "relative_path": args.get("script"),
        "args": args.get("args") or [],
    }
    if args.get("cwd") == "skill":
        told["cwd"] = "skill"
    return told


def _skill(skill_id: str) -> dict[str, str]:
    source, colon, name = skill_id.rpartition(":")
    return {"name": name, "source": source} if colon else {"name": skill_id}


# ── results ──────────────────────────────────────────────────────────────────────────────────


def _read_result(outcome: Outcome) -> Json:
    data = outcome.data
    told = {"content_excerpt": data["text"], "sha256": data["sha256"], "truncated": not data["complete"]}
    if not told["truncated"]:
        return told
    # A part further on, and what is too large to be kept, has its whole in the file that was read.
    return {**told, "storage_ref": outcome.evidence[0].ref, **_whole(outcome)}


def _list_result(outcome: Outcome) -> Json:
    data = outcome.data
    hidden = {"hidden": data["hidden"], "protected": data["protected"]}
    told = {"entries": data["entries"], "truncated": data["next_cursor"] is not None, **hidden, **_next(data)}
    return told | _whole(outcome)


def _grep_result(outcome: Outcome) -> Json:
    data = outcome.data
    found: dict[str, Json] = {}
    if data["files"] or not data["matches"]:  # where there is nothing, nothing tells which was asked for
        found["files"] = [item["file"] for item in data["files"]]
    if not data["files"]:
        found["matches"] = data["matches"]
    return {**found, "truncated": data["next_cursor"] is not None, **_next(data), **_whole(outcome)}


def _whole(outcome: Outcome) -> dict[str, Json]:
    """Name the file of the run that holds all of a cut result, with its hash."""
    return {"storage_ref": outcome.refs[0].ref, "sha256": outcome.refs[0].sha256} if outcome.refs else {}


def _next(data: Mapping[str, Any]) -> dict[str, Json]:
    return {"next_cursor": data["next_cursor"]} if data.get("next_cursor") is not None else {}


def _script_result(outcome: Outcome) -> Json:
    data = outcome.data
    told = {"exit_code": data["exit_code"], "stdout": data["stdout"], "stderr": data["stderr"], "timeout": False}
    return told | _kept(ref.ref for ref in outcome.refs)


def _kept(refs: Iterable[str]) -> dict[str, Json]:
    """stdout_ref and stderr_ref, as paths in the run's folder."""
    names = [str(ref).removeprefix("run:") for ref in refs]
    return {f"{kind}_ref": name for name in names for kind in ("stdout", "stderr") if f"/{kind}_" in name}


_NEXT: dict[str, Any] = {"truncated": "boolean", "next_cursor_": CURSOR, "storage_ref_": "string", "sha256_": "string"}
WORDS = (
    Word(
        "read_file",
        "read_file",
        "Read a text file: an excerpt, its hash, and where the whole is.",
        properties(path="string", offset_=LIMIT, limit_=LIMIT),
        always={"keep": True},
        outward=_read_result,
        result=properties(
            ok="boolean", content_excerpt="string", sha256="string", truncated="boolean", storage_ref_="string"
        ),
    ),
    Word(
        "list_dir",
        "list_dir",
        "List a folder; sensitive files are left out.",
        properties(path="string", limit_=LIMIT, cursor_=CURSOR),
        always={"keep": True},
        outward=_list_result,
        result=properties(ok="boolean", entries=OBJECTS, hidden="integer", protected="integer", **_NEXT),
    ),
    Word(
        "grep",
        "grep",
        "Search files by a pattern: matching lines, or the list of files.",
        properties(
            pattern="string",
            path_="string",
            glob_="string",
            files_only_="boolean",
            limit_={**LIMIT, "maximum": 5000},
            cursor_=CURSOR,
        ),
        always={"keep": True},
        inward=_grep,
        back=_grep_back,
        outward=_grep_result,
        result=properties(ok="boolean", matches_=OBJECTS, files_=STRINGS, **_NEXT),
    ),
    Word(
        "run_script",
        "run_script",
        "Run a script of a skill by path and argument list; no shell reads anything.",
        properties(
            skill=SKILL,
            relative_path="string",
            args_=ARGUMENTS,
            cwd_={"type": "string", "enum": ["sandbox", "skill"]},
            timeout_seconds_={"type": "number", "minimum": 1, "maximum": 600},
        ),
        names={"relative_path": "script"},
        inward=_script,
        back=_script_back,
        outward=_script_result,
        result=properties(
            ok="boolean",
            exit_code={"type": ["integer", "null"]},
            stdout="string",
            stderr="string",
            timeout="boolean",
            stdout_ref_="string",
            stderr_ref_="string",
        ),
    ),
    Word(
        "write_file",
        "write_file",
        "Write a text file.",
        properties(path="string", content="string"),
        always={"mode": "overwrite"},
        back=overwriting,
        outward=lambda outcome: {"bytes": outcome.data["bytes"], "sha256": outcome.data["sha256"]},
        result=properties(ok="boolean", bytes="integer", sha256="string"),
    ),
    Word("delete_file", "delete_path", "Delete a file.", properties(path="string"), always={"confirm": True}),
    Word(
        "network_request",
        "http_fetch",
        "Send an HTTP request to an allowed host.",
        properties(
            url="string",
            method_={"type": "string", "enum": ["GET", "POST"]},
            headers_={"type": "object", "additionalProperties": {"type": "string"}},
            body_={"type": ["string", "null"]},
        ),
        always={"format": "text"},
    ),
)


def _envelope(outcome: Outcome) -> dict[str, Json]:
    """A flat result object; a problem is `error` with the document's type, and what a script wrote all the same."""
    if outcome.error is not None:
        return {"ok": False, "error": _error(outcome), **_written(outcome.error.details)}
    told = DIALECT.told(outcome)
    if told is None:
        return {"ok": True, "summary": outcome.summary, **(_whole(outcome) or dict(outcome.data or {}))}
    return {"ok": True, **told}


def _error(outcome: Outcome) -> dict[str, Json]:
    error = outcome.error
    assert error is not None
    kind = DIALECT.errors.get(error.code, "IOError")  # type: ignore[call-overload]  # a code is its own text
    written = _written(error.details)  # stands beside the error
    details = {name: value for name, value in problem(outcome, DIALECT).items() if name not in written}
    return {"type": kind, "message": error.message, "details": details}


def _written(details: Mapping[str, Any]) -> dict[str, Json]:
    """What a script that failed or was stopped wrote, in excerpt."""
    if "timed_out" not in details:
        return {}
    told = {name: details.get(name) for name in ("exit_code", "stdout", "stderr")}
    return {**told, "timeout": bool(details["timed_out"]), **_kept(details.get("refs") or ())}


# ── approvals, audit, messages ───────────────────────────────────────────────────────────────


def _approval(request: Mapping[str, Any]) -> dict[str, Json]:
    """Tool, risk, reason, parameters, and one line to replay it."""
    tool, params = str(request.get("tool")), request.get("params") or {}
    call = DIALECT.said({"tool": tool, "args": params})
    replay = request.get("replay")
    told = {
        "tool": DIALECT.tool_name(tool),
        "risk": request.get("risk"),
        "reason": request.get("reason"),
        "params": params if call is None else call["args"],
        "replay": replay.get("command") if isinstance(replay, Mapping) else replay,
    }
    if tool != "run_script":
        return told
    told["reason"] = f"Skill {_skill(str(params.get('skill')))['name']} requested script execution"
    if params.get("cwd") == "skill" or params.get("timeout_seconds") is not None:
        return told  # the short line has no word for these
    skill = _skill(str(params.get("skill")))
    # As the document prints it; a name of another source may stand for several skills.
    name = skill["name"] if skill.get("source", "project") == "project" else str(params.get("skill"))
    words = shlex.join([str(params.get("script")), *map(str, params.get("args") or ())])
    _, _, flags = str(told["replay"]).partition(f" --approval {request.get('id')}")
    return {**told, "replay": f"handrail call run_script --skill {shlex.quote(name)} --approve{flags} -- {words}"}


_APPROVALS = {
    "approval.required": "approval_required",
    "approval.granted": "approval_granted",
    "approval.denied": "approval_denied",
}


def _events(events: Iterable[Event]) -> Iterator[dict[str, Json]]:
    """approval_required, approval_granted, approval_denied, and an audit record for every finished call."""
    for event in finished(events):
        kind = str(event.get("kind"))
        if kind in ENDS:
            yield _audit(event)
        elif kind in _APPROVALS:
            request = event.get("request")
            told = {"request": request}
            if isinstance(request, Mapping):
                told = {**_approval(request), **picked(request, "impact")}
            yield {"event": _APPROVALS[kind], **told, **picked(event, "ts", "call_id", "scope", "by", "advice")}


def _audit(event: Event) -> dict[str, Json]:
    name, args = spoken_call(event, DIALECT)
    result: dict[str, Json] = {"ok": event.get("status") == "ok"}
    if event.get("exit_code") is not None:
        result["exit_code"] = event["exit_code"]
    if code := event.get("code"):
        result["error"] = DIALECT.errors.get(code, "IOError")
    hashes: dict[str, Json] = {}
    for ref in event.get("refs") or ():
        for key, path in (_kept([ref["ref"]]) or {"storage_ref": ref["ref"].removeprefix("run:")}).items():
            result[key], hashes[f"{key.removesuffix('_ref')}_sha256"] = path, ref["sha256"]
    for change in event.get("files_changed") or ():
        if isinstance(change, Mapping) and change.get("after"):
            hashes[str(change.get("path"))] = change["after"]
    approved = bool(event.get("approved"))
    return {
        "tool": name,
        "risk": event.get("risk"),
        "ts_start": stamp(event.get("ts_start")),
        "ts_end": stamp(event.get("ts")),
        "params": args,
        "result": result,
        "policy": {"approved": approved, "approval_scope": event.get("scope", "none")},
        "hashes": hashes,
    }


def _messages(message: Mapping[str, Any]) -> Message:
    """`{"tool": …, "params": …}`, as an approval request repeats it."""
    return one_call(message, "tool", "params")


DIALECT = Dialect(
    name="skills-agent",
    about="skills-agent, Tools Runtime: reading tools, scripts of skills, approvals",
    words={word.name: word for word in WORDS},
    errors=table(
        {
            "validation": "ToolNotAllowed",
            "policy": "ToolNotAllowed",
            "tool_exec": "IOError",
            "timeout": "Timeout",
            "unknown": "IOError",
        },
        APPROVAL_REQUIRED="ApprovalRequired",
        APPROVAL_DENIED="ApprovalDenied",
        PATH_OUTSIDE_ROOTS="PathTraversalBlocked",
        PATH_PROTECTED="PathTraversalBlocked",
        FILE_TOO_LARGE="FileTooLarge",
        HTTP_TOO_LARGE="FileTooLarge",
        TIMEOUT="Timeout",
        EXIT_NONZERO="ExitNonZero",
        INVALID_ARGS="IOError",
    ),
    envelope=_envelope,
    events=_events,
    approval=_approval,
    messages=_messages,
)

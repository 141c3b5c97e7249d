"""Views of a journal for people and other programs: made from the events, at any time, never read back as truth.

A long journal is not read again for each: what was projected before is kept with the place it reached.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from handrail.store import checkpoint
from handrail.store.chain import Mark, batches, open_events, walk
from handrail.store.private import SAFE, make_inside, read_private, replacing, write_all
from handrail.store.state import RunState
from handrail.words import Json

TOOLS, ERRORS, GRANTS, REACHED = "tools.jsonl", "errors.jsonl", "grants.json", ".reached.json"
_MOST_REFUSED = 100  # hosts that a line names
_ENDS = ("tool.completed", "tool.failed", "tool.observed")
_START_FIELDS = ("tool", "version", "risk", "args", "asked")
_ERROR_FIELDS = ("ts", "trace_id", "call_id", "tool", "status", "code", "class", "message", "effect", "duration_ms")


@dataclass(slots=True)
class Reached:
    """How far the logs go, and which calls had begun there."""

    mark: Mark = field(default_factory=Mark)
    tools_bytes: int = 0
    errors_bytes: int = 0
    began: dict[str, dict[str, Json]] = field(default_factory=dict)


def project(folder: Path) -> None:
    """Bring logs/tools.jsonl, logs/errors.jsonl and grants.json up to date, each replaced as a whole."""
    make_inside(folder, ("logs",))
    logs, fd = folder / "logs", open_events(folder)
    try:
        reached = _reached(logs, fd)
        with replacing(logs / TOOLS) as tools, replacing(logs / ERRORS) as errors:
            _copy(logs / TOOLS, tools, reached.tools_bytes)
            _copy(logs / ERRORS, errors, reached.errors_bytes)
            _extend(fd, reached, tools, errors)
        grants = list(_state(folder, fd).grants.values())
    finally:
        os.close(fd)
    _put(folder / GRANTS, orjson.dumps(grants, option=orjson.OPT_INDENT_2) + b"\n")
    _put(logs / REACHED, orjson.dumps(reached))


def _reached(logs: Path, fd: int) -> Reached:
    """Where the last projection ended; the beginning where that does not fit the journal or the logs."""
    try:
        kept = orjson.loads(read_private(logs / REACHED))
        reached = Reached(Mark(**kept["mark"]), kept["tools_bytes"], kept["errors_bytes"], kept["began"])
        whole = (logs / TOOLS).stat().st_size >= reached.tools_bytes
        whole = whole and (logs / ERRORS).stat().st_size >= reached.errors_bytes
        return reached if whole and checkpoint.fits(fd, reached.mark) else Reached()
    except (OSError, ValueError, KeyError, TypeError):
        return Reached()


def _extend(fd: int, reached: Reached, tools: int, errors: int) -> None:
    seq, offset, last = reached.mark.seq, reached.mark.offset, b""
    for lines, _ in batches(fd, offset):
        ended = [call for line in lines if (call := _ended(line, reached.began)) is not None]
        told = b"".join(orjson.dumps(tool_line(call)) + b"\n" for call in ended)
        failed = b"".join(orjson.dumps(error_line(call)) + b"\n" for call in ended if call["kind"] == "tool.failed")
        write_all(tools, told)
        write_all(errors, failed)
        reached.tools_bytes += len(told)
        reached.errors_bytes += len(failed)
        seq, offset = seq + len(lines), offset + sum(map(len, lines)) + len(lines)
        last = lines[-1] if lines else last
    if seq > reached.mark.seq:
        reached.mark = Mark(seq, sha256(last).hexdigest(), offset)


def _ended(line: bytes, began: dict[str, dict[str, Json]]) -> dict[str, Any] | None:
    """Give a finished call: its end, with what its start said; a call that never started says it in its end."""
    try:
        event = orjson.loads(line)
        kind, call_id = event["kind"], event["call_id"]
    except (ValueError, KeyError, TypeError):
        return None
    if kind == "tool.started" and isinstance(call_id, str):
        began[call_id] = {name: event.get(name) for name in _START_FIELDS}
    if kind == "net.refused" and call_id in began:
        refused = began[call_id].setdefault("connections_refused", [])
        if isinstance(refused, list) and len(refused) < _MOST_REFUSED:
            refused.append(event.get("host"))
    if kind not in _ENDS or not isinstance(call_id, str):
        return None
    return _as_asked({**began.pop(call_id, {}), **event})


def _as_asked(call: dict[str, Any]) -> dict[str, Any]:
    """Name the tool and its arguments as the caller did, where the call spoke a dialect."""
    asked = call.get("asked")
    if not isinstance(asked, Mapping):
        return call
    return {**call, "tool": asked.get("tool"), "args": asked.get("args")}


def tool_line(call: Mapping[str, Any]) -> dict[str, Json]:
    """What tools.jsonl says of a finished call."""
    status = call.get("status")
    return {
        "ts": call.get("ts"),
        "trace_id": call.get("trace_id"),
        "call_id": call.get("call_id"),
        "tool": call.get("tool"),
        "version": call.get("version"),
        "risk": call.get("risk"),
        "args": call.get("args"),
        "ok": status == "ok",
        "status": status,
        "code": call.get("code"),
        "duration_ms": call.get("duration_ms"),
        "approved": bool(call.get("approved")),
        "scope": call.get("scope", "none"),
        "artifacts": {
            "files_changed": [_path(change) for change in call.get("files_changed") or ()],
            "commands_run": call.get("commands_run") or [],
            "refs": [ref.get("ref") for ref in call.get("refs") or () if isinstance(ref, dict)],
            **_refused(call),
        },
        "hashes": dict(_hashes(call)),
    }


def error_line(call: Mapping[str, Any]) -> dict[str, Json]:
    """What errors.jsonl says of a call that did not do what was asked."""
    return {name: call.get(name) for name in _ERROR_FIELDS}


def _refused(call: Mapping[str, Any]) -> dict[str, Json]:
    refused = call.get("connections_refused")
    return {"connections_refused": refused} if refused else {}


def _path(change: Any) -> Any:
    return change.get("path") if isinstance(change, dict) else change


def _hashes(call: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for change in call.get("files_changed") or ():
        if isinstance(change, dict) and isinstance(change.get("after"), str):
            yield str(change.get("path")), change["after"]
    for ref in call.get("refs") or ():
        if isinstance(ref, dict) and isinstance(ref.get("sha256"), str):
            yield str(ref.get("ref")), ref["sha256"]
    for item in call.get("evidence") or ():
        with contextlib.suppress(TypeError, ValueError):
            _, ref, digest = item
            if isinstance(digest, str):
                yield str(ref), digest


def _state(folder: Path, fd: int) -> RunState:
    known = checkpoint.load(folder)
    start, state = (known.mark, known.state) if known and checkpoint.fits(fd, known.mark) else (Mark(), RunState())
    walk(fd, start, None, lambda event, _: state.apply(event))
    return state


def _copy(path: Path, target: int, size: int) -> None:
    if size == 0:
        return
    with open(os.open(path, os.O_RDONLY | SAFE), "rb") as source:
        while size > 0 and (chunk := source.read(min(size, 1 << 20))):
            write_all(target, chunk)
            size -= len(chunk)


def _put(path: Path, data: bytes) -> None:
    with replacing(path) as handle:
        write_all(handle, data)

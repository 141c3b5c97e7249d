"""Views of a journal for people and other programs: made from the events, at any time, never read back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from handrail.store import reader
from handrail.store.private import make_inside, write_atomic
from handrail.store.state import RunState
from handrail.words import Json

_ENDS = ("tool.completed", "tool.failed")


def project(folder: Path) -> None:
    """Write logs/tools.jsonl, logs/errors.jsonl and grants.json anew from the events."""
    make_inside(folder, ("logs",))
    state = RunState()
    write_atomic(folder / "logs" / "tools.jsonl", _lines(tool_lines(_folding(reader.events(folder), state))))
    write_atomic(folder / "logs" / "errors.jsonl", _lines(error_lines(reader.events(folder))))
    grants = orjson.dumps(list(state.grants.values()), option=orjson.OPT_INDENT_2)
    write_atomic(folder / "grants.json", [grants, b"\n"])


def _folding(events: Iterable[dict[str, Any]], state: RunState) -> Iterator[dict[str, Any]]:
    for event in events:
        state.apply(event)
        yield event


def tool_lines(events: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Json]]:
    """Give one line a finished call; a call that never started carries in its end what a start would say."""
    began: dict[str, Mapping[str, Any]] = {}
    for event in events:
        kind, call_id = event.get("kind"), event.get("call_id")
        if kind == "tool.started" and isinstance(call_id, str):
            began[call_id] = event
        elif kind in _ENDS and isinstance(call_id, str):
            yield _tool_line({**began.pop(call_id, {}), **event})


def _tool_line(call: Mapping[str, Any]) -> dict[str, Json]:
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
        },
        "hashes": dict(_hashes(call)),
    }


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


def error_lines(events: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Json]]:
    """Give one line a call that did not do what was asked."""
    for event in events:
        if event.get("kind") == "tool.failed":
            names = ("ts", "trace_id", "call_id", "tool", "status", "code", "class", "message", "effect", "duration_ms")
            yield {name: event.get(name) for name in names}


def _lines(values: Iterable[Mapping[str, Json]]) -> Iterator[bytes]:
    batch: list[bytes] = []
    for value in values:
        batch.append(orjson.dumps(value))
        if len(batch) >= 1000:
            yield b"\n".join(batch) + b"\n"
            batch = []
    if batch:
        yield b"\n".join(batch) + b"\n"

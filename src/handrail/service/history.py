"""What happened in a run, read from its journal for people: calls with all that belongs to each, in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from handrail.errors import Code, Problem, RunFault
from handrail.service.index_text import call_title, microseconds
from handrail.service.run_index import RunIndex
from handrail.store.lock import is_open
from handrail.store.private import SAFE
from handrail.store.reader import events, verify

ARTIFACTS = ("observations", "artifacts", "deliverables")
MOST_CALLS = 200  # on one page
MOST_ARTIFACT_BYTES = 32 * 1024 * 1024
_ENDS = ("tool.completed", "tool.failed")
_NOTED = ("agent.", "turn.", "question.", "message.", "run.", "undo.", "display")


def folder_of(index: RunIndex, run_id: str, identity: str | None) -> tuple[Path, dict[str, Any]]:
    """Find a run that somebody may read; NOT_FOUND where there is none."""
    known = index.run(run_id)
    if known is None or (identity is not None and known["identity"] != identity):
        raise Problem(Code.NOT_FOUND, f"There is no run {run_id[:128]!r}.")
    return Path(known["folder"]), known


def read_events(folder: Path) -> Iterator[dict[str, Any]]:
    """Give a run's events; none where its journal is gone."""
    try:
        yield from events(folder)
    except RunFault:
        return


def read_calls(found: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Put a run's events together to calls, agent turns and notes, in the order in which they began."""
    nodes: dict[str, dict[str, Any]] = {}
    order: list[dict[str, Any]] = []
    for event in found:
        kind, call_id = str(event.get("kind", "")), event.get("call_id")
        if isinstance(call_id, str) and (kind.startswith("tool.") or call_id in nodes):
            node = nodes.get(call_id)
            if node is None:
                node = nodes[call_id] = _new_call(event)
                order.append(node)
            _apply(node, event)
        elif isinstance(call_id, str) and kind.startswith("approval."):
            node = nodes[call_id] = _new_call(event)
            order.append(node)
            _apply(node, event)
        elif kind.startswith(_NOTED) and kind != "turn.finished":
            order.append(_note(event))
    return order


def _new_call(event: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "node": "call",
        "id": event.get("call_id"),
        "seq": event.get("seq"),
        "at": microseconds(event.get("ts")),
        "tool": event.get("tool") or "",
        "title": "",
        "args": None,
        "decision": "",
        "findings": [],
        "touches": [],
        "status": "",
        "code": "",
        "message": "",
        "ms": None,
        "started": None,
        "waited": [],
        "notes": [],
        "changes": [],
        "evidence": [],
        "refs": [],
        "commands": [],
        "parent": None,
        "client": "",
        "sandbox": None,
        "approved": "",
        "effect": "",
    }


def _apply(node: dict[str, Any], event: Mapping[str, Any]) -> None:
    kind = event.get("kind")
    if kind == "tool.started" or event.get("started") is False:
        verdict = event.get("verdict") or {}
        node |= {"tool": event.get("tool"), "args": event.get("args"), "title": call_title(event)}
        node |= {"decision": verdict.get("decision") or "", "findings": verdict.get("findings") or []}
        node |= {"touches": event.get("touches") or [], "parent": event.get("parent")}
        node |= {"client": event.get("client") or "", "sandbox": event.get("sandbox")}
        node["started"] = microseconds(event.get("ts")) if kind == "tool.started" else None
    if kind in _ENDS:
        node |= {"status": event.get("status") or "", "code": event.get("code") or "", "ms": event.get("duration_ms")}
        node |= {"message": event.get("message") or "", "changes": event.get("files_changed") or []}
        node |= {"evidence": event.get("evidence") or [], "refs": event.get("refs") or []}
        node |= {"commands": event.get("commands_run") or [], "effect": event.get("effect") or ""}
        node |= {"ended": microseconds(event.get("ts")), "exit_code": event.get("exit_code")}
    elif kind != "tool.started":
        node["notes"].append(_note(event))
        if kind == "approval.fetched":
            node |= {"status": str(event.get("status") or ""), "ended": microseconds(event.get("ts"))}
            node |= {"title": "was given the outcome of the call that was made when it was granted"}
        if kind == "approval.granted":
            node["approved"] = f"{event.get('by') or 'somebody'} ({event.get('scope')})"


def _note(event: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(event.get("kind", ""))
    return {
        "node": "note",
        "kind": kind,
        "seq": event.get("seq"),
        "at": microseconds(event.get("ts")),
        "text": note_text(event),
        "level": str(event.get("level", "")),
        "request": _request_of(event),
        "turn": event.get("turn"),
        "title": str(event.get("title") or ""),
    }


def _request_of(event: Mapping[str, Any]) -> str:
    request = event.get("request")
    return str(request.get("id", "")) if isinstance(request, Mapping) else str(request or "")


def note_text(event: Mapping[str, Any]) -> str:
    """Say in a sentence what an event tells."""
    kind = event.get("kind")
    told = _SAID.get(str(kind))
    if told is not None:
        return told(event)
    for name in ("content", "task", "question", "answer", "text", "message", "reason"):
        if isinstance(value := event.get(name), str) and value:
            return value
    return ""


def _asked(event: Mapping[str, Any]) -> str:
    request = event.get("request")
    return f"asked: {request.get('reason', '') if isinstance(request, Mapping) else ''}"


def _started(event: Mapping[str, Any]) -> str:
    again = "opened again" if event.get("reopened") else "opened"
    who = f" by {event.get('identity') or event.get('user')}" if event.get("user") else ""
    return f"run {again}{who} for {event.get('caller')} in {event.get('workspace')}"


_SAID: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "approval.required": _asked,
    "approval.granted": lambda event: f"granted by {event.get('by') or 'somebody'} for the {event.get('scope')}",
    "approval.denied": lambda event: (
        f"{event.get('state')} {'by ' + str(event.get('by')) if event.get('by') else ''} {event.get('advice') or ''}"
    ),
    "approval.fetched": lambda event: f"given the outcome of call {event.get('made_as')}, made when it was granted",
    "run.started": _started,
    "run.finished": lambda _: "run closed",
    "undo.applied": lambda event: f"took back {len(event.get('calls') or ())} calls of run {event.get('run')}",
    "net.refused": lambda event: f"connection refused: {event.get('host')} ({event.get('problem')})",
    "net.connected": lambda event: f"connected to {event.get('host')}",
    "program.warned": lambda event: "; ".join(map(str, event.get("warnings") or ())),
    "changes.judged": lambda event: (
        f"not kept at once: {', '.join(str(item.get('path')) for item in event.get('judged') or ())}"
    ),
    "limit.hit": lambda event: f"limit: {event.get('code')} {event.get('budget') or ''}",
    "turn.started": lambda event: f"turn {event.get('turn')}",
    "turn.finished": lambda event: f"turn {event.get('turn')} ended",
}


def is_live(folder: Path) -> bool:
    """Whether a process has the run open."""
    return is_open(folder) is True


def check_chain(folder: Path) -> dict[str, Any]:
    """Tell whether a run's journal is whole."""
    try:
        found = verify(folder)
    except RunFault as fault:
        return {"ok": False, "events": 0, "head": "", "problem": str(fault), "line": None}
    return {"ok": found.ok, "events": found.events, "head": found.head, "problem": found.problem, "line": found.line}


def open_artifact(folder: Path, ref: str) -> bytes:
    """Read a file that a run's outcomes name; only what lies in its own folders, and no link is followed."""
    parts = ref.removeprefix("run:").split("/")
    if len(parts) < 2 or parts[0] not in ARTIFACTS or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise Problem(Code.NOT_FOUND, f"There is no artifact {ref[:200]!r}.")
    handles = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY | SAFE)]
    try:
        for part in parts[:-1]:
            handles.append(os.open(part, os.O_RDONLY | os.O_DIRECTORY | SAFE, dir_fd=handles[-1]))
        handle = os.open(parts[-1], os.O_RDONLY | os.O_NONBLOCK | SAFE, dir_fd=handles[-1])
        with open(handle, "rb") as file:
            if not os.path.isfile(f"/proc/self/fd/{file.fileno()}"):
                raise Problem(Code.NOT_FOUND, f"There is no artifact {ref[:200]!r}.")
            return file.read(MOST_ARTIFACT_BYTES)
    except OSError:
        raise Problem(Code.NOT_FOUND, f"There is no artifact {ref[:200]!r}.") from None
    finally:
        for handle in reversed(handles):
            os.close(handle)

"""What became of a call whose process died: read from its run's journal, which is written before anything is done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from handrail.errors import RunFault
from handrail.store.executions import Execution, Executions
from handrail.store.keys import outcome_from
from handrail.store.outcomes import Outcomes
from handrail.store.reader import events
from handrail.words import Change, ErrorInfo, Outcome, Status

_LOST = "its output was not kept, because the process that made the call died"


def key_of(request_id: str) -> str:
    """Name the idempotency key under which a call is made for its caller."""
    return f"approval:{request_id}"


def recover(executions: Executions, found: Execution) -> str:
    """Settle a call whose process died: gives its state then.

    Not begun: granted again. Ended: done, with its outcome. Begun and not ended: unknown, which a person settles.
    """
    started, ended = _recorded(found)
    if started is None and ended is None:
        executions.release(found.request)
    elif ended is not None:
        kept = Outcomes(_folder(found) / "outcomes").get(key_of(found.request))
        outcome = outcome_from(kept) if kept is not None else _outcome_of(started or {}, ended)
        executions.finish(found.request, outcome, fetched=not found.parked)
    else:
        executions.move(found.request, "running", "unknown")
    now = executions.find(found.request)
    return "" if now is None else now.state


def _folder(found: Execution) -> Path:
    return Path(str(found.runner.get("folder", "")))


def _recorded(found: Execution) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Find the start and the end of a call in the journal of its run."""
    started = ended = None
    try:
        for event in events(_folder(found)):
            if event.get("call_id") != found.runner.get("call"):
                continue
            if event.get("kind") == "tool.started":
                started = event
            elif event.get("kind") in ("tool.completed", "tool.failed"):
                ended = event
    except RunFault:
        return {}, None  # without a journal nothing is known: as if it was begun
    return started, ended


def _outcome_of(started: Mapping[str, Any], ended: Mapping[str, Any]) -> Outcome:
    """Write an outcome from what the journal says of a call."""
    status = Status(ended.get("status", "failed"))
    summary = f"{ended.get('tool')} ended; {_LOST}"
    error = None
    if status is not Status.OK:
        summary = str(ended.get("message", summary))
        error = ErrorInfo(str(ended.get("code", "INTERNAL")), str(ended.get("class", "unknown")), summary)
    return Outcome(
        call_id=str(ended.get("call_id", "")),
        tool=str(ended.get("tool", "")),
        version=str(started.get("version") or ""),
        status=status,
        summary=summary,
        content=summary,
        data=None,
        error=error,
        evidence=(),
        changes=tuple(_change(item) for item in ended.get("files_changed") or ()),
        commands=tuple(map(str, ended.get("commands_run") or ())),
        duration_ms=float(ended.get("duration_ms") or 0.0),
        warnings=(_LOST,),
    )


def _change(fields: Mapping[str, Any]) -> Change:
    return Change(
        path=str(fields.get("path", "")),
        op=str(fields.get("op", "")),
        before=fields.get("before"),
        after=fields.get("after"),
        kept=bool(fields.get("kept", True)),
    )

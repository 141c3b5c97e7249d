"""Undo: finds what recorded calls changed and asks the kernel to put it back, last first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.errors import Misuse
from handrail.words import Call, Outcome, noun

if TYPE_CHECKING:
    from handrail.runtime import Runtime

_FIELDS = ("before", "after", "mode", "source", "link")


@noun
class Plan:
    """The steps back, last first, and what cannot be taken back."""

    steps: tuple[Mapping[str, Any], ...]
    lost: tuple[str, ...]


def plan(events: Iterable[Mapping[str, Any]], call_id: str | None) -> Plan:
    """Read from a run's events what to put back: of one call, or of all that are not taken back yet. Pure."""
    changed: dict[str, list[Mapping[str, Any]]] = {}
    for event in events:
        if event["kind"] in ("tool.completed", "tool.failed") and event.get("files_changed"):
            if event.get("tool") != "undo_changes":
                changed[event["call_id"]] = event["files_changed"]
        elif event["kind"] == "undo.applied":
            for taken_back in event.get("calls", ()):
                changed.pop(taken_back, None)
    wanted = changed if call_id is None else {call_id: changed.get(call_id, [])}
    steps, lost = [], []
    for call, changes in reversed(wanted.items()):
        for change in reversed(changes):
            if not change.get("kept", True):
                lost.append(change["path"])
            given = {name: change[name] for name in _FIELDS if change.get(name) is not None}
            steps.append({"path": change["path"], "op": change["op"], "call": call, **given})
    return Plan(tuple(steps), tuple(lost))


async def undo(runtime: Runtime, call_id: str | None, run: str | None) -> Outcome:
    """Take back what a call (none: every call) of a run (none: this one) changed."""
    from handrail.store.reader import events

    parts = runtime.parts
    run_id = run or runtime.run_id
    folder = parts.folder.path.parent / run_id
    if not folder.is_dir():
        raise Misuse(f"there is no run {run_id} in {folder.parent}")
    parts.journal.flush()
    steps = _plan_of(folder, call_id, events(folder))
    args = {"run": run_id, "steps": [dict(step) for step in steps.steps]}
    outcome = await parts.kernel.call(Call("undo_changes", args, caller=parts.caller))
    if outcome.ok:
        _record(runtime, run_id, outcome)
    return outcome


def _plan_of(folder: Path, call_id: str | None, events: Iterable[Mapping[str, Any]]) -> Plan:
    found = plan(events, call_id)
    if not found.steps:
        what = f"call {call_id}" if call_id is not None else f"run {folder.name}"
        raise Misuse(f"{what} left no change to take back; `handrail runs list` shows the others")
    if found.lost:
        raise Misuse(
            f"no former content was kept of {', '.join(found.lost)} (see undo.max_bytes), so it stays as it is"
        )
    return found


def _record(runtime: Runtime, run_id: str, outcome: Outcome) -> None:
    """Note which calls are taken back."""
    parts = runtime.parts
    calls = outcome.data["calls"] if outcome.data else []
    told = {"run": run_id, "calls": calls, "by_call": outcome.call_id}
    parts.journal.append("undo.applied", outcome.call_id, told)
    parts.journal.flush()

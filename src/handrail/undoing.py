"""Undo: finds what recorded calls changed and asks the kernel to put it back, last first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.errors import Misuse
from handrail.words import Call, Outcome, noun

if TYPE_CHECKING:
    from handrail.runtime import Runtime

_FIELDS = ("before", "after", "mode", "source", "link")
_SHOWN = 5  # calls that a refusal names


@noun
class Plan:
    """The steps back, last first, and what cannot be taken back."""

    steps: tuple[Mapping[str, Any], ...]
    lost: tuple[str, ...]


@noun
class Ended:
    """A recorded call: what it changed, and whether that is taken back."""

    call: str
    tool: str
    ts: str
    changes: tuple[Mapping[str, Any], ...]
    taken_back: bool = False

    @property
    def left(self) -> bool:
        """Whether there is something to take back."""
        return bool(self.changes) and not self.taken_back

    @property
    def paths(self) -> str:
        """What it changed, on one line."""
        names = list(dict.fromkeys(str(change["path"]) for change in self.changes))
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def ended(events: Iterable[Mapping[str, Any]]) -> list[Ended]:
    """The calls of a run in the order of their ends; taking back is no change of its own. Pure."""
    calls: list[Ended] = []
    undone: set[str] = set()
    for event in events:
        if event["kind"] in ("tool.completed", "tool.failed") and event.get("tool") != "undo_changes":
            changes = tuple(event.get("files_changed") or ())
            calls.append(Ended(event["call_id"], str(event.get("tool")), str(event.get("ts", "")), changes))
        elif event["kind"] == "undo.applied":
            undone.update(event.get("calls", ()))
    return [Ended(item.call, item.tool, item.ts, item.changes, item.call in undone) for item in calls]


def plan(events: Iterable[Mapping[str, Any]], call_id: str | None) -> Plan:
    """Read from a run's events what to put back: of one call, or of all that are not taken back yet. Pure."""
    return _steps(ended(events), call_id)


def _steps(calls: Sequence[Ended], call_id: str | None) -> Plan:
    wanted = [item for item in calls if item.left and call_id in (None, item.call)]
    steps, lost = [], []
    for item in reversed(wanted):
        for change in reversed(item.changes):
            if not change.get("kept", True):
                lost.append(change["path"])
            given = {name: change[name] for name in _FIELDS if change.get(name) is not None}
            if call_id is not None:
                given |= _later(str(change["path"]), item, calls)
            steps.append({"path": change["path"], "op": change["op"], "call": item.call, **given})
    return Plan(tuple(steps), tuple(lost))


def _later(start: str, item: Ended, calls: Sequence[Ended]) -> dict[str, Any]:
    """The calls after one that changed what it had left at a path, or moved it, also with its folder; last first.

    Where it was moved away or deleted, what stands at the path now is not what the call had left there.
    """
    found, path, deleted = dict[str, None](), start, False
    for other in calls[calls.index(item) + 1 :]:
        for change in other.changes if other.left else ():
            source = change.get("source")
            if source is not None and f"{path}/".startswith(f"{source}/"):
                path = str(change["path"]) + path[len(source) :]
                found[other.call] = None
            elif change["path"] == path:
                deleted = deleted or change["op"] in ("delete", "rmdir")
                found[other.call] = None
    return {"later": list(reversed(found)), "gone": deleted or path != start} if found else {}


async def undo(runtime: Runtime, call_id: str | None, run: str | None) -> Outcome:
    """Take back what a call (none: every call) of a run (none: this one) changed."""
    parts = runtime.parts
    run_id = run or runtime.run_id
    folder = parts.folder.path.parent / run_id
    if not folder.is_dir():
        raise Misuse(f"there is no run {run_id} in {folder.parent}")
    parts.journal.flush()
    steps = _plan_of(folder.name, call_id, recorded(folder))
    args = {"run": run_id, "steps": [dict(step) for step in steps.steps], "broke_off": broke_off(_told_of(folder))}
    from handrail.tools.runs.undo_changes import from_record

    token = from_record.set(True)
    try:
        outcome = await parts.kernel.call(Call("undo_changes", args, caller=parts.caller))
    finally:
        from_record.reset(token)
    if outcome.ok:
        _record(runtime, run_id, outcome)
    return outcome


def recorded(folder: Path) -> list[Ended]:
    """The calls of a run as its journal tells them, and what other runs took back of them while it was busy."""
    return ended(_told_of(folder))


def broke_off(events: Iterable[Mapping[str, Any]]) -> bool:
    """Whether an undo was begun, changed something or was killed, and none has come to its end since. Pure."""
    begun, broken = set[str](), False
    for event in events:
        kind, call = event["kind"], str(event.get("call_id"))
        if kind == "undo.applied":
            begun.clear()
            broken = False
        elif event.get("tool") == "undo_changes":
            begun.add(call) if kind == "tool.started" else begun.discard(call)
            broken = broken or (kind == "tool.failed" and event.get("effect") == "done")
    return broken or bool(begun)


def _told_of(folder: Path) -> Iterator[Mapping[str, Any]]:
    """A run's events, and those of other runs that took back from it while it was busy."""
    from handrail.store.folders import list_runs
    from handrail.store.reader import events

    yield from events(folder)
    for other in list_runs(folder.parent):
        if other.description.get("parent_run") == folder.name:
            for event in events(other.path):
                if event["kind"] == "undo.applied" or event.get("tool") == "undo_changes":
                    yield event


def _plan_of(run: str, call_id: str | None, calls: list[Ended]) -> Plan:
    found = _steps(calls, call_id)
    if not found.steps:
        raise Misuse(f"{_why_nothing(run, call_id, calls)}; {_what_else(run, calls)}")
    if found.lost:
        raise Misuse(
            f"no former content was kept of {', '.join(found.lost)} (see undo.max_bytes), so it stays as it is"
        )
    return found


def _why_nothing(run: str, call_id: str | None, calls: list[Ended]) -> str:
    """Say why there is nothing to take back of a call, or of the whole run."""
    meant = [item for item in calls if call_id in (None, item.call)]
    what = f"run {run}" if call_id is None else f"call {call_id}"
    if any(item.taken_back for item in meant):
        return f"all that {what} changed is taken back already"
    if not meant:
        return f"{what} has no call that ended" if call_id is None else f"run {run} has no {what} that ended"
    tools = ", ".join(dict.fromkeys(item.tool for item in meant))
    return f"{what} changed nothing ({tools})"


def _what_else(run: str, calls: list[Ended]) -> str:
    """Say what can be taken back instead, and how."""
    left = [item for item in reversed(calls) if item.left]
    if not left:
        return "`handrail runs undo` alone takes back the last change in this workspace, and `runs list` shows them all"
    named = "; ".join(f"--call {item.call[-12:]} ({item.tool}: {item.paths})" for item in left[:_SHOWN])
    more = f" and {len(left) - _SHOWN} more calls" if len(left) > _SHOWN else ""
    return f"`handrail runs undo {run}` can take back: {named}{more}"


def _record(runtime: Runtime, run_id: str, outcome: Outcome) -> None:
    """Note which calls are taken back."""
    parts = runtime.parts
    calls = outcome.data["calls"] if outcome.data else []
    told = {"run": run_id, "calls": calls, "by_call": outcome.call_id}
    parts.journal.append("undo.applied", outcome.call_id, told)
    parts.journal.flush()

"""Undo: finds what recorded calls changed and asks the kernel to put it back, last first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.errors import Misuse
from handrail.words import Call, Outcome, noun

if TYPE_CHECKING:
    from handrail.runtime import Runtime
    from handrail.undo_order import Ended, Spot

_FIELDS = ("before", "after", "mode", "source", "link")
_SHOWN = 5  # calls that a refusal names


@noun
class Plan:
    """The steps back, last first; what is to be taken back before; and what cannot be taken back."""

    steps: tuple[Mapping[str, Any], ...]
    first: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def plan(events: Iterable[Mapping[str, Any]], call_id: str | None) -> Plan:
    """Read from a run's events what to put back: of one call, or of all that are not taken back yet. Pure."""
    from handrail.undo_order import ended

    return _steps(ended(events), call_id)


def _steps(calls: Sequence[Ended], call_id: str | None) -> Plan:
    from handrail.undo_order import look_ahead

    wanted = [item for item in calls if item.left and call_id in (None, item.call)]
    found, steps = look_ahead(calls, call_id), []
    for item in reversed(wanted):
        for number, change in reversed([*enumerate(item.changes)]):
            if change.get("kept", True):
                given = {name: change[name] for name in _FIELDS if change.get(name) is not None}
                since = _since(found.spots.get((item.call, number), ()))
                steps.append({"path": change["path"], "op": change["op"], "call": item.call, **given, **since})
    return Plan(tuple(steps), tuple(found.first), tuple(_lost(calls, call_id)))


def _since(spots: Iterable[Spot]) -> dict[str, Any]:
    """What became of what a change left, and of where it would be put back; nothing where nothing did."""
    known = [spot for spot in spots if spot.gone or spot.later or spot.beyond]
    if not known:
        return {}
    beyond = list(dict.fromkeys(call for spot in known for call in spot.beyond))[:_SHOWN]
    told: dict[str, Any] = {"beyond": beyond} if beyond else {}
    if any(spot.later for spot in known):
        told["later"] = True
    return told | next(({"gone": spot.start} for spot in known if spot.gone), {})


def _lost(calls: Sequence[Ended], call_id: str | None) -> Iterator[str]:
    """Say what cannot be taken back of what is asked for, and why; first what was changed last."""
    for item in reversed(calls):
        if item.lost and not item.taken_back and call_id in (None, item.call):
            yield f"{item.tool} (call {item.call}) changed what cannot be taken back: {item.why_lost}"


async def undo(runtime: Runtime, call_id: str | None, run: str | None) -> Outcome:
    """Take back what a call (none: every call) of a run (none: this one) changed."""
    parts = runtime.parts
    run_id = run or runtime.run_id
    folder = parts.folder.path.parent / run_id
    if not folder.is_dir():
        raise Misuse(f"there is no run {run_id} in {folder.parent}")
    parts.journal.flush()
    found = _plan_of(folder.name, call_id, recorded(folder))
    args = {
        "run": run_id,
        "steps": [dict(step) for step in found.steps],
        "broke_off": broke_off(_told_of(folder)),
        "first": list(found.first),
        "lost": list(found.lost),
    }
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
    from handrail.undo_order import ended

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
    for other in reversed(list_runs(folder.parent)):
        if other.description.get("parent_run") == folder.name:
            for event in events(other.path):
                if event["kind"] == "undo.applied" or event.get("tool") == "undo_changes":
                    yield event


def _plan_of(run: str, call_id: str | None, calls: list[Ended]) -> Plan:
    found = _steps(calls, call_id)
    if not found.steps:
        raise Misuse(f"{_why_nothing(run, call_id, calls)}; {_what_else(run, calls)}")
    return found


def _why_nothing(run: str, call_id: str | None, calls: list[Ended]) -> str:
    """Say why there is nothing to take back of a call, or of the whole run."""
    meant = [item for item in calls if call_id in (None, item.call)]
    what = f"run {run}" if call_id is None else f"call {call_id}"
    if lost := list(_lost(meant, call_id)):
        more = f"; {len(lost) - _SHOWN} more calls like that" if len(lost) > _SHOWN else ""
        return f"what is left of {what} stays as it is: {'; '.join(lost[:_SHOWN])}{more}"
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

"""What can be taken back, where no run is named: the last change in this workspace, or the run of a call."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handrail.approvals.show import visible
from handrail.front.cli._common import runs_folder
from handrail.front.cli.runs import ELSEWHERE, is_here

if TYPE_CHECKING:
    from handrail.undo_order import Ended


Position = tuple[int, str]  # the number of a change, and its time for those of 0.1.0, which have no number
_SHOWN = 5  # calls that are passed over and named


class _Nothing(click.ClickException):
    """There is nothing to do; the usage was right, so it is not told."""

    exit_code = 2


def last_change(given: Mapping[str, Any]) -> tuple[Path, str]:
    """The run and the call that changed something last in this workspace and are not taken back yet.

    Calls of which nothing can be put back are passed over, and that is said.
    """
    best: tuple[Position, Path, str] | None = None
    passed: list[Ended] = []
    for item in _runs_here(given):
        if best is not None and _end_of(item) < best[0]:
            break  # all further runs ended before that change
        calls = _open(item.path)
        passed += [call for call in calls if not call.left]
        last = next((call for call in reversed(calls) if call.left), None)  # of a run: by its journal's sequence
        if last is not None and (best is None or _position(last) > best[0]):
            best = (_position(last), item.path, last.call)
    said = _passed_over(passed, (0, "") if best is None else best[0])
    if best is None:
        text = (
            f"There is nothing to take back: no run of this workspace in {runs_folder(given)} changed a file that is "
            f"not put back already{' and can be' if said else ''}.\n{said}{ELSEWHERE.rstrip()}"
        )
        raise _Nothing(text)
    sys.stderr.write(said)
    return best[1], best[2]


def _position(call: Ended) -> Position:
    """Give the position of a change among those of all runs."""
    return call.order, call.ts


def _end_of(item: Any) -> Position:
    """Give a position after the last change of a run; of one that did not end, nothing is known."""
    return sys.maxsize if item.ended is None else item.ended, str(item.updated)


def _passed_over(calls: list[Ended], since: Position) -> str:
    """Say which calls after a change are passed over, last first, and why."""
    later = sorted((call for call in calls if _position(call) > since), key=_position, reverse=True)
    lines = [
        f"Passed over: {call.tool} (call {call.call[-12:]}) changed what cannot be taken back: {call.why_lost}"
        for call in later[:_SHOWN]
    ]
    more = [f"Passed over: {len(later) - _SHOWN} more calls like that"] if len(later) > _SHOWN else []
    return "".join(f"{visible(line)}\n" for line in lines + more)


def _open(folder: Path) -> list[Ended]:
    """The calls of a run whose changes still stand; what other runs took back is looked for only where that matters."""
    from handrail.store.reader import events
    from handrail.undo_order import ended
    from handrail.undoing import recorded

    if not any(call.changes and not call.taken_back for call in ended(events(folder))):
        return []
    return [call for call in recorded(folder) if call.changes and not call.taken_back]


def run_of_call(call_id: str, given: Mapping[str, Any]) -> Path:
    """The run of this workspace in which a call was made; an id may be given by its end."""
    from handrail.store.reader import events

    found: dict[str, Path] = {}
    for item in _runs_here(given):
        ids = {str(event["call_id"]) for event in events(item.path) if event.get("call_id")}
        if call_id in ids:
            return Path(item.path)
        found |= {name: Path(item.path) for name in ids if name.endswith(call_id)}
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        raise click.UsageError(f"{len(found)} calls end with {call_id!r}, such as {min(found)}; give more of the id.")
    raise click.UsageError(
        f"No run of this workspace in {runs_folder(given)} has a call {call_id!r}; `handrail runs show RUN` names "
        f"the calls of a run, and the end of an id is enough.\n{ELSEWHERE.rstrip()}"
    )


def _runs_here(given: Mapping[str, Any]) -> list[Any]:
    from handrail.store.folders import list_runs

    found = [item for item in list_runs(runs_folder(given)) if item.events and is_here(item, given)]
    return sorted(found, key=_end_of, reverse=True)

"""What a run did, in a few numbers and names: read from its journal for lists, kept nowhere."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handrail.errors import RunFault
from handrail.store.reader import events

MOST_EVENTS = 50_000  # of one run: a list must not take long because a run did


@dataclass(slots=True)
class Summary:
    """The calls of a run by tool, the files they changed, what was asked for and what was refused."""

    calls: int = 0
    tools: Counter[str] = field(default_factory=Counter)
    changed: dict[str, None] = field(default_factory=dict)  # paths, the last changed one last
    asked: int = 0
    denied: int = 0
    whole: bool = True  # False: there is more than was looked at

    def apply(self, event: dict[str, Any]) -> None:
        """Take one event in; a field that is something else counts as missing."""
        kind = event.get("kind")
        if kind == "approval.required":
            self.asked += 1
        elif kind == "tool.started" and event.get("handed_over"):
            self._count(event)
        elif kind in ("tool.completed", "tool.failed"):
            self._count(event)
            self._see_changes(event)
        elif kind == "tool.observed":
            self._see_changes(event)

    def _count(self, event: dict[str, Any]) -> None:
        self.calls += 1
        self.tools[str(event.get("tool"))] += 1
        self.denied += event.get("status") == "denied"

    def _see_changes(self, event: dict[str, Any]) -> None:
        changes = event.get("files_changed")
        for change in changes if isinstance(changes, list) else ():
            path = str(change.get("path")) if isinstance(change, dict) else str(change)
            self.changed.pop(path, None)
            self.changed[path] = None


def summary(folder: Path) -> Summary:
    """Sum up a run; one whose journal cannot be read did nothing that is known."""
    found = Summary()
    try:
        for number, event in enumerate(events(folder)):
            if number == MOST_EVENTS:
                found.whole = False
                break
            found.apply(event)
    except RunFault:
        return Summary()
    return found

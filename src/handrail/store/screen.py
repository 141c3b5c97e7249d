"""Where tools show something to the person: an event first, then whoever looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from handrail import ports
from handrail.output.redact import Redactor
from handrail.words import noun


class JournaledScreen:
    """Every display is an event first; then whoever looks is shown it."""

    def __init__(self, journal: ports.Journal, redactor: Redactor, screen: ports.Screen | None) -> None:
        self._journal, self._redactor = journal, redactor
        self.sinks: list[Callable[[Mapping[str, Any]], None]] = [screen.show] if screen is not None else []

    def bind(self, call_id: str) -> CallScreen:
        """Give the screen of one call."""
        return CallScreen(self, call_id)

    def show(self, call_id: str, fields: Mapping[str, Any]) -> None:
        """Record and show one display."""
        hidden: Any = self._redactor.value(dict(fields))
        self._journal.append("display", call_id, hidden)
        self._journal.flush()
        for sink in self.sinks:
            sink(hidden)
        if not self.sinks:
            preview = str(hidden.get("content", ""))[:200]
            print(f"[{hidden.get('level', 'info')}] {preview}", file=sys.stderr)  # noqa: T201


@noun
class CallScreen:
    """Satisfies `ports.Screen` for one call."""

    screen: JournaledScreen
    call_id: str

    def show(self, fields: Mapping[str, Any]) -> None:
        """Show one display event."""
        self.screen.show(self.call_id, fields)

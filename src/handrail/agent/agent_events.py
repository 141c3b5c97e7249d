"""The agent's own events in the journal of its run; each is written once, also when a task is continued."""

from __future__ import annotations

from typing import Any

import orjson

from handrail.runtime import Runtime
from handrail.store.chain import EVENTS

_OURS = (b'"kind":"agent.', b'"kind":"turn.', b'"kind":"question.', b'"kind":"message.')
MOST_TEXT = 20_000  # characters of one text in an event; the whole is in the turn log
_ID = {"turn": "id", "question": "question", "message": "message", "agent": "agent"}


class AgentEvents:
    """Writes events of one task, redacted, and knows which are on record already."""

    def __init__(self, runtime: Runtime, task_id: str) -> None:
        self._journal = runtime.parts.journal
        self._hidden = runtime.kernel.parts.finisher.hidden
        self._trace = runtime.run_id
        self._task = task_id
        self._known: dict[tuple[str, str], int] = {}
        self._turn = (0, "")
        self._read(runtime)

    def _read(self, runtime: Runtime) -> None:
        """Find the events of earlier openings; other lines are not parsed."""
        with (runtime.parts.folder.path / EVENTS).open("rb") as file:
            for line in file:
                if any(kind in line for kind in _OURS):
                    event = orjson.loads(line)
                    self._know(event["kind"], str(event.get(_ID[event["kind"].partition(".")[0]])))

    def _know(self, kind: str, identity: str) -> None:
        self._known[kind, identity] = self._known.get((kind, identity), 0) + 1

    def count(self, *kinds: str) -> int:
        """Return how many events of the task itself are on record of these kinds."""
        return sum(self._known.get((kind, self._task), 0) for kind in kinds)

    def turn_id(self, number: int) -> str:
        """Name a turn: its calls carry this as their parent."""
        if self._turn[0] != number:
            self._turn = (number, f"{self._task}:{number}")
        return self._turn[1]

    def has_turn_end(self, number: int) -> bool:
        """Whether the end of a turn is on record."""
        return ("turn.finished", self.turn_id(number)) in self._known

    def write(self, kind: str, **fields: Any) -> None:
        """Write an event of the task; what it holds of secrets is hidden."""
        self._append(kind, self._task, {"agent": self._task, **fields})

    def write_turn(self, kind: str, number: int, **fields: Any) -> None:
        """Write an event of a turn, once; it holds numbers alone. Its end is written out with what follows it."""
        name = self.turn_id(number)
        if (kind, name) in self._known:
            return
        about = {"trace_id": self._trace, "turn": number, "id": name, "parent": self._task, **fields}
        self._journal.append(kind, None, about)
        if kind == "turn.started":
            self._journal.flush()
        self._known[kind, name] = 1

    def write_once(self, kind: str, identity: str, **fields: Any) -> None:
        """Write an event about a question or a message, once."""
        if (kind, identity) not in self._known:
            self._append(kind, identity, {_ID[kind.partition(".")[0]]: identity, **fields})

    def _append(self, kind: str, identity: str, fields: dict[str, Any]) -> None:
        shown = {name: _bound(value) for name, value in self._hidden(fields).items()}
        self._journal.append(kind, None, {"trace_id": self._trace, **shown})
        self._journal.flush()
        self._know(kind, identity)


def _bound(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MOST_TEXT:
        return f"{value[:MOST_TEXT]}… ({len(value)} characters)"
    return value

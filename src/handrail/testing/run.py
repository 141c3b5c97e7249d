"""Fakes of what a run stands on: time, the person, the record, the screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from handrail.ports import Reply, Request
from handrail.words import Scope


class FixedClock:
    """A clock that moves only when told to."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now
        self._monotonic = 0.0

    def now(self) -> float:
        """The wall clock."""
        return self._now

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds
        self._monotonic += seconds


class ScriptedApprover:
    """Answers approval requests from a list, and keeps what it was asked.

    Each entry is a word ("once", "run", "no", "pending"), a Reply, or a function of the request that gives either.
    When the list is used up the last entry answers on.
    """

    def __init__(self, *answers: str | Reply | Callable[[Request], str | Reply], ledger: Any = None) -> None:
        self._answers = list(answers) or ["no"]
        self.asked: list[Request] = []
        self.ledger = ledger  # the runtime fills it in

    async def ask(self, request: Request) -> Reply:
        """Give the next answer, and put it on record as a person's would be."""
        self.asked.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        reply = _reply(answer(request) if callable(answer) else answer)
        if reply.state in ("granted", "denied"):
            self.ledger.answer(request.id, reply)
        return reply


def _reply(answer: str | Reply) -> Reply:
    if isinstance(answer, Reply):
        return answer
    words: Mapping[str, Reply] = {
        "once": Reply("granted", Scope.CALL, by="script"),
        "run": Reply("granted", Scope.RUN, by="script"),
        "session": Reply("granted", Scope.SESSION, by="script"),
        "always": Reply("granted", Scope.ALWAYS, by="script"),
        "no": Reply("denied", by="script"),
        "pending": Reply("pending"),
    }
    return words[answer]


class MemoryJournal:
    """A journal that keeps its events in a list; `broken` makes every write fail."""

    def __init__(self, run_id: str = "memory") -> None:
        self.run_id = run_id
        self.events: list[dict[str, Any]] = []
        self.flushed = 0
        self.synced = 0
        self.broken: Exception | None = None

    def append(self, kind: str, call_id: str | None, fields: Mapping[str, Any] | bytes) -> None:
        """Keep one event."""
        if self.broken is not None:
            raise self.broken
        told = orjson.loads(b"{" + fields) if isinstance(fields, bytes) else fields
        self.events.append({"seq": len(self.events) + 1, "kind": kind, "call_id": call_id, **told})

    def flush(self) -> None:
        """Count what is written."""
        if self.broken is not None:
            raise self.broken
        self.flushed = len(self.events)

    async def durable(self) -> bool:
        """Count what is durable."""
        self.flush()
        self.synced = len(self.events)
        return False

    def kinds(self) -> Sequence[str]:
        """The kinds of all events, in order."""
        return [event["kind"] for event in self.events]


class RecordingScreen:
    """Keeps what was shown to the person."""

    def __init__(self) -> None:
        self.shown: list[dict[str, Any]] = []

    def show(self, fields: Mapping[str, Any]) -> None:
        """Keep one display."""
        self.shown.append(dict(fields))

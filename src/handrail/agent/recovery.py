"""What became of a call when its process died: from the journal's claim and the stored outcome, never guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from handrail.errors import FACTS, Code, Problem
from handrail.gates import record
from handrail.runtime import Runtime
from handrail.store.keys import outcome_from
from handrail.store.order import RunOrder
from handrail.store.outcomes import Outcomes
from handrail.words import Json, Outcome, changes_world


@dataclass(frozen=True, slots=True)
class CutOff:
    """A call that was started before the run was opened this time, and whose end is not on record."""

    call_id: str
    tool: str
    key: str


class Claims:
    """The claims of a run: which keyed calls started, which ended, and with what."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._journal = runtime.parts.journal
        self._outcomes = Outcomes(runtime.parts.folder.outcomes)
        # As the run was when it was opened: calls made since are not cut off.
        self._cut_off = {
            str(call["key"]): CutOff(call_id, str(call["tool"]), str(call["key"]))
            for call_id, call in self._journal.state.open_calls.items()
            if "key" in call
        }

    def started(self, key: str) -> bool:
        """Whether a call with this key was started in the run."""
        return key in self._journal.state.keys

    def cut_off(self, key: str) -> CutOff | None:
        """Return the call of this key whose end is not known; also one of several that a dialect makes of it."""
        found = self._cut_off.get(key)
        if found is not None:
            return found
        return next((call for name, call in self._cut_off.items() if name.startswith(f"{key}#")), None)

    def outcome(self, key: str) -> Outcome | None:
        """Return the stored outcome of a call that ended; a missing end line is written first."""
        stored = self._outcomes.get(key) if self.started(key) else None
        if stored is None:
            return None
        outcome = outcome_from(stored)
        if key in self._cut_off:
            self._write_end(self._cut_off.pop(key), outcome)
        return outcome

    def only_reads(self, call: CutOff, name: str, args: Mapping[str, Json], dialect: str) -> bool:
        """Whether a call that was cut off changes nothing; in doubt it does."""
        try:
            if not self._runtime.parts.catalog.get(call.tool).changing:
                return True
            told = self._runtime.explanation(name, args, dialect=dialect)
        except Problem:
            return False
        return bool(told.tool.permissions) and not any(changes_world(touch) for touch in told.touches)

    def close(self, call: CutOff, *, changes: bool) -> None:
        """Write the end of a call that was cut off: OUTCOME_UNKNOWN, and what it may have done."""
        if self._cut_off.pop(call.key, None) is None:
            return
        fields: dict[str, Any] = {
            "trace_id": self._journal.run_id,
            "tool": call.tool,
            "status": "failed",
            "effect": "unknown" if changes else "none",
            "duration_ms": 0.0,
            "evidence": [],
            "code": Code.OUTCOME_UNKNOWN.value,
            "class": FACTS[Code.OUTCOME_UNKNOWN].error_class,
            "message": "The process ended while the call ran; how the call ended is not known.",
        }
        self._append("tool.failed", call, fields)

    def _write_end(self, call: CutOff, outcome: Outcome) -> None:
        """Write the end line of a call whose outcome was stored before its process died."""
        done = outcome.error is None or bool(outcome.changes)
        effect = "done" if done else "unknown"
        if not self._runtime.parts.catalog.get(call.tool).changing:
            effect = "none"
        fields = {**record.end_fields(outcome, effect), "trace_id": self._journal.run_id}
        if outcome.changes:
            fields["order"] = RunOrder(self._runtime.parts.folder.path.parent).take()
        self._append("tool.completed" if outcome.error is None else "tool.failed", call, fields)

    def _append(self, kind: str, call: CutOff, fields: dict[str, Any]) -> None:
        self._journal.append(kind, call.call_id, fields)
        self._journal.flush()
        self._journal.state.open_calls.pop(call.call_id, None)

"""Writing a call down: its start, its end, and what it used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from handrail.errors import Code, Problem
from handrail.gates import asking, record
from handrail.gates.step import Judged, Step
from handrail.words import Json, Outcome

if TYPE_CHECKING:
    from handrail.kernel import Parts

# What says that a tool itself does not work; a path that is not there or a text that does not match says nothing of it.
BROKEN = frozenset({Code.TIMEOUT, Code.IO_ERROR, Code.UPSTREAM_ERROR, Code.INTERNAL, Code.INVALID_RESULT})


class Writer:
    """Appends the events of calls; durability is the kernel's to ask for."""

    def __init__(self, parts: Parts, confinement: Callable[[Step], Mapping[str, Json] | None]) -> None:
        self._parts, self._journal, self._limits = parts, parts.journal, parts.limits
        self._confinement = confinement
        self._finisher = parts.finisher

    def start(self, step: Step) -> None:
        """Append `tool.started`; it is in the file after the next flush."""
        step.started = True
        try:
            fields = self._start(step)
        except Problem:  # no sandbox fits: nothing was started
            step.started = False
            raise
        self._journal.append("tool.started", step.id, fields)

    def end(self, kind: str, step: Step, outcome: Outcome, effect: str) -> None:
        """Write down how a call ended, and count what it used."""
        call = step.call
        fields = record.end_fields(outcome, effect)
        fields["trace_id"] = call.trace_id or self._parts.trace_id
        if step.started:
            self._count(step, outcome, fields)
        else:
            fields = self._start_fields(step) | fields | {"started": False}
            if step.admitted:
                self._limits.released(step.name)
        if call.idempotency_key is not None and step.started:
            self._parts.keys.store(call.idempotency_key, step.id, outcome)
        self._journal.append(kind, step.id, fields)
        self._journal.flush()

    def _start(self, step: Step) -> Any:
        """The fields of `tool.started`, made once for equal calls that add nothing of their own."""
        call, judged = step.call, step.judged
        assert judged is not None
        if call.id or call.trace_id or call.parent or call.idempotency_key is not None or step.grant is not None:
            return self._start_fields(step)
        if judged.started is None:
            judged.started = orjson.Fragment(orjson.dumps(self._start_fields(step)))
        return judged.started

    def _start_fields(self, step: Step) -> dict[str, Any]:
        call, tool = step.call, step.tool
        fields: dict[str, Any] = {
            "trace_id": call.trace_id or self._parts.trace_id,
            "tool": tool.name if tool is not None else self._finisher.hidden(record.cut(step.name)),
            "version": tool.version if tool is not None else None,
            "risk": tool.risk.value if tool is not None else None,
            "args": self._finisher.args(step.args_json if step.args is not None else call.args),
            "caller": call.caller,
        }
        if step.judged is not None:
            fields.update(step.judged.fields or self._told(step, step.judged))
        if step.grant is not None:
            fields["grant"] = step.grant.id
        if call.parent is not None:
            fields["parent"] = call.parent
        if call.dialect != "native":
            fields["dialect"] = call.dialect
            fields["asked"] = self._finisher.args({"tool": call.tool, "args": call.args})
        if call.id:
            fields["given_id"] = True
        if call.idempotency_key is not None:
            fields["key"] = call.idempotency_key
            fields["args_digest"] = asking.digest_of(step.name, orjson.loads(step.args_json))
        return fields

    def _told(self, step: Step, judged: Judged) -> dict[str, Any]:
        """Touches and verdict, hidden where they must be; made once for equal calls."""
        fields = record.verdict_fields(step.touches, judged.verdict, self._parts.policy_digest)
        if step.started:  # a call that was denied gets no sandbox, and its record must not depend on one
            fields["sandbox"] = self._confinement(step)
        hidden = self._finisher.hidden(fields)
        judged.fields = {name: orjson.Fragment(orjson.dumps(value)) for name, value in hidden.items()}
        return judged.fields

    def _count(self, step: Step, outcome: Outcome, fields: dict[str, Any]) -> None:
        """Count what the call used, for budgets, breaker and repeats."""
        limits, files = self._limits, step.files
        used = limits.usage.used
        used["wall_ms"] += outcome.duration_ms
        if files is not None:
            if files.bytes_read:
                used["bytes_read"] += files.bytes_read
                fields["bytes_read"] = files.bytes_read
            if files.bytes_written:
                used["bytes_written"] += files.bytes_written
                fields["bytes_written"] = files.bytes_written
            if files.saw_whole:
                # A name that must be hidden was hidden in the outcome, too.
                clean = outcome.error is None and not outcome.redacted
                fields["seen"] = files.saw_whole if clean else self._finisher.hidden(files.saw_whole)
        if outcome.changes:
            used["files_changed"] += len(outcome.changes)
            limits.repeats.progress()
        else:
            limits.repeats.ended((step.name, step.args_json), hash(outcome.content))
        # A host that does not answer has a breaker of its own: the tool works for all the others.
        broken = outcome.error is not None and outcome.error.code in BROKEN and "host" not in outcome.error.details
        if broken or limits.watched:
            limits.ended(step.name, not broken, self._parts.clock.monotonic())

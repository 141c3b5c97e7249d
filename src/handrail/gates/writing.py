"""Writing a call down: its start, its end, and what it used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from handrail import dialects
from handrail.catalog import Tool
from handrail.errors import Code, Problem
from handrail.gates import asking, record
from handrail.gates.step import PLAIN, Settled, Step
from handrail.policy.skills import GOVERNED
from handrail.words import Call, ErrorInfo, Json, Outcome, Verdict

if TYPE_CHECKING:
    from handrail.kernel import Parts

# What says that a tool itself does not work; a path that is not there or a text that does not match says nothing of it.
BROKEN = frozenset({Code.TIMEOUT, Code.IO_ERROR, Code.UPSTREAM_ERROR, Code.INTERNAL, Code.INVALID_RESULT})
LIMITED = frozenset({Code.BUDGET_EXHAUSTED, Code.RATE_LIMITED, Code.CIRCUIT_OPEN})
_LIMIT = ("budget", "bound", "used", "host", "retry_after_seconds")


class Writer:
    """Appends the events of calls; durability is the kernel's to ask for."""

    def __init__(self, parts: Parts, confinement: Callable[[Step], Mapping[str, Json] | None]) -> None:
        self._parts, self._journal, self._limits = parts, parts.journal, parts.limits
        self._confinement = confinement
        self._finisher = parts.finisher
        self._processes = parts.limits.usage.used["processes"]  # as many as are on record

    def start(self, step: Step) -> None:
        """Append `tool.started`; it is in the file after the next flush."""
        step.started = True
        try:
            fields = self._start_fields(step)
        except Problem:  # no sandbox fits: nothing was started
            step.started = False
            raise
        self._journal.append("tool.started", step.id, fields)

    def end(self, kind: str, step: Step, outcome: Outcome, effect: str) -> Outcome:
        """Write down how a call ended, and count what it used; gives the outcome, warned where it is not kept."""
        key = step.call.idempotency_key
        fields = self._ended(step, outcome, effect)
        if step.started:
            self._count(step, outcome)
        elif step.admitted:
            self._limits.released(step.name)
        if key is not None and step.started:
            outcome = self._kept(key, step, outcome)
        if outcome.error is not None and outcome.error.code in LIMITED:
            self._journal.append("limit.hit", step.id, self._hit(step, outcome, outcome.error))
        self._journal.append(kind, step.id, fields)
        self._journal.flush()
        if self._parts.parking is not None:
            for request in step.claimed:
                self._parts.parking.finish(request, outcome)
        return outcome

    def settle(self, step: Step, settled: Settled) -> Outcome:
        """Write down that a call was given the outcome of an equal one that was made on its behalf."""
        outcome = settled.outcome
        if step.admitted:
            self._limits.released(step.name)
        told = {"trace_id": step.call.trace_id or self._parts.trace_id, "tool": step.name, "made_as": outcome.call_id}
        self._journal.append("approval.fetched", step.id, {**told, "status": str(outcome.status)})
        self._journal.flush()
        return outcome

    def _kept(self, key: str, step: Step, outcome: Outcome) -> Outcome:
        """Keep an outcome for the next call with its key; where that fails, the work is done all the same."""
        try:
            self._parts.keys.store(key, step.id, outcome)
        except Problem as problem:
            told = f"this outcome is not kept for its idempotency key: {problem.message}"
            return replace(outcome, warnings=(*outcome.warnings, told))
        return outcome

    def _hit(self, step: Step, outcome: Outcome, error: ErrorInfo) -> dict[str, Json]:
        """The fields of `limit.hit`: which one, and how far it went."""
        known = {name: error.details[name] for name in _LIMIT if name in error.details}
        trace_id = step.call.trace_id or self._parts.trace_id
        return {"trace_id": trace_id, "tool": outcome.tool, "code": str(error.code), **known}

    def _ended(self, step: Step, outcome: Outcome, effect: str) -> Any:
        """The fields of `tool.completed` or `tool.failed`."""
        fields = record.end_fields(outcome, effect)
        fields["trace_id"] = step.call.trace_id or self._parts.trace_id
        if not step.started:
            return self._start_fields(step) | fields | {"started": False}
        if outcome.changes and self._parts.order is not None:
            fields["order"] = self._parts.order()
        if (processes := self._limits.usage.used["processes"]) > self._processes:
            fields["processes"], self._processes = processes - self._processes, processes
        files = step.files
        if files is not None:
            if files.bytes_read:
                fields["bytes_read"] = files.bytes_read
            if files.bytes_written:
                fields["bytes_written"] = files.bytes_written
            if files.saw_whole:
                # A name that must be hidden was hidden in the outcome, too.
                clean = outcome.error is None and not outcome.redacted
                fields["seen"] = files.saw_whole if clean else self._finisher.hidden(files.saw_whole)
        return fields

    def _start_fields(self, step: Step) -> dict[str, Any]:
        call, tool = step.call, step.tool
        named = tool or self._named(call)
        fields: dict[str, Any] = {
            "trace_id": call.trace_id or self._parts.trace_id,
            "tool": tool.name if tool is not None else self._finisher.hidden(record.cut(record.jsonable(step.name))),
            "version": named.version if named is not None else None,
            "risk": str(named.risk) if named is not None else None,
            "args": None,
            "caller": call.caller,
        }
        clean = self._is_clean(step)
        fields["args"] = self._start_args(step, clean=clean)
        if step.verdict is not None:
            fields.update(self._verdict_fields(step, step.verdict, clean=clean))
        if step.grant is not None:
            fields["grant"] = step.grant.id
        if call.parent is not None:
            fields["parent"] = call.parent
        if call.client:
            fields["client"] = self._finisher.hidden(call.client)
        if call.dialect != "native":
            fields["dialect"] = call.dialect
            fields["asked"] = self._finisher.args({"tool": call.tool, "args": call.args})
        if step.agent and step.started:
            fields |= self._finisher.hidden(record.handed_over_fields(step.agent, call, step.formers))
            fields["handed_over"]["asks"] = step.agent_asks
        if call.id:
            fields["given_id"] = True
        if call.idempotency_key is not None:
            fields["key"] = call.idempotency_key
            if step.tool is not None:
                fields["args_digest"] = asking.digest_of(step.name, orjson.loads(step.args_json))
        return fields

    def _named(self, call: Call) -> Tool | None:
        """Find the tool that a call names although its arguments could not be read."""
        try:
            name = call.tool if call.dialect == "native" else dialects.get(call.dialect).word(call.tool).ours
            return self._parts.catalog.get(name)
        except Exception:  # noqa: BLE001  (a tool that cannot be loaded is refused elsewhere; this line only names it)
            return None

    def _is_clean(self, step: Step) -> bool:
        """Whether neither arguments nor touches nor verdict hold a secret."""
        if step.args is None or step.verdict is None or not PLAIN.issuperset(map(type, step.args.values())):
            return False
        return self._finisher.is_clean(step.args, record.texts_of(step.touches, step.verdict))

    def _start_args(self, step: Step, *, clean: bool) -> Any:
        if step.args is None:
            return self._finisher.args(record.jsonable(step.call.args))
        if clean and len(step.args_json) <= record.MAX_TEXT:
            return orjson.Fragment(step.args_json)
        return self._finisher.args(step.args, step.args_json)

    def _verdict_fields(self, step: Step, verdict: Verdict, *, clean: bool) -> dict[str, Any]:
        """List touches and verdict, hidden where they must be."""
        fields = record.verdict_fields(step.touches, verdict, self._parts.policy_digest)
        if step.started:  # a call that was denied gets no sandbox, and its record must not depend on one
            fields["sandbox"] = self._confinement(step)
        hidden: dict[str, Any] = fields if clean and fields["sandbox"] is None else self._finisher.hidden(fields)
        return hidden

    def _count(self, step: Step, outcome: Outcome) -> None:
        """Count what the call used, for budgets, breaker and repeats."""
        limits, files, error, changes = self._limits, step.files, outcome.error, outcome.changes
        used = limits.usage.used
        if files is not None:
            used["bytes_read"] += files.bytes_read
            if files.bytes_written:
                used["bytes_written"] += files.bytes_written
        if changes:
            used["files_changed"] += len(changes)
            limits.repeats.progress()
        else:
            limits.repeats.ended(step.key, hash(outcome.content))
        if error is not None or limits.watched:
            # A host that does not answer has a breaker of its own: the tool works for all the others. So it is with
            # the tools of an agent: that one fails says nothing of the others.
            broken = error is not None and error.code in BROKEN and "host" not in error.details
            broken = broken and step.name != GOVERNED
            if broken or limits.watched:
                limits.ended(step.name, not broken, self._parts.clock.monotonic())

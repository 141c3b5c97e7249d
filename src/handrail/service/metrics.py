"""Numbers for Prometheus, in its text format. Counted from journals as they are indexed; labels are few and closed.

No label holds a path, a run, a rule, a host or anything else that an agent can make up.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from handrail.service.index_text import microseconds

BUCKETS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0, 600.0)
_MOST_OPEN = 10_000  # calls whose end is waited for
_STATUSES = frozenset({"ok", "failed", "denied", "pending"})
_DECISIONS = frozenset({"allow", "ask", "deny"})
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """How long something took, in buckets."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds

    def lines(self, name: str) -> Iterator[str]:
        """Write it as Prometheus reads it."""
        so_far = 0
        for bound, count in zip((*(f"{bound:g}" for bound in BUCKETS), "+Inf"), self.counts, strict=True):
            so_far += count
            yield f'{name}_bucket{{le="{bound}"}} {so_far}'
        yield f"{name}_sum {self.total:.6f}"
        yield f"{name}_count {so_far}"


class Metrics:
    """The counters of one process; events from before its start are not counted."""

    def __init__(self) -> None:
        self._since = int(time.time() * 1e6)
        self.started = time.time()
        self.calls: Counter[tuple[str, str, str]] = Counter()  # tool, decision, status
        self.answers: Counter[tuple[str, str]] = Counter()  # channel, answer
        self.counts: Counter[str] = Counter()
        self.deciding, self.acting, self.waiting = Histogram(), Histogram(), Histogram()
        self.tools: frozenset[str] = frozenset()  # names that may be labels
        self._began: dict[Any, tuple[int, str]] = {}  # start and decision of a call
        self._asked: dict[Any, int] = {}  # when a person was asked for a call
        self._waited: dict[Any, float] = {}  # seconds

    def take(self, event: Mapping[str, Any]) -> None:
        """Count an event; called by the thread that indexes."""
        kind = event.get("kind")
        count = _KINDS.get(kind) if isinstance(kind, str) else None
        if count is None:
            return
        moment = microseconds(event.get("ts"))
        if moment >= self._since:
            count(self, event, moment)

    def _start(self, event: Mapping[str, Any], moment: int) -> None:
        if len(self._began) >= _MOST_OPEN:
            self._began.clear()
        verdict = event.get("verdict")
        decision = verdict.get("decision") if isinstance(verdict, dict) else ""
        self._began[event.get("call_id")] = (moment, str(decision))

    def _end(self, event: Mapping[str, Any], moment: int) -> None:
        call = event.get("call_id")
        began, decision = self._began.pop(call, (moment, ""))
        waited = self._waited.pop(call, 0.0)
        self._asked.pop(call, None)
        if event.get("started") is False:
            verdict = event.get("verdict")
            decision = str(verdict.get("decision")) if isinstance(verdict, dict) else ""
        tool, status = str(event.get("tool", "")), str(event.get("status", ""))
        label = tool if tool in self.tools else "other"
        labels = (label, decision if decision in _DECISIONS else "none", status if status in _STATUSES else "unknown")
        self.calls[labels] += 1
        acting = (moment - began) / 1e6
        took = event.get("duration_ms")
        if isinstance(took, (int, float)):
            self.deciding.add(max(0.0, took / 1000 - acting - waited))
        self.acting.add(acting)
        if event.get("code") == "SANDBOX_UNAVAILABLE":
            self.counts["sandbox_refusals"] += 1

    def _ask(self, event: Mapping[str, Any], moment: int) -> None:
        if len(self._asked) >= _MOST_OPEN:
            self._asked.clear()
        self._asked[event.get("call_id")] = moment

    def _answered(self, event: Mapping[str, Any], moment: int) -> None:
        call = event.get("call_id")
        asked = self._asked.pop(call, None)
        if asked is not None:
            seconds = (moment - asked) / 1e6
            self.waiting.add(seconds)
            self._waited[call] = self._waited.get(call, 0.0) + seconds

    def _undone(self, event: Mapping[str, Any], moment: int) -> None:  # noqa: ARG002
        self.counts["undos"] += 1

    def _refused(self, event: Mapping[str, Any], moment: int) -> None:  # noqa: ARG002
        self.counts["connections_refused"] += 1

    # ── writing ──────────────────────────────────────────────────────────────────────────────

    def text(self, gauges: Mapping[str, float], tasks: Mapping[str, int], names: Mapping[str, str]) -> str:
        """Write everything as Prometheus reads it; `names` are the tools' names in a dialect."""
        return "".join(f"{line}\n" for line in self._lines(gauges, tasks, names))

    def _lines(self, gauges: Mapping[str, float], tasks: Mapping[str, int], names: Mapping[str, str]) -> Iterator[str]:
        yield from _head("handrail_calls_total", "counter", "Calls that ended, by tool, decision and status.")
        for (tool, decision, status), count in sorted(self.calls.copy().items()):
            shown = names.get(tool, tool)
            yield f'handrail_calls_total{{tool="{shown}",decision="{decision}",status="{status}"}} {count}'
        for name, says, found in (
            ("handrail_call_decide_seconds", "Seconds until a call was decided, without waiting.", self.deciding),
            ("handrail_call_act_seconds", "Seconds from the start of a tool to its end.", self.acting),
            ("handrail_person_wait_seconds", "Seconds that calls waited for a person.", self.waiting),
        ):
            yield from _head(name, "histogram", says)
            yield from found.lines(name)
        yield from _head("handrail_approvals_answered_total", "counter", "Answers by channel and answer.")
        for (channel, answer), count in sorted(self.answers.copy().items()):
            yield f'handrail_approvals_answered_total{{channel="{channel}",answer="{answer}"}} {count}'
        for name, says in _COUNTS.items():
            yield from _head(f"handrail_{name}_total", "counter", says)
            yield f"handrail_{name}_total {self.counts[name]}"
        yield from _head("handrail_tasks", "gauge", "Tasks of the agent's inbox, by state.")
        for state, count in sorted(tasks.items()):
            yield f'handrail_tasks{{state="{state}"}} {count}'
        for name, value in gauges.items():
            yield from _head(name, "gauge", _GAUGES.get(name, name))
            yield f"{name} {value:g}"


_COUNTS = {
    "undos": "Undos that were done.",
    "sandbox_refusals": "Calls that were refused because no sandbox fits.",
    "connections_refused": "Connections of programs that were refused.",
    "journal_syncs": "Syncs of journals in this process.",
}
_GAUGES = {
    "handrail_approvals_pending": "Requests that wait for an answer.",
    "handrail_runs_held": "Runs that the service holds open.",
    "handrail_index_events": "Events in the index.",
    "handrail_listeners": "Connections that listen to events.",
    "handrail_workers": "Workers of the agent that run.",
    "process_resident_memory_bytes": "Memory of the process.",
    "process_start_time_seconds": "When the process was started.",
}
_KINDS = {
    "tool.started": Metrics._start,  # noqa: SLF001  (of this very class)
    "tool.completed": Metrics._end,  # noqa: SLF001
    "tool.failed": Metrics._end,  # noqa: SLF001
    "approval.required": Metrics._ask,  # noqa: SLF001
    "approval.granted": Metrics._answered,  # noqa: SLF001
    "approval.denied": Metrics._answered,  # noqa: SLF001
    "undo.applied": Metrics._undone,  # noqa: SLF001
    "net.refused": Metrics._refused,  # noqa: SLF001
}


def _head(name: str, kind: str, says: str) -> Iterator[str]:
    yield f"# HELP {name} {says}"
    yield f"# TYPE {name} {kind}"


def resident_bytes() -> int:
    """Give the memory of this process."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

"""Calls that wait for a person while the client polls: the tasks extension."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from uuid_utils import uuid7

from handrail.front.mcp.approvals import waiting
from handrail.front.mcp.ongoing import Ongoing
from handrail.front.mcp.wire import INVALID_PARAMS, Refused

MOST = 200  # tasks kept at once; the oldest that has ended makes room
POLL_MS = 1000
KEEP_MS = 60 * 60 * 1000

Work = asyncio.Task[dict[str, Any]]


class Task:
    """One call in the background: what is told of it, its work, and why it was stopped."""

    __slots__ = ("handle", "ongoing", "why", "work")

    def __init__(self, handle: dict[str, Any], work: Work, ongoing: Ongoing) -> None:
        self.handle, self.work, self.ongoing = handle, work, ongoing
        self.why = ""

    def stop(self, why: str = "") -> None:
        """Stop its work."""
        if self.work.cancel():
            self.why = why

    def ended(self, _: Work) -> None:
        """Take the end of its work."""
        work, handle = self.work, self.handle
        failed = not work.cancelled() and work.exception() is not None
        handle["status"] = "cancelled" if work.cancelled() else "failed" if failed else "completed"
        handle["lastUpdatedAt"] = _now()
        handle["statusMessage"] = self.why if work.cancelled() and self.why else handle["status"]


class Tasks:
    """The tasks of one server."""

    def __init__(self) -> None:
        self._known: dict[str, Task] = {}

    def keep(self, work: Work, ongoing: Ongoing) -> dict[str, Any]:
        """Keep a call that goes on in the background, and give the handle that stands for its result."""
        self._make_room()
        assert ongoing.parked is not None
        now, request = _now(), ongoing.parked.result().id
        says = waiting(request)
        name = str(uuid7())
        handle: dict[str, Any] = {
            "taskId": name,
            "status": "working",
            "statusMessage": says,
            "createdAt": now,
            "lastUpdatedAt": now,
            "ttlMs": KEEP_MS,
            "pollIntervalMs": POLL_MS,
        }
        task = self._known[name] = Task(handle, work, ongoing)
        work.add_done_callback(task.ended)
        return {"resultType": "task", **handle}

    def get(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Tell how a task stands; with its result once it has ended."""
        task = self._find(params)
        told = {"resultType": "complete", **task.handle}
        if told["status"] == "completed":
            told["result"] = task.work.result()
        elif told["status"] == "working" and not task.ongoing.waits:
            told["statusMessage"] = "was answered, and goes on"
        return told

    def cancel(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Stop a task's work."""
        self._find(params).stop()
        return {"resultType": "complete"}

    def stop_waiting(self, why: str) -> None:
        """Stop those that still wait for a person; what was granted and runs goes on."""
        for task in self._known.values():
            if task.ongoing.waits:
                task.stop(why)

    def _find(self, params: Mapping[str, Any]) -> Task:
        name = params.get("taskId")
        found = self._known.get(name) if isinstance(name, str) else None
        if found is None:
            raise Refused(INVALID_PARAMS, "There is no such task; it may have been dropped after its end.")
        return found

    def _make_room(self) -> None:
        if len(self._known) < MOST:
            return
        ended = next((name for name, task in self._known.items() if task.work.done()), None)
        if ended is None:
            raise Refused(INVALID_PARAMS, f"{MOST} calls wait for approval already; have some answered first.")
        del self._known[ended]


def _now() -> str:
    return datetime.now(UTC).isoformat()

"""Calls that wait for a person while the client polls: the tasks extension."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from uuid_utils import uuid7

from handrail.front.mcp.wire import INVALID_PARAMS, Refused
from handrail.ports import Request

MOST = 200  # tasks kept at once; the oldest that has ended makes room
POLL_MS = 1000
KEEP_MS = 60 * 60 * 1000

Work = asyncio.Task[dict[str, Any]]


class Tasks:
    """The tasks of one server."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[dict[str, Any], Work]] = {}

    def keep(self, work: Work, request: Request) -> dict[str, Any]:
        """Keep a call that goes on in the background, and give the handle that stands for its result."""
        self._make_room()
        now = _now()
        says = f"waits for approval {request.id}: handrail approvals grant {request.id}"
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
        self._known[name] = (handle, work)
        work.add_done_callback(lambda done: _ended(handle, done))
        return {"resultType": "task", **handle}

    def get(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Tell how a task stands; with its result once it has ended."""
        handle, work = self._find(params)
        told = {"resultType": "complete", **handle}
        if handle["status"] == "completed":
            told["result"] = work.result()
        return told

    def cancel(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Stop a task's work."""
        self._find(params)[1].cancel()
        return {"resultType": "complete"}

    def close(self) -> None:
        """Stop all."""
        for _, work in self._known.values():
            work.cancel()

    def _find(self, params: Mapping[str, Any]) -> tuple[dict[str, Any], Work]:
        name = params.get("taskId")
        found = self._known.get(name) if isinstance(name, str) else None
        if found is None:
            raise Refused(INVALID_PARAMS, "There is no such task; it may have been dropped after its end.")
        return found

    def _make_room(self) -> None:
        if len(self._known) < MOST:
            return
        ended = next((name for name, (_, work) in self._known.items() if work.done()), None)
        if ended is None:
            raise Refused(INVALID_PARAMS, f"{MOST} calls wait for approval already; have some answered first.")
        del self._known[ended]


def _ended(handle: dict[str, Any], work: Work) -> None:
    failed = not work.cancelled() and work.exception() is not None
    handle["status"] = "cancelled" if work.cancelled() else "failed" if failed else "completed"
    handle["lastUpdatedAt"] = _now()
    handle["statusMessage"] = handle["status"]


def _now() -> str:
    return datetime.now(UTC).isoformat()

"""What happens in a run, told on stderr while it happens: read from the journal, which is the truth of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from handrail.runtime import Runtime

POLL_SECONDS = 0.05


@asynccontextmanager
async def following(runtime: Runtime, *, live: bool) -> AsyncIterator[None]:
    """Tell what happens from here on: everything, or else only that a person elsewhere is waited for."""
    asked_here = sys.stdin.isatty() and sys.stderr.isatty()
    if asked_here and not live:
        yield
        return
    journal = Tail(runtime.parts.folder.events)
    told = Told(live=live, asked_here=asked_here)
    task = asyncio.ensure_future(_poll(journal, told))
    try:
        yield
    finally:
        task.cancel()
        if live:
            told.all(journal.new())


async def _poll(journal: Tail, told: Told) -> None:
    while True:
        await asyncio.sleep(POLL_SECONDS)
        told.all(journal.new())


class Tail:
    """The lines that a journal gets from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = path.stat().st_size

    def new(self) -> Iterator[dict[str, Any]]:
        """Give the events that came since this was last asked."""
        import orjson

        with self._path.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        for line in whole.splitlines():
            yield orjson.loads(line)


class Told:
    """Events as lines on stderr."""

    def __init__(self, *, live: bool, asked_here: bool) -> None:
        self._live, self._asked_here = live, asked_here

    def all(self, events: Iterator[dict[str, Any]]) -> None:
        """Tell the events, one line each."""
        from handrail.front.cli._common import harmless

        for event in events:
            if self._live or (event["kind"] == "approval.required" and event.get("asked")):
                line = self._line(event)
                if line:
                    sys.stderr.write(f"{harmless(line)}\n")
        sys.stderr.flush()

    def _line(self, event: Mapping[str, Any]) -> str:
        from handrail.front.cli._tables import arguments_line

        kind = event["kind"]
        time = f"{event['ts'][11:19]} " if self._live else ""
        if kind == "tool.started" or event.get("started") is False:
            decision = (event.get("verdict") or {}).get("decision") or "not judged"
            call = event.get("asked") or event  # in the caller's words
            started = f"{time}▶ {call.get('tool')} {arguments_line(call.get('args'), 60)} ({decision})"
            return started if kind == "tool.started" else f"{started}\n{time}{_end(event)}"
        if kind in ("tool.completed", "tool.failed"):
            return f"{time}{_end(event)}"
        if kind == "approval.required":
            return "" if self._asked_here else f"{time}{_waiting(event)}"
        if kind == "program.warned":
            return "\n".join(f"{time}warning: {warning}" for warning in event["warnings"])
        if kind in ("approval.granted", "approval.denied"):
            return f"{time}{kind} by {event.get('by') or 'nobody'}"
        if kind == "net.refused":
            return f"{time}✘ connection to {event.get('host') or 'an unknown host'} refused"
        return ""


def _end(event: Mapping[str, Any]) -> str:
    from handrail.front.cli._tables import took

    mark = {"ok": "✔", "pending": "…"}.get(event["status"], "✘")
    changed = [change["path"] for change in event.get("files_changed", ())]
    told = f"{mark} {event.get('code') or event['status']} in {took(event['duration_ms'])}"
    return f"{told}, changed {', '.join(changed[:5])}{' …' if len(changed) > 5 else ''}" if changed else told


def _waiting(event: Mapping[str, Any]) -> str:
    request = event["request"]
    return f"waits for an answer to {request['id']} ({request['reason']}): handrail approvals grant {request['id']}"

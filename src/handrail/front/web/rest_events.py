"""Server-sent events: of one run, or of all; `Last-Event-ID` continues without loss or doubles."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import APIRouter, Header, Query
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response

from handrail.errors import Code
from handrail.front.web.access import EVERYBODY, allow, identity_of, own_only, service_of
from handrail.front.web.rest_models import PROBLEMS
from handrail.service import history
from handrail.service.inbox import Refusal
from handrail.service.metrics import CONTENT_TYPE
from handrail.service.run_index import RunIndex, read_lines
from handrail.service.service import Service

router = APIRouter(prefix="/v1", responses=PROBLEMS, tags=["events"])
PING_SECONDS = 15
_MOST_LINES = 500
_SSE = {200: {"description": "Events as they come.", "content": {"text/event-stream": {}}}}


@allow(router, "GET", "/events", *EVERYBODY, responses=_SSE)
async def listen(
    request: Request,
    run: str = Query("", max_length=128, description="One run; none: all that you may see."),
    last_event_id: str = Header("", max_length=200),
    after: str = Query("", max_length=200, description="As Last-Event-ID, for clients that cannot send it."),
) -> Response:
    """Send events as they are written.

    Of one run the id is `run:seq`, and it starts with the first event. Of all runs it is `epoch:position`, and it
    starts with what comes next; where the index was built again, a `reset` comes first: list anew, then go on.
    """
    service, identity = service_of(request), identity_of(request)
    last = last_event_id or after
    if run:
        folder, _ = history.folder_of(service.index, run, own_only(identity))
        return respond(service, one_run(service.index, folder, run, _sequence(last, run)))
    return respond(service, all_runs(service.index, last, own_only(identity)))


def respond(service: Service, source: AsyncIterator[bytes]) -> EventSourceResponse:
    """Send a stream that ends with the service."""
    return EventSourceResponse(_counted(service, source), ping=PING_SECONDS, headers={"x-accel-buffering": "no"})


async def _counted(service: Service, source: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    service.listeners += 1
    try:
        async for part in source:
            yield part
    finally:
        service.listeners -= 1


def _sequence(last: str, run: str) -> int:
    """Read `run:seq`; 0 where nothing was received."""
    if not last:
        return 0
    name, _, seq = last.rpartition(":")
    if name != run or not seq.isdigit() or len(seq) > 15:
        raise Refusal(422, Code.INVALID_ARGS, "Last-Event-ID is not of this run: it is RUN:SEQ.")
    return int(seq)


async def one_run(index: RunIndex, folder: Path, run: str, seq: int) -> AsyncIterator[bytes]:
    """Send the events of a run behind a sequence number, and then as they come."""
    first, offset = await asyncio.to_thread(index.place_of, run, seq + 1)
    index.journals.listeners += 1
    try:
        while True:
            lines = await asyncio.to_thread(lambda start: list(read_lines(str(folder), start, _MOST_LINES)), offset)
            parts = []
            for line in lines:
                if first > seq:
                    parts.append(b"id: %b:%d\ndata: %b\n\n" % (run.encode(), first, line))
                    seq = first
                first += 1
                offset += len(line) + 1
            if parts:
                yield b"".join(parts)
            if len(lines) < _MOST_LINES:
                await index.wait(5.0)
    finally:
        index.journals.listeners -= 1


async def all_runs(index: RunIndex, last: str, identity: str | None) -> AsyncIterator[bytes]:
    """Send the events of all runs behind a position, and then as they come; `reset` where positions mean nothing."""
    epoch, _, position = last.partition(":")
    while True:
        known = epoch == index.epoch and position.isdigit() and len(position) <= 15
        after = int(position) if known else index.journals.position - 1
        if last and not known:
            yield b"event: reset\nid: %b:%d\ndata: {}\n\n" % (index.epoch.encode(), after)
        epoch = index.epoch
        async for rows in index.stream(after, lambda: False):
            parts = [
                b"id: %b:%d\ndata: %b\n\n" % (epoch.encode(), row.position, row.line)
                for row in rows
                if identity is None or row.identity == identity
            ]
            if parts:
                yield b"".join(parts)
        last, epoch = "rebuilt", ""


@allow(router, "GET", "/metrics", "auditor", "admin", tags=["metrics"])
async def metrics(request: Request, dialect: str = Query("native", max_length=64)) -> Response:
    """Give the numbers of this process as Prometheus reads them; tools in a dialect's names where asked."""
    return Response(await service_of(request).metrics_text(dialect), media_type=CONTENT_TYPE)

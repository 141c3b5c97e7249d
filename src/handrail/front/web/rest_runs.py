"""REST: runs, their events and artifacts, search, who changed a file, undo, policy."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import orjson
from fastapi import APIRouter
from fastapi import Query as Param
from starlette.requests import Request
from starlette.responses import Response

from handrail.errors import Code
from handrail.front.web.access import ANSWERERS, EVERYBODY, allow, identity_of, own_only, service_of
from handrail.front.web.rest_calls import place_of
from handrail.front.web.rest_models import PROBLEMS, ExplainBody, UndoBody
from handrail.service import history, judging, taking_back
from handrail.service.inbox import Refusal
from handrail.service.index_text import microseconds
from handrail.service.run_index import Query, read_lines

router = APIRouter(prefix="/v1", responses=PROBLEMS, tags=["runs"])
MOST_EVENTS = 1000
MOST_CALLS = 2000
_AGO = re.compile(r"(\d{1,6})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@allow(router, "GET", "/runs", *EVERYBODY)
async def list_runs(
    request: Request,
    q: str = Param("", max_length=500, description="Words that all stand in a call or event; `*` at the end."),
    tool: str = Param("", max_length=200),
    decision: str = Param("", max_length=20),
    status: str = Param("", max_length=20),
    code: str = Param("", max_length=64),
    path: str = Param("", max_length=4096, description="A file's path, absolute, or as calls write it."),
    since: str = Param("", max_length=40, description="A time (ISO 8601), or how long ago: `2h`, `7d`."),
    cursor: int = Param(0, ge=0, lt=2**62),
    limit: int = Param(50, ge=1, le=200),
) -> dict[str, Any]:
    """List the runs, newest first; with words or filters, the calls and events that fit."""
    service, identity = service_of(request), identity_of(request)
    filters = {"tool": tool, "decision": decision, "status": status, "code": code, "path": path}
    if not q and not since and not any(filters.values()):
        runs = await asyncio.to_thread(service.index.runs, identity=own_only(identity), before=cursor, limit=limit + 1)
        more = str(runs[limit - 1]["number"]) if len(runs) > limit else None
        return {"runs": [told_run(run) for run in runs[:limit]], "found": None, "next": more}
    query = Query(q, filters, moment(since), cursor, own_only(identity), "", limit + 1)
    found = await asyncio.to_thread(service.index.search, query)
    more = str(found[limit - 1]["id"]) if len(found) > limit else None
    return {"runs": None, "found": [told_item(item) for item in found[:limit]], "next": more}


def moment(since: str) -> int:
    """Read a time, or how long ago it was, as microseconds since 1970."""
    if not since:
        return 0
    if (ago := _AGO.fullmatch(since)) is not None:
        return int((time.time() - int(ago[1]) * _SECONDS[ago[2]]) * 1e6)
    found = microseconds(since if "." in since else f"{since.removesuffix('Z')}.000000Z")
    if not found:
        found = microseconds(f"{since}T00:00:00.000000Z")
    if not found:
        raise Refusal(422, Code.INVALID_ARGS, "since is a time such as 2026-11-18T07:00:00, or how long ago: 2h, 7d.")
    return found


def told_run(run: dict[str, Any]) -> dict[str, Any]:
    """Tell a run without where it lies on the disk."""
    return {name: value for name, value in run.items() if name not in ("folder", "number")}


def told_item(item: dict[str, Any]) -> dict[str, Any]:
    """Tell what was found, with its time."""
    return {**item, "id": str(item["id"]), "at": (item["id"] >> 8) / 1e6}


@allow(router, "GET", "/runs/{run_id}", *EVERYBODY)
async def show_run(request: Request, run_id: str, verify: bool = False) -> dict[str, Any]:
    """Show a run with its calls; `verify` checks its journal's chain."""
    service = service_of(request)
    folder, known = history.folder_of(service.index, run_id, own_only(identity_of(request)))
    calls = await asyncio.to_thread(lambda: history.read_calls(history.read_events(folder)))
    told = {**told_run(known), "live": history.is_live(folder), "timeline": calls[-MOST_CALLS:]}
    told["left_out"] = max(0, len(calls) - MOST_CALLS)
    if verify:
        told["chain"] = await asyncio.to_thread(history.check_chain, folder)
    return told


@allow(router, "GET", "/runs/{run_id}/events", *EVERYBODY)
async def run_events(
    request: Request, run_id: str, after: int = Param(0, ge=0, lt=2**53), limit: int = Param(200, ge=1, le=MOST_EVENTS)
) -> Response:
    """Give the events of a run behind a sequence number, as its journal has them."""
    service = service_of(request)
    folder, _ = history.folder_of(service.index, run_id, own_only(identity_of(request)))
    first, offset = await asyncio.to_thread(service.index.place_of, run_id, after + 1)
    skipped = after + 1 - first
    lines = await asyncio.to_thread(lambda: list(read_lines(str(folder), offset, skipped + limit + 1))[skipped:])
    body = b'{"events":[%b],"next":%b}' % (
        b",".join(lines[:limit]),
        orjson.dumps(str(after + limit) if len(lines) > limit else None),
    )
    return Response(body, media_type="application/json")


@allow(router, "GET", "/runs/{run_id}/artifacts/{ref:path}", *EVERYBODY)
async def artifact(request: Request, run_id: str, ref: str) -> Response:
    """Give a file that an outcome names, such as `run:observations/3.txt`; secrets in text are hidden."""
    service = service_of(request)
    folder, _ = history.folder_of(service.index, run_id, own_only(identity_of(request)))
    data = await asyncio.to_thread(history.open_artifact, folder, ref)
    clean = await asyncio.to_thread(service.hide_bytes, data)
    headers = {"content-disposition": "attachment", "x-content-type-options": "nosniff"}
    return Response(clean, headers=headers, media_type="application/octet-stream")


@allow(router, "GET", "/changes", *EVERYBODY)
async def who_changed(
    request: Request, path: str = Param(max_length=4096), limit: int = Param(50, ge=1, le=200)
) -> dict[str, Any]:
    """Tell which calls of all runs changed a file, newest first."""
    service, identity = service_of(request), identity_of(request)
    query = Query("", {"changed": path}, 0, 0, own_only(identity), "", limit)
    found = await asyncio.to_thread(service.index.search, query)
    return {"path": path, "found": [told_item(item) for item in found]}


@allow(router, "POST", "/runs/{run_id}/undo", "caller", *ANSWERERS)
async def undo(request: Request, run_id: str, body: UndoBody) -> Response:
    """Tell what would be put back, what cannot and why; or take it back, as a governed call."""
    service, identity = service_of(request), identity_of(request)
    folder, _ = history.folder_of(service.index, run_id, own_only(identity))
    if body.preview:
        told: Any = await taking_back.preview(folder, body.call)
    else:
        async with taking_back.opened(service.runs, folder, identity) as runtime:
            told = (await taking_back.take_back(runtime, folder, body.call)).to_dict()
    return Response(orjson.dumps(told, default=str), media_type="application/json")


@allow(router, "POST", "/policy/explain", *EVERYBODY, tags=["policy"])
async def explain(request: Request, body: ExplainBody) -> dict[str, Any]:
    """Tell how a call would be judged, by what, and what would change it; run nothing."""
    return await judging.explain(place_of(request, body.workspace), body.tool, body.args)


@allow(router, "GET", "/policy", *EVERYBODY, tags=["policy"])
async def policy(request: Request, workspace: str = Param("", max_length=4096)) -> dict[str, Any]:
    """Tell the effective policy of a workspace, tool by tool."""
    return await judging.policy(place_of(request, workspace))


@allow(router, "GET", "/settings", *EVERYBODY, tags=["policy"])
async def settings(request: Request, workspace: str = Param("", max_length=4096)) -> dict[str, Any]:
    """Tell every setting of a workspace, and where it comes from."""
    return {"settings": await judging.settings(place_of(request, workspace))}

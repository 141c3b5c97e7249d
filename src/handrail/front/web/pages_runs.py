"""Pages: runs with search, one run as a live timeline, one call, undo, who changed a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from handrail.errors import Code
from handrail.front.web.access import ANSWERERS, EVERYBODY, allow, identity_of, own_only, service_of
from handrail.front.web.diffs import read_diff
from handrail.front.web.rendering import form_of, render
from handrail.front.web.rest_events import respond
from handrail.front.web.rest_runs import moment, told_item, told_run
from handrail.service import history, taking_back
from handrail.service.inbox import Refusal
from handrail.service.run_index import Query, RunIndex
from handrail.words import Outcome

router = APIRouter(include_in_schema=False)
PAGE = 50
_SEARCH = ("q", "tool", "decision", "status", "code", "path", "since")
_FILTERS = ("tool", "decision", "status")


@allow(router, "GET", "/runs", *EVERYBODY)
async def list_runs(request: Request) -> Response:
    """List the runs, or what was searched for."""
    return await _list(request)


@allow(router, "GET", "/runs.json", *EVERYBODY)
async def list_runs_json(request: Request) -> Response:
    """Give the runs as JSON."""
    return await _list(request)


async def _list(request: Request) -> Response:
    service, identity = service_of(request), identity_of(request)
    asked = {name: request.query_params.get(name, "")[:500].strip() for name in _SEARCH}
    cursor = request.query_params.get("cursor", "0")
    before = int(cursor) if cursor.isdigit() and len(cursor) < 19 else 0
    view: dict[str, Any] = {"asked": asked, "runs": [], "found": None, "next": None, "building": ""}
    if not service.index.journals.caught_up.is_set():
        view["building"] = "The index is being built; older runs will appear."
    if any(asked.values()):
        filters = {name: asked[name] for name in ("tool", "decision", "status", "code", "path")}
        query = Query(asked["q"], filters, moment(asked["since"]), before, own_only(identity), "", PAGE + 1)
        found = await asyncio.to_thread(service.index.search, query)
        view["found"] = [told_item(item) for item in found[:PAGE]]
        view["next"] = str(found[PAGE - 1]["id"]) if len(found) > PAGE else None
    else:
        runs = await asyncio.to_thread(service.index.runs, identity=own_only(identity), before=before, limit=PAGE + 1)
        view["next"] = str(runs[PAGE - 1]["number"]) if len(runs) > PAGE else None
        view["runs"] = [_listed(run) for run in runs[:PAGE]]
    return render(request, "runs.html", view)


def _listed(run: dict[str, Any]) -> dict[str, Any]:
    told = told_run(run)
    told["where"] = str(run["workspace"]).rstrip("/").rpartition("/")[2] or "/"
    told["state"] = "closed" if run["ended"] else "live" if history.is_live(Path(run["folder"])) else "cut off"
    return told


# ── one run ──────────────────────────────────────────────────────────────────────────────────


@allow(router, "GET", "/runs/{run_id}", *EVERYBODY)
async def show_run(request: Request, run_id: str) -> Response:
    """Show a run as a timeline."""
    return await _timeline(request, run_id.removesuffix(".json"), "run.html")


@allow(router, "GET", "/runs/{run_id}/timeline", *EVERYBODY)
async def timeline(request: Request, run_id: str) -> Response:
    """Give the timeline alone, for a page that is open."""
    return await _timeline(request, run_id, "_timeline.html")


async def _timeline(request: Request, run_id: str, template: str) -> Response:
    service, identity = service_of(request), identity_of(request)
    folder, known = history.folder_of(service.index, run_id, own_only(identity))
    nodes = await asyncio.to_thread(lambda: history.read_calls(history.read_events(folder)))
    chosen = {name: request.query_params.get(name, "")[:200] for name in _FILTERS}
    calls = [node for node in nodes if node["node"] == "call"]
    choices = {name: sorted({str(call[name]) for call in calls if call[name]}) for name in _FILTERS}
    shown = [node for node in nodes if _fits(node, chosen)]
    page = request.query_params.get("page", "")
    at = int(page) if page.isdigit() and len(page) < 9 else max(0, (len(shown) - 1) // history.MOST_CALLS)
    part = shown[at * history.MOST_CALLS : (at + 1) * history.MOST_CALLS]
    live = history.is_live(folder)
    view: dict[str, Any] = {
        "run": _listed({**known, "folder": str(folder)}),
        "live": live,
        "nodes": [{**node, **bar} for node, bar in zip(part, _bars(part), strict=True)],
        "chosen": chosen,
        "choices": choices,
        "page": at,
        "pages": max(1, -(-len(shown) // history.MOST_CALLS)),
        "total": len(calls),
        "may_undo": identity.has(*ANSWERERS) or known["identity"] == identity.name,
    }
    return render(request, template, view)


def _fits(node: dict[str, Any], chosen: dict[str, str]) -> bool:
    if node["node"] != "call":
        return not any(chosen.values())
    return all(not value or str(node[name]) == value for name, value in chosen.items())


def _bars(nodes: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Place each call on a line from the first to the last, in hundredths."""
    calls = [node for node in nodes if node["node"] == "call"] or nodes
    starts = [node["at"] for node in calls if node["at"]]
    ends = [node.get("ended") or node["at"] for node in calls if node["at"]]
    first, last = min(starts, default=0), max(ends, default=1)
    span = max(last - first, 1)
    return [
        {
            "bar_x": round((node["at"] - first) / span * 100, 2),
            "bar_w": max(0.6, round(((node.get("ended") or last) - node["at"]) / span * 100, 2)),
            "bar_wait": round(max(0, (node.get("started") or node["at"]) - node["at"]) / span * 100, 2),
        }
        for node in nodes
    ]


@allow(router, "GET", "/runs/{run_id}/chain", *EVERYBODY)
async def chain(request: Request, run_id: str) -> Response:
    """Tell whether the journal is whole, as a badge."""
    folder, _ = history.folder_of(service_of(request).index, run_id, own_only(identity_of(request)))
    return render(request, "_chain.html", {"chain": await asyncio.to_thread(history.check_chain, folder)})


@allow(router, "GET", "/runs/{run_id}/export", *EVERYBODY)
async def export(request: Request, run_id: str) -> Response:
    """Give the journal as a file."""
    folder, _ = history.folder_of(service_of(request).index, run_id, own_only(identity_of(request)))
    data = await asyncio.to_thread((folder / "events.jsonl").read_bytes)
    headers = {"content-disposition": f'attachment; filename="{run_id}.jsonl"'}
    return Response(data, headers=headers, media_type="application/jsonl")


@allow(router, "GET", "/runs/{run_id}/calls/{call_id}", *EVERYBODY)
async def show_call(request: Request, run_id: str, call_id: str) -> Response:
    """Show one call with everything that is on record of it."""
    service, identity = service_of(request), identity_of(request)
    folder, known = history.folder_of(service.index, run_id, own_only(identity))
    wanted = call_id.removesuffix(".json")

    def find() -> dict[str, Any] | None:
        events = (event for event in history.read_events(folder) if event.get("call_id") == wanted)
        return next(iter(history.read_calls(events)), None)

    call = await asyncio.to_thread(find)
    if call is None:
        raise Refusal(404, Code.NOT_FOUND, f"The run has no call {wanted[:128]!r}.")
    outputs = [await asyncio.to_thread(_output, service.hide_bytes, folder, ref) for ref in call["refs"][:10]]
    view = {
        "run": _listed({**known, "folder": str(folder)}),
        "call": call,
        "outputs": outputs,
        "may_undo": (identity.has(*ANSWERERS) or known["identity"] == identity.name) and bool(call["changes"]),
    }
    template = "_call.html" if "part" in request.query_params else "call.html"
    return render(request, template, view)


def _output(hide: Any, folder: Path, ref: dict[str, Any]) -> dict[str, Any]:
    """Read the beginning of a kept output."""
    name = str(ref.get("ref", ""))
    try:
        data = history.open_artifact(folder, name)
    except Exception:  # noqa: BLE001  (what is gone is told as gone)
        return {"ref": name, "text": "", "bytes": ref.get("bytes"), "gone": True, "left": 0}
    text = hide(data[:64_000]).decode("utf-8", "replace")
    return {"ref": name, "text": text, "bytes": len(data), "gone": False, "left": max(0, len(data) - 64_000)}


@allow(router, "GET", "/live/runs/{run_id}", *EVERYBODY)
async def live(request: Request, run_id: str) -> Response:
    """Tell an open page whenever a run has got further."""
    service = service_of(request)
    history.folder_of(service.index, run_id, own_only(identity_of(request)))
    return respond(service, _growth(service.index, run_id))


async def _growth(index: RunIndex, run_id: str) -> AsyncIterator[bytes]:
    seen = -1
    index.journals.listeners += 1
    try:
        while True:
            known = await asyncio.to_thread(index.run, run_id)
            if known is not None and known["events"] != seen:
                first, seen = seen < 0, known["events"]
                yield b"event: %b\ndata: {}\n\n" % (b"ready" if first else b"changed")
            await index.wait(10.0)
    finally:
        index.journals.listeners -= 1


# ── undo, and who changed a file ─────────────────────────────────────────────────────────────


@allow(router, "GET", "/runs/{run_id}/undo", *EVERYBODY)
async def show_undo(request: Request, run_id: str) -> Response:
    """Show what would be put back, and what cannot be."""
    return await _undo(request, run_id, None)


@allow(router, "POST", "/runs/{run_id}/undo", "caller", *ANSWERERS)
async def take_back(request: Request, run_id: str) -> Response:
    """Take back what was shown."""
    form = await form_of(request)
    service, identity = service_of(request), identity_of(request)
    folder, _ = history.folder_of(service.index, run_id, own_only(identity))
    call = form.get("call") or None
    async with taking_back.opened(service.runs, folder, identity) as runtime:
        outcome = await taking_back.take_back(runtime, folder, call)
    if outcome.ok:
        return RedirectResponse(f"/runs/{run_id}?undone=1", 303)
    return await _undo(request, run_id, outcome, call)


async def _undo(request: Request, run_id: str, outcome: Outcome | None, call: str | None = None) -> Response:
    service, identity = service_of(request), identity_of(request)
    name = run_id.removesuffix(".json")
    folder, known = history.folder_of(service.index, name, own_only(identity))
    wanted = call or request.query_params.get("call") or None
    preview = await taking_back.preview(folder, wanted)
    files = [{**file, "_lines": read_diff(file["diff"])} for file in preview["files"]]
    view = {
        "run": _listed({**known, "folder": str(folder)}),
        "preview": preview,
        "_files": files,
        "may_undo": identity.has(*ANSWERERS) or known["identity"] == identity.name,
        "outcome": None if outcome is None else outcome.to_dict(),
    }
    return render(request, "undo.html", view, status=200 if outcome is None else 409)


@allow(router, "GET", "/changes", *EVERYBODY)
async def changes(request: Request) -> Response:
    """Show who changed a file, over all runs."""
    service, identity = service_of(request), identity_of(request)
    path = request.query_params.get("path", "")[:4096]
    query = Query("", {"changed": path}, 0, 0, own_only(identity), "", 200)
    found = await asyncio.to_thread(service.index.search, query) if path else []
    return render(request, "changes.html", {"path": path, "found": [told_item(item) for item in found]})

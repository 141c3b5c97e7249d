"""Pages: the inbox, one request, and answering it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from handrail.errors import Code
from handrail.front.web.access import ANSWERERS, EVERYBODY, allow, identity_of, service_of
from handrail.front.web.diffs import count_changes, read_diff
from handrail.front.web.rendering import form_of, render
from handrail.front.web.rest_approvals import brief, give_answer, whole
from handrail.front.web.rest_events import respond
from handrail.front.web.rest_models import AnswerBody
from handrail.service.identities import Identity
from handrail.service.inbox import Entry, Refusal
from handrail.service.service import Service

router = APIRouter(include_in_schema=False)
MOST_SHOWN = 100
WORDS = {"once": "Once", "run": "This run", "always": "Always", "no": "No", "later": "Later"}
_FILTERS = ("workspace", "caller", "asked_by", "tool")


@allow(router, "GET", "/", *EVERYBODY)
async def inbox(request: Request) -> Response:
    """Show everything that waits."""
    return await _inbox(request, "inbox.html")


@allow(router, "GET", "/inbox.json", *EVERYBODY)
async def inbox_json(request: Request) -> Response:
    """Give the inbox as JSON."""
    return await _inbox(request, "inbox.html")


@allow(router, "GET", "/inbox/list", *EVERYBODY)
async def inbox_list(request: Request) -> Response:
    """Give the list alone, for a page that is open."""
    return await _inbox(request, "_inbox_list.html")


async def _inbox(request: Request, template: str) -> Response:
    service, identity = service_of(request), identity_of(request)
    entries = await asyncio.to_thread(service.inbox.open_entries, identity, service.clock.now())
    told = [line(entry) for entry in entries]
    chosen = {name: request.query_params.get(name, "") for name in _FILTERS}
    found = [item for item in told if all(not value or item[name] == value for name, value in chosen.items())]
    choices = {name: sorted({str(item[name]) for item in told if item[name]}) for name in _FILTERS}
    view: dict[str, Any] = {
        "entries": found[:MOST_SHOWN],
        "total": len(found),
        "left_out": max(0, len(found) - MOST_SHOWN),
        "chosen": chosen,
        "choices": choices,
        "questions": service.tasks.open_questions(identity),
        "said": _said(service, identity, request.query_params.get("answered", "")),
    }
    return render(request, template, view)


def _said(service: Service, identity: Identity, request_id: str) -> dict[str, Any] | None:
    """Tell what became of the request that was answered last, for the page that comes next."""
    if not request_id:
        return None
    try:
        return line(service.inbox.entry(identity, request_id))
    except Refusal:
        return None


def line(entry: Entry) -> dict[str, Any]:
    """Tell a request with what a line of the inbox shows."""
    told = brief(entry)
    told["title"] = title_of(entry)
    told["where"] = entry.request.workspace.rstrip("/").rpartition("/")[2] or "/"
    told["who"] = entry.request.asked_by or entry.request.client or entry.request.caller
    return told


def title_of(entry: Entry) -> str:
    """Say in a few words what would happen."""
    params = entry.request.params
    for name in ("command", "path", "url", "source", "name"):
        if isinstance(value := params.get(name), str) and value:
            return value[:300]
    for targets in entry.request.impact.values():
        if targets:
            return str(next(iter(targets)))[:300]
    return ""


# ── one request ──────────────────────────────────────────────────────────────────────────────


@allow(router, "GET", "/requests/{request_id}", *EVERYBODY)
async def show(request: Request, request_id: str) -> Response:
    """Show a request whole, and the ways to answer it."""
    return await _show(request, request_id.removesuffix(".json"))


@allow(router, "GET", "/requests/{request_id}/state", *EVERYBODY)
async def state(request: Request, request_id: str) -> Response:
    """Give how a request stands, for a page that is open."""
    service, identity = service_of(request), identity_of(request)
    return render(request, "_request_state.html", _view(service, identity, request_id, light=True))


async def _show(request: Request, request_id: str, *, status: int = 200, problem: str = "") -> Response:
    service, identity = service_of(request), identity_of(request)
    view = await asyncio.to_thread(_view, service, identity, request_id)
    return render(request, "request.html", {**view, "problem": problem}, status=status)


def _view(service: Service, identity: Identity, request_id: str, *, light: bool = False) -> dict[str, Any]:
    entry = service.inbox.entry(identity, request_id)
    told: dict[str, Any] = {**whole(entry), **{name: line(entry)[name] for name in ("title", "where", "who")}}
    may = identity.has(*ANSWERERS) and entry.state == "pending"
    told["answers"] = [word for word in told["offered"] if word != "always" or identity.has("admin")] if may else []
    told["may_answer"] = may
    view: dict[str, Any] = {"item": told, "words": WORDS, "_digest": "", "_diff": [], "added": 0, "taken": 0}
    if may:
        view["_digest"] = service.inbox.confirmation(request_id)
    if entry.execution is not None and entry.execution.outcome is not None:
        view["outcome"] = entry.execution.outcome.to_dict()
    else:
        view["outcome"] = None
    if not light:
        lines = read_diff(entry.request.diff)
        view["_diff"] = lines
        view["added"], view["taken"] = count_changes(lines)
        view["params"] = _shown_params(entry)
        view["findings"] = [dict(finding) for finding in entry.request.findings]
        view["undo"] = _undo_says(entry.request.impact)
        view["does"] = entry.request.does
    return view


def _shown_params(entry: Entry) -> list[dict[str, Any]]:
    """Tell the arguments; those that the diff shows whole, and defaults, come folded."""
    aside = entry.request.aside
    return [
        {"name": name, "value": value, "text": isinstance(value, str), "aside": name in aside}
        for name, value in sorted(entry.request.params.items(), key=lambda pair: pair[0] in aside)
    ]


def _undo_says(impact: Mapping[str, Any]) -> list[str]:
    """Say what of a call can be taken back afterwards."""
    said = []
    if impact.get("writes") or impact.get("deletes"):
        said.append("Former contents of changed and deleted files are kept: the call can be undone.")
    if impact.get("runs"):
        said.append("What a program changes outside a reviewed layer, and what it sends, cannot be undone.")
    if impact.get("reaches"):
        said.append("What is sent to another host cannot be taken back.")
    return said or ["It changes nothing that would have to be undone."]


@allow(router, "POST", "/requests/{request_id}", *ANSWERERS)
async def answer(request: Request, request_id: str) -> Response:
    """Take the answer of a form, and go back to the inbox."""
    service, identity = service_of(request), identity_of(request)
    form = await form_of(request)
    try:
        body = AnswerBody(**{name: form[name] for name in ("answer", "digest", "advice") if name in form})  # type: ignore[arg-type]
    except ValidationError:
        raise Refusal(422, Code.INVALID_ARGS, "The form has no answer that is known here.") from None
    try:
        give_answer(service, identity, request_id, body, "console")
    except Refusal as refusal:
        if refusal.status != 409:
            raise
        return await _show(request, request_id, status=409, problem=refusal.message)
    return RedirectResponse(f"/?answered={request_id}", 303)


# ── live ─────────────────────────────────────────────────────────────────────────────────────


@allow(router, "GET", "/live/inbox", *EVERYBODY)
async def live(request: Request) -> Response:
    """Tell an open page whenever the ledger has changed."""
    service = service_of(request)
    return respond(service, _changes(service))


async def _changes(service: Service) -> AsyncIterator[bytes]:
    seen = service.changes
    yield b"event: ready\ndata: {}\n\n"
    while True:
        await service.changed(10.0)
        if service.changes != seen:
            seen = service.changes
            yield b"event: changed\ndata: {}\n\n"

"""REST: requests that wait for a person, and the person's answer."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Query
from starlette.requests import Request

from handrail.front.web.access import ANSWERERS, EVERYBODY, READERS, allow, identity_of, service_of
from handrail.front.web.rest_models import PROBLEMS, AnswerBody
from handrail.ports import Reply
from handrail.service.identities import Identity
from handrail.service.inbox import Entry, Refusal, coverage, left_out, widest
from handrail.service.service import Service
from handrail.words import Scope

router = APIRouter(prefix="/v1", responses=PROBLEMS, tags=["approvals"])
_OFFERED = {"once": Scope.CALL, "run": Scope.RUN, "always": Scope.ALWAYS}


@allow(router, "GET", "/approvals", *EVERYBODY)
async def list_approvals(
    request: Request,
    state: str = Query("open", pattern="^(open|answered)$"),
    limit: int = Query(100, ge=1, le=1000),
    cursor: int = Query(0, ge=0, le=10**9),
) -> dict[str, Any]:
    """List what waits for an answer, is running or unknown, or is done and not fetched; or what was answered."""
    service, identity = service_of(request), identity_of(request)
    entries = await asyncio.to_thread(_entries, service, identity, state, cursor + limit + 1)
    shown = entries[cursor : cursor + limit]
    more = len(entries) > cursor + limit
    return {"approvals": [brief(entry) for entry in shown], "next": str(cursor + limit) if more else None}


def _entries(service: Service, identity: Identity, state: str, most: int) -> list[Entry]:
    if state == "answered":
        return service.inbox.answered(identity, most)
    return service.inbox.open_entries(identity, service.clock.now())


@allow(router, "GET", "/approvals/{request_id}", *EVERYBODY)
async def show_approval(
    request: Request, request_id: str, wait_seconds: float = Query(0.0, ge=0, le=55)
) -> dict[str, Any]:
    """Show a request whole; with `wait_seconds` once it is no longer pending or running, or that long.

    Its own caller gets the outcome here once it is there. Who may answer gets the digest that an approval needs.
    """
    service, identity = service_of(request), identity_of(request)
    entry = service.inbox.entry(identity, request_id)
    loop = asyncio.get_running_loop()
    end = loop.time() + wait_seconds
    while entry.state in ("pending", "granted", "running") and (left := end - loop.time()) > 0:
        await service.changed(min(left, 1.0))
        entry = service.inbox.entry(identity, request_id)
    told = whole(entry)
    if entry.execution is not None and entry.execution.outcome is not None:
        told["outcome"] = entry.execution.outcome.to_dict()
        if entry.request.asked_by == identity.name and entry.state == "done":
            service.executions.move(request_id, "done", "fetched")
    if identity.has(*ANSWERERS) and entry.state == "pending":
        told["digest"] = service.inbox.confirmation(request_id)
    return told


@allow(router, "POST", "/approvals/{request_id}/answer", *ANSWERERS)
async def answer(request: Request, request_id: str, body: AnswerBody) -> dict[str, Any]:
    """Answer a request: once, run, always (needs admin), no, later.

    To approve, give the `digest` that came with the request: it proves that it was shown. `409` says who decided what
    where it is no longer pending.
    """
    service, identity = service_of(request), identity_of(request)
    return brief(give_answer(service, identity, request_id, body, "rest"))


def give_answer(service: Service, identity: Identity, request_id: str, body: AnswerBody, channel: str) -> Entry:
    """Put an answer on record, and have what it lets go on begin."""
    try:
        entry = service.inbox.answer(identity, request_id, body.answer, body.digest, body.advice)
    except Refusal as refusal:
        if refusal.status == 409:
            service.metrics.answers[channel, "late"] += 1
        raise
    service.metrics.answers[channel, body.answer] += 1
    service.poke()
    service.parked.look()
    return entry


@allow(router, "GET", "/rules", *READERS)
async def list_rules(request: Request) -> dict[str, Any]:
    """List the standing grants: what is granted always, by whom, in which workspace."""
    return {"rules": standing(service_of(request))}


@allow(router, "DELETE", "/rules/{rule_id}", "admin")
async def remove_rule(request: Request, rule_id: str) -> dict[str, Any]:
    """Remove a standing grant: what it covered is asked for again."""
    return {"removed": take_rule(service_of(request), identity_of(request), rule_id)}


def take_rule(service: Service, identity: Identity, rule_id: str) -> bool:
    """Remove a standing grant; Refusal 404 where there is none."""
    from handrail.errors import Code

    if not any(grant.id == rule_id for grant, _ in service.ledger.standing(service.clock.now())):
        raise Refusal(404, Code.NOT_FOUND, f"There is no standing grant {rule_id[:100]!r}.")
    return service.ledger.revoke(rule_id, identity.name)


def standing(service: Service) -> list[dict[str, Any]]:
    """Tell the standing grants."""
    from handrail.approvals.show import covered_by

    return [
        {
            "id": grant.id,
            "tool": grant.tool,
            "covers": covered_by(grant.tool, grant.touches),
            "workspace": asked.workspace,
            "given_by": grant.given_by,
            "given_at": grant.given_at,
            "request": grant.request,
        }
        for grant, asked in service.ledger.standing(service.clock.now())
    ]


def brief(entry: Entry) -> dict[str, Any]:
    """Tell a request in a line's worth."""
    request, reply = entry.request, entry.reply
    return {
        "id": request.id,
        "state": entry.state,
        "parked": entry.parked,
        "later": entry.later,
        "tool": request.tool,
        "risk": request.risk.value,
        "reason": request.reason,
        "impact": {kind: list(targets)[:20] for kind, targets in request.impact.items()},
        "workspace": request.workspace,
        "caller": request.caller,
        "asked_by": request.asked_by,
        "client": request.client,
        "run_id": request.run_id,
        "call_id": request.call_id,
        "created": request.created,
        "expires": request.expires,
        "answered": None if reply is None else _told(reply),
    }


def _told(reply: Reply) -> dict[str, Any]:
    return {"state": reply.state, "by": reply.by, "at": reply.at, "advice": reply.advice, "scope": reply.scope.word}


def whole(entry: Entry) -> dict[str, Any]:
    """Tell a request with everything needed to decide."""
    request = entry.request
    missing = left_out(entry)
    offered = [word for word, scope in _OFFERED.items() if scope <= widest(request)]
    return {
        **brief(entry),
        "impact": {kind: list(targets) for kind, targets in request.impact.items()},
        "version": request.version,
        "params": dict(request.params),
        "diff": request.diff,
        "covers": coverage(request) if len(offered) > 1 else [],
        "offered": [] if missing else offered,
        "left_out": missing,
        "policy_digest": request.policy_digest,
    }

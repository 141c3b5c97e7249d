"""Pages: policy (explain, effective policy, standing grants, settings) and health."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from handrail import strict_json
from handrail.errors import Fault, Problem
from handrail.front.web.access import EVERYBODY, READERS, allow, identity_of, own_only, sees_all, service_of
from handrail.front.web.rendering import form_of, render
from handrail.front.web.rest_approvals import standing, take_rule
from handrail.front.web.rest_calls import place_of
from handrail.service import judging
from handrail.service.metrics import resident_bytes
from handrail.service.run_index import Query

router = APIRouter(include_in_schema=False)
_TABS = ("explain", "tools", "standing", "settings")
_EXAMPLE = '{\n  "path": "README.md"\n}'


@allow(router, "GET", "/policy", *EVERYBODY)
async def policy(request: Request) -> Response:
    """Show what is allowed, and why."""
    return await _policy(request, None, request.query_params.get("tool", ""), request.query_params.get("args", ""))


@allow(router, "GET", "/policy.json", *EVERYBODY)
async def policy_json(request: Request) -> Response:
    """Give the policy page as JSON."""
    return await _policy(request, None, "", "")


@allow(router, "POST", "/policy", *EVERYBODY)
async def explain(request: Request) -> Response:
    """Explain the call of a form."""
    form = await form_of(request)
    tool, args = form.get("tool", "")[:200], form.get("args", "")[:100_000]
    try:
        place = place_of(request, form.get("workspace", ""))
        value = strict_json.loads(args or "{}")
        if not isinstance(value, dict):
            raise ValueError('arguments are a JSON object, such as {"path": "README.md"}')
        told: dict[str, Any] = await judging.explain(place, tool, value)
    except (Problem, Fault) as problem:
        told = {"problem": problem.message if isinstance(problem, Problem) else str(problem)}
    except ValueError as error:
        told = {"problem": f"The arguments cannot be read: {error}."}
    return await _policy(request, told, tool, args, form.get("workspace", ""))


async def _policy(
    request: Request, told: dict[str, Any] | None, tool: str, args: str, workspace: str | None = None
) -> Response:
    service, identity = service_of(request), identity_of(request)
    chosen = workspace if workspace is not None else request.query_params.get("workspace", "")
    known = list(service.runs.paths()) if sees_all(identity) else service.runs.names(identity)
    places = [*known, *(await asyncio.to_thread(service.index.workspaces) if sees_all(identity) else [])]
    chosen = chosen or (places[0] if places else "")
    tab = request.query_params.get("tab", "")
    view: dict[str, Any] = {
        "places": places,
        "workspace": chosen,
        "tool": tool,
        "args": args or _EXAMPLE,
        "explained": told,
        "policy": None,
        "settings": [],
        "problem": "",
        "standing": standing(service) if sees_all(identity) else [],
        "recent": await asyncio.to_thread(
            service.index.search, Query("", {"kind": "call"}, 0, 0, own_only(identity), "", 12)
        ),
        "tab": tab if tab in _TABS else _TABS[0],
    }
    if (chosen and view["tab"] in ("tools", "settings")) or (chosen and request.url.path.endswith(".json")):
        try:
            place = place_of(request, chosen)
            view["policy"] = await judging.policy(place)
            view["settings"] = await judging.settings(place)
        except (Problem, Fault) as problem:
            view["problem"] = problem.message if isinstance(problem, Problem) else str(problem)
    return render(request, "policy.html", view)


def _calls(identity: str | None) -> Query:
    return Query("", {"kind": "call"}, 0, 0, identity, "", 12)


@allow(router, "POST", "/policy/standing/{rule_id}/remove", "admin")
async def remove_standing(request: Request, rule_id: str) -> Response:
    """Remove a standing grant."""
    take_rule(service_of(request), identity_of(request), rule_id)
    return RedirectResponse("/policy?tab=standing", 303)


@allow(router, "GET", "/health", *READERS)
async def health(request: Request) -> Response:
    """Show how the service and the machine are."""
    return await _health(request)


@allow(router, "GET", "/health.json", *READERS)
async def health_json(request: Request) -> Response:
    """Give the health page as JSON."""
    return await _health(request)


async def _health(request: Request) -> Response:
    service = service_of(request)
    journals = service.index.journals
    numbers = await asyncio.to_thread(service.index.numbers)
    places = [*service.runs.paths().values(), *await asyncio.to_thread(service.index.workspaces)]
    sandbox: dict[str, Any] = {}
    if places:
        try:
            sandbox = await judging.sandbox(places[0])
        except (Problem, Fault) as problem:
            sandbox = {"error": problem.message if isinstance(problem, Problem) else str(problem)}
    view = {
        "sandbox": {name: sandbox.get(name) for name in ("tier", "backend", "workspace", "network", "gaps", "error")},
        "place": places[0] if places else "",
        "disk": service.disk(),
        "memory_bytes": resident_bytes(),
        "index": {**numbers, "whole": journals.caught_up.is_set(), "problem": journals.problem},
        "listeners": service.listeners,
        "held": len(service.runs),
        "pending": service.inbox.count_open(service.clock.now()),
        "identities": [
            {"name": item.name, "roles": sorted(item.roles), "made": item.made, "renewed": item.renewed}
            for item in service.identities.list()
        ],
        "workspaces": service.runs.paths(),
        "notifications": service.notified(),
        "workers": service.workers(),
        "started": service.started,
    }
    return render(request, "health.html", view)

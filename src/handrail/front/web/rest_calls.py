"""REST: tools, and calls."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import APIRouter, Header, Query
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from handrail import dialects, strict_json
from handrail.errors import Code, Misuse
from handrail.front.web.access import EVERYBODY, allow, identity_of, sees_all, service_of
from handrail.front.web.rest_models import PROBLEMS, CallBody
from handrail.service import judging
from handrail.service.identities import Identity
from handrail.service.inbox import Refusal
from handrail.service.service import Service
from handrail.service.waiting import WAIT_SECONDS
from handrail.words import Outcome, Status

router = APIRouter(prefix="/v1", responses=PROBLEMS)
_BODY = TypeAdapter(CallBody)
_SCHEMA = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": CallBody.model_json_schema()}}},
}
_JSON: dict[str, Any] = {"application/json": {}}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "How the call ended: an outcome, in the names of the dialect.", "content": _JSON},
    202: {"description": "A person must approve first; `approval` is the request.", "content": _JSON},
}


@allow(router, "POST", "/calls", "caller", openapi_extra=_SCHEMA, responses=_ANSWERS, tags=["calls"])
async def call(request: Request, idempotency_key: str | None = Header(None, max_length=200)) -> Response:
    """Make one governed call.

    `200` with the outcome, also of a call that failed or was denied; `202` with the request where a person must
    approve first. Repeat the same call, or ask for the request, to get its outcome once it was approved.
    """
    body = await _read(request)
    service, identity = service_of(request), identity_of(request)
    if body.dialect not in dialects.names():
        raise Refusal(422, Code.INVALID_ARGS, f"There is no dialect {body.dialect!r}: {', '.join(dialects.names())}.")
    run = body.run
    if idempotency_key is not None and run is None:
        run = service.identities.run_of_key(identity.name, body.workspace, idempotency_key)
    outcome = await _call(service, identity, body, run, idempotency_key)
    if outcome.status is Status.PENDING and outcome.error is not None:
        told = {"status": "pending", "approval": outcome.error.details.get("approval"), "outcome": outcome.to_dict()}
        return Response(orjson.dumps(told, default=str), 202, media_type="application/json")
    told = outcome.to_dict() if body.dialect == "native" else outcome.to(body.dialect)
    return Response(orjson.dumps(told, default=str), media_type="application/json")


async def _call(service: Service, identity: Identity, body: CallBody, run: str | None, key: str | None) -> Outcome:
    token = WAIT_SECONDS.set(body.wait_seconds)
    try:
        async with service.runs.lend(identity, body.workspace, run) as runtime:
            if key is not None:
                service.identities.note_key(identity.name, body.workspace, key, runtime.run_id)
            if body.dialect == "native":
                return await runtime.call(body.tool, body.args, idempotency_key=key)
            return await runtime.call(body.tool, body.args, dialect=body.dialect, idempotency_key=key)
    except Misuse as misuse:
        raise Refusal(422, Code.INVALID_ARGS, str(misuse)) from None
    finally:
        WAIT_SECONDS.reset(token)


async def _read(request: Request) -> CallBody:
    """Read a call strictly: no duplicate keys, no NaN, no bottomless nesting."""
    data = await request.body()
    try:
        value = strict_json.loads(data)
    except ValueError as error:
        raise Refusal(400, Code.INVALID_ARGS, f"The body is no JSON that can be read: {error}.") from None
    try:
        return _BODY.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "body"
        raise Refusal(422, Code.INVALID_ARGS, f"{where}: {first['msg']}.", field=where) from None


@allow(router, "GET", "/tools", *EVERYBODY, tags=["calls"])
async def list_tools(
    request: Request, workspace: str = Query("", max_length=4096), dialect: str = Query("native", max_length=64)
) -> Response:
    """List the tools of a workspace, as function-calling APIs describe them."""
    if dialect not in dialects.names():
        raise Refusal(422, Code.INVALID_ARGS, f"There is no dialect {dialect!r}: {', '.join(dialects.names())}.")
    folder = place_of(request, workspace)
    return Response(orjson.dumps(await judging.tools(folder, dialect), default=str), media_type="application/json")


def place_of(request: Request, workspace: str) -> str:
    """Find the folder of a workspace: by its name, or for those who see all by a path that a run worked in."""
    service, identity = service_of(request), identity_of(request)
    known = service.runs.paths()
    if workspace == "" and known:
        names = list(known) if sees_all(identity) else service.runs.names(identity)
        workspace = names[0] if names else ""
    if sees_all(identity):
        if workspace in known:
            return known[workspace]
        if workspace in service.index.workspaces():
            return workspace
    return service.runs.workspace_of(identity, workspace)

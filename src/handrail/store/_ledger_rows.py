"""What the ledger's columns hold: requests, replies and grants to JSON and back. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from handrail.ports import Recorded, Reply, Request
from handrail.words import Grant, Risk, Scope

WIDE_GRANT_SECONDS = 8 * 3600.0  # of a run or session grant, unless the person says otherwise
REQUEST_COLUMNS = "body, state, reply, expires"
GRANT_COLUMNS = "id, request, scope, tool, digest, touches, run_id, expires, uses_left, given_by, given_at"
Row = Sequence[Any]


def grant_for(request: Request, reply: Reply, grant_id: str, now: float) -> Grant:
    """Say what a yes gives: never more than the request allows, always with an end."""
    scope = max(Scope.CALL, min(reply.scope, request.max_scope))
    single = scope is Scope.CALL
    lasts = request.expires - request.created if single else WIDE_GRANT_SECONDS
    return Grant(
        id=grant_id,
        request=request.id,
        scope=scope,
        tool=request.tool,
        digest=request.digest,
        touches=request.touches if single or reply.patterns is None else reply.patterns,
        run_id=request.run_id,
        expires=now + lasts if reply.expires is None else reply.expires,
        uses_left=1 if single else reply.uses,
        given_by=reply.by,
        given_at=now,
    )


def named(request: Request, request_id: str, flags: str = "") -> Request:
    """Give a new request its id and the way to replay it, where the caller left them open."""
    made = replace(request, id=request.id or request_id)
    if made.replay is not None:
        return made
    command = f"handrail call --approval {made.id} {flags}".rstrip()
    return replace(made, replay={"command": command, "request": {"tool": made.tool, "approval": made.id}})


def request_values(request: Request) -> dict[str, Any]:
    """Give a request's columns; JSON in ASCII, since SQLite takes no lone surrogates."""
    return {
        "id": request.id,
        "digest": request.digest,
        "body": json.dumps(request.to_dict()),
        "created": request.created,
        "expires": request.expires,
    }


def request_of(row: Row) -> Request:
    """Read a request back; ValueError where it is not one."""
    body = _object(row[0])
    try:
        return Request(
            **{
                **body,
                "risk": Risk(body["risk"]),
                "max_scope": Scope[body["max_scope"].upper()],
                "touches": _pairs(body["touches"]),
            }
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"a request on record cannot be read: {error}") from error


def recorded_of(row: Row, now: float) -> Recorded:
    """Read a request with its state as of now; what has run out counts as expired before it is marked so."""
    request, state = request_of(row), str(row[1])
    if state == "pending" and row[3] <= now:
        state = "expired"
    return Recorded(request, state, None if row[2] is None else reply_of(row[2]))


def reply_text(reply: Reply) -> str:
    """Write an answer down."""
    patterns = None if reply.patterns is None else [list(pair) for pair in reply.patterns]
    return json.dumps(
        {
            "state": reply.state,
            "scope": reply.scope.word,
            "by": reply.by,
            "advice": reply.advice,
            "uses": reply.uses,
            "expires": reply.expires,
            "patterns": patterns,
            "at": reply.at,
        }
    )


def reply_of(text: str) -> Reply:
    """Read an answer back; ValueError where it is not one."""
    body = _object(text)
    try:
        patterns = None if body["patterns"] is None else _pairs(body["patterns"])
        return Reply(**{**body, "scope": Scope[body["scope"].upper()], "patterns": patterns})
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"an answer on record cannot be read: {error}") from error


def grant_values(grant: Grant, workspace: str) -> dict[str, Any]:
    """Give a grant's columns."""
    return {
        "id": grant.id,
        "request": grant.request,
        "digest": grant.digest,
        "scope": int(grant.scope),
        "tool": grant.tool,
        "touches": json.dumps([list(pair) for pair in grant.touches]),
        "run_id": grant.run_id,
        "workspace": workspace,
        "expires": grant.expires,
        "uses_left": grant.uses_left,
        "given_by": grant.given_by,
        "given_at": grant.given_at,
    }


def grant_of(row: Row) -> Grant:
    """Read a grant back; ValueError where it is not one."""
    names = (name.strip() for name in GRANT_COLUMNS.split(","))
    values = dict(zip(names, row, strict=True))
    try:
        touches = _pairs(json.loads(values["touches"]))
        return Grant(**{**values, "scope": Scope(values["scope"]), "touches": touches})
    except TypeError as error:
        raise ValueError(f"a grant on record cannot be read: {error}") from error


def _object(text: str) -> Mapping[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("a record is no JSON object")
    return value


def _pairs(value: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((str(kind), str(target)) for kind, target in value)

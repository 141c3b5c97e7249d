"""What the ledger's columns hold: requests, replies and grants to JSON and back. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from handrail.ports import Recorded, Reply, Request
from handrail.words import Grant, Risk, Scope

WIDE_GRANT_SECONDS = 8 * 3600.0  # of a run or session grant, unless the person says otherwise
FOREVER = 253_402_300_799.0  # the end of the year 9999: when a standing grant expires, unless the person says otherwise
REQUEST_COLUMNS = "body, state, reply, expires, id"
GRANT_COLUMNS = "id, request, scope, tool, digest, touches, run_id, expires, uses_left, given_by, given_at"
LARGE = 4096  # characters; a longer text is stored once, by its hash
Row = Sequence[Any]
Path = tuple[str | int, ...]
Parts = Sequence[tuple[Path, str]]  # large texts, and where they belong


def grant_for(request: Request, reply: Reply, grant_id: str, now: float) -> Grant:
    """Say what a yes gives: never more than the request allows, always with an end.

    For one call it holds for one use, unless the person said how many.
    """
    scope = max(Scope.CALL, min(reply.scope, request.max_scope))
    single = scope is Scope.CALL
    lasts = WIDE_GRANT_SECONDS
    # A task of an agent may wait for days in between: what was granted for its run holds as long as its requests do.
    if single or (scope is Scope.RUN and request.caller == "agent"):
        lasts = request.expires - request.created
    ends = FOREVER if scope is Scope.ALWAYS else now + lasts
    return Grant(
        id=grant_id,
        request=request.id,
        scope=scope,
        tool=request.tool,
        digest=request.digest,
        touches=request.touches if single or reply.patterns is None else reply.patterns,
        run_id=request.run_id,
        expires=ends if reply.expires is None else reply.expires,
        uses_left=reply.uses or 1 if single else reply.uses,
        given_by=reply.by,
        given_at=now,
    )


def can_be_stored(reply: Reply) -> bool:
    """Say whether the uses and the end of an answer are numbers that a column holds as they are."""
    counted = reply.uses is None or 1 <= reply.uses < 2**63
    return counted and (reply.expires is None or abs(reply.expires) <= FOREVER)


def named(request: Request, request_id: str, flags: str = "") -> Request:
    """Give a new request its id and the way to replay it, where the caller left them open."""
    made = replace(request, id=request.id or request_id)
    if made.replay is not None:
        return made
    command = f"handrail call --approval {made.id} {flags}".rstrip()
    return replace(made, replay={"command": command, "request": {"tool": made.tool, "approval": made.id}})


def request_values(request: Request, body: str) -> dict[str, Any]:
    """Give a request's columns; `body` is the request as `without_large` writes it."""
    return {
        "id": request.id,
        "digest": request.digest,
        "body": body,
        "created": request.created,
        "expires": request.expires,
    }


def without_large(value: Mapping[str, Any]) -> tuple[str, Parts]:
    """Write a value as JSON without its large texts, and give those; ASCII, since SQLite takes no lone surrogates."""
    found: list[tuple[Path, str]] = []
    return json.dumps(_taken_out(dict(value), (), found)), found


def _taken_out(value: Any, path: Path, found: list[tuple[Path, str]]) -> Any:
    if isinstance(value, str) and len(value) > LARGE:
        found.append((path, value))
        return None
    if isinstance(value, Mapping):
        return {key: _taken_out(item, (*path, key), found) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_taken_out(item, (*path, place), found) for place, item in enumerate(value)]
    return value


def put_back(text: str, parts: Parts) -> Any:
    """Read JSON with its large texts in their places; ValueError where there is no such place."""
    value = _object(text)
    for path, large in parts:
        holder: Any = value
        try:
            for step in path[:-1]:
                holder = holder[step]
            holder[path[-1]] = large
        except (IndexError, KeyError, TypeError) as error:
            raise ValueError(f"a text on record has no place: {error}") from error
    return value


def part_of(row: Row) -> tuple[Path, str]:
    """Read one large text and its place; of one that is not kept any more, how long it was."""
    path, text, length = row
    if text is None:
        return tuple(json.loads(path)), f"(a text of {length} characters, not kept)"
    return tuple(json.loads(path)), bytes(text).decode("utf-8", "surrogatepass")


def hash_of(text: str) -> str:
    """Name a text by its content."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def part_values(request_id: str, part: str, parts: Parts) -> list[dict[str, Any]]:
    """Give the columns of large texts: whose they are, and where they belong."""
    return [
        {
            "request": request_id,
            "part": part,
            "path": json.dumps(path),
            "sha256": hash_of(text),
            "length": len(text),
        }
        for path, text in parts
    ]


def request_of(row: Row, parts: Parts = ()) -> Request:
    """Read a request back; ValueError where it is not one."""
    body = put_back(row[0], parts)
    try:
        return Request(
            **{
                **body,
                "risk": Risk(body["risk"]),
                "max_scope": Scope[body["max_scope"].upper()],
                "touches": _pairs(body["touches"]),
                "aside": tuple(body.get("aside", ())),
                "findings": tuple(body.get("findings", ())),
            }
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"a request on record cannot be read: {error}") from error


def recorded_of(row: Row, now: float, parts: Parts = ()) -> Recorded:
    """Read a request with its state as of now; what has run out counts as expired before it is marked so."""
    request = request_of(row, parts)
    state = str(row[1])
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


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("a record is no JSON object")
    return value


def _pairs(value: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((str(kind), str(target)) for kind, target in value)

"""http_json: JSON from an allowed host, and what to pick from it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from handrail import strict_json
from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.ports import HttpResponse, Net, Secrets
from handrail.selecting import ExpressionError, hidden, search
from handrail.tools.http import _request as ask
from handrail.words import Answer

_QUICK = 256 * 1024


@dataclass(frozen=True, slots=True)
class FetchedJson:
    """What the host answered, or what was picked from it."""

    json: Any
    status: int
    url: str


@tool(
    risk="high",
    touches=ask.touches,
    permissions=("net.connect",),
    timeout_seconds=65,
    max_bytes=2 * 1024 * 1024,
)
async def http_json(
    net: Net,
    secrets: Secrets,
    url: ask.Address,
    method: ask.Method = "GET",
    headers: ask.Headers = None,
    body: ask.Body = None,
    timeout_ms: ask.Timeout = None,
    max_bytes: ask.MaxBytes = 5 * 1024 * 1024,
    select: Annotated[str | None, Field(min_length=1, max_length=4096), "JMESPath: items[].name"] = None,
) -> Answer[FetchedJson]:
    """Fetch JSON from an allowed host, and pick from it with a JMESPath expression."""
    given = dict(headers or {})
    if not any(name.lower() == "accept" for name in given):
        given["Accept"] = "application/json"
    response, digest = await net.arrived(ask.request(url, method, given, body, timeout_ms, max_bytes))
    ask.need_answer(response, secrets)
    work = partial(_picked, response, select, secrets)
    value = await asyncio.to_thread(work) if len(response.body) > _QUICK else work()
    data = FetchedJson(value, response.status, ask.shown(response.url))
    return Answer(
        data,
        f"HTTP {response.status} {data.url}: {response.bytes} bytes of JSON",
        evidence=(ask.evidence(method, response, sha256=await digest()),),
    )


def _picked(response: HttpResponse, select: str | None, secrets: Secrets) -> Any:
    try:
        value = strict_json.loads(response.body.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, UnicodeDecodeError) as error:
        raise ask.failed(response, secrets, f"the body is not JSON ({error})") from None
    if select is None:
        return value
    try:
        return search(select, hidden(value, secrets))
    except ExpressionError as error:
        raise Problem(Code.INVALID_ARGS, f"The expression {error}.", position=error.position) from None

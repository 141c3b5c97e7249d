"""http_head: what a host says of a resource, without its body."""

from __future__ import annotations

from dataclasses import dataclass

from handrail.catalog import tool
from handrail.ports import Net, Secrets
from handrail.tools.http import _request as ask
from handrail.words import Answer


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers."""

    url: str
    status: int
    headers: dict[str, str]


@tool(risk="high", touches=ask.touches, permissions=("net.connect",), timeout_seconds=65, does="reads")
async def http_head(
    net: Net, secrets: Secrets, url: ask.Address, headers: ask.Headers = None, timeout_ms: ask.Timeout = None
) -> Answer[Head]:
    """Ask an allowed host for a resource's status and headers alone."""
    response = await net.fetch(ask.request(url, "HEAD", headers, timeout_ms=timeout_ms))
    ask.need_answer(response, secrets)
    data = Head(ask.shown(response.url), response.status, dict(response.headers))
    lines = [f"HTTP {data.status} {data.url}", *(f"{name}: {value}" for name, value in data.headers.items())]
    return Answer(data, lines[0], "\n".join(lines), (ask.evidence("HEAD", response),))

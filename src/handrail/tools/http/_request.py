"""What the http tools share: their arguments, what they touch, how an answer is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from handrail import urls
from handrail.errors import Code, Problem
from handrail.output.known import secret_name
from handrail.ports import HttpRequest, HttpResponse, Secrets
from handrail.tools.http._charset import decode, is_binary
from handrail.urls import HIDDEN
from handrail.words import Evidence, Touch, TouchKind

Address = Annotated[str, Field(min_length=1, max_length=urls.MAX_URL), "https://host/path; no user name in it"]
Headers = Annotated[dict[str, str] | None, "further headers; credentials of known hosts are added by the runtime"]
Method = Annotated[Literal["GET", "POST"], "POST asks a person unless a rule allows it"]
Body = Annotated[str | None, Field(max_length=16 * 1024 * 1024), "what a POST sends; name its Content-Type in headers"]
Timeout = Annotated[
    int | None, Field(ge=1000, le=60000), "milliseconds for all of it, redirects and retries too; none: as settings say"
]
MaxBytes = Annotated[
    int | None, Field(ge=1, le=2**31), "the largest body that is taken, unpacked; none: as settings say"
]

EXCERPT_CHARS = 500
AROUND = 64 * 1024  # what lies this near decides what is hidden


def touches(args: Mapping[str, Any]) -> Sequence[Touch]:
    """What a call reaches: the host and port in the spelling that is dialled."""
    return (Touch(TouchKind.NET_CONNECT, urls.parse(args["url"]).authority, unsafe=args.get("method") == "POST"),)


def request(
    url: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: str | None = None,
    timeout_ms: int | None = None,
    max_bytes: int | None = None,
    cut: bool = False,
) -> HttpRequest:
    """Make the request of a call; INVALID_ARGS for a body that would not be sent."""
    if body is not None and method != "POST":
        raise Problem(Code.INVALID_ARGS, f"A {method} sends no body; say method: POST, or leave `body` out.")
    given = dict(headers or {})
    if body is not None and not any(name.lower() == "content-type" for name in given):
        given["Content-Type"] = "application/json" if body.lstrip()[:1] in ("{", "[") else "text/plain; charset=utf-8"
    sent = (body or "").encode() if method == "POST" else None
    seconds = None if timeout_ms is None else timeout_ms / 1000
    return HttpRequest(url, method, given, sent, seconds, max_bytes, cut)


def need_answer(response: HttpResponse, secrets: Secrets) -> None:
    """UPSTREAM_ERROR for a host that failed or wants to be left alone; any other status is an answer."""
    if not 200 <= response.status < 500 or response.status == 429:
        raise failed(response, secrets)


def failed(response: HttpResponse, secrets: Secrets, why: str = "") -> Problem:
    """The problem of an answer that is none, with its beginning."""
    host = urls.parse(response.url).host
    said = f"{host} answered {response.status}"
    tried = f" after {response.tries} tries" if response.tries > 1 else ""
    return Problem(
        Code.UPSTREAM_ERROR,
        f"{said}{tried}{': ' if why else ''}{why}.",
        host=host,
        status=response.status,
        tries=response.tries,
        retry_after=response.headers.get("retry-after"),
        excerpt=excerpt(response, secrets),
    )


def excerpt(response: HttpResponse, secrets: Secrets) -> str:
    """The beginning of a body, where it is text; a secret that the cut would halve is hidden whole."""
    body, kind = response.pieces[0][:AROUND], response.headers.get("content-type", "")
    text = "" if is_binary(body, kind) else decode(body, kind)[0]
    if "\0" in text:
        return ""  # read in a wrong charset, so that no secret in it is known as one
    return secrets.excerpt("", text[:EXCERPT_CHARS], text[EXCERPT_CHARS:]).strip()


def first_bytes(body: bytes, secrets: Secrets) -> str:
    """The beginning of what is no text, in hexadecimal; nothing where a secret stands in it."""
    text = body[:AROUND].decode("latin-1")
    head = text[:32]
    # In UTF-16, too: a NUL stands beside each character.
    for start, rest in ((head, text[32:]), (head.replace("\0", ""), text[32:].replace("\0", ""))):
        if secrets.excerpt("", start, rest) != start:
            return ""
    return head.encode("latin-1").hex(" ")


def shown(url: str) -> str:
    """A URL as a caller is told it: what its query calls a secret is left out."""
    path, mark, query = url.partition("?")
    return path + mark + "&".join(map(_parameter, query.split("&")))


def _parameter(part: str) -> str:
    name, equals, _ = part.partition("=")
    return f"{name}={HIDDEN}" if equals and secret_name(name) else part


def evidence(method: str, response: HttpResponse, *, sha256: str | None = None) -> Evidence:
    """What proves a request: the last URL without its query's values, status, address, the way there, the hash."""
    via = f", by way of {', '.join(response.redirects)}" if response.redirects else ""
    tries = f", {response.tries} tries" if response.tries > 1 else ""
    summary = f"{method} {response.status}, {response.bytes} bytes from {response.address}{tries}{via}"
    known = None if method == "HEAD" else sha256 or response.sha256 or None
    return Evidence("http", urls.parse(response.url).shown, summary, known)

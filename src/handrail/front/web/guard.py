"""What stands before every request: Host, Origin, size, token or session, CSRF; and the headers of every answer.

Plain ASGI, so that no route can be reached around it.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from handrail.errors import Code
from handrail.front.web.access import KEY, Access
from handrail.front.web.problems import problem_body
from handrail.service.identities import Session
from handrail.service.inbox import Refusal
from handrail.service.service import Service
from handrail.words import noun

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BYTES = 8 * 1024 * 1024  # of a request's body
BODY_SECONDS = 30.0
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_ONCE = frozenset({b"host", b"origin", b"authorization", b"content-length", b"cookie", b"x-csrf-token"})
_ORIGIN = re.compile(rb"(https?)://([^/?#@\\\s]+)", re.IGNORECASE)
_FORM = b"application/x-www-form-urlencoded"
_SAME_SITE = (b"same-origin", b"none")
_CSP = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "require-trusted-types-for 'script'; trusted-types htmx"
)
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), interest-cohort=()"),
)


@noun
class Address:
    """Where the service is reached, and what follows for Host, Origin and cookies."""

    hosts: frozenset[str]  # names that may stand in Host
    secure: bool = False  # over TLS, here or at a proxy
    literals: bool = False  # any address of this machine as Host
    proxied: bool = False  # the last X-Forwarded-For is the client

    @property
    def cookie(self) -> str:
        """The name of the session's cookie."""
        return "__Host-handrail" if self.secure else "handrail"


class Guard:
    """The ASGI application around all others."""

    def __init__(self, app: App, service: Service, address: Address, mcp: App | None = None) -> None:
        self._app, self._service, self._address, self._mcp = app, service, address, mcp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        nonce = secrets.token_urlsafe(16)
        answer = _with_headers(send, nonce, is_static=scope["path"].startswith("/static/"), secure=self._address.secure)
        try:
            headers = self._checked(scope)
            receive = await self._enter(scope, headers, receive, nonce)
        except Refusal as refusal:
            await _refuse(answer, refusal)
            return
        is_mcp = self._mcp is not None and (scope["path"] == "/mcp" or scope["path"].startswith("/mcp/"))
        await (self._mcp if is_mcp and self._mcp is not None else self._app)(scope, receive, answer)

    def _checked(self, scope: Scope) -> dict[bytes, bytes]:
        """Refuse what comes for another host, from another site, or is too large."""
        raw = scope["headers"]
        names = [name for name, _ in raw if name in _ONCE]
        if len(names) != len(set(names)):
            raise Refusal(400, Code.INVALID_ARGS, "A header that decides stands there twice.")
        headers = dict(raw)
        if not self._is_served(_host(headers.get(b"host", b""))):
            raise Refusal(421, Code.POLICY_DENIED, "This Host is not served here.")
        origin = headers.get(b"origin")
        if origin is not None and not self._is_same(origin, headers):
            raise Refusal(403, Code.POLICY_DENIED, "This Origin may not ask here.")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 12 or int(length) > MOST_BYTES:
            raise Refusal(413, Code.INVALID_ARGS, f"A request's body is {MOST_BYTES} bytes at most.")
        return headers

    def _is_served(self, host: str) -> bool:
        if host in self._address.hosts:
            return True
        if not self._address.literals:
            return False
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True

    def _is_same(self, origin: bytes, headers: dict[bytes, bytes]) -> bool:
        """Whether a page asks that this very service has served."""
        found = _ORIGIN.fullmatch(origin)
        return found is not None and found[2].lower() == headers.get(b"host", b"").lower()

    async def _enter(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, nonce: str) -> Receive:
        """Find out who asks; a browser's change needs the token of its session."""
        receive = _bounded(receive)
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if scheme:
            identity = self._service.identities.by_token(token.strip()) if scheme.lower() == b"bearer" else None
            if identity is None:
                raise Refusal(401, Code.POLICY_DENIED, "This bearer token is not known here.")
            scope[KEY] = Access(identity, None, nonce)
            return receive
        cookie = _cookie(headers.get(b"cookie", b""), self._address.cookie)
        session = self._service.identities.session(cookie) if cookie else None
        scope[KEY] = Access(None if session is None else session.identity, session, nonce)
        if session is None or scope["method"] in _SAFE:
            return receive
        return await _checked_change(session, headers, receive)


async def _checked_change(session: Session, headers: dict[bytes, bytes], receive: Receive) -> Receive:
    """Refuse a change by a browser that does not bring the token of its session along."""
    if headers.get(b"sec-fetch-site", b"same-origin") not in _SAME_SITE:
        raise Refusal(403, Code.POLICY_DENIED, "Another site may not change anything here.")
    given = headers.get(b"x-csrf-token", b"").decode("latin-1")
    if not given and headers.get(b"content-type", b"").partition(b";")[0].strip().lower() == _FORM:
        body = await _body(receive)
        receive = _again(body)
        given = _field(body, "csrf")
    if not hmac.compare_digest(given.encode(), session.csrf.encode()):
        raise Refusal(
            403, Code.POLICY_DENIED, "The form is not from this session. Load the page again, then repeat it."
        )
    return receive


async def _body(receive: Receive) -> bytes:
    read = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(400, Code.CANCELLED, "The client left.")
                read += message.get("body", b"")
                if not message.get("more_body"):
                    return bytes(read)
    except TimeoutError:
        raise Refusal(408, Code.TIMEOUT, "The request's body did not come.") from None


def _field(body: bytes, name: str) -> str:
    try:
        return parse_qs(body.decode("latin-1"), max_num_fields=1000).get(name, [""])[0]
    except ValueError:
        raise Refusal(400, Code.INVALID_ARGS, "The form has too many fields.") from None


def _bounded(receive: Receive) -> Receive:
    """Count a body as it comes; one that grows too large ends."""
    size = 0

    async def counted() -> MutableMapping[str, Any]:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MOST_BYTES:
            raise Refusal(413, Code.INVALID_ARGS, f"A request's body is {MOST_BYTES} bytes at most.")
        return message

    return counted


def _again(body: bytes) -> Receive:
    """Give a body once more."""
    given = False

    async def replayed() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return {"type": "http.disconnect"}
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


def _with_headers(send: Send, nonce: str, *, is_static: bool, secure: bool) -> Send:
    """Add to every answer what keeps a browser from doing more with it than showing it."""
    policy = _CSP.format(nonce=nonce).encode()

    async def answer(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            known = {name.lower() for name, _ in message["headers"]}
            more = [(b"content-security-policy", policy), *_HEADERS]
            if secure:
                more.append((b"strict-transport-security", b"max-age=31536000"))
            if not is_static and b"cache-control" not in known:
                more.append((b"cache-control", b"no-store"))
            message["headers"] = [*message["headers"], *more]
        await send(message)

    return answer


async def _refuse(send: Send, refusal: Refusal) -> None:
    body = problem_body(refusal.status, refusal.code, refusal.message, refusal.details)
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", b"%d" % len(body))]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _cookie(header: bytes, name: str) -> str:
    try:
        found = SimpleCookie(header.decode("latin-1")).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _host(value: bytes) -> str:
    text = value.decode("latin-1").strip().lower()
    if text.startswith("["):
        inner, closed, port = text[1:].partition("]")
        return inner if closed and (not port or port.startswith(":")) else ""
    return text.rpartition(":")[0] if text.count(":") == 1 else text


def client_of(scope: Scope, address: Address) -> str:
    """Give the address that a request comes from, for counting failed logins."""
    if address.proxied:
        forwarded = dict(scope["headers"]).get(b"x-forwarded-for", b"").decode("latin-1")
        return forwarded.rpartition(",")[2].strip() or "proxy"
    client = scope.get("client")
    return str(client[0]) if client else "unknown"

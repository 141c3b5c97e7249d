"""Logging a browser in: by a token, a link for one use, or a pairing; and out again."""

from __future__ import annotations

import time
from collections import deque
from urllib.parse import urlsplit

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from handrail.errors import Code
from handrail.front.web.access import EVERYBODY, access_of, allow, service_of
from handrail.front.web.guard import Address, client_of
from handrail.front.web.rendering import form_of, render
from handrail.service.identities import SESSION_SECONDS
from handrail.service.inbox import Refusal

router = APIRouter(include_in_schema=False)
_WINDOW_SECONDS = 60.0
_MOST_CLIENTS = 10_000


class Attempts:
    """Failed logins of the last minute, by the address they came from."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._failed: dict[str, deque[float]] = {}

    def check(self, client: str) -> None:
        """Refuse an address that failed too often."""
        failed = self._failed.get(client)
        now = time.monotonic()
        while failed and now - failed[0] > _WINDOW_SECONDS:
            failed.popleft()
        if failed and len(failed) >= self._most:
            wait = int(_WINDOW_SECONDS - (now - failed[0])) + 1
            text = f"Too many failed logins from this address. Try again in {wait} s."
            raise Refusal(429, Code.RATE_LIMITED, text, retry_after_seconds=wait)

    def fail(self, client: str) -> None:
        """Count a failure."""
        if len(self._failed) >= _MOST_CLIENTS:
            self._failed.clear()
        self._failed.setdefault(client, deque(maxlen=self._most)).append(time.monotonic())


@allow(router, "GET", "/login")
async def show_login(request: Request) -> Response:
    """Ask for a token."""
    return render(request, "login.html", {"code": "", "name": "", "next": _local(request.query_params.get("next", ""))})


@allow(router, "GET", "/login/{code}")
async def show_link(request: Request, code: str) -> Response:
    """Ask whether to log in by a link: what only looks at it does not use it up."""
    _attempts(request).check(_client(request))
    name = service_of(request).identities.look_at_link(code)
    if name is None:
        _attempts(request).fail(_client(request))
        text = (
            "This link is used up or has expired. Make another one with `handrail serve link` or `handrail serve pair`."
        )
        raise Refusal(404, Code.NOT_FOUND, text)
    return render(request, "login.html", {"code": code, "name": name, "next": "/"})


@allow(router, "POST", "/login")
async def log_in(request: Request) -> Response:
    """Exchange a token, or the code of a link, for a cookie."""
    attempts, client = _attempts(request), _client(request)
    attempts.check(client)
    form = await form_of(request)
    identities = service_of(request).identities
    code, token = form.get("code", ""), form.get("token", "").strip()
    name = identities.use_link(code) if code else None
    if name is None and token:
        identity = identities.by_token(token.encode())
        name = None if identity is None else identity.name
    if name is None:
        attempts.fail(client)
        view = {
            "code": "",
            "name": "",
            "next": _local(form.get("next", "")),
            "problem": "This token is not known here.",
        }
        return render(request, "login.html", view, status=403)
    cookie, _ = identities.open_session(name)
    response = RedirectResponse(_local(form.get("next", "")), 303)
    _set_cookie(response, _address(request), cookie, int(SESSION_SECONDS))
    return response


@allow(router, "POST", "/logout", *EVERYBODY)
async def log_out(request: Request) -> Response:
    """End the session of this browser."""
    address = _address(request)
    cookie = request.cookies.get(address.cookie)
    if cookie and access_of(request).session is not None:
        service_of(request).identities.close_session(cookie)
    response = RedirectResponse("/login", 303)
    _set_cookie(response, address, "", 0)
    return response


def _set_cookie(response: Response, address: Address, value: str, seconds: int) -> None:
    response.set_cookie(
        address.cookie, value, max_age=seconds, path="/", secure=address.secure, httponly=True, samesite="strict"
    )


def _attempts(request: Request) -> Attempts:
    found: Attempts = request.app.state.attempts
    return found


def _address(request: Request) -> Address:
    found: Address = request.app.state.address
    return found


def _client(request: Request) -> str:
    return client_of(request.scope, _address(request))


def _local(target: str) -> str:
    """Give a place on this site to go on to; nothing leads elsewhere."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc or not target.startswith("/") or target.startswith("//") or "\\" in target:
        return "/"
    return target

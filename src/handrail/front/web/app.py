"""The application: REST, pages, live events and static files behind one guard."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from handrail import __version__
from handrail.errors import Code
from handrail.front.web import login, problems, rest_approvals, rest_calls, rest_events, rest_runs, rest_tasks
from handrail.front.web.access import allow
from handrail.front.web.guard import Address, Guard
from handrail.front.web.mcp_mount import McpMount
from handrail.front.web.rendering import STATIC, render
from handrail.service.inbox import Refusal
from handrail.service.metrics import CONTENT_TYPE
from handrail.service.service import Service

_ABOUT = "Governed tool calls, their approvals, their record and their undo. See docs/how-to/service.md."
_FOREVER = "public, max-age=31536000, immutable"


def build(service: Service, address: Address) -> Guard:
    """Make the whole application of a service."""

    mcp = McpMount(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.tidies.append(mcp.close_idle)
        await service.start()
        try:
            yield
        finally:
            await mcp.close()
            await service.stop()

    app = FastAPI(
        title="Handrail", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    app.state.service, app.state.address = service, address
    app.state.attempts = login.Attempts(service.settings.serve.login_attempts)
    problems.install(app)
    _install_pages_for_problems(app)
    _add_health(app, service)
    for part in (rest_calls, rest_approvals, rest_runs, rest_events, rest_tasks, login):
        app.include_router(part.router)
    for router in _pages():
        app.include_router(router)
    return Guard(app, service, address, mcp)


def _pages() -> list[Any]:
    from handrail.front.web import pages_inbox, pages_policy, pages_runs, pages_tasks

    return [pages_inbox.router, pages_runs.router, pages_policy.router, pages_tasks.router]


def _install_pages_for_problems(app: FastAPI) -> None:
    """Have a browser shown a page where a program gets a problem; who is not logged in is sent to log in."""
    plain: Callable[..., Any] = app.exception_handlers[Refusal]

    async def shown(request: Request, error: Exception) -> Response:
        if not _is_page(request):
            answer: Response = await plain(request, error)
            return answer
        told = problems.of_error(error)
        if told.status == 401:
            return _to_login(request)
        return render(
            request,
            "problem.html",
            {"status": told.status, "code": told.code, "text": told.message},
            status=told.status,
        )

    for kind in list(app.exception_handlers):
        if isinstance(kind, type) and issubclass(kind, Exception) and kind is not Exception:
            handler = app.exception_handlers[kind]
            app.exception_handlers[kind] = shown if handler is plain else handler


def _is_page(request: Request) -> bool:
    path = request.url.path
    return (
        not path.startswith(("/v1/", "/static/", "/mcp"))
        and not path.endswith(".json")
        and "text/html" in request.headers.get("accept", "")
    )


def _to_login(request: Request) -> Response:
    """Send a browser to log in; one that a link of another site sent comes once more, with its cookie."""
    if request.headers.get("sec-fetch-site") == "cross-site" and request.method == "GET":
        return render(request, "again.html", {"target": request.url.path})
    from urllib.parse import quote

    return RedirectResponse(f"/login?next={quote(request.url.path)}", 303)


def _add_health(app: FastAPI, service: Service) -> None:
    @allow(app, "GET", "/healthz", tags=["health"])
    async def healthz(request: Request) -> dict[str, str]:  # noqa: ARG001
        """Tell that the process answers."""
        return {"status": "ok"}

    @allow(app, "GET", "/readyz", tags=["health"])
    async def readyz(request: Request) -> Response:  # noqa: ARG001
        """Tell whether approvals can be read and answered; the index may still be building."""
        import orjson

        from handrail.errors import Problem

        try:
            service.inbox.count_open(service.clock.now())
        except Problem as problem:
            return problems.problem_response(503, problem.code, "The ledger cannot be read; see the log.")
        told = {"status": "ready", "index": "whole" if service.index.journals.caught_up.is_set() else "building"}
        return Response(orjson.dumps(told), media_type="application/json")

    @allow(app, "GET", "/static/{name:path}", include_in_schema=False)
    async def static(request: Request, name: str) -> Response:  # noqa: ARG001
        """Give a file of ours."""
        if name not in _files():
            raise Refusal(404, Code.NOT_FOUND, "There is no such file.")
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        if name.endswith(".js"):
            kind = "text/javascript"
        return Response(_files()[name], headers={"cache-control": _FOREVER}, media_type=kind)

    @allow(app, "GET", "/metrics", "auditor", "admin", include_in_schema=False)
    async def metrics(request: Request) -> Response:
        """Give the numbers where Prometheus looks for them."""
        dialect = request.query_params.get("dialect", "native")
        return Response(await service.metrics_text(dialect), media_type=CONTENT_TYPE)


_FILES: dict[str, bytes] = {}


def _files() -> dict[str, bytes]:
    """Give our own static files; nothing else is ever served from the disk."""
    if not _FILES:
        found = [path for path in STATIC.rglob("*") if path.is_file()]
        _FILES.update({str(path.relative_to(STATIC)): path.read_bytes() for path in found})
    return _FILES

"""What goes wrong, as `application/problem+json` with our codes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from handrail.errors import Code, Fault, Misuse, Problem, RunFault, SettingsFault
from handrail.service.inbox import Refusal

log = logging.getLogger("handrail.service")
MEDIA_TYPE = "application/problem+json"
_STATUS = {
    Code.NOT_FOUND: 404,
    Code.UNKNOWN_TOOL: 404,
    Code.INVALID_ARGS: 422,
    Code.POLICY_DENIED: 403,
    Code.APPROVAL_DENIED: 409,
    Code.RUN_BUSY: 409,
    Code.STALE_FILE: 409,
    Code.RATE_LIMITED: 429,
    Code.BUDGET_EXHAUSTED: 429,
    Code.JOURNAL_UNAVAILABLE: 503,
    Code.INTERNAL: 500,
}
_CODES = {404: Code.NOT_FOUND, 405: Code.INVALID_ARGS, 401: Code.POLICY_DENIED, 403: Code.POLICY_DENIED}


def problem_body(status: int, code: Code, message: str, details: Mapping[str, Any] | None = None) -> bytes:
    """Write a problem."""
    told = {"type": "about:blank", "title": code.value, "status": status, "code": code.value, "detail": message}
    if details:
        told["details"] = details  # type: ignore[assignment]
    return orjson.dumps(told, default=str)


def problem_response(status: int, code: Code, message: str, details: Mapping[str, Any] | None = None) -> Response:
    """Answer with a problem."""
    headers = {"www-authenticate": "Bearer"} if status == 401 else None
    return Response(problem_body(status, code, message, details), status, headers, media_type=MEDIA_TYPE)


def of_error(error: Exception) -> Refusal:
    """Give any error as what may be told of it."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, Problem):
        return Refusal(_STATUS.get(error.code, 409), error.code, error.message, **dict(error.details))
    if isinstance(error, RunFault):
        return Refusal(_STATUS.get(error.code, 409), error.code, str(error))
    if isinstance(error, (Misuse, SettingsFault)):
        return Refusal(422, Code.INVALID_ARGS, str(error))
    if isinstance(error, Fault):
        return Refusal(409, Code.INTERNAL, str(error))
    return Refusal(500, Code.INTERNAL, "Something went wrong here; the service's log has more.")


def install(app: FastAPI) -> None:
    """Have every error of a route answered as a problem."""

    async def known(_: Request, error: Exception) -> Response:
        told = of_error(error)
        return problem_response(told.status, told.code, told.message, told.details)

    async def unfit(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        fields = [
            {"field": ".".join(str(part) for part in item["loc"][1:]), "problem": item["msg"]}
            for item in error.errors()
        ]
        first = fields[0] if fields else {"field": "", "problem": "does not fit"}
        text = f"The request does not fit: {first['field'] or 'body'}: {first['problem']}."
        return problem_response(422, Code.INVALID_ARGS, text, {"fields": fields[:20]})

    async def unrouted(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = _CODES.get(error.status_code, Code.INVALID_ARGS)
        found = problem_response(error.status_code, code, str(error.detail))
        for name, value in (error.headers or {}).items():
            found.headers[name] = value
        return found

    async def unforeseen(_: Request, error: Exception) -> Response:
        log.error("a request failed", exc_info=error)
        return await known(_, error)

    for kind in (Refusal, Problem, Fault):
        app.add_exception_handler(kind, known)
    app.add_exception_handler(RequestValidationError, unfit)
    app.add_exception_handler(HTTPException, unrouted)
    app.add_exception_handler(Exception, unforeseen)

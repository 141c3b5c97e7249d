"""A network that reaches nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from handrail.errors import Code, Problem
from handrail.ports import HttpResponse
from handrail.testing.scripts import given_of

if TYPE_CHECKING:
    from handrail.ports import HttpRequest
    from handrail.ports.network import Watch


class ScriptedNet:
    """Reaches nothing: answers by URL, and keeps the requests in `asked`.

    An answer is a text, bytes, an HttpResponse, a Problem to raise, or a function of the request that gives one of
    these. Any other URL is HOST_NOT_ALLOWED.
    """

    spill_large = False

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = dict(answers)
        self.asked: list[HttpRequest] = []
        self._kept: dict[str, HttpResponse] = {}

    async def fetch(self, request: HttpRequest) -> HttpResponse:
        """Give the URL's answer."""
        self.asked.append(request)
        if request.url not in self._answers:
            known = ", ".join(self._answers) or "none"
            raise Problem(Code.HOST_NOT_ALLOWED, f"The test has no answer for {request.url}; it has: {known}.")
        given = given_of(self._answers[request.url], request)
        if isinstance(given, HttpResponse):
            return given
        body = given.encode() if isinstance(given, str) else bytes(given)
        return HttpResponse(
            request.url,
            200,
            {"content-type": "text/plain; charset=utf-8"},
            body,
            "192.0.2.1",  # an address for documentation: nobody has it
            bytes=len(body),
            sha256=hashlib.sha256(body).hexdigest(),
        )

    async def arrived(self, request: HttpRequest) -> tuple[HttpResponse, Callable[[], Awaitable[str]]]:
        """Give the URL's answer, and its hash apart."""
        response = await self.fetch(request)

        async def digest() -> str:
            return response.sha256

        return response, digest

    async def gathered(self, request: HttpRequest, watch: Watch | None = None) -> tuple[HttpResponse, _Beside]:
        """Give the URL's answer, watched in one part."""
        response = await self.fetch(request)
        if watch is not None:
            watch(response.headers.get("content-type", ""))(response.body)
        return response, _Beside(response.sha256)

    async def download(self, request: HttpRequest, write: Callable[[bytes], Awaitable[None]]) -> HttpResponse:
        """Hand the URL's answer on in one piece."""
        response = await self.fetch(request)
        if response.status >= 300:
            return response
        await write(response.body)
        return HttpResponse(
            response.url, response.status, response.headers, b"", response.address, response.redirects,
            bytes=response.bytes, sha256=response.sha256,
        )  # fmt: skip

    def keep(self, name: str, response: HttpResponse) -> None:
        """Hold a response."""
        self._kept[name] = response

    def kept(self, name: str) -> HttpResponse | None:
        """Give a response that was held."""
        return self._kept.get(name)


class _Beside:
    """Nothing goes on any more."""

    def __init__(self, sha256: str) -> None:
        self._sha256 = sha256

    async def hexdigest(self) -> str:
        return self._sha256

    async def watched(self) -> None:
        pass

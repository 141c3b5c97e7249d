"""The way out of the machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Protocol

from handrail.words import noun

_Part = bytes  # the response has a field of that name
Watch = Callable[[str], Callable[[bytes], None]]  # gives, for each try anew, what takes the parts of its body


@noun
class HttpRequest:
    """One request as a tool asks for it."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout_seconds: float | None = None  # for all of it: redirects, retries, body; None: what settings say
    max_bytes: int | None = None  # decompressed; never more than settings say
    cut: bool = False  # take the beginning of a larger body instead of failing; more of it where bodies are kept


@noun
class HttpResponse:
    """What came back, and how."""

    url: str  # the last one, after redirects
    status: int
    headers: Mapping[str, str]  # names in lower case; never a cookie or a credential
    body: bytes  # decompressed; empty for a download
    address: str  # the vetted address that was dialled
    redirects: tuple[str, ...] = ()
    tries: int = 1
    bytes: int = 0
    sha256: str = ""
    ascii: bool | None = None  # whether the body is that alone, where somebody has looked
    utf8: bool | None = None  # whether it is that, without a replacement character in it, where somebody has looked
    nul: bool | None = None  # whether NUL stands in it, where somebody has looked
    cut: bool = False  # whether the rest of the body was not taken
    parts: tuple[_Part, ...] = ()  # of a large body that was not put together; `body` is empty then

    @property
    def pieces(self) -> tuple[_Part, ...]:
        """The whole body, in one part or more; the first of several is large."""
        return self.parts or (self.body,)

    @property
    def held(self) -> int:
        """How many bytes holding it takes."""
        return sum(map(len, self.pieces))


class Beside(Protocol):
    """What goes on beside a body that came."""

    async def hexdigest(self) -> str:
        """Wait for its hash."""

    async def watched(self) -> None:
        """Wait until all of it was watched; raises what that failed with."""


class Net(Protocol):
    """The only way out: every address vetted and pinned, every redirect judged; bound to one call.

    Raises Problem HOST_NOT_ALLOWED, TIMEOUT, HTTP_TOO_LARGE, UPSTREAM_ERROR, RATE_LIMITED, CIRCUIT_OPEN, INVALID_ARGS.
    """

    spill_large: bool  # whether a body that one answer cannot show is kept whole in the run's folder

    async def fetch(self, request: HttpRequest) -> HttpResponse:
        """Send a request and read the whole body; any status is an answer."""

    async def arrived(self, request: HttpRequest) -> tuple[HttpResponse, Callable[[], Awaitable[str]]]:
        """Like `fetch`, but as soon as the body is there: what comes with it waits for its hash and gives it."""

    async def gathered(self, request: HttpRequest, watch: Watch | None = None) -> tuple[HttpResponse, Beside]:
        """Like `arrived`, for text: a large body stays in parts, which are watched by another thread as they come.

        Watching ends early where a body is not UTF-8, or NUL stands in it: no part with either is watched.
        """

    async def download(self, request: HttpRequest, write: Callable[[bytes], Awaitable[None]]) -> HttpResponse:
        """Send a GET and hand each piece of the body on; a retry goes on where the last try was cut, or not at all.

        The body of an answer that is no success is not handed on; its beginning is in `body`.
        """

    def keep(self, name: str, response: HttpResponse) -> None:
        """Hold a response for a while, so that its pages are cut from one and the same body."""

    def kept(self, name: str) -> HttpResponse | None:
        """Give a response that is still held."""

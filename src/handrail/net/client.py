"""Requests from start to end: slots, rate, breaker, redirects by hand, retries, one deadline for all of it."""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any

from handrail import urls
from handrail.errors import Code, Problem
from handrail.net import headers as heads
from handrail.net.bodies import too_large, unpacking, whole_characters
from handrail.net.bounds import MAX_REDIRECTS, NetBounds
from handrail.net.credentials import Credentials
from handrail.net.gate import Gate
from handrail.net.gathering import BLOCK, Body
from handrail.net.hosts import Hosts
from handrail.net.resuming import Part, part_of
from handrail.net.waiting import retry_after
from handrail.ports import Clock, HttpRequest, HttpResponse, Sleep, Work
from handrail.urls import Url
from handrail.words import Touch, TouchKind

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from handrail.net.transport import Transport
    from handrail.ports.network import Watch

REDIRECTS = frozenset({301, 302, 303, 307, 308})
AGAIN = frozenset({429, 500, 502, 503, 504})  # what may be over soon
SAFE = frozenset({"GET", "HEAD"})
EXCERPT = 64 * 1024  # of a body that is not handed on
PACKING = 64 * 1024  # what packing may add to a body that cannot be made smaller
KEPT_BYTES = 32 * 1024 * 1024
FIRST_WAIT = 0.1
_MEND_WHOLE = "http_download takes larger files"
_MEND_DOWNLOAD = "a larger `max_bytes` takes it, up to `http.max_download_bytes` of the settings"

Take = Callable[[bytes], Awaitable[None]]
Told = Callable[[str, int, int], None]  # call, bytes so far, bytes in all (0: not known)


class Again(Exception):
    """A request failed in a way that may be over soon."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(slots=True)
class Trip:
    """One request under way, from its first URL to its last."""

    url: Url
    method: str
    headers: dict[str, str]
    body: bytes | None
    max_bytes: int
    deadline: float
    take: Take
    begin: Callable[[str], Any] = str  # told of what kind a body is that comes
    whole: bool = True  # the body of any answer is taken; else that of a success alone
    via: list[str] = field(default_factory=list)
    at: str = ""  # the host that is being asked
    taken: int = 0  # bytes handed on
    cut: bool = False  # a body over max_bytes ends there instead of failing
    ended: bool = False  # whether it did
    part: Part | None = None  # what makes it possible to go on after a cut


class Network:
    """The network of a run, shared by its calls; nothing is opened before the first request."""

    def __init__(
        self,
        bounds: NetBounds,
        gate: Gate,
        credentials: Credentials,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.bounds, self.gate, self.credentials, self.clock = bounds, gate, credentials, clock
        self.sleep, self.chance = sleep, chance
        self.hosts = Hosts(bounds)
        self.slots = asyncio.Semaphore(bounds.max_connections)
        self.progress: Told | None = None  # told how far downloads are
        self._transport: Transport | None = None
        self._kept: OrderedDict[str, HttpResponse] = OrderedDict()

    def bind(self, work: Work) -> BoundNet:
        """Give the network of one call."""
        return BoundNet(self, work)

    @property
    def transport(self) -> Transport:
        """The transport, opened when first needed."""
        if self._transport is None:
            from handrail.net.transport import Transport

            self._transport = Transport(self.gate, self.bounds.user_agent, self.bounds.ca_file)
        return self._transport

    async def close(self) -> None:
        """Close every connection."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    def keep(self, name: str, response: HttpResponse) -> None:
        """Hold a response; the oldest go first when there are too many bytes."""
        self._kept.pop(name, None)
        self._kept[name] = response
        held = sum(item.held for item in self._kept.values())
        while held > KEPT_BYTES and self._kept:
            held -= self._kept.popitem(last=False)[1].held

    def kept(self, name: str) -> HttpResponse | None:
        """Give a response that is still held."""
        return self._kept.get(name)


class BoundNet:
    """Satisfies `ports.Net` for one call."""

    __slots__ = ("_judged", "_network", "_work", "spill_large")

    def __init__(self, network: Network, work: Work) -> None:
        self._network, self._work = network, work
        self._judged = {touch.target for touch in work.touches if touch.kind is TouchKind.NET_CONNECT}
        self.spill_large = network.bounds.spill_large

    def keep(self, name: str, response: HttpResponse) -> None:
        """Hold a response for the pages that follow."""
        self._network.keep(name, response)

    def kept(self, name: str) -> HttpResponse | None:
        """Give a response that is still held."""
        return self._network.kept(name)

    async def fetch(self, request: HttpRequest) -> HttpResponse:
        """Send a request and read the whole body; any status is an answer."""
        response, digest = await self.arrived(request)
        return replaced(response, sha256=await digest())

    async def arrived(self, request: HttpRequest) -> tuple[HttpResponse, Callable[[], Awaitable[str]]]:
        """Send a request and read the whole body; its hash, which may still be under way, is waited for apart."""
        body = Body()
        response = await self._into(body, request)
        whole = body.whole()
        return replaced(response, body=whole, bytes=len(whole), ascii=body.ascii), body.digest.hexdigest

    async def gathered(self, request: HttpRequest, watch: Watch | None = None) -> tuple[HttpResponse, Body]:
        """Like `arrived`, for text: a large body stays in parts, which are watched by another thread as they come."""
        body = Body(BLOCK, watch)
        response = await self._into(body, request)
        return replaced(response, **body.fields()), body

    async def _into(self, body: Body, request: HttpRequest) -> HttpResponse:
        bounds = self._network.bounds
        most = bounds.max_bytes
        if request.cut and bounds.spill_large:  # all of it is kept in a file
            most = max(most, bounds.max_download_bytes)
        trip = self._trip(request, most, body.take)
        trip.begin = body.begin
        trip.cut = request.cut
        return await self._sent(trip, request, body.forget)

    async def download(self, request: HttpRequest, write: Take) -> HttpResponse:
        """Send a GET and hand each piece of a success on; a retry goes on where the last one was cut, or not at all."""
        trip = self._trip(request, self._network.bounds.max_download_bytes, write)
        trip.whole = False
        return await self._sent(trip, request, None)

    def _trip(self, request: HttpRequest, most: int, take: Take) -> Trip:
        bounds = self._network.bounds
        url = urls.parse(request.url)
        headers = heads.checked(request.headers)
        if request.method not in SAFE and self._again(request.method) and self._work.key is not None:
            headers.setdefault("idempotency-key", sha256(self._work.key.encode()).hexdigest())
        seconds = bounds.timeout_seconds if request.timeout_seconds is None else request.timeout_seconds
        deadline = self._network.clock.monotonic() + seconds
        max_bytes = most if request.max_bytes is None else min(most, request.max_bytes)
        return Trip(url, request.method, headers, request.body, max_bytes, deadline, take)

    async def _sent(self, trip: Trip, request: HttpRequest, forget: Callable[[], None] | None) -> HttpResponse:
        """Carry a trip through within its deadline."""
        network, started = self._network, trip.url
        seconds = trip.deadline - network.clock.monotonic()
        try:
            async with asyncio.timeout(seconds):
                return await self._tries(trip, request, forget)
        except TimeoutError:
            if trip.at:
                network.hosts.ended(trip.at, False, network.clock.monotonic())
            text = f"{started.shown} gave no whole answer within {seconds:g} s."
            raise Problem(Code.TIMEOUT, text, host=trip.url.host, seconds=seconds) from None
        except BaseException:  # given up, or failed in an unforeseen way: nothing is known of the host
            network.hosts.released(trip.at)
            raise

    async def _tries(self, trip: Trip, request: HttpRequest, forget: Callable[[], None] | None) -> HttpResponse:
        """Send, and send again what may be sent again."""
        network, first = self._network, trip.url
        most = network.bounds.max_retries if self._again(request.method) else 0
        for tries in count(1):
            last = tries > most
            try:
                response = await self._follow(trip)
            except Again as again:
                if last or (trip.taken and forget is None and trip.part is None):
                    raise again.problem from None
                wait = None
            else:
                wait = retry_after(response.headers, network.clock.now()) if response.status in AGAIN else None
                pause = self._pause(tries, wait)
                late = network.clock.monotonic() + pause >= trip.deadline
                if last or response.status not in AGAIN or late:
                    return response if tries == 1 else replaced(response, tries=tries)
            await network.sleep(self._pause(tries, wait))
            if forget is not None:
                forget()
                trip.taken = 0
            if not trip.taken:
                trip.part = None
            trip.url, trip.method, trip.headers, trip.body = first, request.method, trip.headers, request.body
            trip.via.clear()
        raise AssertionError  # pragma: no cover  counting has no end

    def _again(self, method: str) -> bool:
        return method in SAFE or (self._network.bounds.retry_post and self._work.key is not None)

    def _pause(self, tries: int, wait: float | None) -> float:
        """How long to wait: longer each time, never all at once, and as long as the host asks for."""
        own: float = FIRST_WAIT * 2.0 ** (tries - 1) * (0.5 + self._network.chance())
        return own if wait is None else max(own, wait)

    async def _follow(self, trip: Trip) -> HttpResponse:
        """Ask, and go where the answers lead to, each step judged on its own."""
        headers = trip.headers if trip.part is None else trip.headers | trip.part.asking(trip.taken)
        for _ in range(MAX_REDIRECTS + 1):
            self._judge(trip)
            async with self._network.slots:
                response, target = await self._step(trip, headers)
            if target is None:
                return response
            trip.via.append(trip.url.shown)
            if target.origin != trip.url.origin:
                headers = heads.travelling(headers)
            _turn(trip, response.status)
            trip.url = target
        raise Problem(
            Code.UPSTREAM_ERROR,
            f"{trip.via[0]} leads from one place to the next, more than {MAX_REDIRECTS} times.",
            host=trip.url.host,
            redirects=list(trip.via),
        )

    def _judge(self, trip: Trip) -> None:
        """Let policy judge a host that the call did not name."""
        authority = trip.url.authority
        if authority in self._judged:  # a redirect never makes a method less safe
            return
        judge = self._work.judge
        try:
            if judge is None:
                raise Problem(Code.HOST_NOT_ALLOWED, f"{authority} is another host, and nobody can judge it.")
            judge(Touch(TouchKind.NET_CONNECT, authority, unsafe=trip.method not in SAFE))
        except Problem as problem:
            if trip.via:
                problem.message = f"{trip.via[-1]} leads to {trip.url.shown}. {problem.message}"
                problem.details.setdefault("redirects", [*trip.via, trip.url.shown])
            raise

    async def _step(self, trip: Trip, headers: dict[str, str]) -> tuple[HttpResponse, Url | None]:
        """One request and its answer; where it leads to, if anywhere."""
        from handrail.net.faults import Failures, problem_of

        network, url = self._network, trip.url
        host = url.authority
        network.hosts.admit(host, network.clock.monotonic())
        trip.at, ok = host, False
        try:
            credential = await network.credentials.header(url)
            sent = headers if credential is None else {**headers, credential[0]: credential[1]}
            answer, address = await network.transport.send(url, trip.method, sent, trip.body)
            try:
                result = await self._answered(trip, answer, address)
            finally:
                answer.release()
            ok = result[0].status < 500
        except Failures as error:
            problem, may_be_over = problem_of(error, url)
            self._ended(trip, ok=False)
            raise Again(problem) if may_be_over else problem from None
        except Problem as problem:
            if problem.code is Code.HTTP_TOO_LARGE:
                self._ended(trip, ok=True)
            network.hosts.released(host)  # refused by us: nothing is known against the host
            trip.at = ""
            raise
        self._ended(trip, ok=ok)
        return result

    def _ended(self, trip: Trip, *, ok: bool) -> None:
        self._network.hosts.ended(trip.at, ok, self._network.clock.monotonic())
        trip.at = ""

    async def _answered(self, trip: Trip, answer: ClientResponse, address: str) -> tuple[HttpResponse, Url | None]:
        """Read an answer whose headers are there."""
        target, status, body = _location(trip, answer), answer.status, b""
        if target is None and trip.method != "HEAD":
            if trip.whole or 200 <= status < 300:
                status = _belonging(trip, answer)
                trip.begin(answer.headers.get("Content-Type", ""))
                await self._read(trip, answer)
            else:
                body = await _excerpt(answer)
        told = heads.shown(answer.headers.items())
        response = HttpResponse(trip.url.text, status, told, body, address, tuple(trip.via), 1, trip.taken or len(body))
        return (replaced(response, cut=True) if trip.ended else response), target

    async def _read(self, trip: Trip, answer: ClientResponse) -> None:
        """Hand the body on, unpacked and counted; what is too much ends it, or is HTTP_TOO_LARGE at once."""
        most = trip.max_bytes
        length = None if answer.content_length is None else trip.taken + answer.content_length
        unpacked = unpacking(answer.headers.get("Content-Encoding", ""))
        if length is not None and length > most and not trip.cut:
            raise _over(trip, length)
        progress = None if trip.whole else self._network.progress
        came = 0
        async for data in answer.content.iter_any():
            came += len(data)
            for piece in unpacked.pieces(data):
                room = most - trip.taken
                if len(piece) > room:
                    await self._end(trip, piece[:room])
                    return
                trip.taken += len(piece)
                await trip.take(piece)
            if came > most + most // 64 + PACKING:  # packed, and yet more than what it holds
                if trip.cut:
                    trip.ended = True
                    return
                raise _over(trip, None)
            if progress is not None:
                progress(self._work.call_id, trip.taken, length or 0)
        unpacked.finish()

    async def _end(self, trip: Trip, last: bytes) -> None:
        """Take the last part of a body that is too large, up to a whole character; HTTP_TOO_LARGE where none is cut."""
        if not trip.cut:
            raise _over(trip, None)
        trip.ended = True
        last = last[: whole_characters(last)]
        trip.taken += len(last)
        if last:
            await trip.take(last)


def _location(trip: Trip, answer: ClientResponse) -> Url | None:
    """Where a redirect leads to; None for any other answer."""
    if answer.status not in REDIRECTS or "Location" not in answer.headers:
        return None
    try:
        return urls.join(trip.url, answer.headers["Location"])
    except Problem as problem:
        text = f"{trip.url.shown} leads to a place that is not reached: {problem.message}"
        raise Problem(Code.HOST_NOT_ALLOWED, text, host=trip.url.host) from None


def _belonging(trip: Trip, answer: ClientResponse) -> int:
    """See that an answer goes on where a cut one ended, or begins; gives the status that stands for all of it."""
    if trip.whole:
        return answer.status
    url = trip.url.text
    if trip.part is None:
        trip.part = part_of(url, answer.status, answer.headers, answer.content_length, trip.headers)
        return answer.status
    if not trip.part.continued(trip.taken, url, answer.status, answer.headers):
        text = f"{trip.url.shown} was cut in the middle, and what it gave then is not the rest of it."
        raise Problem(Code.UPSTREAM_ERROR, text, host=trip.url.host)
    return trip.part.status


def _turn(trip: Trip, status: int) -> None:
    """Go on with the method that a redirect asks for; a body goes along only where it must."""
    if (status == 303 and trip.method != "HEAD") or (status in (301, 302) and trip.method == "POST"):
        trip.method, trip.body = "GET", None


async def _excerpt(answer: ClientResponse) -> bytes:
    """The beginning of a body that is not handed on; as much of it as is needed to see what must be hidden."""
    unpacked, found = unpacking(answer.headers.get("Content-Encoding", "")), b""
    async for data in answer.content.iter_any():
        for piece in unpacked.pieces(data):
            found += piece[: EXCERPT - len(found)]
            if len(found) >= EXCERPT:
                return found
    return found


def _over(trip: Trip, length: int | None) -> Problem:
    url, most = trip.url, trip.max_bytes
    known = {} if length is None else {"bytes": length}
    problem = too_large(f"{url.shown} gives {length or 'more than'} bytes, and {most} may be taken", **known)
    problem.details |= {"max_bytes": most, "host": url.host, "mend": _MEND_WHOLE if trip.whole else _MEND_DOWNLOAD}
    return problem


def replaced(response: HttpResponse, **fields: Any) -> HttpResponse:
    """Give a response with other values in some of its fields."""
    known: dict[str, Any] = {name: getattr(response, name) for name in HttpResponse.__match_args__}
    return HttpResponse(**(known | fields))

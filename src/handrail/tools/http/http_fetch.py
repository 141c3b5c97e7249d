"""http_fetch: a page or file from an allowed host, as text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Annotated, Any, Literal, TypeVar

from handrail import urls
from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.ports import Beside, HttpResponse, Limits, Net, Secrets, Spill
from handrail.tools.http import _request as ask
from handrail.tools.http._charset import as_it_is, decode, is_binary
from handrail.tools.http._pages import (
    Cursor,
    Whole,
    end_of_page,
    need_same,
    read_cursor,
    refuse_repeat,
    wrapped,
)
from handrail.tools.http._watching import Kept, Watched, is_html
from handrail.words import Answer, Ref, Truncation

Format = Annotated[Literal["text", "markdown"], "markdown: HTML as Markdown; text: the body as it is"]
_Given = TypeVar("_Given")
_QUICK = 256 * 1024


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer, or one page of it."""

    url: str  # the last one, after redirects
    status: int
    headers: dict[str, str]
    text: str  # of this page
    bytes: int  # of the whole body, unpacked
    sha256: str
    encoding: str
    complete: bool  # whether this page is all there is
    redirects: list[str]


@tool(
    risk="high",
    touches=ask.touches,
    permissions=("net.connect",),
    timeout_seconds=65,
    max_bytes=2 * 1024 * 1024,
)
async def http_fetch(
    net: Net,
    secrets: Secrets,
    limits: Limits,
    spill: Spill,
    url: ask.Address,
    method: ask.Method = "GET",
    headers: ask.Headers = None,
    body: ask.Body = None,
    timeout_ms: ask.Timeout = None,
    max_bytes: ask.MaxBytes = None,
    cursor: Annotated[str | None, "from the last page, to go on"] = None,
    format: Format = "markdown",  # noqa: A002  the argument's own name
    cut: Annotated[bool, "take the beginning of a body over max_bytes instead of failing"] = False,
) -> Answer[Fetched]:
    """Fetch a text from an allowed host; HTML comes as Markdown. What does not fit comes page by page."""
    where = None if cursor is None else read_cursor(cursor)
    name = f"{method} {urls.parse(url).text} {format}"
    held = None if where is None else net.kept(f"{name} {where.digest}")
    if held is not None and where is not None:
        page = show(Whole(*held.pieces), where.offset, limits, secrets)
        return Page(name, held, page, where.digest, method).answer(net)
    refuse_repeat(where, method)
    keeps = net.spill_large and where is None
    watched = Watched(secrets, spill, plain=format == "text") if keeps else None
    hidden = Kept(spill) if keeps else None  # in place of what came, where secrets are hidden in it
    try:
        request = ask.request(url, method, headers, body, timeout_ms, max_bytes, cut=cut)
        came, beside = await net.gathered(request, None if watched is None else watched.anew)
        ask.need_answer(came, secrets)
        reading = Reading(came, format, url, secrets, limits)
        read, shown = await reading.kept_as_it_is(beside, watched, hidden)
        if read is None:
            read = await _aside(came.held, partial(reading.whole, hidden))
        response = read.response if read.ref else _with(read.response, sha256=await beside.hexdigest())
        ref = hidden.end(read.hidden) if hidden is not None and read.hidden else read.ref  # nothing is waited for now
    finally:
        for kept in (watched, hidden):
            if kept is not None:
                kept.drop()
    need_same(where, response.sha256, "http_fetch", url)
    shown = shown or show(read.text, 0 if where is None else where.offset, limits, secrets)
    return Page(name, response, shown, response.sha256[:16], method, (ref,) if ref else ()).answer(net, read.warnings)


@dataclass(frozen=True, slots=True)
class Read:
    """A body as text."""

    text: Whole
    response: HttpResponse  # with that text for its body
    warnings: tuple[str, ...] = ()  # what could not be read
    ref: Ref | None = None  # where all of it is kept as it came; the response has its hash then
    hidden: str = ""  # the hash of what is to be kept in its place


@dataclass(frozen=True, slots=True)
class Reading:
    """What is made of a body."""

    came: HttpResponse
    form: str
    asked: str
    secrets: Secrets
    limits: Limits

    def as_it_is(self) -> Read | None:
        """Read a body that is its own text, at once; None for any other."""
        came, head = self.came, self.came.pieces[0]
        kind = came.headers.get("content-type", "")
        if is_binary(head, kind):
            raise _not_text(came, kind, self.asked, self.secrets)
        nul = any(b"\0" in piece for piece in came.pieces) if came.nul is None else came.nul
        charset = as_it_is(head, kind, ascii_alone=came.ascii, utf8=came.utf8 or False, nul=nul)
        if charset is None or (self.form == "markdown" and is_html(kind, head[:4096].decode("utf-8", "ignore")[:1024])):
            return None
        return Read(Whole(*came.pieces), _with(came, headers={**came.headers, ENCODING: charset.name}))

    async def kept_as_it_is(
        self, beside: Beside, watched: Watched | None, hidden: Kept | None
    ) -> tuple[Read | None, Shown | None]:
        """Read a body that is its own text, and keep it where its page does not show all of it."""
        read = self.as_it_is()
        if read is None or watched is None or hidden is None:
            return read, None
        shown = show(read.text, 0, self.limits, self.secrets)  # while others hash and watch
        if not shown.whole:
            await beside.watched()
            await _aside(self.came.held, partial(watched.rest, len(read.text)))
            digest = await beside.hexdigest()
            if ref := watched.keep(len(read.text), digest):  # it has a name from here on: nothing is waited for
                return replace(read, ref=ref, response=_with(read.response, sha256=digest)), shown
            read = replace(read, hidden=await _aside(self.came.held, partial(self.kept, read.text, hidden)))
        return read, shown

    def whole(self, hidden: Kept | None) -> Read:
        """Read a body in any charset, and keep the whole of a long text with its secrets hidden."""
        came = _with(self.came, body=b"".join(self.came.pieces), parts=())
        text, response, warnings = _readable(came, self.form, self.asked, self.secrets)
        long = hidden is not None and len(text) > 0 and end_of_page(text, 0, self.limits) < len(text)
        return Read(text, response, warnings, None, self.kept(text, hidden) if hidden is not None and long else "")

    def kept(self, text: Whole, hidden: Kept) -> str:
        """Write a text with its secrets hidden, without a name as yet; gives its hash."""
        quiet = len(text.parts) == 1 and self.secrets.quiet(text.parts[0])
        data = text.parts[0] if quiet else self.secrets.text(text[:]).encode("utf-8", "backslashreplace")
        hidden.write(data)
        if hidden.problem is not None:
            raise hidden.problem
        return sha256(data).hexdigest()


def _readable(
    response: HttpResponse, form: str, asked: str, secrets: Secrets
) -> tuple[Whole, HttpResponse, tuple[str, ...]]:
    """The text that is shown, the response with that text for its body, and what could not be read."""
    kind = response.headers.get("content-type", "")
    text, charset = decode(response.body, kind)
    if "\0" in text:  # some of it is read in a wrong charset, so that no secret in it is known as one
        raise _not_text(response, kind, asked, secrets)
    if form == "markdown" and is_html(kind, text[:1024]):
        text = _as_markdown(text, response, asked)
    body = text.encode("utf-8", "replace")
    warnings: tuple[str, ...] = ()
    if charset.replaced:
        warnings = (f"{charset.replaced} characters could not be read as {charset.name} ({charset.by})",)
    elif charset.by == "guess":
        warnings = (f"no charset is named, and it is no UTF-8; read as {charset.name}, by its looks",)
    response = _with(response, body=body, headers={**response.headers, ENCODING: charset.name})
    return Whole(body), response, warnings


def _with(response: HttpResponse, **fields: Any) -> HttpResponse:
    known: dict[str, Any] = {name: getattr(response, name) for name in HttpResponse.__match_args__}
    return HttpResponse(**(known | fields))


ENCODING = "x-handrail-encoding"  # how the body was read; never sent, never shown


def _as_markdown(html: str, response: HttpResponse, asked: str) -> str:
    from handrail.tools.http._markdown import Overgrown, markdown

    url = urls.parse(response.url)
    try:
        return markdown(html, url)
    except Overgrown:
        text = f"{url.shown} would be many times as long as Markdown; `format: text` gives it as it is."
        next_call = {"tool": "http_fetch", "args": {"url": asked, "format": "text"}}
        raise Problem(Code.HTTP_TOO_LARGE, text, next_call=next_call, bytes=response.bytes) from None


def _not_text(response: HttpResponse, kind: str, asked: str, secrets: Secrets) -> Problem:
    return Problem(
        Code.NOT_TEXT,
        f"{urls.parse(response.url).shown} is no text: {response.bytes} bytes of {kind or 'an unnamed type'}.",
        next_call={"tool": "http_download", "args": {"url": asked, "path": "…"}},
        bytes=response.bytes,
        type=kind,
        first_bytes=ask.first_bytes(response.pieces[0], secrets),
    )


async def _aside(size: int, work: Callable[[], _Given]) -> _Given:
    """Do long work in a thread, short work at once."""
    return await asyncio.to_thread(work) if size > _QUICK else work()


@dataclass(frozen=True, slots=True)
class Shown:
    """The part of a text that a page shows, with what must be hidden."""

    text: Whole
    start: int
    end: int
    page: str
    lines: str  # as they are shown: none is too long

    @property
    def whole(self) -> bool:
        """Whether that is all of it."""
        return self.start == 0 and self.end == len(self.text)


def show(text: Whole, offset: int, limits: Limits, secrets: Secrets) -> Shown:
    """Cut a page out, and hide what must be hidden; INVALID_ARGS beyond the end."""
    if offset > len(text):
        raise Problem(Code.INVALID_ARGS, "This cursor leads beyond the end; there is nothing more.")
    start = text.character(offset)
    end = end_of_page(text, start, limits) if text else 0
    page = text[start:end]
    if start > 0 or end != len(text):
        page = secrets.excerpt(text[max(0, start - ask.AROUND) : start], page, text[end : end + ask.AROUND])
    elif wrapped(page, limits.max_line_chars) is not page:
        page = secrets.text(page)  # before lines are broken: half a secret is not known as one
    return Shown(text, start, end, page, wrapped(page, limits.max_line_chars))


@dataclass(frozen=True, slots=True)
class Page:
    """One page of an answer."""

    name: str
    response: HttpResponse
    shown: Shown
    digest: str  # what a cursor names the body by
    method: str
    refs: tuple[Ref, ...] = ()

    def answer(self, net: Net, warnings: tuple[str, ...] = ()) -> Answer[Fetched]:
        """Say what came, and how to go on."""
        response = self.response
        whole = self.shown.whole and not response.cut
        if not whole:
            net.keep(f"{self.name} {self.digest}", response)
        cut = None if whole else self._cut()
        told = {name: value for name, value in response.headers.items() if name != ENCODING}
        data = Fetched(
            ask.shown(response.url), response.status, told, self.shown.page, response.bytes, response.sha256,
            response.headers[ENCODING], whole, list(response.redirects),
        )  # fmt: skip
        said = f"HTTP {response.status} {data.url}: {response.bytes} bytes{'' if whole else ', in part'}"
        content = f"{said}\n\n{self.shown.lines}{self._notice(cut)}"
        proof = ask.evidence(self.method, response)
        return Answer(data, said, content, (proof,), cut, self.refs, warnings=warnings)

    def _cut(self) -> Truncation:
        shown, size = self.shown, len(self.shown.text)
        following = Cursor(self.digest, shown.end).text if shown.end < size else None
        ref = self.refs[0].ref if self.refs else None
        total = None if self.response.cut else size
        return Truncation("bytes", min(shown.end, size) - shown.start, total, following, ref)

    def _notice(self, cut: Truncation | None) -> str:
        if cut is None:
            return ""
        size = len(self.shown.text)
        shown = f"bytes {min(self.shown.start + 1, size)}-{min(self.shown.end, size)} of {size} shown"
        if self.response.cut:
            shown += ", which are all that was taken of a larger body; http_download takes more"
        if cut.next_cursor is None:
            return f"\n[{shown}; this is the end]"
        whole = f'; all of it: read_file {{"path": "{cut.ref}"}}' if cut.ref else ""
        return f'\n[{shown}; the next part: the same call with "cursor": "{cut.next_cursor}"{whole}]'

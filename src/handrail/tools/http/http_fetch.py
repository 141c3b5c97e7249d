"""http_fetch: a page or file from an allowed host, as text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeVar

from handrail import urls
from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.ports import HttpResponse, Limits, Net, Secrets, Spill
from handrail.tools.http import _request as ask
from handrail.tools.http._charset import as_it_is, decode, is_binary
from handrail.tools.http._pages import (
    Cursor,
    Whole,
    end_of_page,
    need_same,
    read_again,
    read_cursor,
    refuse_repeat,
    utf8_bytes,
    wrapped,
)
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
) -> Answer[Fetched]:
    """Fetch a text from an allowed host; HTML comes as Markdown. What does not fit comes page by page."""
    where = None if cursor is None else read_cursor(cursor)
    name = f"{method} {urls.parse(url).text} {format}"
    held = None if where is None else net.kept(f"{name} {where.digest}")
    if held is not None and where is not None:
        return Page(name, held, read_again(held.body), where, method, limits).answer(net, secrets)
    refuse_repeat(where, method)
    came, digest = await net.arrived(ask.request(url, method, headers, body, timeout_ms, max_bytes))
    ask.need_answer(came, secrets)

    def read() -> tuple[Whole, HttpResponse, tuple[str, ...], Ref | None]:
        text, response, warnings = _readable(came, format, url, secrets)
        large = net.spill_large and where is None and len(text) > 0 and end_of_page(text, 0, limits) < len(text)
        ref = _kept(text, secrets, spill, hashed=text.body is not came.body) if large else None
        return text, response, warnings, ref

    text, response, warnings, ref = await _aside(len(came.body), read)
    response = _with(response, sha256=await digest())
    need_same(where, response.sha256, "http_fetch", url)
    refs = () if ref is None else (ref if ref.sha256 else replace(ref, sha256=response.sha256),)
    page = Page(name, response, text, where or Cursor(response.sha256[:16], 0), method, limits, refs)
    return page.answer(net, secrets, warnings)


def _kept(text: Whole, secrets: Secrets, spill: Spill, *, hashed: bool) -> Ref:
    """Keep the whole of a text with its secrets hidden; one without any as it came, hashed where nobody does it."""
    if secrets.quiet(text.body):
        return spill.keep(text.body, "http", hashed=hashed)
    return spill.put(secrets.text(text[:]), "http")


def _readable(
    response: HttpResponse, form: str, asked: str, secrets: Secrets
) -> tuple[Whole, HttpResponse, tuple[str, ...]]:
    """The text that is shown, the response with that text for its body, and what could not be read."""
    kind, body = response.headers.get("content-type", ""), response.body
    if is_binary(body, kind):
        raise _not_text(response, kind, asked, secrets)
    charset, text = as_it_is(body, kind, ascii_alone=response.ascii), None
    if charset is None:
        text, charset = decode(body, kind)
    if form == "markdown" and _is_html(kind, body[:1024].decode("ascii") if text is None else text[:1024]):
        text = _as_markdown(body.decode("ascii") if text is None else text, response, asked)
        body = text.encode("utf-8", "replace")
    elif text is not None and (charset.name != "utf-8" or charset.by == "bom" or charset.replaced):
        body = text.encode("utf-8", "replace")
    warnings: tuple[str, ...] = ()
    if charset.replaced:
        warnings = (f"{charset.replaced} characters could not be read as {charset.name} ({charset.by})",)
    response = _with(response, body=body, headers={**response.headers, ENCODING: charset.name})
    return Whole(body, text), response, warnings


def _with(response: HttpResponse, **fields: Any) -> HttpResponse:
    known: dict[str, Any] = {name: getattr(response, name) for name in HttpResponse.__match_args__}
    return HttpResponse(**(known | fields))


ENCODING = "x-handrail-encoding"  # how the body was read; never sent, never shown


def _is_html(kind: str, start: str) -> bool:
    media = kind.partition(";")[0].strip().lower()
    if media:
        return media in ("text/html", "application/xhtml+xml")
    return start.lstrip().lower().startswith(("<!doctype html", "<html"))


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
        first_bytes=ask.first_bytes(response.body, secrets),
    )


async def _aside(size: int, work: Callable[[], _Given]) -> _Given:
    """Do long work in a thread, short work at once."""
    return await asyncio.to_thread(work) if size > _QUICK else work()


@dataclass(frozen=True, slots=True)
class Page:
    """One page of an answer."""

    name: str
    response: HttpResponse
    text: Whole
    at: Cursor
    method: str
    limits: Limits
    refs: tuple[Ref, ...] = ()

    def answer(self, net: Net, secrets: Secrets, warnings: tuple[str, ...] = ()) -> Answer[Fetched]:
        """Cut the page out, hide what must be hidden, and say how to go on."""
        response, start, text = self.response, self.at.offset, self.text
        if start > len(text):
            raise Problem(Code.INVALID_ARGS, "This cursor leads beyond the end; there is nothing more.")
        end = end_of_page(text, start, self.limits) if text else 0
        whole = start == 0 and end == len(text)
        page = text[start:end]
        if not whole:
            page = secrets.excerpt(text[max(0, start - ask.AROUND) : start], page, text[end : end + ask.AROUND])
            net.keep(f"{self.name} {self.at.digest}", response)
        elif wrapped(page, self.limits.max_line_chars) is not page:
            page = secrets.text(page)  # before lines are broken: half a secret is not known as one
        cut = None if whole else self._cut(end)
        told = {name: value for name, value in response.headers.items() if name != ENCODING}
        data = Fetched(
            ask.shown(response.url), response.status, told, page, response.bytes, response.sha256,
            response.headers[ENCODING], whole, list(response.redirects),
        )  # fmt: skip
        said = f"HTTP {response.status} {data.url}: {response.bytes} bytes{'' if whole else ', in part'}"
        content = f"{said}\n\n{wrapped(page, self.limits.max_line_chars)}{self._notice(cut, end)}"
        proof = ask.evidence(self.method, response)
        return Answer(data, said, content, (proof,), cut, self.refs, warnings=warnings)

    def _cut(self, end: int) -> Truncation:
        text = self.text
        following = Cursor(self.at.digest, end).text if end < len(text) else None
        shown = utf8_bytes(text[self.at.offset : end])
        return Truncation("bytes", shown, len(text.body), following, self.refs[0].ref if self.refs else None)

    def _notice(self, cut: Truncation | None, end: int) -> str:
        if cut is None:
            return ""
        shown = f"characters {self.at.offset + 1}-{end} of {len(self.text)} shown"
        if cut.next_cursor is None:
            return f"\n[{shown}; this is the end]"
        whole = f'; all of it: read_file {{"path": "{cut.ref}"}}' if cut.ref else ""
        return f'\n[{shown}; the next part: the same call with "cursor": "{cut.next_cursor}"{whole}]'

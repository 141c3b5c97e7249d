"""http_fetch: a page or file from an allowed host, as text."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from handrail import urls
from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.ports import HttpResponse, Limits, Net, Secrets, Spill
from handrail.tools.http import _request as ask
from handrail.tools.http._charset import decode, is_binary
from handrail.tools.http._pages import Cursor, end_of_page, read_cursor, utf8_bytes, wrapped
from handrail.words import Answer, Ref, Truncation

Format = Annotated[Literal["text", "markdown"], "markdown: HTML as Markdown; text: the body as it is"]
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
    max_bytes: ask.MaxBytes = 5 * 1024 * 1024,
    cursor: Annotated[str | None, "from the last page, to go on"] = None,
    format: Format = "markdown",  # noqa: A002  the argument's own name
) -> Answer[Fetched]:
    """Fetch a text from an allowed host; HTML comes as Markdown. What does not fit comes page by page."""
    where = None if cursor is None else read_cursor(cursor)
    name = f"{method} {urls.parse(url).text} {format}"
    response = None if where is None else net.kept(f"{name} {where.digest}")
    if response is not None and where is not None:
        page = Page(name, response, response.body.decode(), where, method, limits)
        return await page.answer(net, secrets, spill, ())
    _refuse_repeat(where, method)
    response = await net.fetch(ask.request(url, method, headers, body, timeout_ms, max_bytes))
    ask.need_answer(response, secrets)
    _same(where, response, url)
    text, response, warnings = await _aside(_effort(response), partial(_readable, response, format, url, secrets))
    page = Page(name, response, text, where or Cursor(response.sha256[:16], 0), method, limits)
    return await page.answer(net, secrets, spill, warnings)


def _refuse_repeat(where: Cursor | None, method: str) -> None:
    if where is not None and method != "GET":
        text = "The answer is not held any more, and a POST is not sent again for its next page."
        raise Problem(Code.INVALID_ARGS, text)


def _same(where: Cursor | None, response: HttpResponse, url: str) -> None:
    if where is not None and where.digest != response.sha256[:16]:
        raise Problem(
            Code.INVALID_ARGS,
            f"{urls.parse(url).shown} has changed since the first page, so this cursor leads nowhere; begin again.",
            next_call={"tool": "http_fetch", "args": {"url": url}},
        )


def _readable(
    response: HttpResponse, form: str, asked: str, secrets: Secrets
) -> tuple[str, HttpResponse, tuple[str, ...]]:
    """The text that is shown, the response with that text for its body, and what could not be read."""
    kind = response.headers.get("content-type", "")
    if is_binary(response.body, kind):
        raise _not_text(response, kind, asked, secrets)
    text, charset = decode(response.body, kind)
    warnings: tuple[str, ...] = ()
    if charset.replaced:
        warnings = (f"{charset.replaced} characters could not be read as {charset.name} ({charset.by})",)
    plain = charset.name == "utf-8" and charset.by != "bom" and not charset.replaced
    if form == "markdown" and _is_html(kind, text):
        from handrail.tools.http._markdown import markdown

        text, plain = markdown(text, urls.parse(response.url)), False
    if not plain:
        response = _with(response, body=text.encode("utf-8", "replace"))
    return text, _with(response, headers={**response.headers, ENCODING: charset.name}), warnings


def _with(response: HttpResponse, **fields: Any) -> HttpResponse:
    known: dict[str, Any] = {name: getattr(response, name) for name in HttpResponse.__match_args__}
    return HttpResponse(**(known | fields))


ENCODING = "x-handrail-encoding"  # how the body was read; never sent, never shown


def _is_html(kind: str, text: str) -> bool:
    media = kind.partition(";")[0].strip().lower()
    if media:
        return media in ("text/html", "application/xhtml+xml")
    return text[:1024].lstrip().lower().startswith(("<!doctype html", "<html"))


def _not_text(response: HttpResponse, kind: str, asked: str, secrets: Secrets) -> Problem:
    return Problem(
        Code.NOT_TEXT,
        f"{urls.parse(response.url).shown} is no text: {response.bytes} bytes of {kind or 'an unnamed type'}.",
        next_call={"tool": "http_download", "args": {"url": asked, "path": "…"}},
        bytes=response.bytes,
        type=kind,
        first_bytes=ask.first_bytes(response.body, secrets),
    )


def _effort(response: HttpResponse) -> int:
    """How long reading a body takes: decoding is quick, HTML is not."""
    html = "html" in response.headers.get("content-type", "html")
    return len(response.body) if html else len(response.body) // 32


async def _aside(size: int, work: Any) -> Any:
    """Do long work in a thread, short work at once."""
    return await asyncio.to_thread(work) if size > _QUICK else work()


@dataclass(frozen=True, slots=True)
class Page:
    """One page of an answer."""

    name: str
    response: HttpResponse
    text: str  # the whole of it
    at: Cursor
    method: str
    limits: Limits

    async def answer(self, net: Net, secrets: Secrets, spill: Spill, warnings: tuple[str, ...]) -> Answer[Fetched]:
        """Cut the page out, hide what must be hidden, and say how to go on."""
        response, start, text = self.response, self.at.offset, self.text
        if start > len(text):
            raise Problem(Code.INVALID_ARGS, "This cursor leads beyond the end; there is nothing more.")
        end = end_of_page(text, start, self.limits) if text else 0
        whole = start == 0 and end == len(text)
        page = text
        refs: tuple[Ref, ...] = ()
        if not whole:
            page = secrets.excerpt(
                text[max(0, start - ask.AROUND) : start], text[start:end], text[end : end + ask.AROUND]
            )
            net.keep(f"{self.name} {self.at.digest}", response)
            if net.spill_large and start == 0:
                refs = (spill.put(await _aside(len(text), partial(secrets.text, text)), "http"),)
        elif wrapped(text, self.limits.max_line_chars) is not text:
            page = secrets.text(text)  # before lines are broken: half a secret is not known as one
        cut = None if whole else self._cut(text, end, refs)
        told = {name: value for name, value in response.headers.items() if name != ENCODING}
        data = Fetched(
            ask.shown(response.url), response.status, told, page, response.bytes, response.sha256,
            response.headers[ENCODING], whole, list(response.redirects),
        )  # fmt: skip
        said = f"HTTP {response.status} {data.url}: {response.bytes} bytes{'' if whole else ', in part'}"
        content = f"{said}\n\n{wrapped(page, self.limits.max_line_chars)}{self._notice(cut, end, len(text), refs)}"
        proof = ask.evidence(self.method, response)
        return Answer(data, said, content, (proof,), cut, refs, warnings=warnings)

    def _cut(self, text: str, end: int, refs: tuple[Ref, ...]) -> Truncation:
        following = Cursor(self.at.digest, end).text if end < len(text) else None
        shown = utf8_bytes(text[self.at.offset : end])
        return Truncation("bytes", shown, utf8_bytes(text), following, refs[0].ref if refs else None)

    def _notice(self, cut: Truncation | None, end: int, total: int, refs: tuple[Ref, ...]) -> str:
        if cut is None:
            return ""
        shown = f"characters {self.at.offset + 1}-{end} of {total} shown"
        if cut.next_cursor is None:
            return f"\n[{shown}; this is the end]"
        whole = f'; all of it: read_file {{"path": "{refs[0].ref}"}}' if refs else ""
        return f'\n[{shown}; the next part: the same call with "cursor": "{cut.next_cursor}"{whole}]'

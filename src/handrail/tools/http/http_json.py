"""http_json: JSON from an allowed host, and what to pick from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Annotated, Any

from pydantic import Field

from handrail import strict_json, urls
from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.hiding import hidden, text_of
from handrail.ports import HttpResponse, Limits, Net, Secrets, Spill
from handrail.selecting import QUICK_WORK, ExpressionError, Work, WorkError, search
from handrail.tools.http import _request as ask
from handrail.tools.http._pages import (
    Cursor,
    Whole,
    end_of_page,
    need_same,
    read_cursor,
    refuse_repeat,
    wrapped,
)
from handrail.words import Answer, Ref, Truncation

Picked = tuple[Any, Whole | None]

_QUICK = 256 * 1024
_MOST = 2 * 1024 * 1024  # bytes of `data` as JSON
_ROOM = 1024  # for what hiding secrets adds


@dataclass(frozen=True, slots=True)
class FetchedJson:
    """What the host answered, or what was picked from it."""

    json: Any  # whole with the first page; null with those that follow
    status: int
    url: str


@tool(
    risk="high",
    touches=ask.touches,
    permissions=("net.connect",),
    timeout_seconds=65,
    max_bytes=_MOST,
)
async def http_json(
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
    select: Annotated[str | None, Field(min_length=1, max_length=4096), "JMESPath: items[].name"] = None,
) -> Answer[FetchedJson]:
    """Fetch JSON from an allowed host, and pick from it with JMESPath. What does not fit comes page by page."""
    where = None if cursor is None else read_cursor(cursor)
    name = f"{method} {urls.parse(url).text} json {select or ''}"
    held = None if where is None else net.kept(f"{name} {where.digest}")
    if held is not None and where is not None:
        return _Pages(net, limits, name, method, held).page(None, Whole(*held.pieces), where)
    refuse_repeat(where, method)
    given = dict(headers or {})
    if not any(header.lower() == "accept" for header in given):
        given["Accept"] = "application/json"
    response, digest = await net.arrived(ask.request(url, method, given, body, timeout_ms, max_bytes))
    ask.need_answer(response, secrets)
    try:
        value, long = await _soon(partial(_picked, response, select, secrets, limits), len(response.body))
    except ExpressionError as error:
        raise Problem(Code.INVALID_ARGS, f"The expression {error}.", position=error.position) from None
    response = replace(response, sha256=await digest())
    known = response.sha256 if long is None else sha256(long.parts[0]).hexdigest()
    need_same(where, known, "http_json", url)
    if long is None:
        data = FetchedJson(value, response.status, ask.shown(response.url))
        return Answer(data, _said(response), evidence=(ask.evidence(method, response),))
    pages = _Pages(net, limits, name, method, response)
    if where is not None:
        return pages.page(None, long, where)
    return pages.page(value, long, Cursor(known[:16], 0), _kept(value, long, net, spill))


async def _soon(picking: Callable[[Work], Picked], size: int) -> Picked:
    """Do here what is small and soon done, all else in a thread that ends when nobody waits for it."""
    if size <= _QUICK:
        with suppress(WorkError):
            return picking(Work(QUICK_WORK))
    work = Work.on(size)
    try:
        return await asyncio.to_thread(picking, work)
    finally:
        work.stop()


def _said(response: HttpResponse) -> str:
    return f"HTTP {response.status} {ask.shown(response.url)}: {response.bytes} bytes of JSON"


def _kept(value: Any, text: Whole, net: Net, spill: Spill) -> tuple[Ref, ...]:
    """Keep the whole where settings say so; HTTP_TOO_LARGE where they do not, and no answer holds it."""
    import orjson

    size = len(text) if len(text) <= _MOST else len(orjson.dumps(value)) + 2 * urls.MAX_URL
    if size <= _MOST:
        return (spill.put(text[:], "http"),) if net.spill_large else ()
    if net.spill_large:
        return ()  # kept as `data`, once
    raise Problem(
        Code.HTTP_TOO_LARGE,
        f"The JSON has {size} bytes, more than the {_MOST} of one answer, and settings let no large body be kept; "
        "pick less of it with `select`.",
        bytes=size,
        max_bytes=_MOST,
        mend="`select` picks less; http_download writes it to a file, from which json_select picks",
    )


def _picked(response: HttpResponse, select: str | None, secrets: Secrets, limits: Limits, work: Work) -> Picked:
    """What was asked for, with its secrets hidden; where one answer cannot show it, also as the text that is shown."""
    try:
        body = text_of(response.body.removeprefix(b"\xef\xbb\xbf"))
        value = strict_json.loads(body)
    except (ValueError, UnicodeDecodeError) as error:
        raise ask.failed(response, secrets, f"the body is not JSON ({error})") from None
    value = hidden(value, secrets, body)
    if select is not None:
        value = search(select, value, work)
    try:
        text = _json({"json": value, "status": response.status, "url": response.url})
    except TypeError as error:
        raise ask.failed(
            response, secrets, f"the JSON cannot be handed on ({error}); `select` can leave it out"
        ) from None
    if _fits(text, limits):
        return value, None
    return value, Whole(secrets.text(_json(value).decode()).encode())


def _json(value: Any) -> bytes:
    import orjson

    return orjson.dumps(value, option=orjson.OPT_INDENT_2)


def _fits(text: bytes, limits: Limits) -> bool:
    """Whether one answer shows all of it."""
    if len(text) + _ROOM > limits.max_output_bytes:
        return False
    lines = text.split(b"\n")
    return len(lines) <= limits.max_output_lines and max(map(len, lines)) <= limits.max_line_chars


@dataclass(frozen=True, slots=True)
class _Pages:
    """What the pages of an answer are cut from."""

    net: Net
    limits: Limits
    name: str
    method: str
    response: HttpResponse

    def page(self, value: Any, text: Whole, at: Cursor, refs: tuple[Ref, ...] = ()) -> Answer[FetchedJson]:
        """Cut one page out, and say how to go on."""
        if at.offset >= len(text):
            raise Problem(Code.INVALID_ARGS, "This cursor leads beyond the end; there is nothing more.")
        start = text.character(at.offset)
        response, end = self.response, end_of_page(text, start, self.limits)
        part = text[start:end]
        data = FetchedJson(value, response.status, ask.shown(response.url))
        said, cut, notice = _said(response), None, ""
        if end - start < len(text):
            following = Cursor(at.digest, end).text if end < len(text) else None
            cut = Truncation("bytes", end - start, len(text), following, refs[0].ref if refs else None)
            said, notice = f"{said}, in part", _notice(cut, start, end, len(text))
            self.net.keep(f"{self.name} {at.digest}", replace(response, body=b"", parts=text.parts))
        content = f"{said}\n\n{wrapped(part, self.limits.max_line_chars)}{notice}"
        return Answer(data, said, content, (ask.evidence(self.method, response),), cut, refs)


def _notice(cut: Truncation, start: int, end: int, total: int) -> str:
    shown = f"bytes {start + 1}-{end} of {total} shown"
    if cut.next_cursor is None:
        return f"\n[{shown}; this is the end]"
    whole = f'; all of it: read_file {{"path": "{cut.ref}"}}' if cut.ref else ""
    return f'\n[{shown}; the next part: the same call with "cursor": "{cut.next_cursor}"{whole}]'

"""The part of a file that read_file shows, for files in memory and for files of any size."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from handrail.errors import Code, Problem
from handrail.ports import Limits, Secrets, Stream, Workspace
from handrail.tools.fs._aside import aside
from handrail.tools.fs._bytes import Range, ask_for, text_range
from handrail.tools.fs._excerpt import CONTEXT, Selection, Window, notice, render, select, tail_start
from handrail.tools.fs._scan import Scan
from handrail.tools.fs._text import SAMPLE, body_of, count_lines, is_binary, lines_of, not_text
from handrail.words import Answer, Evidence, Place, Truncation, noun

LINES = 2000
CHUNK = 1 << 20
_SPAN = 256 * 1024  # bytes of a large file that are looked at to show a part of it


@noun
class FileText:
    """Text of a file as it stands there (a byte order mark taken off), and what the file is."""

    text: str
    start: int  # first line shown
    end: int  # last line shown
    total_lines: int
    bytes: int  # of the whole file
    sha256: str  # of the whole file
    encoding: str
    bom: bool
    eol: str  # lf | crlf | cr | mixed | none
    complete: bool  # the whole file is in `text`


@noun
class Want:
    """Which part is asked for."""

    offset: int = 1
    limit: int = LINES
    tail: int | None = None
    column: int | None = None
    byte_offset: int | None = None
    byte_limit: int | None = None


@noun
class Facts:
    """What is known of the whole file."""

    total_lines: int
    size: int
    sha256: str
    encoding: str
    bom: bytes
    eol: str


@noun
class Show:
    """Where a part is shown: the place's name, the limits, what must be hidden."""

    path: str
    limits: Limits
    secrets: Secrets


async def part_of_text(text: str, data: bytes, facts: Facts, want: Want, show: Show) -> Answer[FileText]:
    """Show a part of a file that is in memory."""
    if want.byte_offset is not None:
        return _bytes(_range(data, 0, want, facts, show), _line_at(data, want.byte_offset, facts), facts, want, show)
    window = await aside(len(text), partial(_window, text, facts, want, show))
    return await _lines(window, facts, want, show)


async def part_of_stream(files: Workspace, place: Place, want: Want, show: Show) -> Answer[FileText]:
    """Show a part of a file of any size, in constant memory."""
    async with files.open(place) as stream:
        head = await stream.read_at(0, SAMPLE)
        scan = Scan(head, show.path, want.offset, want.column or 1)
        if not scan.bom and is_binary(head):
            raise not_text(head, stream.stat.size, show.path)
        line = await _walk(stream, scan, want.byte_offset)
        facts = Facts(scan.total_lines, scan.bytes, scan.sha256, scan.encoding, scan.bom, scan.eol)
        if want.byte_offset is not None:
            start, size = ask_for(want.byte_offset, want.byte_limit or show.limits.max_output_bytes, show.limits)
            part = _range(await stream.read_at(start, size), start, want, facts, show)
            return _bytes(part, line, facts, want, show)
        window = await _far_window(stream, scan, facts, want, show)
    return await _lines(window, facts, want, show)


# ── where showing starts ─────────────────────────────────────────────────────────────────────


def _window(text: str, facts: Facts, want: Want, show: Show) -> Window:
    if want.tail is not None:
        at, shown = tail_start(text, want.tail, show.limits, show.path)
        return Window(text, at, facts.total_lines - shown + 1, 1, True)
    _check_offset(want, facts, show)
    lines = lines_of(text)
    if want.column is not None and want.limit == 1:
        _check_column(want, len(body_of(lines[want.offset - 1])) if lines else 0, show)
    return Window(text, sum(map(len, lines[: want.offset - 1])), want.offset, 1, True)


async def _far_window(stream: Stream, scan: Scan, facts: Facts, want: Want, show: Show) -> Window:
    if want.tail is not None:
        return await _far_tail(stream, scan, facts, want.tail, show)
    _check_offset(want, facts, show)
    if scan.position is None:
        _check_column(want, scan.line_chars or 0, show)
    return await _window_at(stream, scan.position or len(scan.bom), want.offset, want.column or 1, facts, show)


async def _far_tail(stream: Stream, scan: Scan, facts: Facts, count: int, show: Show) -> Window:
    start = max(len(scan.bom), scan.bytes - _SPAN)
    text = _decoded(await stream.read_at(start, _SPAN), start, facts, show)
    # What stands before the first ending may be the end of a longer line.
    torn = 0 if start == len(scan.bom) else len(lines_of(text)[0])
    if torn == len(text):
        return await _window_at(stream, scan.last_line_at, facts.total_lines, 1, facts, show)
    at, shown = tail_start(text[torn:], count, show.limits, show.path)
    return Window(text, torn + at, facts.total_lines - shown + 1, 1, True)


async def _window_at(stream: Stream, position: int, line: int, column: int, facts: Facts, show: Show) -> Window:
    start = max(len(facts.bom), position - 4 * CONTEXT)
    data = await stream.read_at(start, position - start + _SPAN)
    before = _decoded(data[: position - start], start, facts, show)
    after = _decoded(data[position - start :], position, facts, show)
    return Window(before + after, len(before), line, column, start + len(data) >= facts.size)


def _decoded(data: bytes, at: int, facts: Facts, show: Show) -> str:
    """Decode a stretch whose borders may fall into a character; the walk has proven that the whole fits."""
    width = {"utf-16": 2, "utf-32": 4}.get(facts.encoding[:6], 1)
    text = data[-(at - len(facts.bom)) % width :].decode(facts.encoding, "ignore")
    if "\0" in text:
        raise not_text(data, facts.size, show.path)
    return text


async def _walk(stream: Stream, scan: Scan, byte_offset: int | None) -> int:
    """Take the whole file in; give the line that stands at `byte_offset`."""
    line = 1
    while chunk := await stream.read(CHUNK):
        if byte_offset is not None and scan.bytes <= byte_offset < scan.bytes + len(chunk):
            border = byte_offset - scan.bytes
            await aside(border, partial(scan.feed, chunk[:border]))
            line, chunk = scan.ended + 1, chunk[border:]
        await aside(len(chunk), partial(scan.feed, chunk))
    scan.finish()
    return line


def _check_offset(want: Want, facts: Facts, show: Show) -> None:
    if want.offset > max(1, facts.total_lines):
        raise Problem(
            Code.INVALID_ARGS,
            f"offset {want.offset} is past the end: {show.path} has {facts.total_lines} lines.",
            next_call=_next(show, {"tail": min(want.limit, max(1, facts.total_lines))}),
            total_lines=facts.total_lines,
        )


def _check_column(want: Want, chars: int, show: Show) -> None:
    if want.column is not None and want.column > max(1, chars):
        raise Problem(
            Code.INVALID_ARGS,
            f"column {want.column} is past the end: line {want.offset} of {show.path} has {chars} characters.",
            next_call=_next(show, {"offset": want.offset, "limit": 1}),
            line_chars=chars,
        )


def _next(show: Show, args: dict[str, Any]) -> dict[str, Any]:
    return {"tool": "read_file", "args": {"path": show.path, **args}}


# ── what is shown ────────────────────────────────────────────────────────────────────────────


async def _lines(window: Window, facts: Facts, want: Want, show: Show) -> Answer[FileText]:
    # One line is kept free: the notice at the end counts too.
    limit = min(want.tail or want.limit, show.limits.max_output_lines - 1)
    work = partial(select, window, limit, want.column or 1, show.limits, show.path)
    chosen = await aside(len(window.text), work)
    text = render(window, chosen.pieces, show.secrets)
    onward, cursor = _onward(chosen, window, want, facts)
    complete = not onward and window.line == 1 and window.at == 0 and (want.column or 1) == 1
    result = _result(text, window.line, chosen.end, facts, complete)
    said = f"Lines {window.line}-{chosen.end} of {facts.total_lines} of {show.path}"
    if complete:
        return _answer(result, said, text, show.path, None)
    next_args = {"path": show.path, **cursor} if cursor else None
    content = notice(text, f"{said}{onward}", "read_file", next_args)
    cut = None
    if next_args is not None:
        cut = Truncation(chosen.by, chosen.end - window.line + 1, facts.total_lines, _cursor(next_args))
    return _answer(result, said, content, show.path, cut)


def _onward(chosen: Selection, window: Window, want: Want, facts: Facts) -> tuple[str, dict[str, Any]]:
    """Say what is missing and which arguments show it; nothing where all was shown."""
    following = chosen.next_line if (chosen.next_line or 0) <= facts.total_lines else None
    if chosen.cut is not None and (want.limit == 1 or following is None):
        line, column = chosen.cut
        return f"; line {line} to column {column - 1}", {"offset": line, "limit": 1, "column": column}
    if following is not None:
        again = {"limit": want.limit} if want.limit != LINES and want.tail is None else {}
        again |= {"column": want.column} if want.column is not None else {}
        return " shown", {"offset": following, **again}
    if want.tail is not None and window.line > 1:
        first = max(1, window.line - LINES + 1)
        return " shown, the earlier ones are left", {"offset": first, "limit": window.line - first}
    return "", {}


def _bytes(part: Range, line: int, facts: Facts, want: Want, show: Show) -> Answer[FileText]:
    hidden = show.secrets.excerpt(part.before, part.text, part.after)
    # A \r just before the range ended its line unless the range starts with the \n that belongs to it.
    line += part.before.endswith("\r") and not part.text.startswith("\n")
    end = line + max(0, count_lines(part.text) - 1)
    complete = part.start <= len(facts.bom) and part.end >= facts.size
    said = f"Bytes {part.start}-{part.end} of {facts.size} of {show.path}"
    result = _result(hidden, line, end, facts, complete)
    if part.end >= facts.size:
        return _answer(result, said, notice(hidden, f"{said}, to the end", "read_file", None), show.path, None)
    again = {} if want.byte_limit is None else {"byte_limit": want.byte_limit}
    next_args = {"path": show.path, "byte_offset": part.end, **again}
    cut = Truncation("bytes", part.end - part.start, facts.size, _cursor(next_args))
    return _answer(result, said, notice(hidden, f"{said} shown", "read_file", next_args), show.path, cut)


def _range(data: bytes, at: int, want: Want, facts: Facts, show: Show) -> Range:
    start = want.byte_offset or 0
    if start >= max(1, facts.size):
        raise Problem(
            Code.INVALID_ARGS,
            f"byte_offset {start} is past the end: {show.path} has {facts.size} bytes.",
            bytes=facts.size,
        )
    limit = want.byte_limit or show.limits.max_output_bytes
    return text_range(data, at, start, limit, facts.encoding, facts.bom, show.limits, show.path)


def _line_at(data: bytes, byte_offset: int, facts: Facts) -> int:
    before = data[len(facts.bom) : byte_offset].decode(facts.encoding, "ignore").removesuffix("\r")
    return max(1, count_lines(before) + before.endswith(("\n", "\r")))


def _result(text: str, start: int, end: int, facts: Facts, complete: bool) -> FileText:
    known = facts.total_lines, facts.size, facts.sha256, facts.encoding, bool(facts.bom), facts.eol
    return FileText(text, start, end, *known, complete)


def _answer(result: FileText, said: str, content: str, path: str, cut: Truncation | None) -> Answer[FileText]:
    evidence = Evidence("file", path, f"{result.bytes} bytes", result.sha256)
    return Answer(result, said, content, (evidence,), cut)


def _cursor(args: dict[str, Any] | None) -> str | None:
    return None if args is None else json.dumps(args, ensure_ascii=False)

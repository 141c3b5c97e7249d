"""grep: search in files with ripgrep's linear-time engine."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from handrail.catalog import ReadsBelow, at, tool
from handrail.errors import Code, Problem
from handrail.ports import Limits, Searcher, Secrets, Spill, Workspace
from handrail.queries import TextFound, TextQuery
from handrail.tools.search._globs import read_glob
from handrail.tools.search._pages import Page, lined, listed, safe_texts
from handrail.tools.search._shown import (
    call_text,
    cursor_of,
    given,
    many,
    prefix_of,
    read_line_cursor,
    shown_path,
    where,
)
from handrail.tools.search._whole import keep_whole
from handrail.words import Answer, Evidence, Place, PlaceKind, Truncation, noun

_ASKED = ("mode", "literal", "ignore_case", "multiline", "context", "type", "limit", "per_file", "max_files")
_DEFAULTS = TextQuery("")
_SPECIAL = re.compile(r"([\\.+*?()|\[\]{}^$#&~-])")
HERE = at(".")
_LONGEST_SECONDS = 120.0
_KEPT_AT_ONCE = 50_000  # matches in memory while the whole result is written


@noun
class Match:
    """One line; `column` says where the shown part of a cut line begins, from 1."""

    file: str
    line: int
    text: str
    column: int | None = None


@noun
class MatchingFile:
    """A file and how many of its lines match, where that was asked."""

    file: str
    count: int | None = None


@noun
class Matches:
    """What was found: lines, or files in the other modes."""

    matches: list[Match]
    context: list[Match]
    files: list[MatchingFile]
    next_cursor: str | None
    binary_files: int  # turned out binary after a match; none of their lines are shown
    unreadable_files: int


@tool(risk="low", timeout_seconds=_LONGEST_SECONDS + 10)
async def grep(
    searcher: Searcher,
    files: Workspace,
    secrets: Secrets,
    limits: Limits,
    spill: Spill,
    pattern: Annotated[str, Field(min_length=1, max_length=8192), "Regular expression (Rust syntax), or plain text"],
    path: Annotated[ReadsBelow, "A file, or a folder to search below"] = HERE,
    glob: Annotated[str | None, Field(min_length=1, max_length=1024), "Only paths that fit, as in find_files"] = None,
    type: Annotated[str | None, Field(pattern=r"^\w[\w+-]{0,31}$"), "As ripgrep names it: py, js, rust"] = None,  # noqa: A002
    mode: Annotated[Literal["content", "files", "count"], "Lines, paths alone, or matching lines per file"] = "content",
    literal: Annotated[bool, "Take the pattern as plain text"] = False,
    ignore_case: bool = False,
    multiline: Annotated[bool, "Let a match cross lines"] = False,
    context: Annotated[int, Field(ge=0, le=50), "Lines around each match"] = 0,
    limit: Annotated[int, Field(ge=1, le=5000), "Matches (or files) on a page"] = 100,
    per_file: Annotated[int | None, Field(ge=1), "Matches of one file at most"] = None,
    max_files: Annotated[int | None, Field(ge=1), "Files on a page at most"] = None,
    cursor: Annotated[str | None, Field(max_length=8192), "Where the page before ended"] = None,
    timeout: Annotated[float, Field(gt=0, le=_LONGEST_SECONDS), "Seconds"] = 20.0,
    keep: Annotated[bool, "Write all matches to a file of the run where this page is not all"] = False,
) -> Answer[Matches]:
    """Search for a pattern in files. Hidden, ignored and binary files are skipped."""
    if path.kind is PlaceKind.MISSING:
        near = files.near(path)
        hint = f" Near: {', '.join(near)}" if near else ""
        raise Problem(Code.NOT_FOUND, f"{path.shown} does not exist.{hint}", near=near)
    wanted = read_glob(glob)
    query = TextQuery(
        *(pattern, mode, literal, ignore_case, multiline, context, type),
        fits=wanted.fits,
        name_glob=wanted.name_glob,
        hidden=wanted.hidden,
        limit=limit,
        per_file=per_file,
        max_files=max_files,
        after=read_line_cursor(cursor) if cursor else None,
        timeout_seconds=timeout,
    )
    asked = _asked(query, path, glob)
    try:
        found = await searcher.text(path, query)
    except Problem as problem:
        raise _explained(problem, query, asked) from None
    search = _Search(query, path, asked, cursor)
    answer = _lines(search, found, secrets, limits) if mode == "content" else _files(search, found, limits)
    if not keep or answer.truncation is None or cursor is not None:
        return answer
    return await _with_whole(answer, search, searcher, secrets, spill)


async def _with_whole(
    answer: Answer[Matches], search: _Search, searcher: Searcher, secrets: Secrets, spill: Spill
) -> Answer[Matches]:
    """Write the whole result into the run's folder, and say where it is."""
    ref, said = await keep_whole(spill, secrets, "grep", _pages(search, searcher, secrets))
    if ref is None:
        return replace(answer, warnings=(*answer.warnings, said))
    assert answer.truncation is not None
    content = f"{answer.content}\n[{said}]"
    return replace(answer, content=content, truncation=replace(answer.truncation, ref=ref.ref), refs=(ref,))


async def _pages(search: _Search, searcher: Searcher, secrets: Secrets) -> AsyncIterator[Iterable[str]]:
    """Search from the start, a large page at a time; give the lines of each as `grep -n` writes them."""
    query = replace(search.query, limit=_KEPT_AT_ONCE, max_files=None, after=None)
    while True:
        found = await searcher.text(search.place, query)
        yield _whole_lines(search, found, secrets)
        last = next(((hit.path, hit.line) for hit in reversed(found.hits) if hit.is_match), None)
        if found.counts:
            last = (found.counts[-1][0], 0)
        if not found.more or last is None:
            return
        query = replace(query, after=last)


def _whole_lines(search: _Search, found: TextFound, secrets: Secrets) -> Iterable[str]:
    if search.query.mode == "content":
        marks = [":" if hit.is_match else "-" for hit in found.hits]
        texts = zip(found.hits, safe_texts(found.hits, secrets), marks, strict=True)
        return (f"{search.name(hit.path)}{mark}{hit.line}{mark}{text}" for hit, text, mark in texts)
    if search.query.mode == "count":
        return (f"{search.name(path)}:{count}" for path, count in found.counts)
    return (search.name(path) for path, _ in found.counts)


@noun
class _Search:
    query: TextQuery
    place: Place
    asked: dict[str, Any]
    cursor: str | None

    def name(self, path: str) -> str:
        return shown_path(prefix_of(self.place), path) if path else self.place.shown


def _asked(query: TextQuery, place: Place, glob: str | None) -> dict[str, Any]:
    """The arguments of this call that are not the defaults."""
    other = {name: getattr(query, name) for name in _ASKED if getattr(query, name) != getattr(_DEFAULTS, name)}
    path = None if place.asked in ("", ".") else place.asked
    timeout = None if query.timeout_seconds == _DEFAULTS.timeout_seconds else query.timeout_seconds
    return given({"pattern": query.pattern, "path": path, "glob": glob, **other, "timeout": timeout})


def _lines(search: _Search, found: TextFound, secrets: Secrets, limits: Limits) -> Answer[Matches]:
    hits = found.hits
    texts = safe_texts(hits, secrets)
    shown = {path: search.name(path) for path in {hit.path for hit in hits}}
    names = [shown[hit.path] for hit in hits]
    page = lined(hits, texts, names, limits)
    more = found.more or page.shown < len(hits)
    hits = hits[: page.shown]
    rows = [
        Match(name, hit.line, text, hit.column or None) for hit, name, text in zip(hits, names, texts, strict=False)
    ]
    matches, context = rows, []
    if search.query.context:
        matches = [row for row, hit in zip(rows, hits, strict=True) if hit.is_match]
        context = [row for row, hit in zip(rows, hits, strict=True) if not hit.is_match]
    last = next((hit for hit in reversed(hits) if hit.is_match), None)
    cursor = cursor_of(last.path, last.line) if more and last is not None else None
    result = Matches(matches, context, [], cursor, found.binary, found.unreadable)
    count = f"{many(len(matches), 'match', 'matches')} in {many(len({item.file for item in matches}), 'file')}"
    return _answer(search, result, page, count, found, cut=next((row for row in rows if row.column), None))


def _files(search: _Search, found: TextFound, limits: Limits) -> Answer[Matches]:
    counting = search.query.mode == "count"
    rows = [MatchingFile(search.name(path), count if counting else None) for path, count in found.counts]
    page = listed([f"{row.file}:{row.count}" if counting else row.file for row in rows], limits)
    more = (found.more or page.shown < len(rows)) and page.shown > 0
    cursor = cursor_of(found.counts[page.shown - 1][0], 0) if more else None
    result = Matches([], [], rows[: page.shown], cursor, found.binary, found.unreadable)
    count = many(page.shown, "file")
    if counting:
        total = sum(row.count or 0 for row in rows[: page.shown])
        count = f"{many(total, 'matching line')} in {count}"
    return _answer(search, result, page, count, found)


def _answer(
    search: _Search,
    result: Matches,
    page: Page,
    count: str,
    found: TextFound,
    cut: Match | None = None,
) -> Answer[Matches]:
    summary = _summary(search, result, count)
    notes = [*_next_note(search, result, count), *_notes(search, found, cut)]
    shown = len(result.matches) or len(result.files)
    return Answer(
        result,
        summary=summary,
        content="\n".join([*(page.lines or [summary]), *notes]),
        evidence=(Evidence("file", search.place.shown, summary),),
        truncation=Truncation("entries", shown, None, result.next_cursor) if result.next_cursor else None,
    )


def _summary(search: _Search, result: Matches, count: str) -> str:
    pattern, place = search.query.pattern, where(search.place)
    if result.matches or result.files:
        return f"{count} for {pattern!r} in {place}{', more follow' * bool(result.next_cursor)}"
    if search.cursor:
        return f"Nothing more at cursor {search.cursor!r}: the page before was the last."
    skipped = "" if search.place.kind is PlaceKind.FILE else " Hidden, ignored and binary files are not searched."
    return f"Nothing matches {pattern!r} in {place}.{skipped}"


def _next_note(search: _Search, result: Matches, count: str) -> list[str]:
    if result.next_cursor is None:
        return []
    call = call_text("grep", {**search.asked, "cursor": result.next_cursor})
    return [f"[{count} shown, of more that were not counted. Next: {call}]"]


def _notes(search: _Search, found: TextFound, cut: Match | None) -> list[str]:
    notes = []
    if cut is not None:
        at = {"path": cut.file, "offset": cut.line, "limit": 1, "column": cut.column}
        notes.append(f"[Lines over {search.query.max_chars} characters are cut. More: {call_text('read_file', at)}]")
    if found.binary:
        notes.append(f"[{many(found.binary, 'binary file matches', 'binary files match')} and cannot be shown]")
    if found.unreadable:
        notes.append(f"[{many(found.unreadable, 'file')} could not be read]")
    if found.left_out:
        notes.append("[Large files were left out, because one holds a line too long; search such a file by its `path`]")
    if found.changed:
        notes.append(f"[{many(found.changed, 'place')} changed while being searched and left out]")
    return notes


def _explained(problem: Problem, query: TextQuery, asked: dict[str, Any]) -> Problem:
    """Add to a failed search the call that would work."""
    if problem.code is Code.TIMEOUT and query.timeout_seconds < _LONGEST_SECONDS:
        problem.next_call = {"tool": "grep", "args": {**asked, "timeout": _LONGEST_SECONDS}}
    if problem.code is not Code.INVALID_ARGS:
        return problem
    if "file type" in problem.message:
        text = f'{problem.message}. Use `glob` instead, for example "*.{query.type}".'
        rest = {name: value for name, value in asked.items() if name != "type"}
        return Problem(Code.INVALID_ARGS, text, next_call={"tool": "grep", "args": {**rest, "glob": f"*.{query.type}"}})
    mend = {"multiline": True} if "--multiline" in problem.message else {"literal": True}
    return Problem(
        Code.INVALID_ARGS,
        f"The pattern cannot be read: {problem.message}",
        next_call={"tool": "grep", "args": {**asked, **mend}},
        escaped=_SPECIAL.sub(r"\\\1", query.pattern),
    )

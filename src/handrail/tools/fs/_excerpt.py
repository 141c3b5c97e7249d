"""Which part of a text is shown: whole lines within the limits, long ones cut. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from handrail.ports import Limits, Secrets
from handrail.tools.fs._text import body_of, lines_of
from handrail.words import noun

CONTEXT = 24 * 1024  # characters around a part that can tell whether it must be hidden
_LEAST = 200  # characters of a long line that are shown whatever else needs room


@noun
class Window:
    """A stretch of a file's text, and where in it showing starts."""

    text: str
    at: int
    line: int  # the line that stands at `at`
    column: int  # the column of it that stands at `at`
    ends: bool  # the stretch reaches the end of the file


@noun
class Piece:
    """Characters of a window, and the mark that follows where a line was cut."""

    start: int
    end: int
    mark: str = ""


@noun
class Selection:
    """What fits: its pieces, its last line, where the next line starts, and the first line that was cut."""

    pieces: tuple[Piece, ...]
    end: int
    next_line: int | None = None  # None: no line is left
    cut: tuple[int, int] | None = None  # line and the column it goes on at
    by: str = "lines"


def room_for(limits: Limits, path: str) -> int:
    """Bytes of text that fit beside the line that says how to go on, which counts too."""
    return limits.max_output_bytes - room_of_notice(path)


def room_of_notice(path: str) -> int:
    """Return how many bytes are kept free for the line that says how to go on."""
    return 300 + 2 * len(path.encode())


def select(window: Window, limit: int, column: int, limits: Limits, path: str) -> Selection:
    """Take up to `limit` lines from the window's start, each from `column` on."""
    pieces: list[Piece] = []
    room, position, line, base = room_for(limits, path), window.at, window.line, window.column
    cut: tuple[int, int] | None = None
    lines = lines_of(window.text[window.at :])
    torn = len(lines) - 1 if lines and not window.ends and not lines[-1].endswith("\n") else -1
    for index, text in enumerate(lines):
        if index >= limit:
            return Selection(tuple(pieces), line - 1, line, cut)
        body = body_of(text)
        start = min(column - base, len(body))
        stop = _stop(body, start, limits.max_line_chars, path, line, base)
        if index == torn and pieces and stop == len(body):
            return Selection(tuple(pieces), line - 1, line, cut, "bytes")
        mark = _mark(path, line, base + stop) if stop < len(body) or index == torn else ""
        cost = len(text[start:stop].encode()) + len(mark.encode()) + 2
        if cost > room and pieces:
            return Selection(tuple(pieces), line - 1, line, cut, "bytes")
        if mark and cut is None:
            cut = line, base + stop
        pieces.append(Piece(position + start, position + stop, mark))
        if text != body:
            pieces.append(Piece(position + len(body), position + len(text)))
        room, position, line, base = room - cost, position + len(text), line + 1, 1
    return Selection(tuple(pieces), line - 1, None if window.ends else line, cut, "lines" if window.ends else "bytes")


def _stop(body: str, start: int, most: int, path: str, line: int, base: int) -> int:
    """Where a line stops being shown: at its end, or where its mark still fits."""
    if len(body) - start <= most:
        return len(body)
    return start + max(_LEAST, most - len(_mark(path, line, base + start + most)))


def tail_start(text: str, count: int, limits: Limits, path: str) -> tuple[int, int]:
    """Find where the last `count` lines start, as far as they fit: the character, and how many lines that is."""
    room, shown, position = room_for(limits, path), 0, len(text)
    for line in reversed(lines_of(text)[-min(count, limits.max_output_lines - 1) :]):
        room -= len(line[: limits.max_line_chars].encode()) + 2
        if room < 0 and shown:
            break
        shown, position = shown + 1, position - len(line)
    return position, shown


def render(window: Window, pieces: tuple[Piece, ...], secrets: Secrets) -> str:
    """Write the pieces with what must be hidden hidden, seen in the whole around each."""
    shown = []
    for start, end, mark in _joined(pieces):
        before = window.text[max(0, start - CONTEXT) : start]
        shown.append(secrets.excerpt(before, window.text[start:end], window.text[end : end + CONTEXT]) + mark)
    return "".join(shown)


def notice(text: str, said: str, tool: str, next_args: Mapping[str, Any] | None) -> str:
    """End a cut text with the line that says what was shown and how to go on."""
    gap = "" if not text or text.endswith(("\n", "\r")) else "\n"
    onward = "" if next_args is None else f"; go on with {tool} {json.dumps(next_args, ensure_ascii=False)}"
    return f"{text}{gap}[{said}{onward}]"


def _joined(pieces: tuple[Piece, ...]) -> list[tuple[int, int, str]]:
    """Join what stands side by side, so that each run is looked at once."""
    if not pieces:
        return []
    runs, start = [], pieces[0].start
    for one, following in pairwise((*pieces, Piece(-1, -1))):
        if one.mark or one.end != following.start:
            runs.append((start, one.end, one.mark))
            start = following.start
    return runs


def _mark(path: str, line: int, column: int) -> str:
    args = json.dumps({"path": path, "offset": line, "limit": 1, "column": column}, ensure_ascii=False)
    return f" … [line {line} goes on: read_file {args}]"

"""The output of `bash` in pages: what is shown keeps to the limits, and a cursor leads to the rest."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from handrail.dialects._cursor import GOES_ON
from handrail.dialects._dialect import Args, Steps
from handrail.errors import Code, Problem
from handrail.words import Outcome, Truncation, noun

NAME = "bash"
STREAMS = ("stdout", "stderr")
_KEPT = "run:observations/"
_THEN = "then"  # in a cursor: the file to go on with behind the last page of this one
# The line in place of what is not shown, and the mark within a line that was too long; see processes/text.py.
_NOTICE = re.compile(r"^\[(?P<what>[^\n]*); the rest: read_file (?P<call>\{[^\n]*\})\]\n", re.MULTILINE)
_SHORTENED = re.compile(r" … \[\d+ characters not shown\] … ")
_REST = "next_page_cursor goes on"


@noun
class Stream:
    """What a program wrote to one stream, as far as there is room for it, and where the whole is."""

    text: str  # with the notice in the document's words
    head: str  # what stands before the notice; all of it where there is none
    path: str | None  # of the whole, where that was kept
    rest: str | None = None  # the cursor behind the head, where the middle is left out
    tail: str = ""  # what stands behind the notice
    is_cut: bool = False


# ── pages ────────────────────────────────────────────────────────────────────────────────────


def arguments(args: Args) -> Args:
    """Refuse a cursor that leads to no output; one that does is answered by `pages`, and runs nothing."""
    if "cursor" in args:
        raise Problem(Code.INVALID_ARGS, "`cursor` is none that a command's output gave; leave it out to run it.")
    return args


def pages(args: Args) -> Steps | None:
    """Read the next page of an output that was kept."""
    part = _part(args.get("cursor"))
    return None if part is None else _page(part)


def _page(part: Args) -> Steps:
    then = part.pop(_THEN, None)
    outcome = yield "read_file", part
    cut = outcome.truncation
    if then is not None and outcome.error is None:
        onward = None if cut is None else _part(cut.next_cursor)
        following = {"path": then} if onward is None else {**onward, _THEN: then}
        shown = cut or Truncation("lines", outcome.data["end"], None)
        outcome = replace(outcome, truncation=replace(shown, next_cursor=json.dumps(following)))
    return replace(outcome, asked=NAME)


def _part(cursor: Any) -> Args | None:
    """Give the arguments of read_file that a cursor holds; None for a text that is no cursor of an output."""
    try:
        part = json.loads(cursor)
    except (TypeError, ValueError, RecursionError):
        return None
    if not isinstance(part, dict) or not set(part) <= {"path", _THEN, *GOES_ON}:
        return None
    return part if all(str(part.get(name, _KEPT)).startswith(_KEPT) for name in ("path", _THEN)) else None


def is_error_stream(outcome: Outcome) -> bool:
    """Tell whether a page is one of what the program wrote to stderr."""
    return outcome.asked == NAME and outcome.evidence[0].ref.startswith(f"{_KEPT}stderr_")


# ── what is shown at first ───────────────────────────────────────────────────────────────────


def fits(outcome: Outcome, max_lines: int, max_bytes: int) -> Outcome:
    """Show both streams within the limits, in the document's words; the cursor leads to what is not shown."""
    told = outcome.data if outcome.error is None else outcome.error.details
    if not isinstance(told, Mapping) or "stdout" not in told:
        return outcome
    streams = [_stream(name, told) for name in STREAMS]
    sizes = [_bytes(stream.text) for stream in streams]
    rooms = zip(_share([_lines(stream.text) for stream in streams], max_lines), _share(sizes, max_bytes), strict=True)
    shown = [_fitting(stream, *room) for stream, room in zip(streams, rooms, strict=True)]
    cut = _cut(shown)
    if cut is not None and outcome.truncation is not None and shown == streams:
        cut = replace(outcome.truncation, next_cursor=cut.next_cursor)
    elif cut is not None:
        cut = replace(cut, by="bytes" if sum(sizes) > max_bytes else "lines")
    page = {**told, "stdout": shown[0].text, "stderr": shown[1].text}
    if outcome.error is None:
        return replace(outcome, data=page, truncation=cut)
    return replace(outcome, error=replace(outcome.error, details=page), truncation=cut)


def _stream(name: str, told: Mapping[str, Any]) -> Stream:
    text = str(told[name])
    about = told.get(f"{name}_info")
    kept = [str(ref) for ref in told.get("refs") or ()] if about is None else [str(about.get("ref"))]
    path = next((ref for ref in kept if ref.startswith(f"{_KEPT}{name}_")), None)
    is_cut = bool(_SHORTENED.search(text)) if about is None else bool(about.get("cut"))
    found = next((item for item in _NOTICE.finditer(text) if _part(item["call"]) is not None), None)
    if found is None:
        return Stream(text, text, path, is_cut=is_cut)
    whole = f"{text[: found.start()]}[{found['what']}; {_REST}]\n{text[found.end() :]}"
    return Stream(whole, text[: found.start()], path, found["call"], text[found.end() :], is_cut=True)


def _share(sizes: list[int], most: int) -> tuple[int, int]:
    """Divide what there is: each stream may have half, and what the other does not need."""
    first, second = sizes
    if first + second <= most:
        return first, second
    for_second = min(second, max(most // 2, most - first))
    return most - for_second, for_second


def _fitting(stream: Stream, max_lines: int, max_bytes: int) -> Stream:
    """Give what fits of a stream: all of it, its first lines, or the beginning of the first."""
    if _lines(stream.text) <= max_lines and _bytes(stream.text) <= max_bytes:
        return stream
    lines = _split(stream.head)
    count = _count_fitting(lines, max_lines, max_bytes)
    if count == len(lines):  # the notice itself has no room
        return replace(stream, text=stream.head or _ending(stream.tail, max_lines, max_bytes), is_cut=True)
    text = "".join(lines[:count])
    if not count and max_lines > 0:
        text = lines[0].encode("utf-8", "surrogatepass")[:max_bytes].decode("utf-8", "ignore")
    rest = None if stream.path is None else json.dumps({"path": stream.path, "offset": count + 1})
    return Stream(text, text, stream.path, rest, is_cut=True)


def _count_fitting(lines: list[str], max_lines: int, max_bytes: int) -> int:
    size = 0
    for count, line in enumerate(lines[: max(0, max_lines)]):
        size += _bytes(line)
        if size > max_bytes:
            return count
    return min(len(lines), max(0, max_lines))


def _ending(text: str, max_lines: int, max_bytes: int) -> str:
    """Give the last lines that fit, where nothing of the beginning is at hand."""
    lines = _split(text)
    count = _count_fitting(lines[::-1], max_lines, max_bytes)
    return "".join(lines[len(lines) - count :])


def _cut(shown: list[Stream]) -> Truncation | None:
    """Give the cursor of the first stream that is cut, which leads to the other one, too; None where all is shown."""
    cut = [stream for stream in shown if stream.is_cut]
    if not cut:
        return None
    cursor = cut[0].rest
    if cursor is None and cut[0].path is not None:
        cursor = json.dumps({"path": cut[0].path})
    if cursor is not None and cut[-1] is not cut[0] and cut[-1].path is not None:
        cursor = json.dumps({**json.loads(cursor), _THEN: cut[-1].path})
    return Truncation("lines", sum(_lines(stream.text) for stream in shown), None, cursor)


def _split(text: str) -> list[str]:
    """Split into lines with their ends, as read_file counts them."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _lines(text: str) -> int:
    return len(_split(text))


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))

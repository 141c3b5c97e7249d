"""Cut text to what a reader can take: whole lines, counted in lines and UTF-8 bytes. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from handrail.words import noun

Keep = Literal["head", "tail", "middle"]

# Below this there is no room for two ends and the line between them.
_LEAST_MIDDLE_LINES = 3
_LEAST_MIDDLE_BYTES = 256
_GAP_BYTES = 64


@noun
class Bounds:
    """How much of a text is shown."""

    max_lines: int = 2000
    max_bytes: int = 51200
    max_line_chars: int = 2000


@noun
class Cut:
    """What is left of a text that did not fit: `shown` of its `total` lines or bytes, as `by` says."""

    text: str
    by: Literal["lines", "bytes"]
    shown: int
    total: int


@dataclass(slots=True)
class _Taken:
    """Lines taken from one end of a text, in the order they were taken."""

    lines: list[str] = field(default_factory=list)
    shown_bytes: int = 0
    size: int = 0
    by: Literal["lines", "bytes"] | None = None
    edge: int = 0


def bound(text: str, bounds: Bounds, keep: Keep = "head") -> Cut | None:
    """Cut `text` to `bounds` at whole lines and keep the end(s) asked for; None when it fits as it is."""
    length = len(text)
    if length <= bounds.max_line_chars and length <= bounds.max_lines and length * 4 <= bounds.max_bytes:
        return None
    if _fits(text, bounds):
        return None
    if keep == "tail":
        return _cut(text, _tail(text, 0, bounds))
    if keep == "head" or bounds.max_lines < _LEAST_MIDDLE_LINES or bounds.max_bytes < _LEAST_MIDDLE_BYTES:
        return _cut(text, _head(text, bounds))
    return _middle(text, bounds)


def _fits(text: str, bounds: Bounds) -> bool:
    if len(text) > bounds.max_bytes or _size(text) > bounds.max_bytes or _count(text) > bounds.max_lines:
        return False
    return len(text) <= bounds.max_line_chars or max(map(len, text.split("\n"))) <= bounds.max_line_chars


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _count(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and text != "")


def _forward(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield start, end
        start = end


def _backward(text: str, floor: int) -> Iterator[tuple[int, int]]:
    end = len(text)
    while end > floor:
        start = text.rfind("\n", floor, end - 1) + 1 or floor
        yield start, end
        end = start


def _head(text: str, bounds: Bounds) -> _Taken:
    taken = _take(text, _forward(text), bounds)
    if not taken.lines and taken.by == "bytes":
        first = text[: bounds.max_bytes].partition("\n")[0]
        _add_part(taken, _first_bytes(first[: bounds.max_line_chars], bounds.max_bytes))
    return taken


def _tail(text: str, floor: int, bounds: Bounds) -> _Taken:
    taken = _take(text, _backward(text, floor), bounds)
    taken.lines.reverse()
    if not taken.lines and taken.by == "bytes":
        last = text[max(floor, len(text) - bounds.max_bytes) :].removesuffix("\n").rpartition("\n")[2]
        _add_part(taken, _first_bytes(last[: -bounds.max_line_chars - 1 : -1], bounds.max_bytes)[::-1])
    return taken


def _add_part(taken: _Taken, part: str) -> None:
    taken.lines.append(part)
    taken.shown_bytes = taken.size = _size(part)


def _first_bytes(line: str, max_bytes: int) -> str:
    """Return as many whole characters from the start as fit into `max_bytes`."""
    size = 0
    for index, character in enumerate(line):
        size += _size(character)
        if size > max_bytes:
            return line[:index]
    return line


def _take(text: str, places: Iterator[tuple[int, int]], bounds: Bounds) -> _Taken:
    """Take lines as they come until one bound is reached."""
    taken = _Taken()
    for start, end in places:
        if len(taken.lines) == bounds.max_lines:
            taken.by = "lines"
            break
        line, shown = _line(text, start, end, bounds.max_line_chars)
        size = _size(line)
        if taken.size + size > bounds.max_bytes:
            taken.by = "bytes"
            break
        taken.lines.append(line)
        taken.size += size
        taken.shown_bytes += shown
        taken.edge = end
    return taken


def _line(text: str, start: int, end: int, max_line_chars: int) -> tuple[str, int]:
    """Return a line as it is shown, and how many bytes of the text that shows."""
    newline = text[end - 1] == "\n"
    more = end - newline - start - max_line_chars
    if more <= 0:
        line = text[start:end]
        return line, _size(line)
    kept = text[start : start + max_line_chars]
    return f"{kept} … [{more} more characters]" + "\n" * newline, _size(kept) + newline


def _cut(text: str, taken: _Taken) -> Cut:
    if taken.by == "lines":
        return Cut("".join(taken.lines), "lines", len(taken.lines), _count(text))
    return Cut("".join(taken.lines), "bytes", taken.shown_bytes, _size(text))


def _middle(text: str, bounds: Bounds) -> Cut:
    """Keep both ends, with one line between them that counts what is left out."""
    lines, room = bounds.max_lines - 1, bounds.max_bytes - _GAP_BYTES
    head = _head(text, Bounds(lines // 2, room // 2, bounds.max_line_chars))
    if not head.edge:
        return _cut(text, _head(text, bounds))
    rest = Bounds(lines - len(head.lines), room - head.size, bounds.max_line_chars)
    tail = _tail(text, head.edge, rest)
    total = _count(text)
    missing = total - len(head.lines) - len(tail.lines)
    gap = [f"… [{missing} lines not shown] …\n"] if missing else []
    joined = "".join([*head.lines, *gap, *tail.lines])
    if tail.by == "lines":
        return Cut(joined, "lines", len(head.lines) + len(tail.lines), total)
    return Cut(joined, "bytes", head.shown_bytes + tail.shown_bytes, _size(text))

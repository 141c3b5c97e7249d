"""Found lines, made safe to show and cut to one answer. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter

from handrail.ports import Limits, Secrets
from handrail.queries import Hit

_ROOM_BYTES, _ROOM_LINES = 1024, 6  # kept free for what is said after the lines
_IS_MATCH = attrgetter("is_match")


@dataclass(frozen=True, slots=True)
class Page:
    """The lines of an answer and how many of the things found they hold."""

    lines: list[str]
    shown: int


def safe_texts(hits: Sequence[Hit], secrets: Secrets) -> list[str]:
    """Hide in each line what would be hidden in its whole file; one look at all of them where nothing is suspicious."""
    texts = [hit.text for hit in hits]
    together = "\n".join(texts)
    if secrets.text(together) == together and not any(hit.before or hit.after for hit in hits):
        return texts
    return [_safe(hit, secrets) for hit in hits]


def _safe(hit: Hit, secrets: Secrets) -> str:
    text = secrets.excerpt(hit.before, hit.text, hit.after)
    return f"{'…' * (hit.column > 1)}{text}{'…' * bool(hit.after)}"


def lined(hits: Sequence[Hit], texts: Sequence[str], names: Sequence[str], limits: Limits) -> Page:
    """Write lines below the name of their file: `12:` for a match, `12-` for context."""
    lines: list[str] = []
    ends: list[int] = []  # how many lines there are when a hit is written
    gaps = not all(map(_IS_MATCH, hits))
    last_name, last_line = "", 0
    for hit, text, name in zip(hits, texts, names, strict=True):
        line = hit.line
        if name != last_name:
            lines += ["", name] if lines else [name]
            last_name = name
        elif gaps and line != last_line + 1:
            lines.append("--")
        lines.append(f"{line}:{text}" if hit.is_match else f"{line}-{text}")
        ends.append(len(lines))
        last_line = line
    room = _fitting(lines, limits)
    if room == len(lines):
        return Page(lines, len(hits))
    shown = max(1, bisect_right(ends, room))
    return Page(lines[: ends[shown - 1]], shown)


def listed(lines: Sequence[str], limits: Limits) -> Page:
    """Write as many lines as fit, but at least one."""
    room = min(len(lines), max(1, _fitting(lines, limits)))
    return Page(list(lines[:room]), room)


def _fitting(lines: Sequence[str], limits: Limits) -> int:
    """How many lines leave room for what is said after them."""
    max_bytes, max_lines = limits.max_output_bytes - _ROOM_BYTES, limits.max_output_lines - _ROOM_LINES
    if len(lines) <= max_lines and 4 * sum(map(len, lines)) + len(lines) <= max_bytes:
        return len(lines)
    sizes = accumulate(len(line.encode("utf-8", "replace")) + 1 for line in lines[:max_lines])
    return sum(size <= max_bytes for size in sizes)

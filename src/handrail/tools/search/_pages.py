"""Found lines, made safe to show and cut to one answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from handrail.ports import Limits, Secrets
from handrail.queries import Hit

_ROOM_BYTES, _ROOM_LINES = 1024, 6  # kept free for what is said after the lines


@dataclass(frozen=True, slots=True)
class Page:
    """The lines of an answer and how many of the things found they hold."""

    lines: list[str]
    shown: int


def safe_texts(hits: Sequence[Hit], secrets: Secrets) -> list[str]:
    """Hide in each line what would be hidden in its whole file; one look at all of them where nothing is suspicious."""
    together = "\n".join(hit.text for hit in hits)
    clean = secrets.text(together) == together
    return [hit.text if clean and not (hit.before or hit.after) else _safe(hit, secrets) for hit in hits]


def _safe(hit: Hit, secrets: Secrets) -> str:
    text = secrets.excerpt(hit.before, hit.text, hit.after)
    return f"{'…' * (hit.column > 1)}{text}{'…' * bool(hit.after)}"


def lined(hits: Sequence[Hit], texts: Sequence[str], names: Sequence[str], limits: Limits) -> Page:
    """Write lines below the name of their file: `12:` for a match, `12-` for context."""
    lines: list[str] = []
    room = _Room(limits)
    last = ("", 0)
    for index, (hit, text, name) in enumerate(zip(hits, texts, names, strict=True)):
        new = [f"{hit.line}{':' if hit.is_match else '-'}{text}"]
        if name != last[0]:
            new = [*([""] if lines else []), name, *new]
        elif hit.line != last[1] + 1 and any(not item.is_match for item in hits[index - 1 : index + 1]):
            new = ["--", *new]
        if not room.takes(new) and lines:
            return Page(lines, index)
        lines += new
        last = (name, hit.line)
    return Page(lines, len(hits))


def listed(lines: Iterable[str], limits: Limits) -> Page:
    """Write as many lines as fit."""
    room = _Room(limits)
    kept: list[str] = []
    for line in lines:
        if not room.takes([line]) and kept:
            break
        kept.append(line)
    return Page(kept, len(kept))


class _Room:
    def __init__(self, limits: Limits) -> None:
        self._bytes = limits.max_output_bytes - _ROOM_BYTES
        self._lines = limits.max_output_lines - _ROOM_LINES

    def takes(self, lines: list[str]) -> bool:
        self._lines -= len(lines)
        for line in lines:
            self._bytes -= (len(line) if line.isascii() else len(line.encode("utf-8", "replace"))) + 1
        return self._bytes >= 0 and self._lines >= 0

"""Text without what is hidden in it, that still has every line where it was. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from handrail.output.patterns import MARK

_BREAK = re.compile(r"\r\n?|\n")
_EDGE = re.compile(r"\\[bB<>]")  # asks what the next character is without taking it
_PLAIN = re.compile(r"[\w =:,'\"/-]*")
_BYTES = re.compile(r"\(\?[a-zA-Z]*-[a-zA-Z]*u")  # takes bytes that are no characters
_BLOT = b"\xff"  # no part of UTF-8: nothing that is written in characters can match it


def marked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Write the mark for each hidden span, and keep the line breaks in it."""
    parts: list[str] = []
    last = 0
    for start, end in spans:
        parts += (text[last:start], MARK, *_BREAK.findall(text, start, end))
        last = end
    return "".join([*parts, text[last:]])


Blot = Callable[[bytes], "bytes | None"]  # text as UTF-8 -> the same without what is hidden; None: nothing is


def asks_beside(pattern: str) -> bool:
    """Whether a pattern asks what the next character is, or takes bytes that are no characters.

    One that does could be answered by a value that is blotted out, so that lines with such values are none for it.
    """
    edges = _EDGE.search(pattern) is not None and _PLAIN.fullmatch(_EDGE.sub("", pattern)) is None
    return edges or _BYTES.search(pattern) is not None


def blotter(quiet: Callable[[bytes], bool], spans: Callable[[str], Sequence[tuple[int, int]]]) -> Blot:
    """Give what blots hidden values out, byte for byte: what matches then matches whatever the values are."""

    def blot(data: bytes) -> bytes | None:
        if quiet(data):
            return None
        text = data.decode("utf-8", "surrogateescape")
        hidden = spans(text)
        if not hidden:
            return None
        parts: list[bytes] = []
        last = 0
        for start, end in hidden:
            parts += (_encoded(text[last:start]), _blotted(text[start:end]))
            last = end
        return b"".join([*parts, _encoded(text[last:])])

    return blot


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _blotted(text: str) -> bytes:
    return b"\n".join(_BLOT * len(_encoded(line)) for line in text.split("\n"))

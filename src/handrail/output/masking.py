"""Text without what is hidden in it, that still has every line where it was. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from handrail.output.patterns import MARK

_BREAK = re.compile(r"\r\n?|\n")


def marked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Write the mark for each hidden span, and keep the line breaks in it."""
    parts: list[str] = []
    last = 0
    for start, end in spans:
        parts += (text[last:start], MARK, *_BREAK.findall(text, start, end))
        last = end
    return "".join([*parts, text[last:]])

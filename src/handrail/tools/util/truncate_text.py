"""truncate_text: shorten a text, with a mark at the cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.ports import Secrets
from handrail.tools.util._cut import cut_text
from handrail.words import Answer

_Limit = Annotated[int, Field(ge=0, le=10_000_000)]


@dataclass(frozen=True, slots=True)
class Truncated:
    """The shortened text and how much it lost."""

    text: str
    truncated: bool
    chars_before: int
    chars_cut: int


@tool(risk="low", pure=True, max_bytes=8 * 1024 * 1024)
async def truncate_text(
    secrets: Secrets,
    text: str,
    max_chars: Annotated[_Limit | None, "At most so many characters, the mark included"] = None,
    max_bytes: Annotated[_Limit | None, "Or at most so many bytes of UTF-8"] = None,
    keep: Annotated[Literal["head", "tail", "middle"], "Which part stays"] = "head",
) -> Answer[Truncated]:
    """Shorten a text to a limit; a mark stands where something was cut."""
    if (max_chars is None) == (max_bytes is None):
        raise Problem(Code.INVALID_ARGS, "Give exactly one of `max_chars` and `max_bytes`.")
    text = secrets.text(text)  # a cut through a secret would show half of it
    shorter, lost = cut_text(text, max_chars, max_bytes, keep)
    result = Truncated(shorter, lost > 0, len(text), lost)
    return Answer(result, summary=f"{len(text) - lost} of {len(text)} characters kept", content=shorter)

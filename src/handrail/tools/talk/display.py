"""display: show something to the person, not to the model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from handrail.catalog import tool
from handrail.ports import Screen
from handrail.words import Answer

# Whole terminal sequences first, then every control character but line break and tab, and marks that reorder text.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|(?:\x1b[P\]X^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]*[0-~]"
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Shown:
    """That it was shown."""

    shown: bool = True


@tool(risk="low", permissions=("tool.use",))
async def display(
    screen: Screen,
    content: Annotated[str, Field(min_length=1, max_length=200_000), "Markdown"],
    level: Literal["info", "success", "warning", "error", "progress"] = "info",
    title: Annotated[str | None, Field(max_length=200)] = None,
    thought: Annotated[str | None, Field(max_length=20_000), "Why this is shown now"] = None,
    evidence: Annotated[list[str] | None, Field(max_length=50), "Paths, refs or links that back it"] = None,
) -> Answer[Shown]:
    """Show a message to the person. It does not come back into this conversation."""
    given: dict[str, Any] = {
        "content": clean(content),
        "level": level,
        "title": None if title is None else clean(title),
        "thought": None if thought is None else clean(thought),
        "evidence": None if evidence is None else [clean(item) for item in evidence],
    }
    screen.show({name: value for name, value in given.items() if value is not None})
    return Answer(Shown(), summary="Shown to the person.", content="Shown to the person.")


def clean(text: str) -> str:
    """Remove what would steer a terminal or reorder what a person reads."""
    return _CONTROL.sub("", _SEQUENCE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))

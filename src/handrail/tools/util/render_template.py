"""render_template: fill a Mustache template."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.tools.util._mustache import LAMBDAS, StepsError, render
from handrail.tools.util._mustache_parse import TemplateError
from handrail.words import Answer

_QUICK_STEPS = 20_000  # what may hold up the event loop
_QUICK_CHARS = 64 * 1024
_Source = Annotated[str, Field(max_length=1024 * 1024)]


@dataclass(frozen=True, slots=True)
class Rendered:
    """The filled template."""

    text: str


@tool(risk="low", pure=True, max_bytes=8 * 1024 * 1024)
async def render_template(
    template: Annotated[_Source, "Mustache, with inheritance and dynamic names"],
    data: Annotated[Any, "Any JSON value"] = None,
    partials: Annotated[dict[str, _Source] | None, "Templates by name"] = None,
    escape_html: Annotated[bool, "Escape & < > and quotes in {{values}}"] = False,
) -> Answer[Rendered]:
    """Fill a Mustache template with data."""
    try:
        text = await _rendered(template, data, partials or {}, escape_html)
    except TemplateError as error:
        raise _told(error) from None
    return Answer(Rendered(text), summary=f"{len(text)} characters", content=text)


async def _rendered(template: str, data: Any, partials: dict[str, str], escape_html: bool) -> str:
    long = len(template) + sum(map(len, partials.values())) > _QUICK_CHARS
    if not LAMBDAS and not long:  # starting anew would call a function twice
        try:
            return render(template, data, partials, escape_html=escape_html, max_steps=_QUICK_STEPS)
        except StepsError:
            pass
    return await asyncio.to_thread(render, template, data, partials, escape_html=escape_html)


def _told(error: TemplateError) -> Problem:
    name = f" of partial {error.template!r}" if error.template else ""
    if not error.line:
        return Problem(Code.INVALID_ARGS, f"The template cannot be rendered: {error}.")
    place = f"line {error.line}, column {error.column}{name}"
    return Problem(
        Code.INVALID_ARGS,
        f"The template cannot be read: {error} ({place}).",
        line=error.line,
        column=error.column,
        partial=error.template or None,
    )

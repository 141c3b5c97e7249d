"""json_select: pick from JSON with a JMESPath expression."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from handrail import strict_json
from handrail.catalog import Reads, tool
from handrail.errors import Code, Problem
from handrail.hiding import hidden, text_of
from handrail.ports import Limits, Secrets, Workspace
from handrail.selecting import (
    MAX_WORK,
    QUICK_WORK,
    ExpressionError,
    Work,
    WorkError,
    search,
    size_of,
    written_size,
)
from handrail.words import Answer, Evidence, Place

MAX_RESULT_BYTES = 1024 * 1024
_QUICK_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Selected:
    """What the expression gave; null where nothing fits."""

    value: Any


@tool(risk="low", max_bytes=2 * MAX_RESULT_BYTES)
async def json_select(
    files: Workspace,
    limits: Limits,
    secrets: Secrets,
    expression: Annotated[str, Field(min_length=1, max_length=4096), "JMESPath: people[?age > `30`].name"],
    json: Annotated[Any, "A JSON value, or JSON text"] = None,
    path: Annotated[Reads | None, "Or a file that holds JSON"] = None,
) -> Answer[Selected]:
    """Pick values from JSON with a JMESPath expression."""
    if (json is None) == (path is None):
        raise Problem(Code.INVALID_ARGS, "Give exactly one of `json` and `path`.")
    text: Any = json
    if path is not None:
        text = (await files.read(path, limits.max_read_bytes)).data
    try:
        value = await _selected(text, expression, path, secrets)
    except ExpressionError as error:
        raise Problem(Code.INVALID_ARGS, f"The expression {error}.", position=error.position) from None
    return Answer(
        Selected(value),
        _describe(value, path),
        evidence=() if path is None else (Evidence("file", path.shown, "JSON read"),),
    )


def _describe(value: Any, path: Place | None) -> str:
    """Say what kind of value was selected, and from where."""
    source = "the given JSON" if path is None else path.shown
    if value is None:
        return f"Nothing in {source} fits the expression"
    if isinstance(value, list):
        return f"A list of {len(value)} items from {source}"
    if isinstance(value, dict):
        return f"An object with {len(value)} fields from {source}"
    return f"One value from {source}"


async def _selected(given: Any, *how: Any) -> Any:
    """Evaluate here what is small and soon done, all else in a thread that ends when nobody waits for it."""
    size = len(given) if isinstance(given, (str, bytes)) else size_of(given, _QUICK_BYTES)
    if size <= _QUICK_BYTES:
        with suppress(WorkError):
            return _select(Work(QUICK_WORK), given, *how)
    work = Work.on(len(given) if isinstance(given, (str, bytes)) else size_of(given, MAX_WORK))
    try:
        return await asyncio.to_thread(_select, work, given, *how)
    finally:
        work.stop()


def _select(work: Work, given: Any, expression: str, path: Place | None, secrets: Secrets) -> Any:
    value, text = _parsed(given, path) if isinstance(given, (str, bytes)) else (given, "")
    # What the caller wrote it knows; what a file holds it may learn only as read_file would show it.
    found = search(expression, value if path is None else hidden(value, secrets, text), work)
    if written_size(found, MAX_RESULT_BYTES) > MAX_RESULT_BYTES:
        raise ExpressionError(f"gives more than {MAX_RESULT_BYTES} bytes; select less")
    return found


def _parsed(given: str | bytes, path: Place | None) -> tuple[Any, str]:
    try:
        text = text_of(given) if isinstance(given, bytes) else given
        return strict_json.loads(text), text
    except ValueError as error:
        what = "`json` is text and" if path is None else path.shown
        raise Problem(Code.INVALID_ARGS, f"{what} is not JSON: {error}") from None

"""json_select: pick from JSON with a JMESPath expression."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from handrail import strict_json
from handrail.catalog import Reads, tool
from handrail.errors import Code, Problem
from handrail.ports import Limits, Secrets, Workspace
from handrail.selecting import ExpressionError, hidden, search, size_of
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
    size = len(text) if isinstance(text, (str, bytes)) else size_of(text, _QUICK_BYTES)
    big = size > _QUICK_BYTES  # an expression may go through it many times over
    work = (text, expression, path, secrets)
    value = await asyncio.to_thread(_select, *work) if big else _select(*work)
    return Answer(Selected(value), evidence=() if path is None else (Evidence("file", path.shown, "JSON read"),))


def _select(given: Any, expression: str, path: Place | None, secrets: Secrets) -> Any:
    value = _parsed(given, path) if isinstance(given, (str, bytes)) else given
    try:
        # What the caller wrote it knows; what a file holds it may learn only as read_file would show it.
        found = search(expression, value if path is None else hidden(value, secrets))
        if size_of(found, MAX_RESULT_BYTES) > MAX_RESULT_BYTES:
            raise ExpressionError(f"gives more than {MAX_RESULT_BYTES} bytes; select less")
    except ExpressionError as error:
        raise Problem(Code.INVALID_ARGS, f"The expression {error}.", position=error.position) from None
    return found


def _parsed(text: str | bytes, path: Place | None) -> Any:
    try:
        return strict_json.loads(text)
    except ValueError as error:
        what = "`json` is text and" if path is None else path.shown
        raise Problem(Code.INVALID_ARGS, f"{what} is not JSON: {error}") from None

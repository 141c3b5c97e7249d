"""Understanding a call: the tool, its arguments, what it will touch. Pure, so equal calls are understood once."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from handrail.catalog import Catalog
from handrail.errors import Code, Problem
from handrail.gates.step import Question, adapted
from handrail.words import Call, Json

MOST_REMEMBERED = 1000
MOST_BYTES = 1000


class Reader:
    """Turns calls into questions; those of read-only tools with plain arguments are remembered."""

    def __init__(self, catalog: Catalog, *, repair: bool) -> None:
        self._catalog, self._repair = catalog, repair
        self._known: dict[tuple[str, bytes] | None, Question] = {}

    def read(self, call: Call) -> Question:
        """Parse a call and state its touches; Problem UNKNOWN_TOOL, UNSUPPORTED_VERSION or INVALID_ARGS."""
        asked = _asked(call)
        return self._known.get(asked) or self._understood(call, asked)

    def _understood(self, call: Call, asked: tuple[str, bytes] | None) -> Question:
        tool = self._catalog.get(call.tool)
        args: Mapping[str, Json] = call.args
        warnings: tuple[str, ...] = ()
        if call.version is not None and call.version != tool.version:
            args, warnings = adapted(tool, call)
        parsed, mended = tool.parse(args, repair=self._repair)
        try:
            encoded = orjson.dumps(parsed, option=orjson.OPT_NON_STR_KEYS)
        except TypeError:
            text = f"An argument of {tool.name} holds half of a character (a lone surrogate), which is no text."
            raise Problem(Code.INVALID_ARGS, text) from None
        question = Question(tool, parsed, encoded, tool.touches(parsed), warnings + mended)
        # A list or object could be changed by a tool that is given it.
        if asked is not None and not tool.changing and not any(isinstance(v, (list, dict)) for v in parsed.values()):
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known[asked] = question
        return question


def _asked(call: Call) -> tuple[str, bytes] | None:
    """What a call asks, as a key (JSON tells 1 from true and from 1.0); None where it must be looked at anew."""
    if call.version is not None:
        return None
    try:
        asked = orjson.dumps(call.args)
    except TypeError:
        return None
    return (call.tool, asked) if len(asked) <= MOST_BYTES else None

"""Understanding a call: the tool, its arguments, what it will touch. Pure, so equal calls are understood once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from handrail import dialects
from handrail.catalog import Catalog, Tool
from handrail.errors import Code, Problem
from handrail.gates.step import PLAIN, Question, adapted
from handrail.words import Call, Json

Key = tuple[str, str, bytes]

MOST_REMEMBERED = 1000
MOST_BYTES = 1000


class Reader:
    """Turns calls into questions; those of read-only tools with plain arguments are remembered."""

    def __init__(self, catalog: Catalog, *, repair: bool) -> None:
        self._catalog, self._repair = catalog, repair
        self._known: dict[Key | None, Question] = {}

    def read(self, call: Call) -> Question:
        """Parse a call and state its touches; Problem UNKNOWN_TOOL, UNSUPPORTED_VERSION or INVALID_ARGS."""
        asked = _asked(call)
        known = self._known.get(asked)
        return self._understood(call, asked) if known is None else known

    def _understood(self, call: Call, asked: Key | None) -> Question:
        if call.dialect == "native":
            tool, args, warnings = self._native(call)
            parsed, mended = tool.parse(args, repair=self._repair)
        else:
            tool, args, warnings, parsed, mended = self._foreign(call)
        try:
            encoded = orjson.dumps(parsed, option=orjson.OPT_NON_STR_KEYS)
        except TypeError:
            text = f"An argument of {tool.name} holds half of a character (a lone surrogate), which is no text."
            raise Problem(Code.INVALID_ARGS, text) from None
        key = b"%b %b" % (tool.name.encode(), encoded)
        question = Question(tool, parsed, encoded, tool.touches(parsed), key, warnings + mended, dict(args))
        # A list or object could be changed by a tool that is given it.
        if asked is not None and not tool.changing and PLAIN.issuperset(map(type, parsed.values())):
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known[asked] = question
        return question

    def _native(self, call: Call) -> tuple[Tool, Mapping[str, Json], tuple[str, ...]]:
        tool = self._catalog.get(call.tool)
        if call.version is None or call.version == tool.version:
            return tool, call.args, ()
        return tool, *adapted(tool, call)

    def _foreign(self, call: Call) -> tuple[Tool, Mapping[str, Json], tuple[str, ...], dict[str, Any], tuple[str, ...]]:
        """Another system's words in ours; what is wrong with them is said in theirs."""
        dialect = dialects.get(call.dialect)
        heard = dialect.heard(call.tool, call.args, call.version, repair=self._repair)
        tool = self._catalog.get(heard.tool)
        try:
            return tool, heard.args, heard.warnings, *tool.parse(heard.args, repair=self._repair)
        except Problem as problem:
            raise dialect.reworded(problem, heard.word) from None


def _asked(call: Call) -> Key | None:
    """What a call asks, as a key (JSON tells 1 from true and from 1.0); None where it must be looked at anew."""
    if call.version is not None or call.tool.__class__ is not str:
        return None
    try:
        asked = orjson.dumps(call.args)
    except TypeError:
        return None
    return (call.dialect, call.tool, asked) if len(asked) <= MOST_BYTES else None

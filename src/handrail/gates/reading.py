"""Parsing a call: the tool, its arguments, what it will touch. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from handrail import dialects
from handrail.catalog import Catalog, Tool
from handrail.dialects._dialect import Heard
from handrail.errors import Code, Problem
from handrail.gates.step import FILES, Question, adapted
from handrail.words import Call, Json, Touch, TouchKind


class Reader:
    """Turns calls into questions."""

    def __init__(self, catalog: Catalog, *, repair: bool) -> None:
        self._catalog = catalog
        self._repair = repair

    def read(self, call: Call) -> Question:
        """Parse a call and state its touches; Problem UNKNOWN_TOOL, UNSUPPORTED_VERSION or INVALID_ARGS."""
        agent = ""
        further: tuple[Touch, ...] = ()
        if call.dialect == "native":
            tool, args, warnings = self._native(call)
            parsed, mended = tool.parse(args, repair=self._repair)
        else:
            tool, heard, parsed, mended = self._foreign(call)
            args, warnings, agent, further = heard.args, heard.warnings, heard.agent, heard.further
        try:
            encoded = orjson.dumps(parsed, option=orjson.OPT_NON_STR_KEYS)
        except TypeError:
            text = f"An argument of {tool.name} holds half of a character (a lone surrogate), which is no text."
            raise Problem(Code.INVALID_ARGS, text) from None
        key = b"%b %b" % (tool.name.encode(), encoded)
        touches = tool.touches(parsed)
        if agent:
            touches = (*map(_by_agent, touches), *further)
        return Question(tool, parsed, encoded, touches, key, warnings + mended, dict(args), agent=agent)

    def _native(self, call: Call) -> tuple[Tool, Mapping[str, Json], tuple[str, ...]]:
        tool = self._catalog.get(call.tool)
        if call.version is None or call.version == tool.version:
            return tool, call.args, ()
        return tool, *adapted(tool, call)

    def _foreign(self, call: Call) -> tuple[Tool, Heard, dict[str, Any], tuple[str, ...]]:
        """Another system's words in ours; what is wrong with them is said in theirs."""
        dialect = dialects.get(call.dialect)
        heard = dialect.heard(call.tool, call.args, call.version, repair=self._repair)
        tool = self._catalog.get(heard.tool)
        try:
            return tool, heard, *tool.parse(heard.args, repair=self._repair)
        except Problem as problem:
            raise dialect.reworded(problem, heard.word) from None


def _by_agent(touch: Touch) -> Touch:
    """State a touch of a call that an agent carries out itself: no sandbox hides anything from it.

    A name that begins like one of the run's folders is a file of the workspace to the agent.
    """
    if touch.kind is TouchKind.PROC_EXEC:
        return replace(touch, unsafe=True)
    named = f"./{touch.target}" if touch.kind in FILES and touch.target.startswith("run:") else touch.target
    return replace(touch, target=named, private=False) if touch.private or named != touch.target else touch

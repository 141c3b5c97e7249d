"""agent_use: a tool of an agent of which only the name is known. The agent runs it; it asks until a rule allows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.words import Touch, TouchKind


def _touches(args: Mapping[str, Any]) -> Sequence[Touch]:
    return (Touch(TouchKind.TOOL_USE, args["tool"], unsafe=True),)


@tool(risk="high", touches=_touches, permissions=("tool.use",), offered=False, changing=True)
async def agent_use(tool: str, arguments: dict[str, Any]) -> None:  # noqa: ARG001
    """Stand for a tool of an agent that the agent runs itself."""
    raise Problem(Code.UNKNOWN_TOOL, f"{tool} is a tool of an agent, which runs it itself; nobody else can call it.")

"""agent_own: what an agent does to nobody but itself, such as noting a plan or asking its person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.words import Touch, TouchKind


def _touches(args: Mapping[str, Any]) -> Sequence[Touch]:
    return (Touch(TouchKind.TOOL_USE, args["tool"]),)


@tool(risk="low", touches=_touches, permissions=("tool.use",), offered=False)
async def agent_own(tool: str, arguments: dict[str, Any]) -> None:  # noqa: ARG001
    """Stand for a tool of an agent that touches nothing but the agent itself."""
    raise Problem(Code.UNKNOWN_TOOL, f"{tool} is a tool of an agent, which runs it itself; nobody else can call it.")

"""Prompts: each skill, with what the person wants done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from handrail.front.mcp.resources import skills, text_of
from handrail.front.mcp.wire import INVALID_PARAMS, Params, Refused

if TYPE_CHECKING:
    from handrail.runtime import Runtime

TASK = {"name": "task", "description": "what is to be done with this skill", "required": False}


async def listed(runtime: Runtime) -> list[dict[str, Any]]:
    """One prompt a skill."""
    return [
        {"name": item["id"], "description": item.get("description", ""), "arguments": [TASK]}
        for item in await skills(runtime)
    ]


async def get(runtime: Runtime, params: Params) -> dict[str, Any]:
    """Load a skill through the gate, which makes it active, and give its text as the person's message."""
    name, given = params.get("name"), params.get("arguments") or {}
    if not isinstance(name, str) or not isinstance(given, dict):
        raise Refused(INVALID_PARAMS, "`name` is missing, or `arguments` is no object.")
    outcome = await runtime.call("load_skill", {"skill_id": name}, dialect="native")
    if outcome.error is not None:
        raise Refused(INVALID_PARAMS, f"{outcome.error.code}: {outcome.error.message}", {"code": outcome.error.code})
    texts = [text_of(outcome), *([str(given["task"])] if given.get("task") else [])]
    return {
        "description": outcome.summary,
        "messages": [{"role": "user", "content": {"type": "text", "text": text}} for text in texts],
    }

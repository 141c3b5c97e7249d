"""OpenAI Agents: the tools of an open runtime as `FunctionTool`s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handrail.arguments import read_text
from handrail.front._needed import needed
from handrail.front._offered import of_toolset
from handrail.runtime import Runtime
from handrail.words import Json

with needed("agents", "handrail.openai_agents needs OpenAI Agents: pip install openai-agents"):
    from agents import FunctionTool


def tools(runtime: Runtime, toolset: str | None = None) -> list[FunctionTool]:
    """Offer the enabled tools, all or those of one toolset; an error is what the model reads, never a crash."""
    return [_tool(runtime, spec) for spec in of_toolset(runtime, toolset)]


def _tool(runtime: Runtime, spec: Mapping[str, Json]) -> FunctionTool:
    name: str = spec.get("function_name", spec["name"])

    async def call(_: Any, arguments: str) -> str:
        # The text as the model wrote it: the gate reads it strictly and answers what is wrong with it.
        outcome = await runtime.call(name, read_text(arguments))
        return outcome.content

    return FunctionTool(
        name=name,
        description=spec["description"],
        params_json_schema=spec["args_schema"],
        on_invoke_tool=call,
        strict_json_schema=False,
    )

"""LangChain: the tools of an open runtime as `StructuredTool`s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handrail.front._needed import needed
from handrail.front._offered import of_toolset
from handrail.runtime import Runtime
from handrail.words import Json

with needed("langchain_core", "handrail.langchain needs LangChain: pip install langchain-core"):
    from langchain_core.tools import StructuredTool, ToolException


class _Tool(StructuredTool):
    """A tool that takes every name for an argument: none is kept back for LangChain's own use."""

    async def _arun(self, /, **given: Any) -> Any:  # type: ignore[override]  # LangChain gives what this asks for
        assert self.coroutine is not None
        return await self.coroutine(given)


def tools(runtime: Runtime, toolset: str | None = None) -> list[StructuredTool]:
    """Offer the enabled tools, all or those of one toolset; an error is what the model reads, never a crash."""
    return [_tool(runtime, spec) for spec in of_toolset(runtime, toolset)]


def _tool(runtime: Runtime, spec: Mapping[str, Json]) -> StructuredTool:
    name: str = spec.get("function_name", spec["name"])

    async def call(args: Mapping[str, Json]) -> tuple[str, dict[str, Json]]:
        outcome = await runtime.call(name, args)
        if not outcome.ok:
            raise ToolException(outcome.content)
        return outcome.content, outcome.to_dict()

    return _Tool(
        name=name,
        description=spec["description"],
        args_schema=spec["args_schema"],
        coroutine=call,
        response_format="content_and_artifact",
        handle_tool_error=True,
        metadata={"risk": spec["risk"], "side_effects": spec["side_effects"]},
    )

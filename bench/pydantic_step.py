"""One step of an agent under Pydantic AI that reads 1 KB: our toolset against a toolset of plain functions.

Both offer the model the same tools with the same schemas, since what Pydantic AI does for each tool of each step is its
own. Beside them an agent with one function and no toolset at all, which Pydantic AI itself runs faster.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common import interleaved, report

if TYPE_CHECKING:
    from pydantic_ai import Agent

TEXT = "a line of ordinary text, sixty-three characters long in all..\n" * 16
FILES = 8
CALLS = 10  # tool calls of one run
ROUNDS = int(os.environ.get("HANDRAIL_BENCH_ROUNDS", "40"))


def agents(runtime: Any, work: Path) -> dict[str, Agent[None, str]]:
    """The contestants, all asked by the same model."""
    from pydantic_ai import Agent, Tool
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel
    from pydantic_ai.toolsets import FunctionToolset

    from handrail.pydantic_ai import HandrailToolset

    async def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        if len(messages) > 2 * CALLS:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("read_file", {"path": f"{len(messages) // 2 % FILES}.txt"})])

    async def read_file(path: str) -> str:
        return (work / path).read_text()

    specs = [spec for spec in runtime.tools() if spec["toolset"] == "fs"]
    same = [Tool.from_schema(read_file, spec["name"], spec["description"], spec["args_schema"]) for spec in specs]
    model = FunctionModel(answer)
    return {
        f"FunctionToolset, the same {len(specs)} tools": Agent(model, toolsets=[FunctionToolset(same)]),
        f"HandrailToolset, {len(specs)} tools": Agent(model, toolsets=[HandrailToolset(runtime, "fs")]),
        "one plain function in a FunctionToolset": Agent(model, toolsets=[FunctionToolset([read_file])]),
        "one plain function, no toolset": Agent(model, tools=[read_file]),
    }


async def main() -> None:
    """Measure in one run, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
        work = Path(folder, "work")
        work.mkdir()
        for number in range(FILES):
            (work / f"{number}.txt").write_text(TEXT)
        from handrail import Runtime

        async with Runtime.open(work, config={"limits": {"max_repeats": 0}}) as runtime:

            def runs(agent: Agent[None, str]) -> Any:
                async def run(_: int) -> None:
                    assert (await agent.run("go")).output == "done"

                return run

            contestants = {f"{CALLS} steps: {name}": runs(agent) for name, agent in agents(runtime, work).items()}
            rows = await interleaved(contestants, rounds=ROUNDS, batch=1)
        report(rows, hold="HandrailToolset at most 1.02 times the first")


if __name__ == "__main__":
    asyncio.run(main())

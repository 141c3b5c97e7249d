"""One step of an agent under Pydantic AI that reads 1 KB: with our toolset, against a plain function of its own."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from common import interleaved, report

TEXT = "a line of ordinary text, sixty-three characters long in all..\n" * 16
CALLS = 10  # tool calls of one run


async def main() -> None:
    """Measure in one run, in turns."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
        work = Path(folder, "work")
        work.mkdir()
        (work / "a.txt").write_text(TEXT)
        from handrail import Runtime
        from handrail.pydantic_ai import HandrailToolset

        def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
            if len(messages) > 2 * CALLS:
                return ModelResponse(parts=[TextPart("done")])
            return ModelResponse(parts=[ToolCallPart("read_file", {"path": "a.txt", "offset": 1 + len(messages) % 7})])

        async def read_file(path: str, offset: int = 1) -> str:
            return "".join((work / path).read_text().splitlines(keepends=True)[offset - 1 :])

        async with Runtime.open(work, config={"limits": {"max_repeats": 0}}) as runtime:
            plain: Agent[None, str] = Agent(FunctionModel(answer), tools=[read_file])
            ours: Agent[None, str] = Agent(FunctionModel(answer), toolsets=[HandrailToolset(runtime, "fs")])

            async def run(agent: Agent[None, Any]) -> None:
                assert (await agent.run("go")).output == "done"

            rows = await interleaved(
                {
                    f"an agent's {CALLS} steps, plain function": lambda _: run(plain),
                    f"an agent's {CALLS} steps, HandrailToolset": lambda _: run(ours),
                },
                rounds=20,
                batch=3,
            )
        report(rows, hold="at most 1.02 times")


if __name__ == "__main__":
    asyncio.run(main())

"""An agent with tools of its own behind the gate, for the tests of Pydantic AI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, FunctionToolset
from pydantic_ai.tools import DeferredToolRequests

from fronts.test_pydantic_ai import Calls, scripted
from handrail import Runtime
from handrail.pydantic_ai import Governance

RULES = [
    {"effect": "allow", "touch": "tool.use", "target": "free*"},
    {"effect": "ask", "touch": "fs.write", "target": "asked/**"},
]
ran: list[Any] = []  # what the tools did


@asynccontextmanager
async def unwatched(work: Path) -> AsyncIterator[Runtime]:
    """A runtime in which nobody is asked, and whose tools have done nothing yet."""
    ran.clear()
    config = {"tools": {"enable": ["fs"]}, "skills": {"narrow": True}, "rules": RULES}
    async with Runtime.open(work, config=config, mode="headless", run_id="one") as opened:
        yield opened


def with_set(names: set[str]) -> str:
    ran.append(sorted(names))
    return "done"


def governed(runtime: Runtime, *functions: Callable[..., Any], calls: Calls, **how: Any) -> Agent[None, Any]:
    """An agent with tools of its own that makes these calls, and then says what came back."""
    told: Callable[[list[Any]], str] = lambda back: "; ".join(f"{part.outcome}: {part.content}" for part in back)  # noqa: E731
    return Agent(
        scripted(*([calls] if calls else []), told, "again"),
        toolsets=how.pop("toolsets", [FunctionToolset(list(functions))]),
        capabilities=[Governance(runtime), *how.pop("capabilities", ())],
        output_type=[str, DeferredToolRequests],
        **how,
    )


async def asked(agent: Agent[None, Any]) -> tuple[Any, DeferredToolRequests]:
    first = await agent.run("go")
    assert isinstance(first.output, DeferredToolRequests), first.output
    return first.all_messages(), first.output

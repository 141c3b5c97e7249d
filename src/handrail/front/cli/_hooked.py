"""What doctor says of agents that are found here: whether their hooks are in force, and what hooks do not see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def hook_lines(given: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Give a state (good, weaker, bad), what is said, and what to do about it, for each agent that is found."""
    from handrail.front.cli._common import workspace_of
    from handrail.hooks.agents import AGENTS
    from handrail.hooks.status import look

    workspace = Path(workspace_of(given))
    for agent in AGENTS.values():
        state = look(agent, workspace)
        if not state.places:
            if state.found:
                says = f"{agent.title} does not ask Handrail before it acts"
                yield "weaker", says, f"handrail hook install {agent.name}"
            continue
        for problem in state.problems:
            yield "bad", f"{agent.title}: {problem}", "handrail hook status"
        if state.in_force:
            yield "good", f"{agent.title} asks Handrail ({state.tried}, {state.tried_ms:.0f} ms)", ""
        yield from (("weaker", f"{agent.title}, not seen by hooks: {hole}", "") for hole in agent.holes)

"""Whether a tool is enabled at all. Only denies."""

from __future__ import annotations

from collections.abc import Iterator

from handrail.policy.world import DENY, ToolFacts, World
from handrail.words import Finding, Risk


def enabled(tool: ToolFacts, enable: frozenset[str], disable: frozenset[str]) -> bool:
    """Whether settings offer a tool: low risk always, others by name or toolset."""
    if tool.name in disable or tool.toolset in disable:
        return False
    if tool.risk is Risk.LOW or tool.given or tool.internal or tool.name in enable:
        return True
    return tool.toolset in enable and not tool.ask_first


def findings(world: World) -> Iterator[Finding]:
    """Deny a tool that is not enabled."""
    tool = world.tool
    if enabled(tool, world.enable, world.disable):
        return
    if tool.name in world.disable or tool.toolset in world.disable:
        where = world.origins.get("tools.disable", "")
        yield Finding("enablement", "enablement.disabled", DENY, f"{tool.name} is disabled", where)
    else:
        way = 'http.allowed_hosts = ["example.org"]' if tool.toolset == "http" else f'tools.enable = ["{tool.name}"]'
        why = f"{tool.name} is not enabled; an operator enables it with {way}"
        where = world.origins.get("tools.enable", "")
        yield Finding("enablement", "enablement.not-enabled", DENY, why, where)

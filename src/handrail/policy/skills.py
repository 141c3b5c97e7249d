"""How an active skill, and the call itself, narrow what may be done. Only denies."""

from __future__ import annotations

from collections.abc import Iterator

from handrail.policy.world import DENY, USE, ToolFacts, World
from handrail.words import Finding, Touch

ALWAYS = frozenset({"list_skills", "load_skill", "display"})
GOVERNED = "agent_tool"  # stands for any tool of an agent's own: its touch names the one that is used


def opened(touch: Touch, world: World) -> str:
    """Say what loading a skill would open beyond the active one; empty where it opens nothing."""
    now, then = world.skill_tools, touch.skill
    if now is None or then is None or not then.digest:
        return ""  # nothing is narrowed yet, or there is nothing to load
    if then.tools is None:
        return f"loading {then.id} would lift what the active skill {world.skill_name} narrows"
    more = sorted(then.tools - now - ALWAYS)
    if not more:
        return ""
    names = ", ".join(more[:10]) + (" …" if len(more) > 10 else "")
    return f"loading {then.id} would open {names}, which the active skill {world.skill_name} does not allow"


def findings(touch: Touch, world: World) -> Iterator[Finding]:
    """Denials of what the active skill or the call's own `permissions` leave out."""
    if world.skill_tools is not None and (name := _left_out(touch, world.tool, world.skill_tools)):
        why = f"the active skill {world.skill_name} does not list {name} in its allowed-tools"
        yield Finding("skills", "skills.allowed-tools", DENY, why)
    if world.permissions is not None and touch.kind is not USE and touch.kind not in world.permissions:
        why = f"the call limits itself to {', '.join(sorted(world.permissions)) or 'nothing'}, without {touch.kind}"
        yield Finding("permissions", "permissions.call", DENY, why)


def _left_out(touch: Touch, tool: ToolFacts, allowed: frozenset[str]) -> str:
    """The name that a skill would have to list; empty where it does, or need not."""
    if tool.name == GOVERNED:
        return "" if touch.target in allowed else touch.target or GOVERNED
    # What serves people, such as undo, is no model's to call, so no skill's to leave out.
    always = tool.name in ALWAYS and not tool.given
    return "" if tool.internal or tool.name in allowed or always else tool.name

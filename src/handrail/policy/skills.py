"""How an active skill, and the call itself, narrow what may be done. Only denies."""

from __future__ import annotations

from collections.abc import Iterator

from handrail.policy.world import DENY, USE, World
from handrail.words import Finding, Touch

ALWAYS = frozenset({"list_skills", "load_skill", "display"})


def findings(touch: Touch, world: World) -> Iterator[Finding]:
    """Denials of what the active skill or the call's own `permissions` leave out."""
    if world.skill_tools is not None and world.tool.name not in world.skill_tools | ALWAYS:
        why = f"the active skill {world.skill_name} does not list {world.tool.name} in its allowed-tools"
        yield Finding("skills", "skills.allowed-tools", DENY, why)
    if world.permissions is not None and touch.kind is not USE and touch.kind not in world.permissions:
        why = f"the call limits itself to {', '.join(sorted(world.permissions)) or 'nothing'}, without {touch.kind}"
        yield Finding("permissions", "permissions.call", DENY, why)

"""Where a call may reach at all: roots and hosts. Only denies."""

from __future__ import annotations

from collections.abc import Iterator

from handrail.policy.patterns import host_matches
from handrail.policy.rules import FILE_KINDS
from handrail.policy.world import DENY, REACH, READ, World
from handrail.words import Finding, Touch


def findings(touch: Touch, world: World) -> Iterator[Finding]:
    """Denials of what lies outside the roots or the allowed hosts."""
    if touch.kind in FILE_KINDS:
        if touch.place is None or touch.place.root not in world.roots:
            why = f"{touch.target} is outside the allowed roots ({_names(world)})"
            yield Finding("confine", "confine.roots", DENY, why, code="PATH_OUTSIDE_ROOTS")
        elif touch.kind is not READ and not touch.place.root.writable:
            why = f"{touch.shown} is beneath a root that is read-only"
            yield Finding("confine", "confine.read-only-root", DENY, why, code="PATH_OUTSIDE_ROOTS")
    elif touch.kind is REACH and not any(host_matches(pattern, touch.target) for pattern in world.allowed_hosts):
        allowed = ", ".join(world.allowed_hosts) or "none"
        where = world.origins.get(world.hosts_setting, "")
        why = f"{touch.target} is not in {world.hosts_setting} (allowed: {allowed})"
        yield Finding("confine", "confine.hosts", DENY, why, where, code="HOST_NOT_ALLOWED")


def _names(world: World) -> str:
    return ", ".join(root.path for root in world.roots if not root.name.startswith("run:")) or "none"

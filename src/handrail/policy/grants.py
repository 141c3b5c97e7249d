"""Which approvals on record cover a call. Grants lift ask, never deny."""

from __future__ import annotations

from collections.abc import Sequence

from handrail.policy.patterns import path_matches
from handrail.policy.world import DELETE, MOVE, RUN, World
from handrail.words import Grant, How, Scope, Touch

# Neither a run nor a session grant is ever offered for these.
ONLY_ONCE = (RUN, DELETE)
_UNSAFE = ".unsafe"


def covering(touches: Sequence[Touch], world: World) -> Grant | None:
    """The first grant in force that covers every touch of the call."""
    return next((grant for grant in world.grants if covers(grant, touches, world)), None)


def covers(grant: Grant, touches: Sequence[Touch], world: World) -> bool:
    """Whether one grant is in force and covers the call: by digest, or by tool, kinds and targets."""
    if world.now >= grant.expires or (grant.uses_left is not None and grant.uses_left <= 0):
        return False
    if grant.tool != world.tool.name or grant.scope > widest(touches, world):
        return False
    if grant.scope is Scope.CALL:
        return grant.digest == world.digest != ""
    if grant.scope is Scope.NONE or (grant.scope is Scope.RUN and grant.run_id != world.run_id):
        return False
    return all(any(_fits(kind, target, touch) for kind, target in grant.touches) for touch in touches)


def widest(touches: Sequence[Touch], world: World) -> Scope:
    """The widest scope that may be granted for a call."""
    for touch in touches:
        if (touch.kind in ONLY_ONCE and not _moved(touch)) or touch.how is How.LOAD:
            return min(Scope.CALL, world.max_scope)
    return world.max_scope


def _moved(touch: Touch) -> bool:
    return touch.how is MOVE and not touch.deep


def granted_kind(touch: Touch) -> str:
    """What a grant of this touch is for: one that sends is for more than one that asks."""
    return f"{touch.kind.value}{_UNSAFE if touch.unsafe else ''}"


def _fits(kind: str, target: str, touch: Touch) -> bool:
    granted = kind == granted_kind(touch) or kind == f"{touch.kind.value}{_UNSAFE}"
    # A root is shown with a slash at its end, which in a pattern would mean all that lies below.
    return granted and path_matches(target.rstrip("/"), touch.shown.rstrip("/"))

"""Which approvals on record cover a call. Grants lift ask, never deny."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from handrail.policy import defaults
from handrail.policy.command_patterns import leaves_roots, pattern_of_touch
from handrail.policy.patterns import literal, path_matches
from handrail.policy.world import DELETE, MOVE, REACH, RUN, WRITE, World
from handrail.words import Grant, How, Scope, Touch

EXACT = "call.exact"  # the kind of a pair whose target is `World.exact`: a command line as a whole
ANY_TARGET = "**"  # of a grant for the tool as such
_UNSAFE = ".unsafe"
BY_PATTERN = ".pattern"  # of a host: its target names patterns of commands, not the line


def covering(touches: Sequence[Touch], world: World, asked: Collection[int]) -> Grant | None:
    """The first grant in force that covers the call; `asked`: which of its touches a person must be asked for."""
    return next((grant for grant in world.grants if covers(grant, touches, world, asked)), None)


def covers(grant: Grant, touches: Sequence[Touch], world: World, asked: Collection[int]) -> bool:
    """Whether one grant is in force and covers the call: by digest, or by tool, kinds and targets."""
    if world.now >= grant.expires or (grant.uses_left is not None and grant.uses_left <= 0):
        return False
    if grant.tool != world.tool.name or grant.scope > widest(touches, world):
        return False
    if grant.scope is Scope.CALL:
        return grant.digest == world.digest != ""
    if grant.scope is Scope.NONE or (grant.scope is Scope.RUN and grant.run_id != world.run_id):
        return False
    if any(map(is_of_program, touches)):
        return all(_covers_host(grant, touch, world) for touch in touches)
    if runs_commands(touches):
        return _covers_commands(grant, touches, world, asked)
    if any(touch.kind is RUN for touch in touches) and not _is_for_tool(grant):
        return grant.digest == world.digest != ""  # the same script with the same content and arguments
    return all(any(_fits(kind, target, touch, world) for kind, target in grant.touches) for touch in touches)


def widest(touches: Sequence[Touch], world: World) -> Scope:
    """Find the widest scope that may be granted for a call."""
    # Any target of a tool, for ever, is more than a person can be shown.
    most = min(Scope.SESSION, world.max_scope) if world.run_covers == "tool" else world.max_scope
    for touch in touches:
        if touch.kind is RUN and touch.skill is not None:
            most = min(Scope.RUN, most)
        elif (touch.kind is DELETE and not _moved(touch)) or touch.how is How.LOAD:
            return min(Scope.CALL, most)
        elif touch.kind in (WRITE, DELETE) and defaults.is_sensitive(touch, world):
            return min(Scope.CALL, most)  # each time with its diff: what it says runs outside the sandbox
    return most


def coverage(touches: Sequence[Touch], world: World, asked: Collection[int]) -> tuple[tuple[str, str], ...]:
    """List the (kind, target) pairs that a wider grant covers: these targets, or any target of the same tool.

    The person is shown exactly these. Wildcards in real names are made literal. Of a command line they are what must
    be asked for: patterns of its commands, or else the line as a whole.
    """
    if runs_commands(touches):
        return _command_coverage(touches, world, asked)
    pairs = [(_kind(touch, world), _target(touch, world)) for touch in touches]
    if any(map(is_of_program, touches)) and not world.commands and world.max_scope is Scope.ALWAYS:
        pairs.append((EXACT, world.exact))  # what is granted always is bound to no policy
    return tuple(dict.fromkeys(pairs))


def runs_commands(touches: Sequence[Touch]) -> bool:
    """Say whether a call runs programs of its own choice, not only the scripts of a skill."""
    return any(touch.kind is RUN and touch.skill is None for touch in touches)


def _command_coverage(touches: Sequence[Touch], world: World, asked: Collection[int]) -> tuple[tuple[str, str], ...]:
    chosen = [touch for index, touch in enumerate(touches) if index in asked]
    pairs = [_command_pair(touch, world) for touch in chosen]
    if _goes_by_pattern(touches, world) and all(target for _, target in pairs):
        return tuple(dict.fromkeys(pairs))
    return ((EXACT, world.exact),) if world.exact else ()


def _command_pair(touch: Touch, world: World) -> tuple[str, str]:
    return granted_kind(touch), _pattern(touch, world) if touch.kind is RUN else literal(touch.shown)


def _pattern(touch: Touch, world: World) -> str:
    return pattern_of_touch(touch, _folders(world))


def _folders(world: World) -> list[str]:
    return [root.path for root in world.roots]


def _goes_by_pattern(touches: Sequence[Touch], world: World) -> bool:
    """Say whether patterns of its commands say all of a call: its arguments are usual, and it stays in the roots."""
    return world.ordinary and not leaves_roots(touches, _folders(world))


def _covers_commands(grant: Grant, touches: Sequence[Touch], world: World, asked: Collection[int]) -> bool:
    """Say whether a grant covers a command line: as a whole, or all in it that must be asked for.

    A command is covered by its own pattern alone, never by a text that happens to match.
    """
    if world.exact and (EXACT, world.exact) in grant.touches:
        return True
    chosen = [touch for index, touch in enumerate(touches) if index in asked]
    return _goes_by_pattern(touches, world) and all(_command_fits(grant, touch, world) for touch in chosen)


def _command_fits(grant: Grant, touch: Touch, world: World) -> bool:
    if touch.kind is RUN:
        pattern = _pattern(touch, world)
        return pattern != "" and (granted_kind(touch), pattern) in grant.touches
    return any(_fits(kind, target, touch, world) for kind, target in grant.touches if kind != EXACT)


def covers_targets(pairs: Sequence[tuple[str, str]], touches: Sequence[Touch]) -> bool:
    """Say whether all touches of a call are among the pairs that its request names; of commands not all are named."""
    return runs_commands(touches) or all(
        {(granted_kind(item), literal(item.shown)), (granted_kind(item), ANY_TARGET)} & {*pairs} for item in touches
    )


def _covers_host(grant: Grant, touch: Touch, world: World) -> bool:
    """Say whether a grant covers a host that a program reaches for: with the same patterns, or the same exact line."""
    if grant.digest == world.digest != "" or (world.exact and (EXACT, world.exact) in grant.touches):
        return True
    kinds = (_kind(touch, world), f"{touch.kind.value}{_UNSAFE}{BY_PATTERN}")
    return bool(world.commands) and any((kind, _target(touch, world)) in grant.touches for kind in kinds)


def patterns_of_line(touches: Sequence[Touch], world: World) -> tuple[str, ...]:
    """Give the patterns of all commands of a line but those that only read; none where one of them has no pattern.

    Whatever a program that only reads is given, it reaches for no host.
    """
    from handrail.policy import shell
    from handrail.policy.shell.harmless import shadowed_name

    if not _goes_by_pattern(touches, world):
        return ()
    found = []
    for touch in touches:
        if touch.kind is not RUN:
            continue
        plain = not touch.doubt and touch.skill is None and not shadowed_name(touch.words or ("",), world.shadowed)
        if plain and shell.harmless(touch.words) and "git" not in touch.words:  # git may fetch what it lacks
            continue
        found.append(_pattern(touch, world))
    return tuple(sorted(dict.fromkeys(found))) if all(found) else ()


def is_of_program(touch: Touch) -> bool:
    """Say whether a touch is a host that a program reaches for: its words are the commands of the call."""
    return touch.kind is REACH and bool(touch.words)


def _target(touch: Touch, world: World) -> str:
    if is_of_program(touch):
        return f"{literal(touch.target)} by {'; '.join(world.commands or touch.words)}"
    alike = world.run_covers == "tool" and (touch.kind is not RUN or touch.skill is not None)
    return ANY_TARGET if alike and not _is_apart(touch, world) else literal(touch.shown)


def _is_apart(touch: Touch, world: World) -> bool:
    """Say whether a touch is never covered by a grant for any target: deleting, and files that run programs."""
    return touch.kind is DELETE or defaults.is_sensitive(touch, world)


def _is_for_tool(grant: Grant) -> bool:
    return any(kind == RUN.value and target == ANY_TARGET for kind, target in grant.touches)


def _moved(touch: Touch) -> bool:
    return touch.how is MOVE and not touch.deep


def _kind(touch: Touch, world: World) -> str:
    return f"{granted_kind(touch)}{BY_PATTERN if is_of_program(touch) and world.commands else ''}"


def granted_kind(touch: Touch) -> str:
    """What a grant of this touch is for: one that sends is for more than one that asks."""
    return f"{touch.kind.value}{_UNSAFE if touch.unsafe else ''}"


def _fits(kind: str, target: str, touch: Touch, world: World) -> bool:
    granted = kind == granted_kind(touch) or kind == f"{touch.kind.value}{_UNSAFE}"
    if target == ANY_TARGET:
        return granted and not _is_apart(touch, world)
    # A root is shown with a slash at its end, which in a pattern would mean all that lies below.
    return granted and path_matches(target.rstrip("/"), touch.shown.rstrip("/"))

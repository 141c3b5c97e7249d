"""`decide(touches, world) -> Verdict`: pure, one file per source.

    builtin, confine, enablement, skills   deny, and only deny
    rules                                  the operator's: the strictest that matches
    defaults                               only where no rule matches
    grants                                 lift ask, never deny
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from handrail.policy import builtin, confine, defaults, enablement, grants, rules, skills
from handrail.policy.world import ToolFacts, World
from handrail.words import Decision, Exclusion, Finding, Touch, TouchKind, Verdict

__all__ = ["ToolFacts", "World", "decide"]


def decide(touches: Sequence[Touch], world: World) -> Verdict:
    """Judge a call: the strictest finding over all touches wins; silence denies."""
    bulk = sum(_files_changed(touch) for touch in touches) > world.bulk_files
    found = [
        replace(finding, touch=index)
        for index, touch in enumerate(touches)
        for finding in _findings(touch, world, bulk=bulk)
    ]
    if not found:
        nothing = Finding("defaults", "defaults.silence", Decision.DENY, "the call states nothing that can be judged")
        return Verdict(Decision.DENY, (nothing,))
    decision = max(finding.decision for finding in found)
    grant = grants.covering(touches, world) if decision is Decision.ASK else None
    if grant is not None:
        why = f"approved by {grant.given_by or 'a person'} ({grant.scope.word})"
        found.append(Finding("grants", f"grant.{grant.id}", Decision.ALLOW, why))
        decision = Decision.ALLOW
    return Verdict(
        decision=decision,
        findings=tuple(found),
        excluded=tuple(_excluded(touches, world)),
        scope=grants.widest(touches, world),
        grant=grant.id if grant is not None else None,
    )


def _findings(touch: Touch, world: World, *, bulk: bool) -> Iterator[Finding]:
    """All that is said of one touch: denials of the fixed sources, or else rules, or else the default."""
    denials = [
        *builtin.findings(touch, world),
        *confine.findings(touch, world),
        *enablement.findings(world),
        *skills.findings(touch, world),
        *_unconfirmed(touch),
    ]
    ruled = list(rules.matching(touch, world))
    yield from denials
    for rule in ruled:
        yield rules.finding(rule, touch)
    if not denials and all(rule.narrows for rule in ruled):
        yield defaults.finding(touch, world, bulk=bulk)


def _unconfirmed(touch: Touch) -> Iterator[Finding]:
    if not touch.confirmed:
        why = f"{touch.kind} of {touch.shown} needs `confirm: true` in the same call"
        yield Finding("builtin", "builtin.confirm", Decision.DENY, why)


def _excluded(touches: Sequence[Touch], world: World) -> Iterator[Exclusion]:
    for touch in touches:
        if touch.deep and touch.place is not None and touch.kind is TouchKind.FS_READ:
            yield from builtin.exclusions(touch, world)
            yield from rules.exclusions(touch, world)
            yield from _protected(world)


def _protected(world: World) -> Iterator[Exclusion]:
    """Protected names are left out, except where they say so themselves or a rule allows reading."""
    lifted = rules.allowed_patterns(world)
    for index, pattern in enumerate(world.protected):
        if not pattern.startswith("!"):
            later = tuple(item[1:] for item in world.protected[index + 1 :] if item.startswith("!"))
            yield Exclusion(pattern, "defaults.protected", except_for=(*later, *lifted))


def _files_changed(touch: Touch) -> int:
    if touch.kind not in (TouchKind.FS_WRITE, TouchKind.FS_DELETE):
        return 0
    return 1 + len(touch.below or ())

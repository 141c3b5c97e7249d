"""`decide(touches, world) -> Verdict`: pure, one file per source.

builtin, confine, enablement, skills   deny, and only deny
programs (forbidden commands)          deny, and ask for what cannot be looked at
rules                                  the operator's: the strictest that matches
defaults, programs                     only where no rule matches
grants                                 lift ask, never deny
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from handrail.policy import builtin, confine, defaults, enablement, grants, programs, rules, skills
from handrail.policy.world import ALLOW, ASK, DENY, MOVE, READ, RUN, WRITE, ToolFacts, World
from handrail.words import Exclusion, Finding, Place, PlaceKind, Touch, Verdict

__all__ = ["ToolFacts", "World", "as_judged", "decide"]

MISSING, DIRECTORY = PlaceKind.MISSING, PlaceKind.DIRECTORY


def decide(touches: Sequence[Touch], world: World) -> Verdict:
    """Judge a call: the strictest finding over all touches wins; silence denies."""
    bulk = defaults.files_changed(touches) > world.bulk_files
    found = []
    read = programs.Read(touches)
    for index, touch in enumerate(as_judged(touches)):
        about = _findings(touch, world, read, bulk=bulk)
        if touch.kind is RUN:
            for inner in programs.wrapped(touch, read):
                about += _findings(inner, world, read, bulk=bulk)
        found += about if index == 0 else [_of(finding, index) for finding in about]
    if not found:
        nothing = Finding("defaults", "defaults.silence", DENY, "the call states nothing that can be judged")
        return Verdict(DENY, (nothing,))
    decision = max([finding.decision for finding in found])
    grant = grants.covering(touches, world) if decision is ASK else None
    if grant is not None:
        why = f"approved by {grant.given_by or 'a person'} ({grant.scope.word})"
        found.append(Finding("grants", f"grant.{grant.id}", ALLOW, why))
        decision = ALLOW
    runs = RUN in [touch.kind for touch in touches]
    return Verdict(
        decision=decision,
        findings=tuple(found),
        excluded=_excluded(touches, world, runs=runs),
        locked=world.withheld(programs.withheld)[1] if runs else (),
        scope=grants.widest(touches, world),
        grant=grant.id if grant is not None else None,
    )


def _of(said: Finding, touch: int) -> Finding:
    """The finding, said of a touch; what `replace` does, in a third of the time."""
    return Finding(said.source, said.rule, said.decision, said.why, said.where, touch, said.code)


def _findings(touch: Touch, world: World, read: programs.Read, *, bulk: bool) -> list[Finding]:
    """All that is said of one touch: denials of the fixed sources and rules, or else the default."""
    found = [
        *builtin.findings(touch, world),
        *(programs.findings(touch, read) if touch.kind is RUN else ()),
        *confine.findings(touch, world),
        *enablement.findings(world),
        *skills.findings(touch, world),
        *builtin.unconfirmed(touch),
    ]
    judged = bool(found)
    for finding, replaces_default in rules.findings(touch, world):
        judged = judged or replaces_default
        found.append(finding)
    if not judged:
        default = programs.default(touch, world) if touch.kind is RUN else defaults.finding(touch, world, bulk=bulk)
        found.append(default)
    return found


def as_judged(touches: Sequence[Touch]) -> Sequence[Touch]:
    """Give the touches as they are judged: a moved folder brings all that lies in it to its target."""
    moved = [touch for touch in touches if touch.how is MOVE and touch.below and touch.place is not None]
    if not moved:
        return touches
    return [_receiving(touch, moved) if touch.kind is WRITE else touch for touch in touches]


def _receiving(touch: Touch, moved: Sequence[Touch]) -> Touch:
    if touch.place is None:
        return touch
    brought = [
        f"{touch.place.path}{path[len(source.place.path) :]}"
        for source in moved
        if source.place is not None
        for path in source.below or ()
    ]
    return replace(touch, deep=True, below=tuple(dict.fromkeys([*(touch.below or ()), *brought])))


def _excluded(touches: Sequence[Touch], world: World, *, runs: bool) -> tuple[Exclusion, ...]:
    found: list[Exclusion] = []
    for touch in touches:
        place = touch.place
        if touch.kind is not READ or place is None:
            continue
        if place.kind is MISSING and not touch.deep:  # names near a missing one are looked for beneath the whole root
            touch = replace(touch, deep=True, place=Place(place.root, "", DIRECTORY))
        if touch.deep:
            found += [
                *builtin.exclusions(touch, world),
                *rules.exclusions(touch, world),
                *defaults.exclusions(touch, world),
            ]
    hidden = world.withheld(programs.withheld)[0] if runs else ()
    return tuple(dict.fromkeys([*found, *hidden])) if found else hidden

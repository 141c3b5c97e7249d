"""`decide(touches, world) -> Verdict`: pure, one file per source.

builtin, enablement, skills            deny, and only deny
confine                                deny, and ask for hosts where settings say so
programs (forbidden commands)          deny, and ask for what cannot be looked at
rules                                  the operator's: the strictest that matches
defaults, programs                     only where no rule matches
grants                                 lift ask, never deny
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from handrail.policy import builtin, confine, defaults, enablement, grants, links, programs, rules, skills
from handrail.policy.world import ALLOW, ASK, DENY, GIT, MOVE, READ, RUN, WRITE, ToolFacts, World
from handrail.words import Exclusion, Finding, Place, PlaceKind, Touch, Verdict

__all__ = ["ToolFacts", "World", "as_judged", "asked_for", "decide", "judge_changes"]

MISSING, DIRECTORY, LINK = PlaceKind.MISSING, PlaceKind.DIRECTORY, PlaceKind.LINK


def decide(touches: Sequence[Touch], world: World) -> Verdict:
    """Judge a call: the strictest finding over all touches wins; silence denies."""
    direct = world.border and programs.is_in_background(touches)
    if world.border and (direct or programs.is_outside(touches)):
        world = _without_layer(world, programs.IN_BACKGROUND if direct else programs.OUTSIDE)
    bulk = defaults.is_bulk(touches, world)
    found = []
    read = programs.Read(touches)
    linked = any(touch.how is MOVE and touch.place is not None and touch.place.kind is LINK for touch in touches)
    for index, touch in enumerate(as_judged(touches)):
        about = _findings(touch, world, read, bulk=bulk)
        if linked and touch.kind is WRITE and touch.place is not None:
            led = links.judge_link(touch.place.absolute, touch.shown, world.repositories)
            about += [] if led is None else [led]
        if touch.kind is RUN:
            for inner in programs.wrapped(touch, read):
                about += _findings(inner, world, read, bulk=bulk)
        found += about if index == 0 else [_of(finding, index) for finding in about]
    if not found:
        nothing = Finding("defaults", "defaults.silence", DENY, "the call states nothing that can be judged")
        return Verdict(DENY, (nothing,))
    decision = max([finding.decision for finding in found])
    grant = grants.covering(touches, world, asked_for(found)) if decision is ASK and world.grants else None
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
        direct=direct,
        border=runs and world.border,
    )


def judge_changes(touches: Sequence[Touch], world: World) -> list[Finding]:
    """Judge each change that a program made by itself; gives the finding that decides it."""
    world = replace(world, changes=True)
    bulk = defaults.is_bulk(touches, world)
    read = programs.Read(())
    return [max(_findings(touch, world, read, bulk=bulk), key=_decision) for touch in touches]


def _decision(finding: Finding) -> int:
    return finding.decision


def _without_layer(world: World, why: str) -> World:
    """The world of a program that works on the workspace itself: nobody judges what it changed."""
    return replace(world, border=False, reviewed=False, no_border=why)


def asked_for(found: Sequence[Finding]) -> frozenset[int]:
    """Say which touches of a call, by their index, a person must be asked for."""
    return frozenset([finding.touch for finding in found if finding.decision is ASK])


def _of(said: Finding, touch: int) -> Finding:
    """The finding, said of a touch; what `replace` does, in a third of the time."""
    return Finding(said.source, said.rule, said.decision, said.why, said.where, touch, said.code)


def _findings(touch: Touch, world: World, read: programs.Read, *, bulk: bool) -> list[Finding]:
    """All that is said of one touch: denials of the fixed sources and rules, or else the default."""
    found = [
        *builtin.findings(touch, world),
        *(programs.findings(touch, world, read) if touch.kind is RUN else ()),
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
        found.append(_default(touch, world, read, bulk=bulk))
    return programs.leave_to_changes(touch, found) if world.border and read.runs else found


def _default(touch: Touch, world: World, read: programs.Read, *, bulk: bool) -> Finding:
    """Return what holds for a touch that nothing speaks of; a rule for a git command speaks of what it writes."""
    if touch.kind is RUN:
        return defaults.mind_mark(touch, programs.default(touch, world), world)
    named = programs.git_allowed(touch, world, read) if touch.kind is GIT else None
    return named or defaults.mind_mark(touch, defaults.finding(touch, world, bulk=bulk), world)


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

"""The policy engine against a second, naive evaluator on random worlds: not one difference."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from handrail.policy import World, decide
from handrail.policy.patterns import excluded
from handrail.words import Decision, Place, PlaceKind, Touch, TouchKind, Verdict
from laws import reference_policy as reference
from laws import worlds

SCALE = int(os.environ.get("HANDRAIL_TEST_SCALE", "1"))
PARTS = 6  # so that several workers share the load
WORLDS = 3_000 * SCALE


def told(touches: tuple[Touch, ...], world: World) -> str:
    return f"{touches}\n{world}"


def compare(random: Random, touches: tuple[Touch, ...], world: World) -> Verdict:
    """Judge one call by both, and everything that a verdict promises."""
    verdict = decide(touches, world)
    decision, code = reference.judge(touches, world)
    assert verdict.decision is decision, told(touches, world)
    if decision is Decision.DENY:
        assert verdict.deciding.code == code, told(touches, world)
        return verdict
    assert verdict.scope is reference.scope(touches, world), told(touches, world)
    looks = [look for touch in touches if (look := looked_below(touch)) is not None]
    for look in looks:
        compare_below(random, look, looks, touches, world, verdict)
    return verdict


def looked_below(touch: Touch) -> Touch | None:
    """The read of a folder that a touch is; for a name that is missing, near ones are looked for below its root."""
    if touch.kind is not TouchKind.FS_READ or touch.place is None:
        return None
    if touch.place.kind is PlaceKind.MISSING and not touch.deep:
        return replace(touch, deep=True, place=Place(touch.place.root, "", PlaceKind.DIRECTORY))
    return touch if touch.deep else None


def compare_below(
    random: Random, touch: Touch, deep: list[Touch], touches: tuple[Touch, ...], world: World, verdict: Verdict
) -> None:
    """What lies below a deep read is left out exactly where a read of it alone would not be allowed."""
    assert touch.place is not None
    folder, root = touch.place.path, touch.place.root
    for _ in range(8):
        path = f"{folder}/{worlds.path(random)}".lstrip("/")
        ours = excluded(verdict.excluded, root, path) is not None
        # With several deep reads in one call each leaves out what any of them must, or a program of it.
        same_root = [item for item in deep if item.place is not None and item.place.root == root]
        runs = any(item.kind is TouchKind.PROC_EXEC for item in touches)
        if len(same_root) == len(deep) == 1 and not runs:
            assert ours == reference.left_out(touch, world, path), f"{path}\n{told(touches, world)}"
        elif reference.left_out(touch, world, path):
            assert ours, f"{path}\n{told(touches, world)}"


@pytest.mark.parametrize("part", range(PARTS))
def test_the_engine_and_the_reference_never_differ_on_random_worlds(part: int) -> None:
    """Decision, code of a denial, widest scope and what is left out below are the same in every world."""
    seen: Counter[Decision] = Counter()
    for number in range(part, WORLDS, PARTS):
        random = Random(number)
        touches, world = worlds.situation(random)
        seen[compare(random, touches, world).decision] += 1
    # A comparison that only ever sees denials would say little.
    assert min(seen[decision] for decision in Decision) > WORLDS / PARTS / 20, seen


def test_the_random_worlds_reach_every_source_and_default() -> None:
    """Each finding that policy can make is made somewhere in the worlds that are compared."""
    seen = set()
    for number in range(3_000):
        touches, world = worlds.situation(Random(number))
        verdict = decide(touches, world)
        seen |= {item.rule if item.source not in ("rules", "grants") else item.source for item in verdict.findings}
        seen |= {"excluded"} if verdict.excluded else set()
        if verdict.decision is Decision.ALLOW and verdict.grant is None:
            seen |= {
                "script" for touch in touches if touch.doubt and not any(rule.target is None for rule in world.rules)
            }
            seen |= {"git" for touch in touches if touch.kind is TouchKind.GIT_WRITE}
    assert seen >= {
        *("builtin.own-files", "builtin.key-material", "builtin.root", "builtin.unseen", "builtin.repository"),
        *("builtin.settings", "builtin.metadata", "builtin.confirm", "confine.roots", "confine.read-only-root"),
        *("confine.hosts", "enablement.disabled", "enablement.not-enabled", "skills.allowed-tools", "permissions.call"),
        *("defaults.protected", "defaults.allowed-host", "defaults.low-risk", "defaults.asks", "defaults.undo"),
        *(
            "defaults.workspace-read",
            "defaults.runs-programs",
            "defaults.skills",
            "defaults.bulk",
            "defaults.too-large-to-undo",
        ),
        *("defaults.delete", "defaults.overwrite", "defaults.workspace-write", "defaults.silence"),
        *("defaults.border", "defaults.kept", "defaults.cache", "defaults.git-record", "defaults.hides-changes"),
        *("defaults.on-path", "defaults.command", "defaults.not-understood"),
        *("rules", "grants", "excluded", "script", "git"),
    }

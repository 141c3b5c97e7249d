"""Approvals on record: what they lift, how long, and for what alone."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from handrail.policy import decide
from handrail.policy.patterns import literal
from handrail.words import Finding, Grant, Scope, Touch
from laws import worlds
from laws.calls import ALLOW, ASK, DENY, FILE, HIGH, OBSERVATIONS, delete, grant, move, read, rule, run, world, write

OVERWRITE = write("a", kind=FILE)
CALL, RUN, SESSION = Scope.CALL, Scope.RUN, Scope.SESSION


def test_a_grant_lifts_ask_and_is_named_in_the_verdict() -> None:
    """The finding says who gave it and how far it reaches; what asked stays on record beside it."""
    verdict = decide((OVERWRITE,), world(HIGH, grants=(grant(OVERWRITE),)))
    assert (verdict.decision, verdict.grant, verdict.scope) == (ALLOW, "g1", RUN)
    assert verdict.findings[1:] == (Finding("grants", "grant.g1", ALLOW, "approved by ann (run)"),)
    assert verdict.findings[0].decision is ASK


@pytest.mark.parametrize(
    ("given", "in_force"),
    [
        (grant(OVERWRITE), True),
        (grant(OVERWRITE, expires=100.0), False),
        (grant(OVERWRITE, expires=100.5), True),
        (grant(OVERWRITE, uses_left=0), False),
        (grant(OVERWRITE, uses_left=-1), False),
        (grant(OVERWRITE, uses_left=1), True),
        (grant(OVERWRITE, tool="edit_file"), False),
        (grant(OVERWRITE, run_id="r2"), False),
        (grant(OVERWRITE, scope=SESSION, run_id="r2"), True),
        (grant(OVERWRITE, scope=Scope.NONE), False),
        (grant(OVERWRITE, digest="other"), True),
        (grant(OVERWRITE, scope=CALL, run_id="r2"), True),
        (grant(OVERWRITE, scope=CALL, digest="other"), False),
        (grant(OVERWRITE, scope=CALL, digest=""), False),
        (grant(scope=CALL), True),
        (grant(), False),
        (grant(write("b")), False),
        (grant(read("a")), False),
        (grant(OVERWRITE, touches=(("fs.write", "*"),)), True),
        (grant(OVERWRITE, touches=(("fs.write", "a/"),)), True),
    ],
)
def test_a_grant_is_bound_to_time_uses_tool_run_digest_and_targets(given: Grant, in_force: bool) -> None:
    """Each binding alone takes it out of force."""
    verdict = decide((OVERWRITE,), world(HIGH, grants=(given,), max_scope=SESSION))
    assert verdict.decision is (ALLOW if in_force else ASK)


def test_an_empty_digest_is_nobodys() -> None:
    """A call whose digest is not known yet is covered by no grant for one exact call."""
    given = grant(OVERWRITE, scope=CALL, digest="")
    assert decide((OVERWRITE,), world(HIGH, grants=(given,), digest="")).decision is ASK


@pytest.mark.parametrize("name", ["a*", "a?c", "[ab]", "a[", "**", "x]"])
def test_wildcards_in_real_names_cover_only_themselves(name: str) -> None:
    """An approval for a file that is called `a*` is none for `ab`."""
    given = grant(OVERWRITE, touches=(("fs.write", literal(name)),))
    there = world(HIGH, grants=(given,))
    assert decide((write(name, kind=FILE),), there).decision is ALLOW
    for other in ("ab", "abc", "a", "b", "x", "q/r"):
        assert decide((write(other, kind=FILE),), there).decision is ASK


def test_an_approval_for_a_folder_of_the_run_is_none_for_what_lies_in_it() -> None:
    """A root is shown with a slash at its end, which no pattern is."""
    there = world(HIGH, rule(ASK, "fs.read", "**"), grants=(grant(read("", OBSERVATIONS)),))
    assert decide((read("", OBSERVATIONS),), there).decision is ALLOW
    assert decide((read("3.txt", OBSERVATIONS),), there).decision is ASK


def test_every_touch_of_the_call_must_be_covered() -> None:
    """A grant for one file does not carry another along, and the kinds must be the same."""
    both = (OVERWRITE, write("b", kind=FILE))
    assert decide(both, world(HIGH, grants=(grant(OVERWRITE),))).decision is ASK
    assert decide(both, world(HIGH, grants=(grant(*both),))).decision is ALLOW
    assert decide((OVERWRITE, read("a")), world(HIGH, grants=(grant(OVERWRITE),))).decision is ASK


def test_the_first_grant_that_covers_is_the_one_that_is_spent() -> None:
    """Those that do not cover are passed over."""
    grants = (grant(write("b"), id="g0"), grant(OVERWRITE, id="g1"), grant(OVERWRITE, id="g2"))
    assert decide((OVERWRITE,), world(HIGH, grants=grants)).grant == "g1"


def test_scopes_are_never_wider_than_a_call_for_deletion() -> None:
    """A moved file is not deleted; a moved folder and any deletion are approved one by one.

    A command may be granted for longer: as its pattern, or as the exact line.
    """
    there = world(HIGH, max_scope=Scope.SESSION)
    calls = {
        "write": (write("a", kind=FILE),),
        "move": move("a", "b"),
        "move a folder": move("d", "e", ()),
        "delete": (delete("a"),),
        "run": (run("ls"),),
        "write and run": (write("a"), run("ls")),
    }
    assert {name: decide(touches, there).scope.word for name, touches in calls.items()} == {
        "write": "session",
        "move": "session",
        "move a folder": "call",
        "delete": "call",
        "run": "session",
        "write and run": "session",
    }
    narrow = replace(there, max_scope=Scope.CALL)
    assert decide(calls["write"], narrow).scope is Scope.CALL


@pytest.mark.parametrize("touches", [(run("ls"),), (delete("a"),), move("d", "e", ("d/x",))])
def test_no_wider_grant_counts_for_deletion_and_commands_without_a_pattern(touches: tuple[Touch, ...]) -> None:
    """Even one that is on record, and names the very words, is in force for a single call alone."""
    there = world(HIGH, rule(ASK), max_scope=SESSION)
    for scope, decision in ((CALL, ALLOW), (RUN, ASK), (SESSION, ASK)):
        assert decide(touches, replace(there, grants=(grant(*touches, scope=scope),))).decision is decision


def test_a_grant_wider_than_settings_allow_is_out_of_force() -> None:
    """Lowering `approvals.max_scope` takes back what was given under the wider one."""
    for widest, decision in ((SESSION, ALLOW), (RUN, ASK), (CALL, ASK)):
        there = world(HIGH, grants=(grant(OVERWRITE, scope=SESSION),), max_scope=widest)
        assert decide((OVERWRITE,), there).decision is decision


@pytest.mark.parametrize(
    "touches",
    [(read(".ssh/x"),), (read(".env"),), (write("x", kind=FILE), read(".env")), (delete("a", confirmed=False),)],
)
def test_no_grant_lifts_a_denial(touches: tuple[Touch, ...]) -> None:
    """Neither one for the exact call nor one for everything."""
    wide = grant(scope=SESSION, touches=tuple((touch.kind.value, "**") for touch in touches))
    there = world(HIGH, grants=(grant(scope=CALL), wide), max_scope=SESSION)
    assert (decide(touches, there).decision, decide(touches, there).grant) == (DENY, None)


@pytest.mark.parametrize("part", range(4))
def test_grants_only_ever_turn_ask_into_allow(part: int) -> None:
    """In no world do they change a denial or an allowance, and without them nothing is milder."""
    for number in range(part, 2_000, 4):
        touches, there = worlds.situation(Random(number))
        with_grants, without = decide(touches, there), decide(touches, replace(there, grants=()))
        lifted = (without.decision, with_grants.decision) == (ASK, ALLOW)
        assert (with_grants.grant is not None) is lifted
        assert lifted or with_grants == without

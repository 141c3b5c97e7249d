"""Roots under policy: what may be done to the folder itself."""

from __future__ import annotations

from handrail.policy import decide
from handrail.words import How, Root
from laws.calls import ALLOW, FOLDER, HIGH, WORKSPACE, delete, rule, world, write

INNER = Root("/ws/lib/inner", "/ws/lib/inner", True)
THERE = world(HIGH, rule(ALLOW), roots=(WORKSPACE, INNER))


def test_a_root_that_is_there_may_be_made_again() -> None:
    """It stays as it is, and so does a folder that holds one."""
    for touch in (write("", How.MAKE, FOLDER), write("", How.MAKE, FOLDER, INNER), write("lib", How.MAKE, FOLDER)):
        assert decide((touch,), THERE).decision is ALLOW


def test_a_root_is_changed_in_no_other_way() -> None:
    """One that is gone is not made, and none is written or deleted, whatever the touch says of how."""
    wrong = [write("", How.MAKE), write("", How.PLAIN, FOLDER), write("", How.REPLACE, FOLDER)]
    wrong += [delete("", (), INNER, how=How.MAKE), write("lib", How.MAKE), write("lib", How.REPLACE, FOLDER)]
    assert [decide((touch,), THERE).deciding.rule for touch in wrong] == ["builtin.root"] * len(wrong)


def test_what_is_protected_is_not_made_again() -> None:
    """A repository that is there is still none of an agent's business."""
    assert decide((write(".git", How.MAKE, FOLDER),), THERE).deciding.rule == "builtin.repository"

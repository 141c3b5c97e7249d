"""Names that make programs run outside any sandbox: a change of one asks, and programs find each of them locked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from handrail.policy import ToolFacts, World, decide, defaults
from handrail.policy.patterns import excluded
from handrail.words import Decision, Exclusion, How, Place, PlaceKind, Risk, Root, Touch, TouchKind
from laws.reference_policy import RUNS_PROGRAMS

WORK = Root("workspace", "/ws", writable=True)
WRITES = World(ToolFacts("write_file", "fs", Risk.HIGH), (WORK,), enable=frozenset({"fs"}), protected=())
RUNS = World(ToolFacts("run_command", "exec", Risk.MEDIUM), (WORK,), enable=frozenset({"exec"}), protected=())
COMMAND = (Touch(TouchKind.PROC_EXEC, "make", words=("make",)),)


def spellings(name: str) -> tuple[str, ...]:
    """A name as it stands, deeper, in other letters, and something below it."""
    return name, f"packages/x/{name}", name.upper(), f"{name}/below/it"


def neighbours(name: str) -> tuple[str, ...]:
    """Names that only look like it."""
    before = f"x{name}" if not name.startswith("*") else name[2:]
    return f"{name}x", before, name.rpartition("/")[0] or "plain"


def change(path: str, kind: TouchKind = TouchKind.FS_WRITE, how: How = How.PLAIN) -> Touch:
    return Touch(kind, path, how=how, place=Place(WORK, path, PlaceKind.MISSING))


def held(locked: Sequence[Exclusion], paths: tuple[str, ...]) -> set[str | None]:
    """What locks some paths."""
    found = [excluded(locked, WORK, path) for path in paths]
    return {None if item is None else item.rule for item in found}


def judged(touch: Touch) -> tuple[Decision, str]:
    verdict = decide((touch,), WRITES)
    return verdict.decision, verdict.deciding.rule


def test_the_list_is_the_one_written_down_here() -> None:
    """A name that is lost, or added without these laws, is noticed."""
    assert sorted(defaults.RUNS_PROGRAMS) == sorted(RUNS_PROGRAMS)
    assert len(RUNS_PROGRAMS) == 90


@pytest.mark.parametrize("name", RUNS_PROGRAMS)
def test_a_change_of_what_makes_programs_run_asks(name: str) -> None:
    """Writing, editing and moving away, wherever it lies; what only looks like it is written without a question."""
    asks = (Decision.ASK, "defaults.runs-programs")
    for path in spellings(name):
        assert judged(change(path)) == judged(change(path, how=How.EDIT)) == asks
        assert judged(change(path, TouchKind.FS_DELETE, How.MOVE)) == asks
    assert {judged(change(path)) for path in neighbours(name)} == {(Decision.ALLOW, "defaults.workspace-write")}


@pytest.mark.parametrize("name", RUNS_PROGRAMS)
def test_programs_find_what_makes_programs_run_locked(name: str) -> None:
    """Without a review of their changes; with one, each change is asked for then."""
    locked, reviewed = (decide(COMMAND, world).locked for world in (RUNS, replace(RUNS, reviewed=True)))
    assert held(locked, spellings(name)) == {"defaults.runs-programs"}
    assert held(locked, neighbours(name)) == {None}
    assert held(reviewed, spellings(name)) == {None}

"""Which skill may follow which, and what a run remembers of it. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from handrail.policy import ToolFacts, World, decide
from handrail.policy.rules import Rule
from handrail.store.state import RunState, fold
from handrail.words import Decision, Grant, How, Risk, Scope, SkillPart, Touch, TouchKind

LOAD = ToolFacts("load_skill", "skills", Risk.LOW)


def loading(tools: set[str] | None, *, digest: str = "d") -> Touch:
    """The touch of a call that loads a skill with these tools."""
    part = SkillPart("new", "", digest, None if tools is None else frozenset(tools))
    return Touch(TouchKind.TOOL_USE, "new", how=How.LOAD, skill=part)


def world(tools: set[str] | None, **more: Any) -> World:
    """A world in which a skill with these tools is active; None: one that does not narrow."""
    return World(LOAD, skill_name="old", skill_tools=None if tools is None else frozenset(tools), **more)


@pytest.mark.parametrize(
    ("now", "then", "decision"),
    [
        (None, None, Decision.ALLOW),
        (None, {"grep"}, Decision.ALLOW),
        (set(), set(), Decision.ALLOW),
        (set(), {"grep"}, Decision.ASK),
        (set(), {"display", "load_skill", "list_skills"}, Decision.ALLOW),
        ({"grep"}, {"grep"}, Decision.ALLOW),
        ({"grep", "now"}, {"grep"}, Decision.ALLOW),
        ({"grep"}, {"now"}, Decision.ASK),
        ({"grep"}, None, Decision.ASK),
    ],
)
def test_only_a_skill_that_opens_more_asks(now: set[str] | None, then: set[str] | None, decision: Decision) -> None:
    """Tools that stay callable anyway open nothing."""
    verdict = decide((loading(then),), world(now))
    assert verdict.decision is decision
    assert verdict.deciding.rule == ("defaults.opens-tools" if decision is Decision.ASK else "defaults.low-risk")


def test_the_reason_names_both_skills_and_the_tools() -> None:
    """A person decides by it."""
    narrowed = decide((loading({"now", "grep", "read_file"}),), world({"read_file"}))
    opened = decide((loading(None),), world({"read_file"}))
    why = "loading new would open grep, now, which the active skill old does not allow"
    assert narrowed.deciding.why == why
    assert opened.deciding.why == "loading new would lift what the active skill old narrows"


def test_a_skill_that_cannot_be_loaded_needs_nobody() -> None:
    """The tool says what is wrong with it; nothing opens."""
    assert decide((loading(None, digest=""),), world(set())).decision is Decision.ALLOW


def test_no_wider_grant_covers_loading_a_skill() -> None:
    """What a skill opens may change from one loading to the next, so an approval is for one exact call."""
    grant = Grant("g", "q", Scope.RUN, "load_skill", "x", (("tool.use", "new"),), "r", expires=9.0)
    there = world({"grep"}, grants=(grant,), run_id="r", now=1.0)
    verdict = decide((loading(None),), there)
    assert (verdict.decision, verdict.scope) == (Decision.ASK, Scope.CALL)
    once = Grant("g", "q", Scope.CALL, "load_skill", "x", (), "r", expires=9.0)
    assert decide((loading(None),), world({"grep"}, grants=(once,), digest="x", now=1.0)).grant == "g"


def test_a_denying_rule_stays_in_force() -> None:
    """Which skills are loaded at all is the operator's to say."""
    rule = Rule(Decision.DENY, "rules.1", tool="load_skill", target="new")
    assert decide((loading(set()),), world({"grep"}, rules=(rule,))).decision is Decision.DENY


EVENT = {"kind": "skill.loaded", "id": "pdf", "digest": "d", "allowed_tools": ["grep"], "permissions": ["p"]}


@pytest.mark.parametrize(
    ("changed", "tools"),
    [
        ({}, ["grep"]),
        ({"allowed_tools": None}, None),
        ({"allowed_tools": []}, []),
        ({"allowed_tools": "grep"}, []),
        ({"allowed_tools": [1, "grep"]}, ["grep"]),
        ({"allowed_tools": {"grep": 1}}, []),
    ],
)
def test_the_last_skill_loaded_is_remembered(changed: dict[str, Any], tools: list[str] | None) -> None:
    """What cannot be read allows nothing; only a clear null does not narrow."""
    state = fold([{**EVENT, "id": "first"}, {**EVENT, **changed}])
    assert state == RunState(skill={"id": "pdf", "digest": "d", "allowed_tools": tools, "permissions": ["p"]})
    assert RunState.from_json(state.to_json()) == state


def test_a_record_without_its_tools_allows_nothing() -> None:
    """Fails closed."""
    event = {name: value for name, value in EVENT.items() if name != "allowed_tools"}
    assert (fold([event]).skill or {})["allowed_tools"] == []


@pytest.mark.parametrize(
    ("tools", "decision"),
    [
        (None, Decision.ALLOW),
        ({"pay"}, Decision.ALLOW),
        ({"agent_tool"}, Decision.DENY),
        ({"read_file", "pays"}, Decision.DENY),
        (set(), Decision.DENY),
    ],
)
@pytest.mark.parametrize("internal", [True, False])
def test_an_active_skill_narrows_an_agents_own_tools_by_their_own_names(
    tools: set[str] | None, decision: Decision, internal: bool
) -> None:
    """The name that all of them are called by opens none, nor do the names that stay callable among ours."""
    facts = ToolFacts("agent_tool", "agent", Risk.HIGH, internal=internal, given=True)
    there = replace(world(tools), tool=facts, rules=(Rule(Decision.ALLOW, "all", touch="tool.use"),))
    verdict = decide((Touch(TouchKind.TOOL_USE, "pay"),), there)
    assert verdict.decision is decision
    if decision is Decision.DENY:
        assert verdict.deciding.why == "the active skill old does not list pay in its allowed-tools"
    display = decide((Touch(TouchKind.TOOL_USE, "display"),), there)
    assert display.decision is (Decision.ALLOW if tools is None else Decision.DENY)

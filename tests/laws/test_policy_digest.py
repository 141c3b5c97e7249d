"""The digest of a policy: approvals are bound to it, so it stays what 0.1.0 gave while nothing new is used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handrail import Runtime
from handrail.gates.asking import policy_digest
from handrail.policy import ToolFacts, World
from handrail.policy.rules import Rule
from handrail.policy.world import Repositories
from handrail.words import Decision, Risk

FULL: dict[str, Any] = {
    "tools": {"enable": ["fs", "exec", "delete_path"], "disable": ["notes"]},
    "exec": {"allow": ["npm test", "git diff *"], "deny": ["rm -rf *"], "sandbox": "auto"},
    "http": {"allowed_hosts": ["example.org"]},
    "approvals": {"max_scope": "session"},
    "limits": {"bulk_files": 7},
    "undo": {"max_file_bytes": 1000},
    "rules": [
        {"effect": "deny", "touch": "fs.write", "target": "**/secrets/**", "why": "no", "misses": ["a.txt"]},
        {"effect": "allow", "tool": "run_command", "touch": "proc.exec", "target": "make *", "caller": "cli"},
    ],
}
# As version 0.1.0 printed them for these settings.
GOLDEN: dict[str, tuple[dict[str, Any], str]] = {
    "empty": ({}, "4699c8eb94fab788a0287c5290aee9608d05f24a28f9b7a1bba0c6f134965ae3"),
    "full": (FULL, "badaa62a3d422e323d16d859b61fdc6cf36d6d140ab0614248898a2f15d87b8f"),
}


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.parametrize("mode", ["interactive", "headless"])
async def test_a_policy_keeps_the_digest_of_the_first_version(
    tmp_path: Path, own_user: Path, name: str, mode: str
) -> None:
    """In any workspace, run and mode: fields that came later are not hashed while they have their default."""
    config, digest = GOLDEN[name]
    async with Runtime.open(tmp_path, config=config, mode=mode) as runtime:
        assert runtime.parts.policy_digest == digest


async def test_a_policy_that_uses_what_is_new_has_another_digest(tmp_path: Path, own_user: Path) -> None:
    """An approval for narrower settings does not count for wider ones."""
    async with Runtime.open(tmp_path, config={"approvals": {"run_covers": "tool"}}) as runtime:
        assert runtime.parts.policy_digest != GOLDEN["empty"][1]


def test_the_state_of_the_disk_is_no_part_of_it() -> None:
    """A repository that appears, or a module that is loaded, voids no approval."""
    world = World(ToolFacts("", "", Risk.HIGH))
    seen = replace(world, own_code=("/a",), loaded_code=("/b",), repositories=Repositories(folders=("/c",)))
    assert policy_digest(seen) == policy_digest(world)
    assert policy_digest(replace(world, bulk_files=1)) != policy_digest(world)


RULE = Rule(Decision.DENY, "rules.1", "fs.*", "secrets/**", where="handrail.toml:3")
POLICY = World(ToolFacts("", "", Risk.HIGH), rules=(RULE,))


@pytest.mark.parametrize(
    "policy",
    [
        replace(POLICY, environment="ci"),
        replace(POLICY, further_protected=(("*.key",),)),
        replace(POLICY, rules=(replace(RULE, risk="high"),)),
        replace(POLICY, rules=(replace(RULE, environment="ci"),)),
    ],
)
def test_what_a_later_field_says_is_part_of_the_digest(policy: World) -> None:
    """An approval for one policy is none for another."""
    assert policy_digest(policy) != policy_digest(POLICY)


def test_the_same_words_in_another_field_are_another_policy() -> None:
    """A value is bound to the name of its field."""
    by_risk = replace(POLICY, rules=(replace(RULE, risk="low"),))
    by_environment = replace(POLICY, rules=(replace(RULE, environment="low"),))
    assert policy_digest(by_risk) != policy_digest(by_environment)

"""What is said of programs: forbidden commands, harmless ones, doubt, and what the sandbox hides and locks."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from handrail.policy import ToolFacts, World, decide
from handrail.policy.patterns import excluded
from handrail.policy.rules import Rule
from handrail.words import Decision, Exclusion, Risk, Root, Touch, TouchKind, Verdict

ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY
WORK, DATA = Root("workspace", "/ws", writable=True), Root("/data", "/data", writable=False)
BASE = World(ToolFacts("run_command", "exec", Risk.MEDIUM), (WORK, DATA), enable=frozenset({"exec"}))


def run(line: str, doubt: str = "") -> Touch:
    return Touch(TouchKind.PROC_EXEC, line, words=tuple(line.split()), doubt=doubt)


def rule(effect: Decision, touch: str | None, target: str | None) -> Rule:
    return Rule(effect, "rules.1", touch, target)


def judged(line: str, *rules: Rule, doubt: str = "", **facts: object) -> Verdict:
    return decide((run(line, doubt),), replace(BASE, rules=rules, **facts))  # type: ignore[arg-type]


@pytest.mark.parametrize("line", ["rm -rf /", "mkfs.ext4 /dev/sda1", "dd if=/dev/zero of=/dev/sda"])
def test_no_rule_allows_a_command_that_destroys_a_machine(line: str) -> None:
    """Denied by what is built in, whatever the operator says."""
    verdict = judged(line, rule(ALLOW, "proc.exec", None), rule(ALLOW, "proc.exec", line))
    assert (verdict.decision, verdict.deciding.rule) == (DENY, "builtin.command")


@pytest.mark.parametrize(
    ("line", "confined", "decision"), [("cat a.txt", True, ALLOW), ("cat a.txt", False, ASK), ("make", True, ASK)]
)
def test_harmless_commands_are_quiet_only_inside_a_sandbox(line: str, confined: bool, decision: Decision) -> None:
    """Without a wall nothing is harmless."""
    assert judged(line, confined=confined).decision is decision


def test_an_allow_rule_on_words_does_not_cover_what_is_not_understood() -> None:
    """The words are not all that would run; a rule that names no words covers it."""
    assert judged("npm test", rule(ALLOW, "proc.exec", "npm test"), doubt="an expansion").decision is ASK
    assert judged("npm test", rule(ALLOW, "proc.exec", "npm *"), doubt="an expansion").decision is ASK
    assert judged("npm test", rule(ALLOW, "proc.exec", None), doubt="an expansion").decision is ALLOW
    assert judged("npm test", rule(DENY, "proc.exec", "npm *"), doubt="an expansion").decision is DENY


@pytest.mark.parametrize(
    ("words", "decided"),
    [
        (("env", "rm", "-rf", "/"), (DENY, "builtin.command")),
        (("/usr/bin/env", "A=1", "nice", "-n", "5", "rm", "-rf", "/"), (DENY, "builtin.command")),
        (("env", "-S", "rm -rf /"), (DENY, "builtin.command")),
        (("env", "bash", "-c", "true; rm -rf /"), (DENY, "builtin.command")),
        (("env", "bash", "-c", ":(){ :|:& };:"), (DENY, "builtin.command")),
        (("env", "curl", "http://x"), (DENY, "rules.curl")),
        (("env", "bash", "-c", "make; curl http://x"), (DENY, "rules.curl")),
        (("env", "make"), (ASK, "defaults.command")),
        (("env", "-i", "ls"), (ASK, "defaults.not-understood")),
        (("env", "ls"), (ALLOW, "rules.env")),
        (("env",), (ALLOW, "rules.env")),
    ],
)
def test_a_command_that_is_stated_by_its_words_is_judged_with_what_it_runs(
    words: tuple[str, ...], decided: tuple[Decision, str]
) -> None:
    """A rule for the command around it allows no other, as it does not in a line of shell."""
    around = Rule(ALLOW, "rules.env", "proc.exec", "env *")
    others = (
        Rule(ALLOW, "rules.env-path", "proc.exec", "/usr/bin/env *"),
        Rule(DENY, "rules.curl", "proc.exec", "curl *"),
    )
    stated = Touch(TouchKind.PROC_EXEC, " ".join(words), words=words)
    verdict = decide((stated,), replace(BASE, rules=(around, *others), confined=True))
    assert (verdict.decision, verdict.deciding.rule) == decided


def test_what_a_line_states_itself_is_judged_once() -> None:
    """Its parts are all among the touches of the call."""
    touches = (run("timeout 5 env ls"), run("env ls"), run("ls"))
    verdict = decide(touches, replace(BASE, confined=True))
    assert [(finding.touch, finding.rule) for finding in verdict.findings] == [
        (0, "defaults.harmless-command"),
        (1, "defaults.harmless-command"),
        (2, "defaults.harmless-command"),
    ]


def covers(exclusions: tuple[Exclusion, ...], root: Root, path: str) -> bool:
    return excluded(exclusions, root, path) is not None


HIDDEN = [
    (".env", True),
    ("sub/.env", True),
    (".ssh/id", True),
    ("k/id_rsa", True),
    ("secret/x", True),
    ("src/a", False),
]


@pytest.mark.parametrize(("path", "hidden"), [*HIDDEN, ("src/a", False)])
def test_what_reading_is_denied_is_hidden_from_programs(path: str, hidden: bool) -> None:
    """Protected names, key material and the operator's rules, beneath every root."""
    verdict = judged("make", rule(DENY, "fs.read", "secret/**"))
    assert [covers(verdict.excluded, root, path) for root in (WORK, DATA)] == [hidden, hidden]


LOCKED = [(".git/hooks/x", True), (".git/config", True), ("handrail.toml", True), (".vscode/tasks.json", True)]


@pytest.mark.parametrize(("path", "locked"), [*LOCKED, ("docs/a", True), ("src/a", False), (".git/index", False)])
def test_what_writing_is_denied_or_asked_for_is_locked(path: str, locked: bool) -> None:
    """A program that runs without asking must not write what a tool would have to ask for."""
    assert covers(judged("make", rule(ASK, "fs.write", "docs/**")).locked, WORK, path) is locked


def test_where_changes_are_reviewed_only_what_is_denied_is_locked() -> None:
    """What would be asked for is asked when the changes are judged."""
    rules = (rule(ASK, "fs.write", "docs/**"), rule(DENY, "fs.delete", "keep/**"))
    verdict = judged("make", *rules, reviewed=True)
    found = {path: covers(verdict.locked, WORK, path) for path in ("docs/a", "keep/a", ".vscode/x", ".git/hooks/x")}
    assert found == {"docs/a": False, "keep/a": True, ".vscode/x": False, ".git/hooks/x": True}


def test_a_call_that_starts_no_program_hides_and_locks_nothing() -> None:
    """Masks are for programs alone."""
    verdict = decide((Touch(TouchKind.TOOL_USE, "now"),), BASE)
    assert (verdict.excluded, verdict.locked) == ((), ())


def test_a_rule_for_one_kind_of_change_locks_both() -> None:
    """A mount cannot tell writing from deleting."""
    assert covers(judged("make", rule(DENY, "fs.delete", "keep/**")).locked, WORK, "keep/a")
    assert not covers(judged("make", rule(DENY, "proc.exec", "keep")).locked, WORK, "keep/a")


def test_a_world_withholds_what_its_own_rules_say_whatever_was_judged_before() -> None:
    """What is found for one world serves no other: neither one made from it, nor one that comes after it."""
    for number in range(200):
        first = replace(BASE, rules=(rule(DENY, "fs.*", f"secrets-{number}"),))
        second = replace(first, rules=(rule(DENY, "fs.*", f"keys-{number}"),))
        for there, name in ((first, "secrets"), (second, "keys"), (replace(second, rules=first.rules), "secrets")):
            fresh = World(there.tool, there.roots, there.rules, there.enable)
            for _ in range(2):
                verdict = decide((run("make"),), there)
                assert (verdict.excluded, verdict.locked) == (
                    decide((run("make"),), fresh).excluded,
                    decide((run("make"),), fresh).locked,
                )
                assert excluded(verdict.excluded, WORK, f"{name}-{number}") is not None


def test_judging_a_command_changes_nothing_that_can_be_told_of_its_world() -> None:
    """It is equal, shown and written down as before."""
    there = replace(BASE, rules=(rule(DENY, "fs.*", "secrets"),))
    before = (repr(there), orjson.dumps(there, default=sorted))
    decide((run("make"),), there)
    assert (repr(there), orjson.dumps(there, default=sorted)) == before
    assert there == replace(there)

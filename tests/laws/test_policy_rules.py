"""The operator's rules: what they match, how they meet the defaults, and that adding one never surprises."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from handrail.errors import SettingsFault
from handrail.policy import decide
from handrail.policy.patterns import excluded
from handrail.policy.rules import Rule, check_examples
from handrail.words import Decision, How, Touch, TouchKind
from laws import worlds
from laws.calls import (
    ALLOW,
    ASK,
    DATA,
    DENY,
    FILE,
    HIGH,
    LOW,
    MORE,
    OBSERVATIONS,
    SCRATCH,
    WORKSPACE,
    delete,
    move,
    reach,
    read,
    rule,
    run,
    use,
    world,
    write,
)

ALLOWED, RESTRICTED = "allow", "ask and deny"


@pytest.mark.parametrize(
    ("touch", "target", "reached_by"),
    [
        (read("src/a.py"), "src/a.py", {ALLOWED, RESTRICTED}),
        (read("src/a.py"), "src/*.py", {ALLOWED, RESTRICTED}),
        (read("src/a.py"), "src/", {ALLOWED, RESTRICTED}),
        (read("src/a.py"), "src/**", {ALLOWED, RESTRICTED}),
        (read("src/a.py"), "src", {RESTRICTED}),
        (read("src/b/a.py"), "src/*", {RESTRICTED}),
        (read("src/a.py"), "SRC/a.py", set()),
        (read("src/a.py"), "a.py", set()),
        (read("src/a.py"), "**/a.py", {ALLOWED, RESTRICTED}),
        (read("src/a.py"), "/ws/src/*", {ALLOWED, RESTRICTED}),
        (read("src/a.py"), "/ws", {RESTRICTED}),
        (read("src/a.py"), "/src/a.py", set()),
        (read("x", DATA), "/data/x", {ALLOWED, RESTRICTED}),
        (read("x", DATA), "x", {ALLOWED, RESTRICTED}),
        (read("3.txt", OBSERVATIONS), "run:observations/*.txt", {ALLOWED, RESTRICTED}),
        (read("3.txt", OBSERVATIONS), "run:observations", {RESTRICTED}),
        (read("3.txt", OBSERVATIONS), "run:workspace/3.txt", set()),
        (read("run:x"), "run:x", {ALLOWED, RESTRICTED}),
        (read("", OBSERVATIONS), "run:observations", {ALLOWED, RESTRICTED}),
        (read("src", deep=True), "src", {RESTRICTED}),
        (read("src", deep=True), "src/**", {ALLOWED, RESTRICTED}),
        (read("src", deep=True), "**/[!k]*", {RESTRICTED}),
        (read("srcsrc", deep=True), "**/??????*", {RESTRICTED}),
        (read("src", deep=True), "**/*", {ALLOWED, RESTRICTED}),
        (run("npm test"), "npm test", {ALLOWED, RESTRICTED}),
        (run("npm test --all"), "npm test", {RESTRICTED}),
        (run("/usr/bin/npm test"), "npm test", {RESTRICTED}),
        (run("npm run x"), "npm *", {ALLOWED, RESTRICTED}),
        (Touch(TouchKind.PROC_EXEC, "rm -rf x"), "rm", {RESTRICTED}),
        (Touch(TouchKind.PROC_EXEC, "rm"), "rm", {RESTRICTED}),
        (reach("example.org:443"), "example.org", {ALLOWED, RESTRICTED}),
        (reach("example.org:8443"), "example.org", {RESTRICTED}),
        (reach("a.example.org.:443"), "*.example.org", {ALLOWED, RESTRICTED}),
        (use("now"), "n*", {ALLOWED, RESTRICTED}),
        (use("send_email/a@b.c"), "send_email/*", {ALLOWED, RESTRICTED}),
        (use("send_email/list/a@b.c"), "send_email/*", {RESTRICTED}),
        (use("send_email/list/a@b.c"), "send_*", {RESTRICTED}),
        (use("send_email/list/a@b.c"), "send_email/**", {ALLOWED, RESTRICTED}),
        (Touch(TouchKind.GIT_WRITE, "push"), "push", {ALLOWED, RESTRICTED}),
    ],
)
def test_a_rule_reaches_what_its_target_says(touch: Touch, target: str, reached_by: set[str]) -> None:
    """An allow takes its target to the letter; ask and deny also what lies below, follows, or goes by a path."""
    found = set()
    for effect, name in ((ALLOW, ALLOWED), (ASK, RESTRICTED), (DENY, RESTRICTED)):
        verdict = decide((touch,), world(HIGH, rule(effect, touch.kind, target), allowed_hosts=("*:*",)))
        found |= {name} if "rules.1" in {item.rule for item in verdict.findings} else set()
    assert found == reached_by


@pytest.mark.parametrize(
    ("field", "value", "matches"),
    [
        ("touch", "fs.write", True),
        ("touch", "fs.*", True),
        ("touch", "fs.read", False),
        ("touch", "net.*", False),
        ("touch", "fs", False),
        ("tool", "write_file", True),
        ("tool", "read_file", False),
        ("skill", "release", True),
        ("skill", "other", False),
        ("caller", "mcp", True),
        ("caller", "cli", False),
    ],
)
def test_all_given_fields_must_match(field: str, value: str, matches: bool) -> None:
    """A rule speaks where its kind of touch, tool, skill and caller are those of the call."""
    given = replace(rule(DENY), **{field: value})  # type: ignore[arg-type]
    there = world(HIGH, given, skill_name="release", skill_tools=frozenset({"write_file"}), caller="mcp")
    assert decide((write("a"),), there).decision is (DENY if matches else ALLOW)


@pytest.mark.parametrize(
    ("effects", "decision"),
    [((ALLOW, ASK), ASK), ((ASK, ALLOW), ASK), ((DENY, ALLOW), DENY), ((ALLOW, DENY, ASK), DENY), ((ALLOW,), ALLOW)],
)
def test_the_strictest_rule_wins_in_any_order(effects: tuple[Decision, ...], decision: Decision) -> None:
    """Order says nothing; every rule that matches is among the findings."""
    rules = [rule(effect, number=number) for number, effect in enumerate(effects)]
    verdict = decide((write("a", kind=FILE),), world(HIGH, *rules))
    assert (verdict.decision, [item.decision for item in verdict.findings]) == (decision, list(effects))


@pytest.mark.parametrize(
    ("given", "touch", "decision"),
    [
        (rule(ALLOW, "fs.write", "a"), write("a", kind=FILE), ALLOW),
        (rule(ALLOW, "fs.write", "b"), write("a", kind=FILE), ASK),
        (rule(ALLOW, "fs.delete", "a"), delete("a"), ALLOW),
        (rule(ALLOW, "fs.read", ".env"), read(".env"), ALLOW),
        (rule(ALLOW, "fs.read", ".env"), read(".ENV"), DENY),
        (rule(ALLOW, "fs.read", ".env"), write(".env"), DENY),
        (rule(ASK, "fs.read", ".env"), read(".env"), ASK),
        (rule(ALLOW, "proc.exec", "npm test"), run("npm test"), ALLOW),
        (rule(ALLOW, "net.connect", "example.org"), reach("example.org:443", unsafe=True), ALLOW),
        (rule(ASK, "fs.read", "a"), read("a"), ASK),
        (rule(DENY, "net.connect", "*"), reach("example.org:443"), DENY),
        (rule(ALLOW, "fs.delete", "d/**"), delete("d", below=("d/a",)), ALLOW),
        (rule(ALLOW, "fs.delete", "d"), delete("d", below=("d/a",)), ASK),
    ],
)
def test_a_rule_takes_the_place_of_the_default_of_what_it_matches(
    given: Rule, touch: Touch, decision: Decision
) -> None:
    """An allow rule quiets the default of that touch and of nothing else."""
    assert decide((touch,), world(HIGH, given, allowed_hosts=("example.org",))).decision is decision


def test_an_allow_rule_quiets_one_touch_of_many() -> None:
    """The other touches of the same call are judged as if it were not there."""
    verdict = decide((write("a", kind=FILE), write("b", kind=FILE)), world(HIGH, rule(ALLOW, "fs.write", "a")))
    assert [(item.rule, item.touch) for item in verdict.findings] == [("rules.1", 0), ("defaults.overwrite", 1)]


@pytest.mark.parametrize("touch", [read(".env"), write("a", kind=FILE), write("a"), delete("d", below=("d/.env",))])
def test_a_rule_of_a_project_nobody_trusts_only_adds(touch: Touch) -> None:
    """An ask of an untrusted file never stands in for a stricter default."""
    bare = decide((touch,), world(HIGH)).decision
    narrowed = decide((touch,), world(HIGH, rule(ASK, narrows=True))).decision
    assert narrowed is max(ASK, bare)


@pytest.mark.parametrize(("narrows", "decision"), [(False, ALLOW), (True, ASK)])
def test_a_project_nobody_trusts_opens_no_git_command(narrows: bool, decision: Decision) -> None:
    """A rule of the user that names no subcommand is not completed by one of the project."""
    touches = (run("git commit"), Touch(TouchKind.GIT_WRITE, "commit"))
    rules = (rule(ALLOW, "proc.exec", "git *"), rule(ALLOW, "proc.exec", "git commit", narrows=narrows))
    assert decide(touches, world(HIGH, *rules)).decision is decision


@pytest.mark.parametrize(
    ("touches", "target", "said"),
    [
        ((delete("src", below=("src/a.py", "src/keep.py")),), "src/keep.py", "src/keep.py lies below"),
        ((delete("src", below=("src/a.py",)),), "src/keep.py", None),
        ((delete("src", below=("src/a", "src/a/k.pem")),), "**/*.pem", "src/a/k.pem lies below"),
        ((delete("src", below=("src/a", "src/a/secrets")),), "**/secrets/**", "src/a/secrets lies below"),
        ((delete("src", below=("src/keys", "src/keys/a")),), "src/keys", "src/keys lies below"),
        ((delete("src", below=("src/keys/a",)),), "src/keys", "src/keys/a lies below"),
        ((delete("src", below=("src/secrets.py",)),), "**/secrets/**", None),
        ((delete("src", below=()),), "**/*.pem", None),
        ((delete("src", below=("src/x",), root=SCRATCH),), "run:workspace/src/x", "run:workspace/src/x lies below"),
        ((delete("src", below=("src/x",), root=SCRATCH),), "src/y", None),
        ((delete("src", below=("src/x",), root=MORE),), "/more/src/x", "/more/src/x lies below"),
        ((delete("src", below=("src/x",), root=MORE),), "/other/src/x", None),
        (move("src", "new", ("src/a",)), "src/a", "src/a lies below"),
        (move("src", "new", ("src/a",)), "new/a", "new/a lies below"),
        (move("src", "new", ("src/a",)), "new/b", None),
    ],
)
def test_a_deny_of_something_below_denies_writing_and_deleting_a_folder_and_names_it(
    touches: tuple[Touch, ...], target: str, said: str | None
) -> None:
    """What could lie there and does not holds nothing back."""
    bare = decide(touches, world(HIGH)).decision
    verdict = decide(touches, world(HIGH, rule(DENY, "fs.*", target, why="not for agents")))
    if said is None:
        assert verdict.decision is bare is not DENY
    else:
        assert (verdict.decision, verdict.deciding.why) == (DENY, f"not for agents ({said})")


@pytest.mark.parametrize(
    ("target", "speaks"), [("src/keep.py", True), ("**/*.pem", True), ("lib/**", False), ("src", True)]
)
def test_where_nobody_knows_what_lies_below_a_rule_speaks_of_all_that_could(target: str, speaks: bool) -> None:
    """Too many entries, or some that cannot be read: the folder is denied, by the rule that could be about it, too."""
    touch = replace(delete("src", below=()), below=None)
    said = [item.rule for item in decide((touch,), world(HIGH, rule(DENY, "fs.*", target))).findings]
    assert said == ["builtin.unseen", *["rules.1"] * speaks]


def test_a_rule_that_allows_something_below_says_nothing_of_the_folder() -> None:
    """What is allowed of a part is not said of the whole."""
    verdict = decide((delete("src", below=("src/a",)),), world(HIGH, rule(ALLOW, "fs.delete", "src/a")))
    assert [item.rule for item in verdict.findings] == ["defaults.delete"]


def test_a_rule_about_something_below_does_not_replace_the_default_of_the_folder() -> None:
    """An ask for one file in a folder does not open the protected file beside it."""
    touch = delete("d", below=("d/x", "d/.env"))
    verdict = decide((touch,), world(HIGH, rule(ASK, "fs.delete", "d/x")))
    assert [(item.rule, item.decision) for item in verdict.findings] == [("rules.1", ASK), ("defaults.protected", DENY)]


@pytest.mark.parametrize(("effect", "decision"), [(DENY, DENY), (ASK, ASK), (ALLOW, ALLOW)])
def test_a_rule_against_reading_is_not_escaped_by_moving(effect: Decision, decision: Decision) -> None:
    """What must not be read must not be moved to where it may be; an allow to read allows no move by itself."""
    there = world(HIGH, rule(effect, "fs.read", "secrets/"))
    assert decide(move("secrets/a", "b"), there).decision is decision
    assert decide((delete("secrets/a", how=How.PLAIN),), there).decision is ASK


@pytest.mark.parametrize(
    ("rules", "path", "left_out"),
    [
        ([rule(DENY, "fs.read", "docs/x")], "docs/x", True),
        ([rule(DENY, "fs.read", "docs/x")], "docs/x/y", True),
        ([rule(DENY, "fs.read", "docs/x")], "docs/X", False),
        ([rule(DENY, "fs.write", "docs/x")], "docs/x", False),
        ([rule(ASK, "fs.read", "**/*.pem")], "docs/a.pem", True),
        ([rule(DENY, "fs.read", "/ws/docs/x")], "docs/x", True),
        ([rule(ALLOW, "fs.read", "docs/.env")], "docs/.env", False),
        ([rule(ALLOW, "fs.read", "docs/.env")], "docs/.ENV", True),
        ([rule(ALLOW, "fs.read", "docs/.env")], "docs/.env/x", True),
        ([rule(ALLOW, "fs.read", "docs/.env"), rule(DENY, "fs.read", "**/.env", 2)], "docs/.env", True),
        ([rule(ALLOW, "fs.read", "docs/id_rsa")], "docs/id_rsa", True),
        ([rule(ASK, "fs.read", "docs/")], "docs/a", False),
        ([rule(ASK, "fs.read", "docs/")], "docs/.env", False),
        ([rule(ASK, "fs.read", "docs/", narrows=True)], "docs/.env", True),
        ([rule(ASK, "fs.read", "docs/"), rule(ASK, "fs.read", "docs/x", 2)], "docs/x", True),
        ([rule(ALLOW, "fs.read", "docs/**")], "docs/.env", False),
        ([rule(ASK, "fs.read", "docs/x", tool="grep")], "docs/x", False),
    ],
)
def test_a_deep_read_leaves_out_what_rules_withhold(rules: list[Rule], path: str, left_out: bool) -> None:
    """Entry by entry as a read of it alone; what a person is asked for as a whole is not left out once approved."""
    verdict = decide((read("docs", deep=True),), world(LOW, *rules))
    assert verdict.decision is not DENY
    assert (excluded(verdict.excluded, WORKSPACE, path) is not None) is left_out


def test_a_deep_read_of_the_runs_folder_leaves_out_what_rules_name_there() -> None:
    """`run:` targets are withheld below, too, and only there."""
    there = world(LOW, rule(DENY, "fs.read", "run:observations/3.txt"))
    run_wide = decide((read("", OBSERVATIONS, deep=True),), there)
    at_home = decide((read("", deep=True),), there)
    assert excluded(run_wide.excluded, OBSERVATIONS, "3.txt") is not None
    assert excluded(at_home.excluded, WORKSPACE, "3.txt") is None


# ── adding a rule ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("effect", list(Decision))
def test_adding_a_rule_moves_a_verdict_only_as_its_effect_says(effect: Decision, part: int) -> None:
    """A deny never loosens; an ask never lets a denied or asked call run, an allow never makes one stricter."""
    for number in range(part, 2_000, 4):
        random = Random(number)
        touches, there = worlds.situation(random)
        added = replace(worlds.rule(random, 99, touches), effect=effect, narrows=False)
        before = decide(touches, there).decision
        after = decide(touches, replace(there, rules=(*there.rules, added))).decision
        moved = {DENY: after >= before, ASK: after >= min(before, ASK), ALLOW: after <= before}
        if effect is ASK and there.grants:
            moved[ASK] = True  # what now asks may be granted already
        assert moved[effect], (touches, there, added)


@pytest.mark.parametrize("part", range(4))
def test_adding_a_rule_of_an_untrusted_project_never_loosens(part: int) -> None:
    """Whatever it says and whatever else holds."""
    for number in range(part, 2_000, 4):
        random = Random(number)
        touches, there = worlds.situation(random)
        there = replace(there, grants=())
        added = replace(worlds.rule(random, 99, touches), effect=random.choice((ASK, DENY)), narrows=True)
        after = decide(touches, replace(there, rules=(*there.rules, added)))
        assert after.decision >= decide(touches, there).decision, (touches, there, added)


# ── examples ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (rule(ASK, "fs.delete", "**", matches=("src/a.py",)), None),
        (rule(DENY, "fs.read", "secrets/", matches=("secrets/a/b",), misses=("src/a",)), None),
        (rule(ALLOW, "fs.read", "src", misses=("src/a",)), None),
        (rule(ALLOW, "fs.read", "src", matches=("src/a",)), "should match 'src/a' and does not"),
        (rule(DENY, "fs.read", "src", misses=("src/a",)), "should not match 'src/a' and does"),
        (rule(ALLOW, "proc.exec", "git diff *", matches=("git diff a",), misses=("git push",)), None),
        (rule(DENY, "proc.*", "rm", matches=("/bin/rm -rf x",)), None),
        (rule(ASK, "proc.exec", matches=("anything at all",)), None),
        (
            rule(
                ALLOW, "net.connect", "*.example.org", matches=("a.example.org", "b.example.org:80"), misses=("x.org",)
            ),
            None,
        ),
        (rule(DENY, "net.*", "example.org", matches=("example.org:8080",)), None),
        (rule(ALLOW, "net.connect", "example.org", matches=("example.org:8080",)), "should match 'example.org:8080'"),
    ],
)
def test_the_examples_of_a_rule_are_checked_as_the_rule_is(given: Rule, wrong: str | None) -> None:
    """A rule whose examples show that it means something else is refused, with its place."""
    if wrong is None:
        check_examples(given)
    else:
        with pytest.raises(SettingsFault, match=wrong) as caught:
            check_examples(given)
        assert str(caught.value).startswith("handrail.toml:11: rule rules.1")


# ── undo ─────────────────────────────────────────────────────────────────────────────────────


def test_a_persons_undo_is_restricted_only_by_rules_that_name_its_tool() -> None:
    """A deny is silent and an ask is answered by who undoes; protection holds, and other tools gain nothing."""
    undo = replace(HIGH, name="undo_changes", internal=True)
    back, env = delete("a", how=How.UNDO), write(".env", How.UNDO, FILE)
    deny, ask = rule(DENY, "fs.delete"), rule(ASK, "fs.*", "**")
    named = rule(DENY, "fs.delete", tool="undo_changes")
    judged = [
        decide((touch,), world(tool, *rules)).decision
        for tool, touch, rules in (
            (undo, back, (deny,)),
            (undo, back, (ask,)),
            (undo, back, (named,)),
            (undo, env, (deny,)),
            (undo, env, (ask,)),
            (HIGH, back, (deny,)),
            (HIGH, back, (ask,)),
            (undo, delete("a"), (deny,)),
        )
    ]
    assert judged == [ALLOW, ALLOW, DENY, DENY, ALLOW, DENY, ASK, DENY]

"""How a verdict is made: each source, each sentence, as tables."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from random import Random

import pytest

from handrail.policy import decide
from handrail.policy.patterns import excluded
from handrail.words import Decision, Exclusion, Finding, How, Mode, Risk, Root, Touch, TouchKind, Verdict
from laws import worlds
from laws.calls import (
    ALLOW,
    ASK,
    DATA,
    DENY,
    FILE,
    FOLDER,
    HIGH,
    LOW,
    MORE,
    OBSERVATIONS,
    SCRATCH,
    WORKSPACE,
    delete,
    move,
    place,
    reach,
    read,
    rule,
    run,
    use,
    world,
    write,
)

EDIT = How.EDIT


def said(verdict: Verdict) -> list[tuple[str, Decision]]:
    return [(finding.rule, finding.decision) for finding in verdict.findings]


# ── what is fixed ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("touch", "by"),
    [
        (read(".ssh/config"), "builtin.key-material"),
        (read("home/.SSH"), "builtin.key-material"),
        (read("a/.aws/credentials"), "builtin.key-material"),
        (read("x/.netrc"), "builtin.key-material"),
        (read("backup/id_rsa"), "builtin.key-material"),
        (read("vault.kdbx"), "builtin.key-material"),
        (read("config", Root("/me/.ssh", "/me/.ssh", False)), "builtin.key-material"),
        (read("gcloud/db", Root("/me/.config", "/me/.config", False)), "builtin.key-material"),
        (read(".agent/runs/r0/events.jsonl"), "builtin.own-files"),
        (read(".agent/RUNS/r0"), "builtin.own-files"),
        (read("r9/events.jsonl", Root("/state/runs", "/state/runs", True)), "builtin.own-files"),
        (write("r9/x", root=Root("/state/runs", "/state/runs", True)), "builtin.own-files"),
        (delete(".agent", below=()), "builtin.own-files"),
        (write("handrail.toml"), "builtin.settings"),
        (write("sub/HANDRAIL.toml", EDIT, FILE), "builtin.settings"),
        (write(".git/hooks/pre-commit"), "builtin.repository"),
        (write("sub/.git/config", EDIT, FILE), "builtin.repository"),
        (write(".git/modules/lib/hooks/post-checkout"), "builtin.repository"),
        (write(".git/commondir"), "builtin.repository"),
        (write(".GIT"), "builtin.repository"),
        (delete("lib/.git", below=()), "builtin.repository"),
        (delete("lib", below=("lib/.git/config",)), "builtin.repository"),
        (delete("lib", below=("lib/a", "lib/b/id_rsa")), "builtin.key-material"),
        (delete("lib", below=("lib/handrail.toml",)), "builtin.settings"),
        (delete("", below=(), root=MORE), "builtin.root"),
        (write("", root=MORE), "builtin.root"),
        (Touch(TouchKind.FS_DELETE, "lib", deep=True, place=place("lib", kind=FOLDER)), "builtin.unseen"),
        (Touch(TouchKind.FS_DELETE, "lib", how=How.MOVE, place=place("lib", kind=FOLDER)), "builtin.unseen"),
        (reach("169.254.169.254:80"), "builtin.metadata"),
        (reach("[::ffff:169.254.169.254]:80"), "builtin.metadata"),
        (reach("Metadata.Google.Internal.:80"), "builtin.metadata"),
    ],
)
def test_what_no_setting_lifts_is_denied_whatever_rules_say(touch: Touch, by: str) -> None:
    """Own files, key material, repository hooks, metadata addresses and roots, under a rule that allows everything."""
    roots = (*world().roots, *([touch.place.root] if touch.place else []))
    verdict = decide((touch,), world(HIGH, rule(ALLOW), roots=roots, allowed_hosts=("*:*",), protected=()))
    assert (verdict.decision, verdict.deciding.rule) == (DENY, by)
    assert verdict.deciding.code == ("HOST_NOT_ALLOWED" if touch.kind is TouchKind.NET_CONNECT else "PATH_PROTECTED")


@pytest.mark.parametrize(
    "touch",
    [
        read(".git/config"),
        read("handrail.toml"),
        read("id_rsa.pub"),
        read(".sshx"),
        read("x", OBSERVATIONS),
        read(".agent"),
    ],
)
def test_reading_what_only_must_not_change_is_allowed(touch: Touch) -> None:
    """Repository config and settings may be read, and names that only resemble keys are no keys."""
    assert decide((touch,), world(LOW)).decision is ALLOW


def test_a_folder_that_holds_a_root_is_never_deleted_or_moved() -> None:
    """Destroying a root is denied also where the root lies inside another."""
    inner = Root("/ws/lib/inner", "/ws/lib/inner", False)
    for touches in ((delete("lib", below=("lib/inner/x",)),), move("lib", "elsewhere", ("lib/inner/x",))):
        verdict = decide(touches, world(HIGH, rule(ALLOW), roots=(WORKSPACE, inner)))
        assert (verdict.decision, verdict.deciding.rule) == (DENY, "builtin.root")


def test_files_that_settings_were_read_from_are_read_and_never_written() -> None:
    """Whatever they are called, in place and inside a folder that is deleted or moved."""
    there = world(HIGH, rule(ALLOW), settings_files=("/ws/conf/agent.toml",))
    moved = move("conf", "elsewhere", ("conf/agent.toml",))
    for touches in ((write("conf/agent.toml"),), (delete("conf", below=("conf/agent.toml",)),), moved):
        assert decide(touches, there).deciding.rule == "builtin.settings"
    assert decide((read("conf/agent.toml"),), there).decision is ALLOW
    assert decide((write("conf/other.toml"),), there).decision is ALLOW


def test_a_fresh_workspace_in_the_runs_folder_is_no_own_file_but_its_neighbours_are() -> None:
    """`workspace.root = "run:workspace"` lies among Handrail's own files; it alone may be used there."""
    scratch = Root("workspace", "/state/runs/r1/workspace", True)
    assert decide((read("a", scratch),), world(LOW, roots=(scratch,))).decision is ALLOW
    for other in ("/state/runs/r2/workspace", "/state/runs/r1", "/state/runs/r1/workspaces"):
        root = Root("workspace", other, True)
        assert decide((read("a", root),), world(LOW, roots=(root,))).deciding.rule == "builtin.own-files"


def test_the_root_of_the_machine_hides_nothing() -> None:
    """With `/` as a root, own files and rules for absolute paths are still found."""
    machine = Root("/", "/", True)
    own = decide((read("state/runs/r0/x", machine),), world(LOW, roots=(machine,)))
    ruled = decide(
        (delete("etc", below=("etc/x",), root=machine),),
        world(HIGH, rule(DENY, "fs.delete", "/etc/x"), roots=(machine,)),
    )
    deep = decide((read("", machine, deep=True),), world(LOW, roots=(machine,)))
    assert (own.deciding.rule, ruled.deciding.rule) == ("builtin.own-files", "rules.1")
    assert excluded(deep.excluded, machine, "state/runs/r0/x") is not None


@pytest.mark.parametrize(
    ("touch", "by", "code"),
    [
        (Touch(TouchKind.FS_READ, "/etc/passwd"), "confine.roots", "PATH_OUTSIDE_ROOTS"),
        (read("x", Root("/not/a/root", "/not/a/root", True)), "confine.roots", "PATH_OUTSIDE_ROOTS"),
        (write("x", root=DATA), "confine.read-only-root", "PATH_OUTSIDE_ROOTS"),
        (delete("x", root=OBSERVATIONS), "confine.read-only-root", "PATH_OUTSIDE_ROOTS"),
        (reach("other.org:443"), "confine.hosts", "HOST_NOT_ALLOWED"),
        (reach("example.org:22"), "confine.hosts", "HOST_NOT_ALLOWED"),
    ],
)
def test_what_lies_outside_roots_and_hosts_is_denied(touch: Touch, by: str, code: str) -> None:
    """Confinement denies under a rule that allows everything."""
    verdict = decide((touch,), world(HIGH, rule(ALLOW), allowed_hosts=("example.org",)))
    assert (verdict.decision, verdict.deciding.rule, verdict.deciding.code) == (DENY, by, code)


@pytest.mark.parametrize("touch", [read("x", DATA), read("x", OBSERVATIONS), read("x", MORE)])
def test_every_root_may_be_read(touch: Touch) -> None:
    """Further roots and the run's own are read by default."""
    assert said(decide((touch,), world(LOW))) == [("defaults.workspace-read", ALLOW)]


@pytest.mark.parametrize(
    ("more", "facts", "by"),
    [
        ({}, {}, "enablement.not-enabled"),
        ({"enable": {"write_file"}}, {}, None),
        ({"enable": {"fs"}}, {}, None),
        ({"enable": {"fs"}}, {"ask_first": True}, "enablement.not-enabled"),
        ({"enable": {"write_file"}}, {"ask_first": True}, None),
        ({"enable": {"fs", "write_file"}, "disable": {"write_file"}}, {}, "enablement.disabled"),
        ({"enable": {"write_file"}, "disable": {"fs"}}, {}, "enablement.disabled"),
        ({}, {"risk": Risk.LOW}, None),
        ({"disable": {"write_file"}}, {"risk": Risk.LOW}, "enablement.disabled"),
        ({}, {"given": True}, None),
        ({}, {"internal": True}, None),
        ({}, {"risk": Risk.MEDIUM}, "enablement.not-enabled"),
    ],
)
def test_a_tool_that_is_not_enabled_is_denied(
    more: dict[str, set[str]], facts: dict[str, bool], by: str | None
) -> None:
    """Low risk always, others by name or toolset, some by name alone; disabling beats enabling."""
    sets = {name: frozenset(names) for name, names in ({"enable": set[str]()} | more).items()}
    verdict = decide((write("a"),), world(replace(HIGH, **facts), rule(ALLOW), **sets))  # type: ignore[arg-type]
    assert said(verdict) == ([(by, DENY)] if by else []) + [("rules.1", ALLOW)]
    assert verdict.decision is (DENY if by else ALLOW)


@pytest.mark.parametrize(
    ("tools", "tool", "decision"),
    [(None, LOW, ALLOW), ({"read_file"}, LOW, ALLOW), ({"grep"}, LOW, DENY), (set(), LOW, DENY)],
)
def test_an_active_skill_narrows_what_may_be_called(tools: set[str] | None, tool: object, decision: Decision) -> None:
    """What its allowed-tools do not name is denied; no skill narrows nothing."""
    narrowed = None if tools is None else frozenset(tools)
    verdict = decide((read("a"),), world(LOW, rule(ALLOW), skill_name="s", skill_tools=narrowed))
    assert verdict.decision is decision
    always = replace(LOW, name="display")
    assert decide((use(),), world(always, skill_name="s", skill_tools=narrowed)).decision is ALLOW


def test_a_call_narrows_itself_by_permissions_and_never_widens() -> None:
    """Touches beyond the named ones are denied; using the tool itself is no touch of the world."""
    reads = frozenset({"fs.read"})
    assert decide((read("a"),), world(LOW, permissions=reads)).decision is ALLOW
    assert decide((use(),), world(LOW, permissions=frozenset())).decision is ALLOW
    assert decide((read("a"),), world(LOW, permissions=frozenset())).decision is DENY
    denied = decide((read("a"), write("b")), world(HIGH, rule(ALLOW), permissions=reads))
    assert [(item.rule, item.touch) for item in denied.findings if item.decision is DENY] == [("permissions.call", 1)]
    assert decide((write("b", kind=FILE),), world(HIGH, permissions=frozenset({"fs.write"}))).decision is ASK


def test_a_missing_confirmation_is_denied_and_said_after_what_a_call_cannot_mend() -> None:
    """POLICY_DENIED, under any rule; with it the call is judged as any other."""
    touch = delete("a", confirmed=False)
    verdict = decide((touch,), world(HIGH, rule(ALLOW)))
    assert (verdict.decision, verdict.deciding.rule, verdict.deciding.code) == (
        DENY,
        "builtin.confirm",
        "POLICY_DENIED",
    )
    assert decide((replace(touch, confirmed=True),), world(HIGH)).decision is ASK
    keys = decide((delete("id_rsa", confirmed=False),), world(HIGH))
    assert keys.deciding.rule == "builtin.key-material"


# ── defaults ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("touch", "decision", "by"),
    [
        (read("a"), ALLOW, "workspace-read"),
        (read(".env"), DENY, "protected"),
        (read("sub/.ENV.local"), DENY, "protected"),
        (read(".env.example"), ALLOW, "workspace-read"),
        (write(".env"), DENY, "protected"),
        (write("a"), ALLOW, "workspace-write"),
        (write("a", kind=FILE), ASK, "overwrite"),
        (write("a", EDIT, FILE), ALLOW, "workspace-write"),
        (write("a", EDIT, FILE, size=101), ASK, "too-large-to-undo"),
        (write("a", root=SCRATCH), ALLOW, "workspace-write"),
        (write(".mcp.json"), ASK, "runs-programs"),
        (write("sub/.Claude/settings.json", EDIT, FILE), ASK, "runs-programs"),
        (write(".github/workflows/ci.yml"), ASK, "runs-programs"),
        (write(".github/README.md"), ALLOW, "workspace-write"),
        (write("tools/Skills/pdf/scripts/run.sh"), ASK, "skills"),
        (write("tools/skills"), ASK, "skills"),
        (write("tools/skills.md"), ALLOW, "workspace-write"),
        (delete("tools", below=("tools/skills",), how=How.MOVE), ASK, "skills"),
        (delete("tool", below=("tool/x",), how=How.MOVE), ALLOW, "workspace-write"),
        (delete("a"), ASK, "delete"),
        (delete("d", below=("d/.env",)), DENY, "protected"),
        (delete("d", below=("d/.vscode/x",)), ASK, "runs-programs"),
        (delete("a", how=How.MOVE), ALLOW, "workspace-write"),
        (run("ls"), ALLOW, "harmless-command"),
        (run("make"), ASK, "command"),
        (replace(run("ls"), doubt="an expansion"), ASK, "not-understood"),
        (reach("example.org:443"), ALLOW, "allowed-host"),
        (reach("example.org:443", unsafe=True), ASK, "asks"),
        (use(), ASK, "asks"),
        (Touch(TouchKind.GIT_WRITE, "commit"), ASK, "asks"),
        (Touch(TouchKind.MEMORY_WRITE, "note"), ASK, "asks"),
    ],
)
def test_defaults_hold_where_no_rule_speaks(touch: Touch, decision: Decision, by: str) -> None:
    """Reading and new files are allowed; replacing, deleting, commands and posting ask; protected names are denied."""
    there = world(HIGH, allowed_hosts=("example.org",), max_undo_bytes=100, skill_folders=("/ws/tools/skills",))
    verdict = decide((touch,), there)
    assert said(verdict) == [(f"defaults.{by}", decision)]


def test_a_low_risk_tool_without_touches_is_allowed() -> None:
    """Pure tools of low risk need no rule."""
    assert said(decide((use(),), world(LOW))) == [("defaults.low-risk", ALLOW)]


def test_more_files_than_the_bound_ask() -> None:
    """Bulk counts every file of the call, also below a folder, and not a single one too few."""
    many = tuple(write(f"f{number}") for number in range(21))
    assert decide(many[:20], world(HIGH)).decision is ALLOW
    assert {item.rule for item in decide(many, world(HIGH)).findings} == {"defaults.bulk"}
    moved = move("d", "e", tuple(f"d/{number}" for number in range(19)))
    assert (decide(moved, world(HIGH)).decision, decide(moved, world(HIGH, bulk_files=30)).decision) == (ASK, ALLOW)


def test_only_a_tool_for_people_puts_back_without_asking() -> None:
    """`undo` is quiet for the internal tool and no way around asking for any other."""
    touch = write("a", How.UNDO, FILE, size=10**9)
    assert said(decide((touch,), world(replace(HIGH, internal=True)))) == [("defaults.undo", ALLOW)]
    assert said(decide((touch,), world(HIGH))) == [("defaults.too-large-to-undo", ASK)]


@pytest.mark.parametrize(
    ("target", "below", "decision"),
    [
        (".github", ("d/workflows/ci.yml",), ASK),
        (".git/modules", ("d/evil/config",), DENY),
        (".config", ("d/gcloud/x",), DENY),
        ("e", ("d/a",), ALLOW),
    ],
)
def test_a_moved_folder_is_judged_for_what_it_brings(target: str, below: tuple[str, ...], decision: Decision) -> None:
    """What would not be written there does not arrive there inside a folder either."""
    assert decide(move("d", target, below), world(HIGH)).decision is decision


# ── the verdict as a whole ───────────────────────────────────────────────────────────────────


def test_a_call_that_states_nothing_is_denied() -> None:
    """Silence denies, with a finding that says so."""
    why = "the call states nothing that can be judged"
    assert decide((), world(LOW)) == Verdict(DENY, (Finding("defaults", "defaults.silence", DENY, why),))


def test_the_strictest_finding_over_all_touches_wins() -> None:
    """Deny beats ask beats allow, wherever each stands, and every finding names its touch."""
    verdict = decide((read("a"), write("b", kind=FILE), read(".ssh/x")), world(HIGH))
    assert [(item.touch, item.decision) for item in verdict.findings] == [(0, ALLOW), (1, ASK), (2, DENY)]
    assert (verdict.decision, verdict.deciding.touch) == (DENY, 2)


def test_findings_carry_rule_file_and_line() -> None:
    """Rules by their own place, settings by where they were written."""
    origins = {"tools.enable": "handrail.toml:3", "workspace.protected": "handrail.toml:5"}
    off = decide((write("a"),), world(HIGH, enable=frozenset(), origins=origins))
    hidden = decide((read(".env"),), world(LOW, origins=origins))
    ruled = decide((read("a"),), world(LOW, rule(DENY, "fs.read", "a", why="not for agents")))
    assert [item.deciding.where for item in (off, hidden, ruled)] == [
        "handrail.toml:3",
        "handrail.toml:5",
        "handrail.toml:11",
    ]
    assert ruled.findings == (Finding("rules", "rules.1", DENY, "not for agents", "handrail.toml:11"),)


def test_the_mode_changes_who_is_asked_and_not_the_verdict() -> None:
    """Headless, an ask stays an ask: the refusal with its request is made of it later."""
    modes = [decide((write("a", kind=FILE),), world(HIGH, mode=mode)) for mode in Mode]
    assert modes[0] == modes[1]
    assert modes[0].decision is ASK


@pytest.mark.parametrize("number", range(0, 300, 3))
def test_deciding_is_pure(number: int) -> None:
    """The same call in the same world gets the same verdict again, and neither is changed by it."""
    touches, there = worlds.situation(Random(number))
    copies = deepcopy((touches, there))
    first = decide(touches, there)
    assert decide(*copies) == first == decide(touches, there)
    assert (touches, there) == copies


def test_a_deep_read_leaves_out_keys_own_files_rules_and_protected_names() -> None:
    """All of them as exclusions that name their rule; nothing is left out of a plain read."""
    there = world(
        LOW, rule(DENY, "fs.read", "secrets/"), rule(ASK, "fs.read", "a/x", 2), protected=(".env*", "!.env.example")
    )
    verdict = decide((read("", deep=True),), there)
    named = [item for item in verdict.excluded if item.rule != "builtin.key-material"]
    assert (verdict.decision, named) == (
        ALLOW,
        [
            Exclusion("/.agent/runs", "builtin.own-files", root="workspace"),
            Exclusion("/secrets/", "rules.1", any_case=False),
            Exclusion("/a/x", "rules.2", any_case=False),
            Exclusion(".env*", "defaults.protected", except_for=(".env.example",)),
        ],
    )
    assert decide((read("a"),), there).excluded == ()


def test_own_folders_with_wildcards_in_their_names_are_left_out_by_their_real_names() -> None:
    """A folder called `b[1]*` is hidden itself, and not what such a pattern would take."""
    verdict = decide((read("", deep=True),), world(LOW, own_paths=("/ws/b[1]*",)))
    covered = [excluded(verdict.excluded, WORKSPACE, path) is not None for path in ("b[1]*/x", "b1x", "b[1]")]
    assert covered == [True, False, False]

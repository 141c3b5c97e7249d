"""The effective policy as data, and the table of calls that `policy test` judges."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from handrail.errors import Code, Problem, SettingsFault
from handrail.policy import decide
from handrail.policy.effective import effective
from handrail.policy.table import Case, Failure, judge, parse
from handrail.words import How, Mode, Touch, TouchKind, Verdict
from laws.calls import ALLOW, ASK, DENY, HIGH, LOW, WORKSPACE, read, rule, world

READS, WRITES = Touch(TouchKind.FS_READ, ""), Touch(TouchKind.FS_WRITE, "")
RUNS, REACHES = Touch(TouchKind.PROC_EXEC, ""), Touch(TouchKind.NET_CONNECT, "")


def results(*states: Touch, **more: object) -> list[tuple[str, str, str]]:
    told = effective([world(replace(HIGH, states=states), **more)], "d")["tools"]["write_file"]["touches"]
    return [(item["touch"], item["example"], item["result"]) for item in told]


def test_the_effective_policy_tells_what_holds_for_all_and_for_each_tool() -> None:
    """Digest, mode, scope, roots, names, hosts and rules once; then each tool with its findings by source."""
    there = world(
        replace(LOW, states=(READS,)), rule(ASK, "fs.read", "secrets/"), roots=(WORKSPACE,), origins={"mode": "x:1"}
    )
    other = replace(there, tool=replace(HIGH, states=(replace(WRITES, how=How.EDIT),)))
    told = effective([there, other], "digest")
    by_read = [{"rule": "defaults.workspace-read", "says": "allow", "why": "reading beneath a root", "where": ""}]
    rules = [{"id": "rules.1", "effect": "ask", "target": "secrets/", "where": "handrail.toml:11"}]
    assert {name: value for name, value in told.items() if name not in ("tools", "rules")} == {
        "digest": "digest",
        "mode": "interactive",
        "max_scope": "run",
        "roots": [{"name": "workspace", "path": "/ws", "writable": True}],
        "protected": [".env*", "!.env.example"],
        "allowed_hosts": [],
        "enable": ["read_file"],
        "disable": [],
        "bulk_files": 20,
        "max_undo_bytes": 33554432,
        "origins": {"mode": "x:1"},
    }
    assert [(item["id"], item["where"], item["narrows"]) for item in told["rules"]] == [
        ("rules.1", "handrail.toml:11", False)
    ]
    assert told["tools"]["read_file"] == {
        "toolset": "fs",
        "risk": "low",
        "enabled": True,
        "touches": [
            {
                "touch": "fs.read",
                "example": "an existing file",
                "result": "allow",
                "by": {"defaults": by_read},
                "rules": rules,
            }
        ],
    }
    assert told["tools"]["write_file"]["enabled"] is False
    assert [list(item["by"]) for item in told["tools"]["write_file"]["touches"]] == [["enablement"], ["enablement"]]
    assert json.loads(json.dumps(told)) == told


def test_typical_calls_are_judged_by_what_a_tool_states() -> None:
    """New and existing files, commands and methods apart; a tool that states nothing is judged for its use."""
    assert results(WRITES) == [("fs.write", "a new file", "allow"), ("fs.write", "an existing file", "ask")]
    assert results(replace(WRITES, how=How.EDIT))[1] == ("fs.write", "an existing file", "allow")
    assert results(Touch(TouchKind.FS_DELETE, "", deep=True)) == [("fs.delete", "a folder and all below", "ask")]
    assert results(RUNS) == [("proc.exec", "some command", "ask")]
    assert results() == [("tool.use", "write_file", "ask")]
    assert results(REACHES, allowed_hosts=("*.x.org", "[::1]")) == [
        ("net.connect", "GET or HEAD, [::1]:443", "allow"),
        ("net.connect", "another method, [::1]:443", "ask"),
    ]
    assert [result for *_, result in results(REACHES)] == ["deny", "deny"]
    assert results(READS, roots=()) == [("fs.read", "a file", "deny")]


def test_the_mode_is_told_where_a_person_would_be_asked() -> None:
    """Headless says that asking is a refusal, with where that was set."""
    there = world(replace(HIGH, states=(RUNS,)), mode=Mode.HEADLESS, origins={"mode": "handrail.toml:1"})
    by = effective([there], "d")["tools"]["write_file"]["touches"][0]["by"]
    why = "ask becomes a refusal that carries the request, to be replayed once it is approved"
    assert by["mode"] == [{"rule": "mode.headless", "says": "ask", "why": why, "where": "handrail.toml:1"}]
    assert list(by) == ["defaults", "mode"]


def test_no_tools_are_a_policy_too() -> None:
    """An empty catalog gives the digest and nothing else."""
    assert effective([], "d") == {"digest": "d", "tools": {}}


# ── policy test ──────────────────────────────────────────────────────────────────────────────

TABLE = """
[[cases]]
tool = "read_file"
args = { path = "a" }
expect = "allow"

[[cases]]
tool = "read_file"
args = { path = ".env" }
expect = "deny"
rule = "defaults.protected"
code = "PATH_PROTECTED"
"""


def explain(tool: str, args: Mapping[str, object]) -> Verdict:
    if tool != "read_file":
        raise Problem(Code.UNKNOWN_TOOL, f"There is no tool {tool!r}.")
    ask = rule(ASK, "fs.read", "secrets/", why="!")
    return decide((read(str(args["path"])),), world(LOW, ask))


def test_a_table_is_read_with_the_line_of_each_case() -> None:
    """Every field, and where a failure is to be looked for."""
    assert parse(TABLE, "t.toml") == [
        Case("read_file", ALLOW, {"path": "a"}, where="t.toml:2"),
        Case("read_file", DENY, {"path": ".env"}, "defaults.protected", "PATH_PROTECTED", where="t.toml:7"),
    ]
    assert [case.where for case in parse('cases = [{tool = "a", expect = "ask"}]', "t.toml")] == ["t.toml, case 1"]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("x =", ["t.toml: this is no TOML: Invalid value (at end of document)"]),
        ("", ["t.toml: it needs at least one `[[cases]]` with tool, args and expect"]),
        ("cases = 3", ["t.toml: it needs at least one `[[cases]]` with tool, args and expect"]),
        ("cases = [3]", ["t.toml, case 1: a case is a table with tool, args and expect"]),
        (
            '[[cases]]\nexpect = "ask"\n[[case]]\n',
            ["t.toml: there is no key 'case' here; did you mean 'cases'?", "t.toml:1: tool: is missing"],
        ),
        (
            '[[cases]]\ntool = "a"\nexpects = "ask"\n',
            ["t.toml:1: there is no key 'expects' in a case; did you mean 'expect'?", "t.toml:1: expect: is missing"],
        ),
        ('[[cases]]\ntool = 3\nexpect = "ask"', ["t.toml:1: tool: expected text, got 3"]),
        ('[[cases]]\ntool = "a"\nexpect = "ask"\nargs = "x"', ["t.toml:1: args: expected a table, got 'x'"]),
        ('[[cases]]\ntool = "a"\nexpect = "denied"', ["t.toml:1: expect: 'denied' is none of allow, ask, deny"]),
        (
            '[[cases]]\ntool = "a"\nexpect = "deny"\ncode = "PATH_PROTECT"',
            ["t.toml:1: code: there is no 'PATH_PROTECT'; did you mean 'PATH_PROTECTED'?"],
        ),
    ],
)
def test_a_table_with_slips_is_refused_with_every_one_of_them(text: str, faults: list[str]) -> None:
    """Unknown keys name the nearest, wrong values what was expected."""
    with pytest.raises(SettingsFault) as caught:
        parse(text, "t.toml")
    assert str(caught.value).splitlines() == faults


@pytest.mark.parametrize(
    "case",
    [
        *parse(TABLE),
        Case("read_file", ASK, {"path": "secrets/a"}, "rules.1", "APPROVAL_REQUIRED"),
        Case("read_file", DENY, {"path": ".ssh/x"}, code="PATH_PROTECTED"),
        Case("nothing", DENY, code="UNKNOWN_TOOL"),
    ],
)
def test_a_case_that_gets_its_verdict_passes(case: Case) -> None:
    """Decision, rule and code where they are given; a call that is none passes by its code alone."""
    assert judge(case, explain) is None


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            Case("read_file", ALLOW, {"path": ".env"}, where="t:1"),
            "t:1: read_file(path='.env'): expected allow, got deny by defaults.protected: .env is protected (.env*)",
        ),
        (
            Case("read_file", ASK, {"path": "secrets/a"}, rule="rules.9"),
            "read_file(path='secrets/a'): expected the rule rules.9, it was decided by rules.1 at handrail.toml:11: !",
        ),
        (
            Case("read_file", DENY, {"path": ".env"}, code="POLICY_DENIED"),
            "read_file(path='.env'): expected the code POLICY_DENIED, got PATH_PROTECTED",
        ),
        (
            Case("read_file", ALLOW, {"path": "a"}, code="NOT_FOUND"),
            "read_file(path='a'): expected the code NOT_FOUND, got none",
        ),
        (
            Case("nothing", DENY, code="POLICY_DENIED"),
            "nothing() is no call that can be judged: There is no tool 'nothing'. (UNKNOWN_TOOL)",
        ),
        (Case("nothing", DENY), "nothing() is no call that can be judged: There is no tool 'nothing'. (UNKNOWN_TOOL)"),
    ],
)
def test_a_case_that_is_judged_otherwise_says_how(case: Case, message: str) -> None:
    """What was expected, what came, and by which rule at which place."""
    failure = judge(case, explain)
    assert isinstance(failure, Failure)
    assert (failure.case, failure.message) == (case, message)

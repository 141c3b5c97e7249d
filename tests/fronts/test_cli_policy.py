"""handrail policy: what is allowed here, why, and what would change it."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from fronts.conftest import Cli
from handrail.errors import Problem
from handrail.sandbox.choose import choose
from handrail.sandbox.plan import Bounds

TABLE = """
[[cases]]
tool = "read_file"
args = { path = ".env" }
expect = "deny"

[[cases]]
tool = "read_file"
args = { path = "a.txt" }
expect = "allow"
"""


def test_judging_leaves_no_run_behind(cli: Cli) -> None:
    """Nothing was called, so there is nothing to look at."""
    (cli.work / "table.toml").write_text(TABLE)
    for argv in (("show",), ("explain", "read_file", "path=a.txt"), ("test", "table.toml"), ("check",)):
        assert cli("policy", *argv).code == 0
    assert cli.run_ids() == []


JUDGED = (
    ("show",),
    ("explain", "read_file", "path=a.txt"),
    ("explain", "write_file", "path=a.txt", "content=x"),
    ("explain", "--enable", "run_command", "run_command", "command=ls"),
    ("test", "table.toml"),
    ("check",),
)


@pytest.mark.parametrize("state", ["/proc/nowhere", "file"])
def test_judging_needs_no_place_to_keep_anything(cli: Cli, tmp_path: Path, state: str) -> None:
    """The same is told where no folder can be made, and nothing is left behind in another place."""
    (cli.work / "table.toml").write_text(TABLE)
    (tmp_path / "moment").mkdir()
    (tmp_path / "file").touch()
    at, moment = str(tmp_path / state), str(tmp_path / "moment")
    for argv in JUDGED:
        usual, here = cli("policy", *argv), cli("policy", *argv, XDG_STATE_HOME=at, TMPDIR=moment)
        assert (here.code, here.out, here.err) == (usual.code, usual.out, usual.err)
    assert list((tmp_path / "moment").iterdir()) == []


def test_judging_without_a_place_knows_grants_and_keeps_out_of_runs(cli: Cli) -> None:
    """What the state folder says is read though nothing can be written there, and the runs' own place is withheld."""
    user = Path(cli.env["XDG_CONFIG_HOME"], "handrail", "config.toml")
    user.write_text(f'{user.read_text()}approvals.max_scope = "session"\n')
    write = ("write_file", "path=a.txt", "content=x", "mode=overwrite", "expected_sha256=*")
    asked = cli("call", "--headless", "--json", *write)
    request = json.loads(asked.out)["error"]["details"]["approval"]["id"]
    assert cli.grant(request, "--scope", "session").code == 0
    (cli.work / "kept").write_text("a file, so that no run can be made below")
    user.write_text(f'{user.read_text()}runs_dir = "{cli.work}/kept"\n')
    assert cli("call", "read_file", "path=a.txt").code == 1
    granted = json.loads(cli("policy", "explain", "--json", *write).out)
    assert (granted["decision"], granted["findings"][-1]["rule"].partition(".")[0]) == ("allow", "grant")
    assert cli("policy", "explain", "read_file", "path=kept").code == 3


@pytest.mark.parametrize("argv", [("nosuch",), ("read_file", "--permissions", "fs.fly"), ("read_file", "pth=a")])
def test_a_slip_in_what_is_explained_leaves_no_run_behind(cli: Cli, argv: tuple[str, ...]) -> None:
    """It is told as wrong usage."""
    assert cli("policy", "explain", *argv).code == 2
    assert cli.run_ids() == []


def test_what_would_be_read_twice_is_told_once(cli: Cli) -> None:
    """A command that is all of its line; programs still get each touch."""
    told = cli("policy", "explain", "--enable", "run_command", "run_command", "command=rm -rf /").out
    assert told.count("  proc.exec rm -rf /\n") == 1
    assert told.count("rm would remove all of /") == 1
    assert "    > deny  builtin.command: rm would remove all of /\n" in told


def test_show_names_result_and_reason_of_each_tool(cli: Cli) -> None:
    """As a table, and with every source as JSON."""
    lines = [line.split() for line in cli("policy", "show").out.splitlines()]
    assert ["read_file", "fs.read", "existing", "allow", "defaults.workspace-read"] in lines
    told = json.loads(cli("policy", "show", "--json").out)
    touches = told["tools"]["write_file"]["touches"]
    writes = {touch["example"]: touch["result"] for touch in touches if touch["touch"] == "fs.write"}
    assert writes == {"a new file": "allow", "an existing file": "ask"}


def test_explain_has_the_exit_code_of_the_call(cli: Cli) -> None:
    """0 allowed, 3 denied, 4 asked for, 2 for what is no call."""
    codes = [
        cli("policy", "explain", *argv).code
        for argv in (
            ("read_file", "path=a.txt"),
            ("read_file", "path=.env"),
            ("write_file", "path=a.txt", "content=x", "mode=overwrite"),
            ("read_file", "pfad=a.txt"),
            ("no_such_tool",),
        )
    ]
    assert codes == [0, 3, 4, 2, 2]


def test_explain_takes_the_names_of_a_dialect(cli: Cli) -> None:
    """A call of another system's is judged as the native one that it stands for, and an unknown name names its own."""
    enabled = ("--enable", "delete_path")
    theirs = cli("policy", "explain", "delete_file", "path=a.txt", "--dialect", "clude", *enabled)
    ours = cli("policy", "explain", "delete_path", "path=a.txt", "confirm=true", *enabled)
    assert (theirs.code, theirs.out.splitlines()[1:]) == (ours.code, ours.out.splitlines()[1:])
    assert theirs.out.startswith("delete_file: REQUIRE_CONFIRMATION(call)\n")
    assert ours.out.startswith("delete_path: ask\n")
    wrong = cli("policy", "explain", "delete_path", "path=a.txt", "--dialect", "clude")
    assert (wrong.code, "no tool 'delete_path' in the dialect clude" in wrong.err) == (2, True)


def test_explain_says_what_fails_before_anybody_is_asked(cli: Cli) -> None:
    """A file that exists is asked for only once the call says that it means to replace it, and knows what."""
    plain = cli("policy", "explain", "write_file", "path=a.txt", "content=x")
    assert (plain.code, "defaults.overwrite: a.txt exists and would be replaced" in plain.out) == (4, True)
    assert "as it is, it fails before anybody is asked: ALREADY_EXISTS: a.txt exists already." in plain.out
    told = json.loads(cli("policy", "explain", "write_file", "path=a.txt", "content=x", "--json").out)
    assert told["fails_first"]["code"] == "ALREADY_EXISTS"
    sha256 = hashlib.sha256((cli.work / "a.txt").read_bytes()).hexdigest()
    meant = ("write_file", "path=a.txt", "content=x", "mode=overwrite", f"expected_sha256={sha256}")
    assert json.loads(cli("policy", "explain", *meant, "--json").out)["fails_first"] is None


def test_explain_says_how_a_program_would_be_confined(cli: Cli) -> None:
    """Tier, backend, what it may change, its limits and the gaps, for programs and for a person."""
    try:
        sandbox = choose()
    except Problem as problem:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(problem.message)
    sandbox.close()
    held, how = sandbox.confined, ("policy", "explain", "run_command", "command=make", "--enable", "exec")
    told = json.loads(cli(*how, "--json").out)["sandbox"]
    bounds = {name: getattr(Bounds(), name) for name in Bounds.__match_args__}
    assert (told["tier"], told["backend"], told["gaps"]) == (held.tier, held.backend, list(held.gaps))
    own = ["run:deliverables", "run:workspace", "run:sandbox"]
    assert (told["write"], told["bounds"]) == ([str(cli.work), *own], bounds)
    text = cli(*how).out
    assert f"\n  its programs run in sandbox tier {held.tier} ({held.backend}); changes are direct\n" in text
    assert [gap for gap in held.gaps if gap not in text] == []


def test_explain_tells_the_smallest_change_and_it_works(cli: Cli) -> None:
    """What it prints as TOML, put into the settings, has the call allowed."""
    told = json.loads(cli("policy", "explain", "read_file", "path=.env", "--json").out)
    assert (told["decision"], told["change"]["to"]) == ("deny", "allow")
    (cli.work / "more.toml").write_text(told["change"]["toml"])
    assert cli("policy", "explain", "read_file", "path=.env", "--config", "more.toml").code == 0


def test_test_runs_a_table(cli: Cli) -> None:
    """Failures are named with file and line, and make the exit code 1."""
    (cli.work / "good.toml").write_text(TABLE)
    (cli.work / "bad.toml").write_text(TABLE.replace('expect = "allow"', 'expect = "deny"'))
    good, bad = cli("policy", "test", "good.toml"), cli("policy", "test", "bad.toml")
    assert good == (0, "2 passed, 0 failed\n", "")
    assert (bad.code, bad.out.splitlines()[-1]) == (1, "1 passed, 1 failed")
    assert bad.out.startswith("FAILED bad.toml:7: read_file(path='a.txt'): expected deny, got allow")


def test_a_table_that_cannot_be_read_is_wrong_usage(cli: Cli) -> None:
    """Missing, broken or not text."""
    (cli.work / "broken.toml").write_text("[[cases]]\ntool = 1\n")
    (cli.work / "bytes.toml").write_bytes(b"\xff")
    for name, says in (("missing.toml", "does not exist"), ("broken.toml", "expected text"), ("bytes.toml", "UTF-8")):
        ended = cli("policy", "test", name)
        assert (ended.code, ended.out, says in ended.err) == (2, "", True)


def test_check_finds_a_rule_that_is_too_broad(cli: Cli) -> None:
    """With its place; as JSON, too."""
    (cli.work / "broad.toml").write_text('[[rules]]\neffect = "allow"\ntouch = "fs.*"\ntarget = "**"\n')
    told = json.loads(cli("policy", "check", "--config", "broad.toml", "--json").out)
    assert [item["where"] for item in told][:1] == ["broad.toml:1"]
    assert "broad.toml:1" in cli("policy", "check", "--config", "broad.toml").out
    assert cli("policy", "check").out == "nothing to complain about\n"

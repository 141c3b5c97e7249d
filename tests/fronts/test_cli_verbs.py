"""The other verbs: init, config, tools, doctor, tour, version, and what all have in common."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fronts.conftest import Cli
from handrail import __version__
from handrail.errors import Problem
from handrail.sandbox.choose import choose


def test_the_version_is_told_without_loading_anything(cli: Cli) -> None:
    """No click, no pydantic: it answers at once."""
    code = (
        "import sys; sys.argv = ['handrail', '--version']\n"
        "from handrail.front.cli import main; main()\n"
        "print(sorted({'click', 'pydantic', 'asyncio', 'rich'} & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], env=cli.env, capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.splitlines() == [f"handrail {__version__}", "[]"]
    assert cli("version").out == f"handrail {__version__}\n"


def test_the_package_runs_as_a_program(cli: Cli) -> None:
    """Where its script is not on the path; it calls itself by the same name."""
    line = [sys.executable, "-m", "handrail", "call", "--help"]
    ended = subprocess.run(line, env=cli.env, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.startswith("Usage: handrail call ")


def test_a_simple_call_loads_nothing_it_does_not_use(cli: Cli) -> None:
    """No tables, no database, no TOML writer, no subprocesses of ours on the way of a read."""
    code = (
        "import sys\nfrom handrail.front.cli.root import run\n"
        "run(['call', 'read_file', 'path=a.txt'])\n"
        "heavy = {'rich', 'sqlite3', 'tomlkit', 'platformdirs', 'handrail.queries', 'handrail.workspace.ripgrep',"
        " 'handrail.workspace.moving', 'jmespath', 'handrail.approvals.terminal'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=cli.work, env=cli.env, capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.splitlines()[-1] == "[]"


def test_help_names_every_verb_and_how_to_complete(cli: Cli) -> None:
    """With the exit codes."""
    told = cli("--help")
    assert told.code == 0
    for verb in ("init", "tools", "call", "policy", "approvals", "runs", "config", "doctor", "tour", "version"):
        assert f"\n  {verb} " in told.out
    assert "_HANDRAIL_COMPLETE=bash_source" in told.out


@pytest.mark.parametrize(
    ("argv", "says"),
    [(("rnus",), "Did you mean `handrail runs`?"), (("runs", "lst"), "lst"), (("call", "--nope"), "--nope")],
)
def test_an_unknown_verb_or_option_is_wrong_usage(cli: Cli, argv: tuple[str, ...], says: str) -> None:
    """Exit code 2, on stderr."""
    ended = cli(*argv)
    assert (ended.code, ended.out, says in ended.err) == (2, "", True)


def test_init_writes_and_trusts_a_file_that_is_in_force(cli: Cli) -> None:
    """A second time it refuses, and nothing is lost."""
    made = cli("init")
    assert made.code == 0
    shown = json.loads(cli("config", "show", "--json").out)
    assert shown["tools.enable"] == {"value": ["fs", "exec"], "origin": "handrail.toml:6"}
    again = cli("init")
    assert (again.code, "is there already" in again.err) == (2, True)


def test_init_prints_a_preset_without_writing(cli: Cli) -> None:
    """Unknown presets are named with those there are."""
    assert "[tools]" in cli("init", "--print", "--preset", "readonly").out
    assert not (cli.work / "handrail.toml").exists()
    assert "there are: readonly, coding" in cli("init", "--preset", "x").err


def test_config_show_names_the_origin_of_each_value(cli: Cli) -> None:
    """Environment, file, default."""
    lines = [line.split() for line in cli("config", "show", "--origin", HANDRAIL_MODE="headless").out.splitlines()]
    assert ["mode", '"headless"', "HANDRAIL_MODE"] in lines
    assert ["tools.repair", "true", "default"] in lines


def test_trust_makes_a_projects_file_count_until_it_changes(cli: Cli) -> None:
    """Shown, pinned, forgotten; where nobody can be asked, only with --yes."""
    file = cli.work / "handrail.toml"
    file.write_text("workspace.allow_absolute = true\n")

    def value() -> bool:
        return bool(json.loads(cli("config", "show", "--json").out)["workspace.allow_absolute"]["value"])

    before = value()
    refused = cli("config", "trust")
    without_yes = value()
    trusted = cli("config", "trust", "--yes")
    with_trust = value()
    file.write_text('workspace.allow_absolute = true\nmode = "headless"\n')
    after_change = value()
    assert (before, without_yes, with_trust, after_change) == (False, False, True, False)
    assert (refused.code, "Nobody can be asked here" in refused.err, "--yes" in refused.err) == (1, True, True)
    assert (trusted.out, trusted.code) == ("workspace.allow_absolute = true\n", 0)
    assert [line.split(":")[0] for line in trusted.err.splitlines()] == ["trusted as it stands above"]
    assert cli("config", "trust", "--forget").code == 0


def test_trust_without_a_file_is_wrong_usage(cli: Cli) -> None:
    """There is nothing to look at."""
    assert cli("config", "trust").code == 2


def test_tools_lists_all_and_says_which_are_off(cli: Cli) -> None:
    """With nothing enabled, those that write, run programs, reach the network or keep notes are off."""
    lines = [line.split() for line in cli("tools", XDG_CONFIG_HOME="/nowhere").out.splitlines()[1:]]
    assert {line[0] for line in lines if line[3] == "off"} == {
        "apply_patch", "delete_path", "edit_file", "make_dir", "move_path", "write_file",
        "http_download", "http_fetch", "http_head", "http_json", "run_command", "run_script",
        "job_input", "job_list", "job_read", "job_stop", "write_memory", "update_memory",
    }  # fmt: skip
    assert len(json.loads(cli("tools", "list", "--json").out)) == len(lines)


def test_tools_show_tells_arguments_and_touches(cli: Cli) -> None:
    """As JSON it is the specification for function calling."""
    told = cli("tools", "show", "read_file")
    assert "touches: fs.read" in told.out
    assert json.loads(cli("tools", "show", "read_file", "--json").out)["args_schema"]["required"] == ["path"]
    unknown = cli("tools", "show", "read_fil")
    assert (unknown.code, "Did you mean read_file?" in unknown.err) == (2, True)


def test_doctor_tries_everything(cli: Cli) -> None:
    """Good here; a state folder that cannot be made is bad, with what to do."""
    checks = {item["name"]: item for item in json.loads(cli("doctor", "--json").out)}
    assert {name for name, item in checks.items() if item["state"] == "bad"} == set()
    bad = cli("doctor", XDG_STATE_HOME="/proc/nowhere")
    assert (bad.code, "XDG_STATE_HOME" in bad.out) == (1, True)
    (cli.work / "handrail.toml").write_text("mode = [")
    assert cli("doctor").code == 1


def test_doctor_names_each_gap_of_the_sandbox(cli: Cli) -> None:
    """What programs are not held back from here, in the words that go with every program."""
    try:
        sandbox = choose()
    except Problem as problem:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(problem.message)
    sandbox.close()
    told = [item["says"] for item in json.loads(cli("doctor", "--json").out) if item["says"].startswith("gap: ")]
    assert told == [f"gap: {gap}" for gap in sandbox.confined.gaps]
    assert told


def test_the_tour_shows_every_station_and_leaves_nothing(cli: Cli) -> None:
    """Without a terminal it answers itself; no line is wider than 80 columns, and the user's state stays as it was."""
    told = cli("tour", HOME="/nowhere", XDG_STATE_HOME="/proc/nowhere", NO_COLOR="1")
    assert (told.code, told.err) == (0, "")
    titles = [line.split()[0] for line in told.out.splitlines() if line[:1].isdigit()]
    assert titles == [str(number) for number in range(1, 12)]
    assert max(map(len, told.out.splitlines())) <= 80
    assert "not as it should be" not in told.out
    assert "  · " not in told.out  # a proof without a hash leaves no gap
    assert cli.run_ids() == []


@pytest.mark.parametrize(
    "argv",
    [
        ("tools",),
        ("policy", "show"),
        ("doctor",),
        ("config", "show", "--origin"),
        ("runs", "list"),
        ("approvals", "list"),
    ],
)
def test_nothing_that_is_piped_has_colour_or_padding(cli: Cli, argv: tuple[str, ...]) -> None:
    """Lines are as long as they are, without escape sequences."""
    cli("call", "now")
    told = cli(*argv)
    assert "\x1b" not in told.out + told.err
    assert "…" not in told.out


def test_where_home_cannot_be_written_reading_settings_still_works(cli: Cli) -> None:
    """Looking needs no state."""
    for argv in (("tools",), ("config", "show"), ("approvals", "list"), ("runs", "list"), ("policy", "check")):
        assert cli(*argv, HOME="/nowhere", XDG_STATE_HOME="/proc/nowhere").code == 0


def test_the_module_of_every_verb_has_a_short_start(cli: Cli) -> None:
    """No file of the command line imports rich before it prints a table, so that `--help` is quick, too."""
    folder = Path(sys.modules["handrail"].__file__ or "").parent / "front" / "cli"
    verbs = [path for path in folder.glob("*.py") if not path.name.startswith("_")]
    assert [
        path.name for path in verbs if "\nfrom rich" in path.read_text() or "\nimport rich" in path.read_text()
    ] == []


def test_a_tool_is_shown_in_a_narrow_terminal_without_breaking_words(cli: Cli) -> None:
    """One argument below the other, where a table would have columns of a few letters."""
    cli.env["COLUMNS"] = "40"
    shown = cli("tools", "show", "write_file").out
    assert max(map(len, shown.splitlines())) <= 40
    assert {"expected_sha256:", "overwrite", "required", "boolean;", "missing"} <= set(shown.split())

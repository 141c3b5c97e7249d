"""Dialects and presets on the command line."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from fronts.conftest import Cli
from fronts.terminal import at_terminal
from fronts.zygote import Zygote
from handrail import dialects
from handrail.settings import PRESETS


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """Processes for the command line."""
    made = Zygote(tmp_path_factory.mktemp("streams"))
    yield made
    made.close()


@pytest.fixture
def cli(zygote: Zygote, work: Path, own_user: Path) -> Cli:
    """`handrail` in a small project."""
    (work / "a.txt").write_text("one\ntwo\n")
    return Cli(zygote, work, own_user)


def test_a_call_speaks_a_dialect(cli: Cli) -> None:
    """Names, arguments and, as JSON, the envelope."""
    told = cli("call", "--dialect", "tool-hub", "core/fs.sha256", "path=a.txt", "--json")
    assert (told.code, json.loads(told.out)["result"]["bytes"]) == (0, 8)


def test_pairs_are_read_by_the_schema_of_the_dialect(cli: Cli) -> None:
    """maxBytes=2048 is a number; query=1 is a text."""
    told = cli("call", "--dialect", "tool-hub", "core/fs.readText", "path=a.txt", "maxBytes=2048")
    found = cli("call", "--dialect", "tool-hub", "core/fs.searchText", "root=.", "query=1", "--json")
    assert (told.code, told.out, json.loads(found.out)["ok"]) == (0, "one\ntwo\n", True)


@pytest.mark.parametrize("name", [name for name in dialects.names() if name != "native"])
def test_the_list_shows_exactly_the_tools_of_the_document(cli: Cli, name: str) -> None:
    """With their schemas."""
    told = json.loads(cli("tools", "list", "--dialect", name, "--json").out)
    words = dialects.get(name).words
    assert {spec["name"]: spec["args_schema"] for spec in told} == {word.name: word.args for word in words.values()}


def test_one_tool_is_shown_in_its_own_names(cli: Cli) -> None:
    """`tools show`."""
    told = cli("tools", "show", "--dialect", "autonous", "grep", "--json")
    plain = cli("tools", "show", "--dialect", "clude", "run_terminal_cmd")
    assert (json.loads(told.out)["name"], "is_background" in plain.out) == ("grep", True)


def test_events_are_printed_in_a_dialect(cli: Cli) -> None:
    """Also those of calls in our own words."""
    cli("call", "list_dir", "path=.")
    lines = [json.loads(line) for line in cli("runs", "events", "--dialect", "autonous").out.splitlines()]
    assert [line["kind"] for line in lines] == [
        "run.started",
        "tool_call.started",
        "tool_call.completed",
        "run.finished",
    ]
    assert lines[1]["payload"]["tool_name"] == "ls"


def test_runs_are_found_by_the_settings_of_another_system(cli: Cli) -> None:
    """The file that a call was made with finds its run: by --dialect for its events, by --preset for the rest."""
    (cli.work / "kgent.yaml").write_text("memory: {enabled: true}\n")
    with_file = ["--config", "kgent.yaml"]
    cli("call", "--dialect", "kgent", *with_file, "--run", "one", "list_files", "path=.")
    events = cli("runs", "events", "one", "--dialect", "kgent", *with_file)
    shown = cli("runs", "show", "one", "--preset", "kgent", *with_file)
    assert [json.loads(line)["tool"] for line in events.out.splitlines() if '"tool.' in line] == ["list_files"] * 2
    assert (events.code, shown.code, "list_dir" in shown.out) == (0, 0, True)


def test_an_unknown_dialect_is_wrong_usage(cli: Cli) -> None:
    """And those there are, are named."""
    for argv in (["call", "now"], ["tools", "list"], ["runs", "events"]):
        told = cli(*argv, "--dialect", "klingon")
        assert (told.code, "there are: native, skills-agent" in told.err) == (2, True)


@pytest.mark.parametrize("name", PRESETS)
def test_init_writes_and_trusts_a_preset(cli: Cli, name: str) -> None:
    """It is what `--print` shows, and it loads without a remark."""
    shown = cli("init", "--preset", name, "--print").out
    told = cli("init", "--preset", name)
    checked = cli("policy", "check")
    assert (told.code, (cli.work / "handrail.toml").read_text(), checked.code) == (0, shown, 0)


def test_a_script_of_a_skill_takes_its_words_behind_two_dashes(cli: Cli) -> None:
    """As the replay line writes it; without anybody to approve it ends as pending."""
    from dialects._speaking import skill

    skill(cli.work, fill__py="print(1)\n")
    words = ["--", "scripts/fill.py", "--input", "data.json"]
    told = cli(
        "call", "run_script", "--skill", "pdf-form-filler", "--enable", "run_script", "--headless", "--json", *words
    )
    request = json.loads(told.out)["error"]["details"]["approval"]
    assert (told.code, request["params"]["script"], request["params"]["args"]) == (
        4, "scripts/fill.py", ["--input", "data.json"],
    )  # fmt: skip


def test_the_replay_line_runs_at_a_terminal_once_a_person_says_so(cli: Cli) -> None:
    """The line of the approval request, word by word: the person sees the script, approves, and it runs."""
    from dialects._speaking import skill

    skill(cli.work, fill__py="import sys\nprint('filled', *sys.argv[1:])\n")
    config = Path(cli.env["XDG_CONFIG_HOME"], "handrail", "config.toml")
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('tools.enable = ["run_script"]\n')
    line = "handrail call run_script --skill pdf-form-filler --approve -- scripts/fill.py --input data.json"
    with at_terminal(shlex.split(line)[1:], cli.work, cli.env) as terminal:
        terminal.wait_for("Answer (once, no, advice):")
        assert "scripts/fill.py" in terminal.shown
        terminal.type("once\n")
        assert terminal.end() == 0
    assert "filled --input data.json" in terminal.shown

"""handrail mcp install: the entry is put in, and nothing that was there is lost."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from pathlib import Path

import click
import pytest
import yaml

from fronts.conftest import Cli
from fronts.terminal import at_terminal
from handrail.errors import SettingsFault
from handrail.front.cli.mcp import install
from handrail.front.mcp.install import CLIENTS, Entry, planned
from handrail.front.mcp.install_files import MOST_BYTES

ENTRY = {"command": "handrail", "args": ["mcp"]}
SHARED = {"claude-code": ".mcp.json", "cursor": ".cursor/mcp.json", "gemini-cli": ".gemini/settings.json"}


@pytest.fixture(autouse=True)
def on_the_path(cli: Cli) -> None:
    """The program is found by its name, as after an ordinary installation."""
    cli.env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{cli.env['PATH']}"


def test_a_program_that_is_not_on_the_path_is_named_by_its_place(cli: Cli) -> None:
    """Else the client could not start it, whoever shares the file."""
    cli.env["PATH"] = "/nowhere"
    assert cli("mcp", "install", "claude-code", "--yes").code == 0
    entry = json.loads((cli.work / ".mcp.json").read_text())["mcpServers"]["handrail"]
    assert entry == {**ENTRY, "command": str(Path(sys.executable).with_name("handrail"))}


@pytest.mark.parametrize("client", ["claude-code", "claude-desktop"])
def test_a_program_that_a_relative_path_finds_is_not_taken(cli: Cli, client: str) -> None:
    """A tool may have written it: the client is to start the program that was installed with Handrail."""
    (cli.work / "bin").symlink_to(Path(sys.executable).parent)
    cli.env["PATH"] = "bin"
    entry = json.loads(cli("mcp", "install", client, "--print").out)["mcpServers"]["handrail"]
    assert entry["command"] == str(Path(sys.executable).with_name("handrail"))


@pytest.mark.parametrize("variable", ["API_KEY=sk-secret", "FOO BAR", "", "1X"])
def test_a_variable_that_is_no_name_is_refused(cli: Cli, variable: str) -> None:
    """A value typed behind it would be in a file that others share; it is not repeated either."""
    ended = cli("mcp", "install", "claude-code", "--yes", "--env", variable)
    assert (ended.code, "takes the name of a variable" in ended.err, "sk-secret" in ended.err) == (2, True, False)
    assert not (cli.work / ".mcp.json").exists()


def test_settings_of_the_project_that_cannot_be_taken_are_told_first(cli: Cli) -> None:
    """The server would not start with them; what is not trusted is said, and written all the same."""
    (cli.work / "handrail.toml").write_text('mode = "nope"\n')
    ended = cli("mcp", "install", "claude-code", "--yes")
    assert (ended.code, "handrail.toml:1: mode" in ended.err) == (2, True)
    assert not (cli.work / ".mcp.json").exists()
    (cli.work / "handrail.toml").write_text('tools.enable = ["exec"]\n')
    ended = cli("mcp", "install", "claude-code", "--yes")
    assert (ended.code, "warning: handrail.toml:1" in ended.err) == (0, True)


def test_nothing_in_a_file_hides_what_is_shown_of_it(cli: Cli) -> None:
    """A project may be a stranger's, and the difference is where a person looks."""
    hidden = '{"mcpServers": {"handrail": {"command": "x", "env": {"P": "./evil"\r      \r}, "timeout": 1}}}'
    (cli.work / ".mcp.json").write_bytes(hidden.encode())
    with at_terminal(["mcp", "install", "claude-code"], cli.work, cli.env) as terminal:
        terminal.wait_for("Write ")
        terminal.type("n\n")
        assert terminal.end() == 0
    assert "./evil" in terminal.shown
    assert not re.search("\r[^\r\n]", terminal.shown)


@pytest.mark.parametrize("client", CLIENTS)
def test_printing_writes_nothing(cli: Cli, client: str) -> None:
    """The entry stands on stdout, as the client reads it."""
    ended = cli("mcp", "install", client, "--print")
    tables = {"goose": "extensions", "opencode": "mcp", "vscode": "servers", "zed": "context_servers"}
    read = tomllib.loads(ended.out) if client == "codex" else yaml.safe_load(ended.out)  # JSON is YAML, too
    table = "mcp_servers" if client == "codex" else tables.get(client, "mcpServers")
    assert (ended.code, list(read)) == (0, [table])
    assert sorted(path.name for path in cli.work.iterdir()) == [".env", "a.txt"]


@pytest.mark.parametrize("client", [name for name, client in CLIENTS.items() if client.project])
def test_printing_needs_no_file_that_can_be_read(cli: Cli, client: str) -> None:
    """What is there does not matter: nothing is laid over it."""
    file = cli.work / CLIENTS[client].project
    file.parent.mkdir(exist_ok=True)
    file.write_text("{ broken")
    assert cli("mcp", "install", client, "--print").code == 0


@pytest.mark.parametrize(
    ("client", "value"),
    [
        ("claude-code", "${TOKEN}"),
        ("mcp-json", "${TOKEN}"),
        ("gemini-cli", "${TOKEN}"),
        ("cursor", "${env:TOKEN}"),
    ],
)
def test_a_variable_is_named_as_the_client_reads_it(cli: Cli, client: str, value: str) -> None:
    """Never its value."""
    told = json.loads(cli("mcp", "install", client, "--print", "--env", "TOKEN", TOKEN="s3cret").out)
    assert told["mcpServers"]["handrail"]["env"] == {"TOKEN": value}


def test_a_client_that_fills_in_no_names_is_given_none(cli: Cli) -> None:
    """The server would be handed `${TOKEN}` for the value."""
    refused = cli("mcp", "install", "claude-desktop", "--print", "--env", "TOKEN")
    assert (refused.code, refused.out, "fills in none" in refused.err) == (2, "", True)


def test_an_unknown_client_is_told_the_near_ones(cli: Cli) -> None:
    """Among all there are."""
    assert "Did you mean claude-code or claude-desktop?" in cli("mcp", "install", "claude").err


@pytest.mark.parametrize("client", SHARED)
def test_a_shared_file_names_the_program_alone(cli: Cli, client: str) -> None:
    """No path of this machine stands in a file that others get."""
    assert cli("mcp", "install", client, "--yes").code == 0
    assert json.loads((cli.work / SHARED[client]).read_text()) == {"mcpServers": {"handrail": ENTRY}}


def test_a_private_file_says_where_everything_is(cli: Cli) -> None:
    """A client that is started elsewhere knows neither the path nor the project."""
    assert cli("mcp", "install", "claude-desktop", "--yes").code == 0
    made = json.loads(Path(cli.env["HOME"], ".config", "Claude", "claude_desktop_config.json").read_text())
    entry = made["mcpServers"]["handrail"]
    assert (entry["args"], Path(entry["command"]).is_absolute()) == (["mcp", "--workspace", str(cli.work)], True)


@pytest.mark.parametrize("how", ["--print", "--yes"])
@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--preset", "codng"], "coding"),
        (["--dialect", "clud"], "clude"),
        (["--preset", "coding", "--config", "own.toml"], "choose one"),
        (["--config", "broken.toml"], "enabel"),
        (["--config", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_what_the_server_would_refuse_is_not_put_into_an_entry(cli: Cli, how: str, flags: list[str], says: str) -> None:
    """The client could only tell that the server ended."""
    (cli.work / "own.toml").write_text("")
    (cli.work / "broken.toml").write_text("tools.enabel = 1\n")
    ended = cli("mcp", "install", "mcp-json", how, *flags)
    assert (ended.code, ended.out, says in ended.err) == (2, "", True), ended.err
    assert not (cli.work / ".mcp.json").exists()


def test_settings_that_are_variables_of_the_client_are_not_looked_for_here(cli: Cli) -> None:
    """They are there when it starts the server."""
    told = json.loads(cli("mcp", "install", "mcp-json", "--print", "--preset", "autonous").out)
    assert told["mcpServers"]["handrail"]["args"] == ["mcp", "--preset", "autonous"]


@pytest.mark.parametrize(("client", "flags"), [("claude-desktop", []), ("goose", []), ("gemini-cli", ["--user"])])
def test_a_private_entry_names_its_settings_wherever_it_is_started(cli: Cli, client: str, flags: list[str]) -> None:
    """The client does not start in this folder."""
    (cli.work / "own.toml").write_text("")
    read = yaml.safe_load(cli("mcp", "install", client, "--print", *flags, "--config", "own.toml").out)
    (entry,) = next(iter(read.values())).values()
    where = ["--workspace", str(cli.work), "--config", str(cli.work / "own.toml")]
    assert entry["args"] == ["mcp", *where]


def test_a_shared_entry_names_its_settings_from_the_project(cli: Cli) -> None:
    """Wherever the entry was made: the client starts the server in the project."""
    (cli.work / "own.toml").write_text("")
    flags = ("--workspace", str(cli.work), "--config", f"{cli.work.name}/own.toml")
    told = json.loads(cli("mcp", "install", "mcp-json", "--print", *flags, cwd=cli.work.parent).out)
    assert told["mcpServers"]["handrail"]["args"] == ["mcp", "--config", "own.toml"]


@pytest.mark.parametrize("client", ["claude-desktop", "goose"])
def test_a_path_that_is_no_text_is_told(tmp_path: Path, client: str) -> None:
    """No file of a client can hold it."""
    entry = Entry("handrail", ("mcp", "--workspace", "/caf\udce9"))
    with pytest.raises(SettingsFault, match="not UTF-8"):
        planned(CLIENTS[client], tmp_path / "settings", entry)


@pytest.mark.parametrize("answer", ["n", "y"])
def test_a_person_sees_the_change_and_is_asked(cli: Cli, answer: str) -> None:
    """Only a yes writes it, with --user into the user's own settings."""
    file = Path(cli.env["HOME"], ".gemini", "settings.json")
    with at_terminal(["mcp", "install", "gemini-cli", "--user"], cli.work, cli.env) as person:
        person.wait_for("[y/N]")
        assert ('+    "handrail": {' in person.shown, file.exists()) == (True, False)
        person.type(f"{answer}\n")
        assert person.end() == 0
    assert (file.exists(), "Nothing is written" in person.shown) == (answer == "y", answer == "n")
    assert not (cli.work / ".gemini").exists()
    if answer == "y":
        assert json.loads(file.read_text())["mcpServers"]["handrail"]["args"] == ["mcp", "--workspace", str(cli.work)]


def test_a_file_that_cannot_be_written_is_named_itself(cli: Cli) -> None:
    """Not the draft that was to take its place."""
    (cli.work / ".cursor").write_text("in the way")
    ended = cli("mcp", "install", "cursor", "--yes")
    assert (ended.code, ended.err.count("/.cursor/mcp.json: cannot be")) == (2, 1), ended.err


def test_what_is_there_stays_in_its_order(cli: Cli) -> None:
    """Unknown keys, other servers, order and indentation; the former file is kept beside it."""
    file = cli.work / ".mcp.json"
    before = (
        '{\n    "zebra": [1.50, "é"],\n    "mcpServers": {\n        "other": {"command": "x"}\n    },\n    "a": null\n}'
    )
    file.write_text(before)
    file.chmod(0o640)
    shown = cli("mcp", "install", "mcp-json")
    assert (shown.code, file.read_text(), "+" in shown.out) == (1, before, True)
    assert "--yes writes it" in shown.err
    assert cli("mcp", "install", "mcp-json", "--yes").code == 0
    after = json.loads(file.read_text())
    assert list(after) == ["zebra", "mcpServers", "a"]
    assert after == {**json.loads(before), "mcpServers": {"other": {"command": "x"}, "handrail": ENTRY}}
    assert '\n    "zebra"' in file.read_text()
    assert (cli.work / ".mcp.json.bak").read_text() == before
    assert file.stat().st_mode & 0o777 == 0o640
    again = cli("mcp", "install", "mcp-json", "--yes")
    assert (again.out, "already" in again.err) == ("", True)


def test_own_keys_of_the_entry_stay(cli: Cli) -> None:
    """What a person added to our entry is theirs."""
    file = cli.work / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": {"handrail": {"command": "old", "args": [], "disabled": True}}}))
    cli("mcp", "install", "mcp-json", "--yes")
    assert json.loads(file.read_text())["mcpServers"]["handrail"] == {**ENTRY, "disabled": True}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{\n  // mine\n  "mcpServers": {}\n}\n', "comments would be lost"),
        ('{"a": 1, "a": 2}', "stands twice"),
        ("[1]", "no object"),
        ('{"mcpServers": []}', "no object"),
        ("{", "mend it first"),
    ],
)
def test_what_cannot_be_kept_is_not_touched(cli: Cli, text: str, says: str) -> None:
    """The reason and the way by hand are told."""
    file = cli.work / ".mcp.json"
    file.write_text(text)
    ended = cli("mcp", "install", "mcp-json", "--yes")
    assert (ended.code, file.read_text(), says in ended.err, "--print" in ended.err) == (2, text, True, True)


def test_a_copy_is_never_written_through_a_link(cli: Cli) -> None:
    """A link that leads nowhere would put the project's text where the project likes; the next free name is taken."""
    file, elsewhere = cli.work / ".mcp.json", cli.work.parent / "elsewhere.json"
    file.write_text('{"mcpServers": {}, "hooks": 1}')
    file.chmod(0o600)
    (cli.work / ".mcp.json.bak").symlink_to("../elsewhere.json")
    ended = cli("mcp", "install", "mcp-json", "--yes")
    kept = cli.work / ".mcp.json.bak2"
    assert (ended.code, elsewhere.exists(), f"kept as {kept}" in ended.err) == (0, False, True)
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == ('{"mcpServers": {}, "hooks": 1}', 0o600)


@pytest.mark.parametrize("there", [None, "{}"])
@pytest.mark.parametrize(("client", "link"), [("mcp-json", ".mcp.json"), ("cursor", ".cursor")])
def test_a_link_out_of_the_project_is_not_written_through(cli: Cli, client: str, link: str, there: str | None) -> None:
    """Be it the file or its folder, and whether or not something stands there."""
    outside = cli.work.parent / "outside"
    outside.mkdir()
    target = outside / "mcp.json"
    if there is not None:
        target.write_text(there)
    (cli.work / link).symlink_to(target if link.endswith(".json") else outside)
    ended = cli("mcp", "install", client, "--yes")
    assert (ended.code, "leads out of the project" in ended.err, "--print" in ended.err) == (2, True, True)
    assert [path.read_text() for path in outside.iterdir()] == ([] if there is None else [there])


def test_links_within_the_project_and_of_the_user_are_followed(cli: Cli) -> None:
    """The file that they lead to is written, and the link stays one."""
    home, dotfiles = Path(cli.env["HOME"]), cli.work.parent / "dotfiles.json"
    (cli.work / ".mcp.json").symlink_to("shared.json")
    (home / ".cursor").mkdir(parents=True)
    (home / ".cursor/mcp.json").symlink_to(dotfiles)
    assert cli("mcp", "install", "mcp-json", "--yes").code == 0
    assert cli("mcp", "install", "cursor", "--user", "--yes").code == 0
    assert ((cli.work / ".mcp.json").is_symlink(), (home / ".cursor/mcp.json").is_symlink()) == (True, True)
    assert json.loads((cli.work / "shared.json").read_text()) == {"mcpServers": {"handrail": ENTRY}}
    assert "handrail" in json.loads(dotfiles.read_text())["mcpServers"]


def test_only_regular_files_of_a_bearable_size_are_read(cli: Cli) -> None:
    """A pipe is not waited for, and a device is not read to its end."""
    file, private = cli.work / ".mcp.json", Path(cli.env["HOME"], ".cursor", "mcp.json")
    os.mkfifo(file)
    private.parent.mkdir(parents=True)
    private.symlink_to("/dev/zero")
    for ended in (cli("mcp", "install", "mcp-json", "--yes"), cli("mcp", "install", "cursor", "--user", "--yes")):
        assert (ended.code, "is not a regular file" in ended.err) == (2, True), ended.err
    file.unlink()
    with file.open("wb") as large:
        large.truncate(MOST_BYTES + 1)
    assert "is larger than" in cli("mcp", "install", "mcp-json", "--yes").err


def test_an_entry_of_another_kind_is_replaced(cli: Cli) -> None:
    """What says how a server is reached does not stay beside how it is started; a person's choices do."""
    file = cli.work / ".mcp.json"
    old = {"type": "http", "url": "https://x/mcp", "headers": {"a": "b"}, "env": {"K": "v"}, "disabled": True}
    file.write_text(json.dumps({"mcpServers": {"handrail": old}}))
    assert cli("mcp", "install", "mcp-json", "--yes").code == 0
    made = json.loads(file.read_text())["mcpServers"]["handrail"]
    assert made == {"env": {"K": "v"}, "disabled": True, **ENTRY}


def test_the_difference_is_shown_by_lines(cli: Cli) -> None:
    """No other character ends one, and line ends that stay are no difference."""
    (cli.work / ".mcp.json").write_bytes('{\r\n "a": "\u2028",\r\n "mcpServers": {}\r\n}\r\n'.encode())
    shown = cli("mcp", "install", "mcp-json")
    changed = [line for line in shown.out.split("\n")[2:] if line[:1] in "+-"]
    assert ("No newline" in shown.out, sum(line[:1] == "-" for line in changed)) == (False, 1), shown.out


GOOSE = "# my goose\nGOOSE_MODEL: x  # best\nextensions:\n  # mine\n  developer:\n    enabled: false\nlast: 1\n"


def test_goose_keeps_its_comments(cli: Cli) -> None:
    """Every line stays; the entry is there for YAML to read."""
    file = Path(cli.env["HOME"], ".config", "goose", "config.yaml")
    file.parent.mkdir(parents=True)
    file.write_text(GOOSE)
    assert cli("mcp", "install", "goose", "--yes", "--env", "TOKEN").code == 0
    text = file.read_text()
    assert [line for line in text.splitlines() if line in GOOSE.splitlines()] == GOOSE.splitlines()
    read = yaml.safe_load(text)
    entry = read["extensions"].pop("handrail")
    assert read == yaml.safe_load(GOOSE)
    assert (entry["type"], entry["args"][0], entry["env_keys"]) == ("stdio", "mcp", ["TOKEN"])
    assert "already" in cli("mcp", "install", "goose", "--yes", "--env", "TOKEN").err
    assert "has an entry handrail already" in cli("mcp", "install", "goose", "--yes").err


def test_goose_settings_that_are_refused_stay(cli: Cli) -> None:
    """With the reason, and nothing beside them."""
    file = Path(cli.env["HOME"], ".config", "goose", "config.yaml")
    file.parent.mkdir(parents=True)
    file.write_text("extensions: null\n")
    ended = cli("mcp", "install", "goose", "--yes")
    assert (ended.code, "Traceback" in ended.err, file.read_text()) == (2, False, "extensions: null\n")
    assert [path.name for path in file.parent.iterdir()] == ["config.yaml"]


def test_variables_are_named_not_copied(cli: Cli) -> None:
    """A secret does not land in a file."""
    ended = cli("mcp", "install", "mcp-json", "--print", "--env", "SECRET", SECRET="s3cr3t-s3cr3t")
    assert json.loads(ended.out)["mcpServers"]["handrail"]["env"] == {"SECRET": "${SECRET}"}
    assert "s3cr3t" not in ended.out


def test_an_unknown_client_is_wrong_usage(cli: Cli) -> None:
    """With the list of those there are."""
    ended = cli("mcp", "install", "emacs")
    assert (ended.code, "claude-code" in ended.err) == (2, True)


def test_no_client_is_told_to_start_what_cannot_start(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the package that serves, nothing is written; the entry can still be printed."""
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(click.UsageError, match=r"pip install 'handrail\[mcp\]'"):
        install.main(["mcp-json", "--yes"], standalone_mode=False)
    assert not (tmp_path / ".mcp.json").exists()
    assert install.main(["mcp-json", "--print"], standalone_mode=False) == 0
    assert "handrail" in capsys.readouterr().out


def test_it_tells_what_comes_next(cli: Cli) -> None:
    """Where questions are answered, and that without settings tools only read; nothing where nothing was written."""
    user = Path(cli.env["XDG_CONFIG_HOME"], "handrail", "config.toml")
    user.unlink()
    told = cli("mcp", "install", "claude-code", "--yes").err
    assert ("`handrail approvals watch --here`" in told, "`handrail init` writes some" in told) == (True, True)
    assert cli("init").code == 0
    again = cli("mcp", "install", "claude-code", "--yes").err
    assert ("`handrail approvals watch --here`" in again, "handrail init" in again) == (True, False)
    unasked = cli("mcp", "install", "cursor").err
    assert ("Nothing is written" in unasked, "approvals watch" in unasked) == (True, False)

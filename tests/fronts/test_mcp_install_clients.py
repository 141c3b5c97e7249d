"""Further MCP clients: their files, what stays ungoverned beside our server, and what `--exclusive` writes."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from fronts.conftest import Cli
from handrail import json_edit
from handrail.front.mcp.exclusive import EXCLUSIVE
from handrail.front.mcp.install import CLIENTS

HOOKED = {"claude-code", "codex", "gemini-cli"}
NO_FILE = {"cursor", "vscode", "windsurf"}
NOTHING_OWN = {"claude-desktop", "mcp-json"}


def read(path: Path) -> Any:
    """What a settings file says."""
    text = path.read_text()
    if path.suffix == ".toml":
        return tomllib.loads(text)
    return yaml.safe_load(text) if path.suffix == ".yaml" else json_edit.read(text)


def test_every_client_has_something_said_of_it() -> None:
    """None is connected without saying what stays open."""
    named = "claude-code claude-desktop codex cursor gemini-cli goose opencode vscode windsurf zed mcp-json"
    assert set(CLIENTS) == set(EXCLUSIVE) == set(named.split())


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_what_stays_ungoverned_is_told(cli: Cli, client: str) -> None:
    """With the lines that turn it off, and the hook where there is one."""
    ended = cli("mcp", "install", client, "--yes")
    about = EXCLUSIVE[client]
    assert (ended.code, f"Not governed: {about.stays}." in ended.err) == (0, True)
    assert ("handrail hook install" in ended.err) == (client in HOOKED)
    assert ("To turn them off" in ended.err) == (client not in NOTHING_OWN)


ENTRIES: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "codex": (".codex/config.toml", ["mcp_servers"], {"args": ["mcp"]}),
    "opencode": ("opencode.json", ["mcp"], {"type": "local", "enabled": True}),
    "vscode": (".vscode/mcp.json", ["servers"], {"type": "stdio", "args": ["mcp"]}),
    "zed": (".zed/settings.json", ["context_servers"], {"source": "custom", "args": ["mcp"]}),
}


@pytest.mark.parametrize("client", ENTRIES)
def test_an_entry_has_the_shape_of_its_client(cli: Cli, client: str) -> None:
    """In the project, and with --print alike."""
    file, keys, expected = ENTRIES[client]
    assert cli("mcp", "install", client, "--yes").code == 0
    found = read(cli.work / file)
    printed = cli("mcp", "install", client, "--print").out
    assert (tomllib.loads(printed) if client == "codex" else json.loads(printed)) == found
    for key in keys:
        found = found[key]
    entry = found["handrail"]
    assert {name: entry[name] for name in expected} == expected
    if client == "opencode":
        assert entry["command"][-1] == "mcp"
    assert "already" in cli("mcp", "install", client, "--yes").err


def test_windsurf_has_one_file_of_the_user(cli: Cli) -> None:
    """It is started anywhere, so everything is named by its place."""
    assert cli("mcp", "install", "windsurf", "--yes").code == 0
    made = read(Path(cli.env["HOME"], ".codeium/windsurf/mcp_config.json"))
    assert made["mcpServers"]["handrail"]["args"] == ["mcp", "--workspace", str(cli.work)]


@pytest.mark.parametrize(
    ("client", "expected"),
    [("codex", {"env_vars": ["API_KEY"]}), ("opencode", {"environment": {"API_KEY": "{env:API_KEY}"}})],
)
def test_variables_are_named_as_the_client_reads_them(cli: Cli, client: str, expected: dict[str, Any]) -> None:
    """Never their values."""
    told = cli("mcp", "install", client, "--print", "--env", "API_KEY").out
    found = tomllib.loads(told)["mcp_servers"] if client == "codex" else json.loads(told)["mcp"]
    assert {name: found["handrail"][name] for name in expected} == expected


SETTINGS = {
    "zed": ('// Zed\n{\n  // my theme\n  "theme": "One",\n  "agent": {"x": 1,},\n}\n', ("// Zed", "// my theme")),
    "opencode": ('{\n  "$schema": "s", // keep\n  "model": "m"\n}\n', ("// keep",)),
    "vscode": ('{\n  /* mine */\n  "servers": {},\n  "inputs": []\n}\n', ("/* mine */",)),
    "codex": ('# mine\nmodel = "m" # why\n\n[features]\nweb = true # too\n', ("# mine", "# why", "# too")),
}


@pytest.mark.parametrize("client", SETTINGS)
def test_comments_of_a_person_stay(cli: Cli, client: str) -> None:
    """And everything else, too."""
    text, comments = SETTINGS[client]
    file = cli.work / ENTRIES[client][0]
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    before = read(file)
    exclusive = [] if client == "vscode" else ["--exclusive"]
    assert cli("mcp", "install", client, "--yes", *exclusive).code == 0
    after = read(file)
    assert all(comment in file.read_text() for comment in comments)
    for key, value in before.items():
        assert after[key] == value or after[key].items() >= value.items()


def test_exclusive_turns_the_own_tools_of_claude_code_off(cli: Cli) -> None:
    """Rules of a person stay; ours are added once."""
    file = cli.work / ".claude/settings.json"
    file.parent.mkdir()
    file.write_text('{"permissions": {"deny": ["Bash", "Mine"], "ask": ["x"]}}')
    for _ in range(2):
        assert cli("mcp", "install", "claude-code", "--exclusive", "--yes").code == 0
    found = read(file)["permissions"]
    assert (found["ask"], found["allow"]) == (["x"], ["mcp__handrail__*"])
    assert found["deny"][:2] == ["Bash", "Mine"]
    assert {"Bash", "Read", "Write", "Edit", "WebFetch"} <= set(found["deny"])
    assert len(found["deny"]) == len(set(found["deny"]))
    assert "handrail" in read(cli.work / ".mcp.json")["mcpServers"]


@pytest.mark.parametrize(
    ("client", "file", "expected"),
    [
        ("gemini-cli", ".gemini/settings.json", {"tools": {"core": []}, "mcp": {"allowed": ["handrail"]}}),
        ("opencode", "opencode.json", {"permission": {"*": "deny", "handrail_*": "allow"}}),
        ("codex", ".codex/config.toml", {"sandbox_mode": "read-only", "web_search": "disabled"}),
    ],
)
def test_exclusive_writes_what_turns_tools_off(cli: Cli, client: str, file: str, expected: dict[str, Any]) -> None:
    """Into the settings that hold the entry, after showing the difference."""
    shown = cli("mcp", "install", client, "--exclusive")
    assert (shown.code, "+" in shown.out, (cli.work / file).exists()) == (1, True, False)
    ended = cli("mcp", "install", client, "--exclusive", "--yes")
    assert (ended.code, "Turned off" in ended.err) == (0, True)
    found = read(cli.work / file)
    assert {name: found[name] for name in expected} == expected
    if client == "codex":
        assert found["features"] == {"shell_tool": False, "view_image": False, "multi_agent": False}
        assert found["mcp_servers"]["handrail"]["default_tools_approval_mode"] == "approve"
        assert "apply_patch has no switch" in ended.err


@pytest.mark.parametrize(
    "text", ["", "extensions:\n  developer:\n    bundled: true\n    enabled: true # on\n    type: builtin\n"]
)
def test_exclusive_turns_the_developer_extension_of_goose_off(cli: Cli, text: str) -> None:
    """Whether it is named there or not."""
    file = Path(cli.env["HOME"], ".config/goose/config.yaml")
    file.parent.mkdir(parents=True)
    file.write_text(f"# mine\nGOOSE_MODEL: x\n{text}")
    assert cli("mcp", "install", "goose", "--exclusive", "--yes").code == 0
    found = read(file)["extensions"]
    assert (found["developer"]["enabled"], found["handrail"]["enabled"]) == (False, True)
    assert file.read_text().startswith("# mine\n")


@pytest.mark.parametrize("client", sorted(NO_FILE | NOTHING_OWN))
def test_a_client_that_no_file_turns_off_is_told(cli: Cli, client: str) -> None:
    """Nothing is written then."""
    ended = cli("mcp", "install", client, "--exclusive", "--yes")
    assert (ended.code, "--exclusive:" in ended.err, ended.out) == (2, True, "")


@pytest.mark.parametrize("text", ["[mcp_servers\n", 'mcp_servers = "x"\n', "a = 1\na = 2\n"])
def test_settings_that_are_no_toml_are_not_touched(cli: Cli, text: str) -> None:
    """The reason and the way by hand are told."""
    file = cli.work / ".codex/config.toml"
    file.parent.mkdir()
    file.write_text(text)
    ended = cli("mcp", "install", "codex", "--yes")
    assert (ended.code, file.read_text(), "by hand" in ended.err) == (2, text, True)

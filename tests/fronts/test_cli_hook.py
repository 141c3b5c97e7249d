"""`handrail hook`: our lines in an agent's settings, and out again to the byte; whether they are in force."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fronts.conftest import Cli
from handrail.hooks import install
from handrail.hooks.agents import AGENTS
from handrail.hooks.ending import end_daemon

USER = {"claude-code": ".claude/settings.json", "codex": ".codex/hooks.json", "gemini-cli": ".gemini/settings.json"}
PROJECT = {**USER, "claude-code": ".claude/settings.local.json"}
ALL = tuple(USER)


@pytest.fixture
def hooked(cli: Cli) -> Iterator[Cli]:
    """A command line whose hook daemon ends with the test."""
    yield cli
    end_daemon(f"{cli.env['XDG_STATE_HOME']}/handrail")


TEXTS = {
    "nothing": None,
    "empty": "",
    "an object": "{}",
    "no newline at the end": '{"a": 1}',
    "other hooks": '{\n  "hooks": {\n    "PreToolUse": [\n      {"matcher": "Bash", "hooks": []}\n    ]\n  }\n}\n',
    "one line": '{"hooks": {"PreToolUse": [], "Stop": [{"hooks": []}]}, "é": "ü"}',
    "tabs": '{\n\t"hooks": {},\n\t"model": "x"\n}\n',
    "windows": '{\r\n  "model": "x"\r\n}\r\n',
    "comments": '// mine\n{\n  "model": "x", // why\n  /* more */\n}\n',
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("agent", ALL)
def test_what_was_put_in_is_taken_out_to_the_byte(own_user: Path, work: Path, agent: str, name: str) -> None:
    """Whatever stood there, and whether anything did; for the user and for a project."""
    for user in (True, False):
        file = install.place_of(AGENTS[agent], work, user=user)
        text = TEXTS[name]
        if text is not None:
            file.parent.mkdir(parents=True)
            file.write_bytes(text.encode())
            file.chmod(0o640)
        for _ in range(2):
            install.install(install.plan_install(AGENTS[agent], file))
        assert "handrail/hooks/client.py" in file.read_text()
        again = install.plan_install(AGENTS[agent], file)
        assert again.before == again.after
        install.uninstall(install.plan_uninstall(file))
        if text is None:
            assert not file.parent.exists()
        else:
            assert (file.read_bytes(), file.stat().st_mode & 0o777) == (text.encode(), 0o640)
            assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("place", ["--user", "--project"])
@pytest.mark.parametrize("agent", ALL)
def test_the_difference_is_shown_before_anything_is_written(cli: Cli, agent: str, place: str) -> None:
    """And written only by a yes."""
    base = Path(cli.env["HOME"]) if place == "--user" else cli.work
    file = base / (USER if place == "--user" else PROJECT)[agent]
    shown = cli("hook", "install", agent, place)
    assert (shown.code, "--yes writes it" in shown.err, "+" in shown.out) == (1, True, True)
    assert not file.exists()
    assert cli("hook", "install", agent, place, "--yes").code == 0
    assert file.exists()
    assert "already" in cli("hook", "install", agent, place, "--yes").err
    assert cli("hook", "uninstall", agent, place, "--yes").code == 0
    assert not file.parent.exists()


@pytest.mark.parametrize("agent", ALL)
def test_what_others_changed_meanwhile_stays(cli: Cli, agent: str) -> None:
    """Our lines go, theirs do not."""
    file = Path(cli.env["HOME"], USER[agent])
    file.parent.mkdir()
    file.write_text('{\n  "a": 1\n}\n')
    cli("hook", "install", agent, "--yes")
    known = json.loads(file.read_text())
    known["b"] = [2]
    known["hooks"]["Stop"] = [*known["hooks"].get("Stop", []), {"hooks": [{"type": "command", "command": "mine"}]}]
    file.write_text(json.dumps(known, indent=2))
    assert cli("hook", "uninstall", agent, "--yes").code == 0
    left = json.loads(file.read_text())
    assert left == {"a": 1, "b": [2], "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}}
    assert "no hooks of ours" in cli("hook", "uninstall", agent, "--yes").err


@pytest.mark.parametrize("text", ["{", "[1]", '{"hooks": []}', '{"hooks": {"PreToolUse": {}}}', '{"a": 1, "a": 2}'])
def test_what_cannot_be_changed_safely_is_not_touched(cli: Cli, text: str) -> None:
    """And the reason is told."""
    file = Path(cli.env["HOME"], USER["claude-code"])
    file.parent.mkdir()
    file.write_text(text)
    ended = cli("hook", "install", "claude-code", "--yes")
    assert (ended.code, file.read_text(), "nothing is written" in ended.err) == (2, text, True)


def test_a_link_out_of_the_project_is_not_followed(cli: Cli) -> None:
    """Whoever made it may be a stranger."""
    (cli.work / ".claude").symlink_to(cli.work.parent)
    ended = cli("hook", "install", "claude-code", "--project", "--yes")
    assert (ended.code, "leads out of the project" in ended.err) == (2, True)


@pytest.mark.parametrize("agent", ALL)
def test_hooks_that_are_installed_are_in_force(hooked: Cli, agent: str) -> None:
    """One payload is tried, and what hooks do not see is named; the try leaves no run."""
    assert "no hooks of ours" in hooked("hook", "uninstall", agent, "--yes").err
    hooked("hook", "install", agent, "--yes")
    if agent == "codex":
        config = Path(hooked.env["HOME"], ".codex", "config.toml")
        config.write_text('[hooks.state."x"]\ntrusted_hash = "y"\n')
    ended = hooked("hook", "status", "--json")
    (state,) = [item for item in json.loads(ended.out) if item["agent"] == agent]
    assert (state["in_force"], state["tried"], state["problems"]) == (True, "denied, as it must be", [])
    assert state["not_seen"] == list(AGENTS[agent].holes)
    assert (ended.code, hooked.run_ids()) == (0, [])
    shown = hooked("doctor", "--json")
    lines = [check["says"] for check in json.loads(shown.out)]
    assert any("asks Handrail (denied, as it must be" in line for line in lines)
    assert any("takes longer than its timeout" in line for line in lines)


def test_hooks_that_are_not_in_force_are_told(hooked: Cli) -> None:
    """Why, and what to do."""
    file = Path(hooked.env["HOME"], USER["claude-code"])
    hooked("hook", "install", "claude-code", "--yes")
    whole = file.read_text()
    file.write_text(json.dumps({**json.loads(whole), "disableAllHooks": True}))
    ended = hooked("hook", "status")
    assert (ended.code, "disableAllHooks is set" in ended.out, "NOT in force" in ended.out) == (1, True, True)
    known = json.loads(whole)
    del known["hooks"]["PostToolUse"]
    file.write_text(json.dumps(known))
    assert "no hook for PostToolUse" in hooked("hook", "status").out
    file.write_text(whole.replace("/python", "/nowhere/python"))
    ended = hooked("hook", "status")
    assert (ended.code, "every call is denied" in ended.out) == (1, True)
    hooked("hook", "install", "codex", "--yes")
    assert "open /hooks in Codex" in hooked("hook", "status").out


def test_an_agent_without_hooks_is_named(cli: Cli) -> None:
    """Found by its folder or its program; not asked for where it is not there."""
    Path(cli.env["HOME"], ".gemini").mkdir()
    told = cli("hook", "status", PATH="/usr/bin:/bin").out
    assert "Gemini CLI: no hooks; `handrail hook install gemini-cli` adds them" in told
    assert "Codex: not found here" in told


def test_an_agent_that_is_not_known_is_told(cli: Cli) -> None:
    """With those there are."""
    for words in (("hook", "claud-code"), ("hook", "install", "claud-code")):
        ended = cli(*words)
        assert (ended.code, "claude-code" in ended.err) == (2, True)


def test_a_settings_file_with_our_hook_is_for_people_to_write(cli: Cli) -> None:
    """Whatever front end asks: it says whether the agent asks Handrail at all."""
    write = ("call", "write_file", "path=.claude/settings.local.json", "content={}", "mode=overwrite", "--json")
    (cli.work / ".claude").mkdir()
    (cli.work / ".claude" / "settings.local.json").write_text("{}")
    before = json.loads(cli(*write).out)
    assert before["policy"]["decision"] == "ask"
    cli("hook", "install", "claude-code", "--project", "--yes")
    after = json.loads(cli(*write).out)
    assert (after["policy"]["decision"], "builtin.hook-settings" in after["policy"]["rules"]) == ("deny", True)


def _random_json(chance: random.Random, depth: int = 0) -> object:
    kind = chance.randrange(7 if depth < 3 else 5)
    if kind == 5:
        return {f"k{number}": _random_json(chance, depth + 1) for number in range(chance.randrange(4))}
    if kind == 6:
        return [_random_json(chance, depth + 1) for _ in range(chance.randrange(4))]
    return (None, True, 1.5, 'te"xt // no', [])[kind]


def test_any_settings_survive(cli: Cli, scale: int) -> None:
    """Random ones, in random styles."""
    from handrail import json_edit

    for number in range(40 * scale):
        chance = random.Random(number)
        known = {f"k{index}": _random_json(chance) for index in range(chance.randrange(4))}
        text = json.dumps(known, indent=chance.choice([None, 1, 2, 4, "\t"]))
        made = json_edit.appended(text, ("hooks", "Stop"), {"x": 1})
        assert json_edit.read(made) == {**known, "hooks": {"Stop": [{"x": 1}]}}
        made = json_edit.appended(made, ("hooks", "Stop"), {"y": [2]})
        assert json_edit.read(json_edit.removed(made, ("hooks", "Stop", 0)))["hooks"] == {"Stop": [{"y": [2]}]}
        assert json_edit.read(json_edit.removed(made, ("hooks",))) == known
        assert json_edit.read(json_edit.put(made, ("hooks", "Stop"), 3))["hooks"] == {"Stop": 3}


def test_stop_ends_the_daemon(hooked: Cli) -> None:
    """And says where there is none."""
    assert "There is no hook daemon" in hooked("hook", "stop").err
    hooked("hook", "install", "gemini-cli", "--yes")
    hooked("hook", "status")
    assert "has ended" in hooked("hook", "stop").err
    assert "There is no hook daemon" in hooked("hook", "stop").err


def test_the_line_names_everything_by_its_place(cli: Cli) -> None:
    """No variable of the agent chooses what runs, or where the answer comes from."""
    cli("hook", "install", "codex", "--yes")
    known = json.loads(Path(cli.env["HOME"], USER["codex"]).read_text())
    for entries in known["hooks"].values():
        (line,) = [hook["command"] for entry in entries for hook in entry["hooks"]]
        words = line.removeprefix("o=$(").split()
        assert (os.path.isabs(words[0]), words[1:3], os.path.isabs(words[3])) == (True, ["-I", "-S"], True)
        assert f"--state {cli.env['XDG_STATE_HOME']}/handrail" in line
        assert subprocess.run(["/bin/sh", "-n", "-c", line], check=False).returncode == 0

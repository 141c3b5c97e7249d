"""Rules and lists that protect, as the command line shows them: what adds up, what is exact, what counts where."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox
from fronts.conftest import Cli

DONE, ASKED, DENIED = 0, 4, 3


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Programs run here."""
    need_sandbox()


def user(cli: Cli, text: str) -> None:
    """Write the user's settings."""
    path = Path(cli.env["XDG_CONFIG_HOME"], "handrail", "config.toml")
    path.write_text(text)


def project(cli: Cli, text: str) -> None:
    """Write the project's settings, trusted."""
    (cli.work / "handrail.toml").write_text(text)
    assert cli("config", "trust", "--yes").code == 0


def run(cli: Cli, command: str, *more: str, **env: Any) -> int:
    """Run a command; return the exit code of `handrail call`."""
    return cli("call", "--enable", "exec", "run_command", f"command={command}", *more, **env).code


# ── lists that protect ───────────────────────────────────────────────────────────────────────


def test_protected_names_of_user_and_project_add_up(cli: Cli) -> None:
    """The project's list does not replace the user's, nor the default; `!` takes out what its own list put in."""
    for name in ("user.key", "project.key", "public.key", ".env"):
        (cli.work / name).write_text("x")
    user(cli, 'workspace.protected = ["user.key"]\n')
    project(cli, '[workspace]\nprotected = ["*.key", "!public.key", "!user.key"]\n')
    codes = {
        name: cli("call", "read_file", f"path={name}").code
        for name in ("user.key", "project.key", "public.key", ".env", "a.txt")
    }
    assert codes == {"user.key": DENIED, "project.key": DENIED, "public.key": DONE, ".env": DENIED, "a.txt": DONE}
    told = cli("policy", "explain", "read_file", "path=user.key")
    assert "user.key is protected (user.key)" in told.out
    assert "config.toml:1" in told.out
    checked = cli("policy", "check")
    assert "'!user.key', which takes out only what the same list put in" in checked.err
    assert f"'user.key' ({cli.env['XDG_CONFIG_HOME']}/handrail/config.toml:1) still protects it" in checked.err
    assert "nothing to complain about" not in checked.out


def test_an_allow_rule_opens_what_another_layer_protects(cli: Cli) -> None:
    """As the warning says."""
    user(cli, 'workspace.protected = ["user.key"]\n')
    project(cli, '[[rules]]\neffect = "allow"\ntouch = "fs.read"\ntarget = "user.key"\n')
    (cli.work / "user.key").write_text("x")
    assert cli("call", "read_file", "path=user.key").code == DONE


def test_denied_commands_of_user_and_project_add_up(cli: Cli) -> None:
    """`exec.deny` too, and each is said to be where it was written."""
    user(cli, 'exec.deny = ["ls"]\n')
    project(cli, '[exec]\ndeny = ["head"]\n')
    assert (run(cli, "ls"), run(cli, "head a.txt"), run(cli, "cat a.txt")) == (DENIED, DENIED, DONE)
    told = cli("policy", "explain", "--enable", "exec", "run_command", "command=ls").out
    assert "config.toml:1" in told


def test_the_file_that_init_writes_shortens_nothing(cli: Cli) -> None:
    """The user's protected names hold in a project that was set up afterwards."""
    user(cli, 'workspace.protected = ["user.key"]\nexec.deny = ["ls"]\ntools.enable = ["fs"]\n')
    (cli.work / "user.key").write_text("x")
    assert cli("init", "--preset", "coding").code == 0
    cli("config", "trust", "--yes")
    assert cli("call", "read_file", "path=user.key").code == DENIED
    assert run(cli, "ls") == DENIED


# ── exact rules ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "line",
    ["bash case.sh", "sh case.sh", "source case.sh", ". case.sh", "./case.sh", "python3 tool.py", "bash -e case.sh a"],
)
def test_a_rule_with_the_same_words_allows_a_script(cli: Cli, line: str) -> None:
    """Without a question; other words ask."""
    (cli.work / "case.sh").write_text("#!/bin/sh\necho ran > made.txt\n")
    (cli.work / "case.sh").chmod(0o755)
    (cli.work / "tool.py").write_text("open('made.txt', 'w').write('ran\\n')\n")
    user(cli, "")
    assert run(cli, line) == ASKED
    user(cli, f'exec.allow = ["{line}"]\n')
    assert run(cli, line) == DONE
    assert (cli.work / "made.txt").read_text() == "ran\n"
    assert run(cli, f"{line} more") == ASKED


@pytest.mark.parametrize(
    "line",
    [
        "cd sub && bash case.sh",
        "bash < case.sh",
        "echo ls | bash",
        "bash -s case.sh",
        "BASH_ENV=other.sh bash case.sh",
        "env -C sub bash case.sh",
        "bash -c 'bash case.sh'",
        "echo ls > case.sh; bash case.sh",
        "cp other.sh case.sh && bash case.sh",
        "bash case.sh $(cat a.txt)",
        "bash /dev/stdin",
        "bash sub/../../work/case.sh",
    ],
)
def test_what_may_run_another_file_still_asks(cli: Cli, line: str) -> None:
    """The rule is for the file that it names, in the workspace's own folder, as it is when the line starts."""
    (cli.work / "sub").mkdir()
    for name in ("case.sh", "sub/case.sh", "other.sh"):
        (cli.work / name).write_text("echo ran\n")
    allow = ["bash case.sh", "bash", "cd *", "env *", "cp *", "echo *", "cat *", "bash /dev/stdin", "bash -s case.sh"]
    allow += ["bash sub/../../work/case.sh"]
    user(cli, f'exec.allow = {json.dumps(allow)}\n[[rules]]\neffect = "allow"\ntouch = "fs.write"\n')
    assert run(cli, line) == ASKED
    assert run(cli, "bash case.sh") == DONE


def test_a_script_is_named_from_the_workspace(cli: Cli) -> None:
    """In another folder the same words name another file."""
    (cli.work / "sub").mkdir()
    for name in ("case.sh", "sub/case.sh"):
        (cli.work / name).write_text("echo ran\n")
    user(cli, 'exec.allow = ["bash case.sh"]\n')
    assert (run(cli, "bash case.sh", "cwd=sub"), run(cli, "bash case.sh", "cwd=.")) == (ASKED, DONE)


def test_a_script_is_part_of_what_the_call_reads(cli: Cli) -> None:
    """A rule against reading the file holds for running it, and the journal names it."""
    (cli.work / "case.sh").write_text("echo ran\n")
    user(cli, 'exec.allow = ["bash case.sh"]\n')
    told = json.loads(cli("policy", "explain", "--enable", "exec", "run_command", "command=bash case.sh", "--json").out)
    assert ["fs.read", "case.sh"] in [[touch["kind"], touch["target"]] for touch in told["touches"]]
    user(cli, 'exec.allow = ["bash case.sh"]\n[[rules]]\neffect = "deny"\ntouch = "fs.read"\ntarget = "case.sh"\n')
    assert run(cli, "bash case.sh") == DENIED


def test_the_advice_for_a_script_is_the_exact_rule(cli: Cli) -> None:
    """Pasted, it holds; it does not open every program."""
    (cli.work / "case.sh").write_text("echo ran\n")
    how = ("policy", "explain", "--enable", "exec", "run_command", "command=bash case.sh")
    change = json.loads(cli(*how, "--json").out)["change"]
    assert 'target = "bash case.sh"' in change["toml"]
    user(cli, change["toml"])
    assert run(cli, "bash case.sh") == DONE
    assert run(cli, "bash other.sh") == ASKED


def test_a_rule_for_a_git_command_allows_what_it_writes(cli: Cli) -> None:
    """And nothing that another git command writes, nor a rule that names none."""
    for argv in (["init", "-q"], ["config", "user.email", "a@b"], ["config", "user.name", "a"], ["add", "a.txt"]):
        subprocess.run(["git", *argv], cwd=cli.work, check=True)
    user(cli, 'exec.allow = ["git *"]\n')
    assert run(cli, "git commit -qm one") == ASKED
    user(cli, 'exec.allow = ["git commit *"]\n')
    assert run(cli, "git commit -qm one") == DONE
    assert subprocess.check_output(["git", "log", "--format=%s"], cwd=cli.work, text=True) == "one\n"
    for line in ("git tag v1", "git commit -qm two && git tag v1", "git -c core.editor=x commit -qm two"):
        assert run(cli, line) == ASKED
    user(cli, 'exec.allow = ["git commit *"]\n[[rules]]\neffect = "deny"\ntouch = "git.write"\n')
    assert run(cli, "git commit -qm three") == DENIED


# ── harmless ─────────────────────────────────────────────────────────────────────────────────


def test_rg_lists_files_without_a_question(cli: Cli) -> None:
    """With a folder and without one; a program of its own still asks."""
    user(cli, "")
    explain = ("policy", "explain", "--enable", "exec", "run_command")
    lines = ("rg --files", "rg --files .", "rg --version", "rg --files --pre=cat")
    assert [cli(*explain, f"command={line}").code for line in lines] == [DONE, DONE, DONE, ASKED]


# ── rules by risk and environment ────────────────────────────────────────────────────────────

BY_RISK = '[[rules]]\neffect = "deny"\nrisk = "high"\nenvironment = "production"\nwhy = "hands off"\n'


def test_a_rule_counts_for_its_risk_in_its_environment(cli: Cli) -> None:
    """Named at start; another environment, and tools of another risk, are as before."""
    user(cli, f'tools.enable = ["fs", "delete_path"]\n{BY_RISK}')
    delete = ("call", "delete_path", "path=a.txt", "confirm=true")
    assert (cli(*delete).code, cli(*delete, HANDRAIL_ENVIRONMENT="production").code) == (ASKED, DENIED)
    assert cli("call", "read_file", "path=a.txt", HANDRAIL_ENVIRONMENT="production").code == DONE
    told = cli("policy", "explain", *delete[1:], HANDRAIL_ENVIRONMENT="production").out
    assert "hands off (risk high, environment production)" in told


def test_a_rule_that_does_not_count_here_is_named_by_check(cli: Cli) -> None:
    """A tool's risk that does not fit is a mistake, another environment is a note."""
    user(cli, f'{BY_RISK}[[rules]]\neffect = "deny"\ntool = "read_file"\nrisk = "high"\n')
    told = " ".join(cli("policy", "check").out.split())
    assert "rules.1 applies only in the environment 'production'; no environment is set, so it does not apply" in told
    assert "set HANDRAIL_ENVIRONMENT=production to apply it" in told
    assert "rules.2 can never match: the risk of read_file is low, not high" in told
    assert "does not apply now" not in cli("policy", "check", HANDRAIL_ENVIRONMENT="production").out


def test_an_allow_rule_by_risk_alone_is_called_broad(cli: Cli) -> None:
    """It opens all that such tools do."""
    user(cli, '[[rules]]\neffect = "allow"\nrisk = "high"\n')
    assert "rules.1 allows all that tools of high risk do" in cli("policy", "check").out


def test_the_origin_of_a_list_that_adds_up_names_every_file(cli: Cli) -> None:
    """In the table and as JSON; the defaults count as well."""
    user(cli, 'exec.deny = ["ls"]\nworkspace.protected = ["user.key"]\n')
    (cli.work / "handrail.toml").write_text('exec.deny = ["cat"]\nworkspace.protected = ["mine.key"]\n')
    shown = json.loads(cli("config", "show", "--json").out)
    own = Path(cli.env["XDG_CONFIG_HOME"], "handrail", "config.toml")
    assert shown["exec.deny"] == {"value": ["ls", "cat"], "origin": f"{own}:1, handrail.toml:1"}
    assert shown["workspace.protected"]["origin"] == f"default, {own}:2, handrail.toml:2"
    assert f"{own}:1, handrail.toml:1" in cli("config", "show", "--origin", COLUMNS="500").out


def test_the_advice_for_a_denied_command_is_given_once(cli: Cli) -> None:
    """It names the entry and the list; no comment repeats it."""
    user(cli, 'tools.enable = ["exec"]\nexec.deny = ["ls"]\n')
    own = Path(cli.env["XDG_CONFIG_HOME"], "handrail", "config.toml")
    lines = cli("policy", "explain", "run_command", "command=ls").out.splitlines()
    advice = [line.strip() for line in lines if f"{own}:2" in line and "deny" in line and ">" not in line]
    assert advice == [f"to have it allowed: take `ls` out of exec.deny at {own}:2"]
    assert not any("# without" in line for line in lines)

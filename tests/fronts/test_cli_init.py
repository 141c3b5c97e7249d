"""`handrail init`: it looks at the project, writes a short file that fits, and says what comes next."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fronts.coding_projects import write_files
from fronts.conftest import Cli
from handrail.settings import load, preset, preset_text
from handrail.settings.project import look_at_project, settings_text

SHOP = {
    "pyproject.toml": '[project]\nname = "shop"\n[tool.ruff]\n[dependency-groups]\ndev = ["pytest"]\n',
    ".venv/pyvenv.cfg": "home = /usr/bin\n",
    "package.json": '{"scripts": {"test": "node test.js", "build": "tsc", "evil; rm": "x"}}',
    "pnpm-lock.yaml": "",
    "Makefile": "test:\n\ttrue\ncheck :\n\ttrue\ntested := 1\nbuild:=1\n",
}
FOUND = (
    "Python (.venv), Node (pnpm), make; tests: pytest, pnpm test, make test; "
    "also: ruff, pnpm run build, make check; no git repository"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty folder that no settings speak of."""
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, "no project of Python, Node, Rust, Go or make; no git repository"),
        (SHOP, FOUND),
        ({"a.py": "", "tests/test_a.py": ""}, "Python; tests: unittest; no git repository"),
        ({"setup.py": "", "conftest.py": ""}, "Python; tests: pytest; no git repository"),
        ({"requirements.txt": "pytest==9\n", "venv/pyvenv.cfg": ""}, "Python (venv); tests: pytest; no git repository"),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'},
         "Node (npm); no git repository"),
        ({"package.json": "no json", "yarn.lock": ""}, "Node (yarn); no git repository"),
        ({"package.json": '{"scripts": ["test"]}', "bun.lockb": ""}, "Node (bun); no git repository"),
        ({"Cargo.toml": "", ".git/HEAD": "x"}, "Rust; tests: cargo test; also: cargo build, cargo clippy; git"),
        ({"go.mod": "module a\n"}, "Go; tests: go test; also: go build, go vet; no git repository"),
    ],
)  # fmt: skip
def test_what_a_project_is_made_of_is_found(project: Path, files: dict[str, str], found: str) -> None:
    """By its files; nothing is run, and nothing of a stranger's text is taken over."""
    write_files(project, files)
    assert look_at_project(project).describe() == found


@pytest.mark.parametrize("files", [{}, SHOP])
def test_the_file_means_what_the_coding_preset_means(project: Path, files: dict[str, str]) -> None:
    """Whatever was found, and whatever both leave to the defaults; only examples of rules are the preset's alone."""
    write_files(project, files)
    text = settings_text(look_at_project(project))
    written = [
        load(project, config=config, environment={}).settings for config in (tomllib.loads(text), preset("coding"))
    ]
    plain = [settings.model_dump(exclude={"rules"}) for settings in written]
    assert plain[0] == plain[1]
    about = ("effect", "touch", "target", "risk", "why")
    assert (
        len({tuple(tuple(getattr(rule, name) for name in about) for rule in settings.rules) for settings in written})
        == 1
    )


@pytest.mark.parametrize("files", [{}, SHOP])
def test_the_file_is_short_and_what_it_leaves_out_can_be_put_in(project: Path, files: dict[str, str]) -> None:
    """Comments that are settings are settings once the mark is taken away."""
    write_files(project, files)
    text = settings_text(look_at_project(project))
    assert len(text.splitlines()) <= 45 < len(preset_text("coding").splitlines())
    assert max(len(line) for line in text.splitlines() if not line.startswith("# allow = ")) <= 120
    more = [line for line in text.splitlines() if line.startswith("# ") and " = " in line and '"' in line]
    assert [line.split()[1] for line in more] == ["allowed_hosts", "allow", "notify"]
    opened = text
    for line in more:
        opened = opened.replace(line, line[2:])
    settings = load(project, config=tomllib.loads(opened), environment={}).settings
    assert (settings.approvals.notify, settings.exec.allowed_hosts) == ("bell", ("packages.example.org",))
    assert ("pytest *" in settings.exec.allow) == (files is SHOP)


def test_a_stranger_s_files_are_read_with_care(project: Path, tmp_path: Path) -> None:
    """Links lead nowhere, pipes hold nothing up, and neither size nor nesting does."""
    (tmp_path / "elsewhere").write_text('{"scripts": {"test": "x"}}')
    (project / "package.json").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(project / "Makefile")
    (project / "pyproject.toml").write_bytes(b"\xff" * 1_000_000 + b"pytest")
    (project / "Cargo.toml").mkdir()
    assert look_at_project(project).describe().startswith("Python, Node (npm), Rust, make; tests: cargo test; ")
    (project / "package.json").unlink()
    (project / "package.json").write_text("[" * 100_000)
    assert "Node (npm)" in look_at_project(project).describe()


def test_it_says_what_it_found_and_three_commands(cli: Cli) -> None:
    """In words that fit on a screen; the commands are there."""
    write_files(cli.work, SHOP)
    told = cli("init").err
    assert "found: Python (.venv), Node (pnpm), make; tests: pytest, pnpm test, make test" in told
    assert "commands: " in told
    rest = told.partition("Next:\n")[2]
    commands = [line.split("   ")[0].split() for line in rest.splitlines()]
    assert [words[0] for words in commands] == ["handrail"] * 3
    assert len(told.splitlines()) <= 12
    for words in commands:
        verbs = [word for word in words[1:] if not word.startswith("-")][:2]
        assert cli(*verbs, "--help").code == 0
    assert json.loads(cli("config", "show", "--json").out)["exec.ask"]["origin"].startswith("handrail.toml:")


@pytest.mark.parametrize("author", [True, False])
def test_it_tells_where_commits_would_have_no_author(cli: Cli, author: bool) -> None:
    """That a commit fails is better known before."""
    subprocess.run(["git", "init", "-q", str(cli.work)], check=True)
    if author:
        Path(cli.env["HOME"], ".gitconfig").write_text("[user]\n\tname = Ann\n")
    assert ("git has no author" in cli("init").err) is not author


def test_lock_files_are_asked_for_of_file_tools_alone(cli: Cli) -> None:
    """A package manager writes them without a question; by hand they are asked for."""
    from behaviour._commands import need_sandbox

    need_sandbox()
    assert cli("init").code == 0
    (cli.work / "yarn.lock").write_text("one\n")
    ran = cli("call", "--headless", "run_command", "command=echo two > yarn.lock && echo new > poetry.lock")
    assert (ran.code, (cli.work / "yarn.lock").read_text(), (cli.work / "poetry.lock").exists()) == (0, "two\n", True)
    edits: list[dict[str, Any]] = [{"old": "two", "new": "three"}]
    args = json.dumps({"path": "yarn.lock", "edits": edits})
    asked = cli("call", "--headless", "edit_file", "--args", args)
    assert (asked.code, "lock files are made by package managers" in asked.err) == (4, True)
    assert cli("call", "--headless", "write_file", "path=new.lock", "content=x").code == 4

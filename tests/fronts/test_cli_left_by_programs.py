"""What a program leaves that a person must look at is shown to the person, whoever reads the outcome."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from behaviour._commands import need_sandbox, run, runtime
from fronts.conftest import Cli
from handrail.store.reader import events

ALLOWED = """
[tools]
enable = ["exec", "fs"]

[exec]
allow = ["python3 plant.py", "mkdir -p a", "mkdir -p a new"]
"""
PLANT = """
import os
os.symlink("/etc/cron.d", "jobs")
os.symlink("/usr/bin/env", "system")
os.symlink("a.txt", "inside")
os.mkdir(".vscode")
"""


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


@pytest.fixture
def planted(cli: Cli) -> Cli:
    """A program that leaves links and a protected folder, allowed by settings."""
    (cli.work / "plant.py").write_text(PLANT)
    (cli.work / "rules.toml").write_text(ALLOWED)
    return cli


LINK = "the program made the link jobs, which leads out of the roots to /etc/cron.d"
FOLDER = "the program made .vscode, which no tool may do unasked (defaults.runs-programs); look at it before you use it"


@pytest.mark.parametrize("as_json", [False, True])
def test_warnings_are_printed_on_stderr(planted: Cli, as_json: bool) -> None:
    """Once each, also where a script takes the outcome from stdout."""
    flags = ("--json",) if as_json else ()
    ended = planted("call", "--config", "rules.toml", "run_command", "command=python3 plant.py", *flags)
    assert ended.code == 0, ended.err
    assert sorted(ended.err.splitlines()) == sorted([f"warning: {LINK}", f"warning: {FOLDER}"])
    if as_json:
        assert {LINK, FOLDER} <= set(json.loads(ended.out)["warnings"])


def test_warnings_are_on_record_and_shown_with_the_run(planted: Cli) -> None:
    """`runs show`, `runs tree` and `runs events` have them."""
    planted("call", "--config", "rules.toml", "--run", "r", "run_command", "command=python3 plant.py")
    told = [json.loads(line) for line in planted("runs", "events", "r").out.splitlines()]
    warned = [text for event in told if event["kind"] == "program.warned" for text in event["warnings"]]
    assert sorted(warned) == sorted([LINK, FOLDER])
    shown = planted("runs", "show", "r").out
    assert f"warning: {LINK}" in shown
    assert f"warning: {FOLDER}" in shown
    assert "warning: the program made" in planted("runs", "tree", "r").out


async def test_what_a_job_leaves_by_the_end_of_the_run_is_on_record(work: Path) -> None:
    """Nobody reads its output any more."""
    (work / "plant.py").write_text(f"{PLANT}\nprint('planted', flush=True)\nimport time\ntime.sleep(600)")
    async with runtime(work) as opened:
        await run(opened, "python3 plant.py", background=True)
        await opened.call("job_read", {"job": "job-1", "wait_seconds": 10})
        folder, programs = opened.parts.folder.path, opened.parts.programs
    told = [text for event in events(folder) if event["kind"] == "program.warned" for text in event["warnings"]]
    assert sorted(told) == sorted(programs.warned) == sorted([LINK, FOLDER])


def test_a_folder_that_is_there_is_not_replaced_by_making_it(planted: Cli) -> None:
    """`mkdir -p` of one that exists asks nobody; nor does a new one."""
    (planted.work / "a").mkdir()
    for line in ("mkdir -p a", "mkdir -p a new"):
        ended = planted("call", "--headless", "--config", "rules.toml", "run_command", f"command={line}")
        assert (ended.code, ended.err) == (0, "")
    assert (planted.work / "new").is_dir()


def test_a_file_that_a_line_writes_as_well_still_asks(planted: Cli) -> None:
    """Making a folder does not hide a redirect."""
    explained = planted(
        "policy", "explain", "--config", "rules.toml", "run_command", "command=mkdir -p a.txt > a.txt", "--json"
    )
    assert "a.txt exists and would be replaced" in explained.out

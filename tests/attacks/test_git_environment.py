"""What git runs for a program that a rule allows, in a repository that an agent made."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from behaviour._commands import need_sandbox, run, runtime
from handrail.sandbox.plan import environment

RULES = {"exec": {"allow": ["git status", "git log", "cd sub"]}}


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


def plant(folder: Path, *settings: str) -> None:
    """Make a repository whose config names a program that leaves a mark."""
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "a"], cwd=folder, check=True)
    (folder / "evil.sh").write_text("#!/bin/sh\ntouch ran\ncat\n")
    (folder / "evil.sh").chmod(0o755)
    for name in settings:
        subprocess.run(["git", "config", name, "./evil.sh"], cwd=folder, check=True)


async def test_an_allowed_git_status_runs_no_watcher_that_a_repository_names(work: Path) -> None:
    """`core.fsmonitor` of the repository is not heeded; the line itself is the person's."""
    plant(work, "core.fsmonitor", "core.pager", "pager.status")
    async with runtime(work, config=RULES, mode="headless", approver=None) as opened:
        outcome = await run(opened, "git status --short")
        allowed = await run(opened, "git status")
    assert (outcome.ok, allowed.ok) == (False, True), allowed.error  # the rule is for these words alone
    assert "evil.sh" in allowed.data["stdout"]
    assert not (work / "ran").exists()


async def test_git_takes_no_folder_for_a_repository_that_is_not_called_git(work: Path) -> None:
    """A folder made to look like one gives git no config to read."""
    fake = work / "sub"
    subprocess.run(["git", "init", "-q", "--bare", str(fake)], check=True)
    (fake / "config").write_text("[core]\n\tbare = true\n\tfsmonitor = touch ../ran\n[alias]\n\tx = !touch ../ran\n")
    async with runtime(work) as opened:
        alias = await run(opened, "cd sub && git x")
        looked = await run(opened, "cd sub && git rev-parse --git-dir")
        named = await run(opened, "git --git-dir=sub rev-parse --git-dir")
    assert (alias.ok, looked.ok, named.ok) == (False, False, True)
    assert looked.error is not None
    assert "bareRepository" in looked.error.details["stderr"]
    assert not (work / "ran").exists()


async def test_a_pager_of_the_repository_is_not_run_though_it_is_asked_for(work: Path) -> None:
    """`git --paginate` shows its output by `cat`."""
    plant(work, "core.pager", "pager.log")
    async with runtime(work) as opened:
        outcome = await run(opened, "git --paginate log --oneline")
    assert outcome.ok
    assert outcome.data["stdout"].endswith(" a\n")
    assert not (work / "ran").exists()


def test_settings_that_a_call_gives_git_stay_and_ours_come_last() -> None:
    """The last value of a key counts."""
    asked = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "evil"}
    found = environment({}, asked)
    keys = [found[f"GIT_CONFIG_KEY_{number}"] for number in range(int(found["GIT_CONFIG_COUNT"]))]
    assert keys == ["core.fsmonitor", "core.fsmonitor", "safe.bareRepository", "core.pager"]
    assert found["GIT_CONFIG_VALUE_1"] == "false"


@pytest.mark.parametrize("count", ["", "x", "-1", "9999999"])
def test_a_count_that_git_would_refuse_leaves_ours_alone(count: str) -> None:
    """What is no count counts as none."""
    assert environment({}, {"GIT_CONFIG_COUNT": count})["GIT_CONFIG_COUNT"] == "3"

"""Commands of a project that are called like harmless ones, and repositories that make git run programs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from behaviour._commands import need_sandbox, run, runtime
from handrail import Runtime
from handrail.sandbox.search_path import SearchPath
from handrail.words import Root

EVIL = "#!/bin/sh\ntouch {mark}\n"
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@example.org")


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


def headless(work: Path) -> Runtime:
    """A runtime in which nobody can be asked."""
    return runtime(work, mode="headless", approver=None)


def plant(work: Path, folder: str, name: str) -> Path:
    """Make an executable that leaves a mark."""
    (work / folder).mkdir(parents=True, exist_ok=True)
    path = work / folder / name
    path.write_text(EVIL.format(mark=work / "ran"))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("folder", ["node_modules/.bin", ".venv/bin"])
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("ls", "ls"),
        ("ls", "true && ls | cat"),
        ("ls", "sh -c 'ls'"),
        ("ls", "find . -name a -exec ls {} +"),
        ("ls", "nice ls"),
        ("gzip", "zcat a.gz"),
        ("grep", "egrep a b"),
        ("echo", "printf a | xargs"),
        ("git", "git branch --show-current"),
        ("python", "python --version"),
    ],
)
async def test_a_planted_command_asks(work: Path, folder: str, name: str, line: str) -> None:
    """The name is harmless; what it would run here is not known to be."""
    async with headless(work) as opened:
        before = await run(opened, line)
        plant(work, folder, name)
        after = await run(opened, line)
    assert before.error is None or before.error.code == "EXIT_NONZERO"
    assert after.error is not None
    assert after.error.code in ("APPROVAL_REQUIRED", "APPROVAL_DENIED"), after.error
    assert f"a program of the workspace called {name}" in str(after.error.details) + after.content
    assert not (work / "ran").exists()


async def test_a_planted_link_to_another_program_asks(work: Path) -> None:
    """It leads out of the workspace, and still is not `ls`."""
    (work / "node_modules/.bin").mkdir(parents=True)
    (work / "node_modules/.bin/ls").symlink_to("/usr/bin/env")
    async with headless(work) as opened:
        outcome = await run(opened, "ls touch ran")
    assert not outcome.ok
    assert not (work / "ran").exists()


async def test_the_systems_own_command_by_its_path_does_not_ask(work: Path) -> None:
    """A path is not looked for."""
    plant(work, "node_modules/.bin", "ls")
    async with headless(work) as opened:
        outcome = await run(opened, "/bin/ls")
    assert outcome.ok, outcome.error
    assert not (work / "ran").exists()


def repository(work: Path) -> None:
    """Make one with a commit and a changed file."""
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / "a.txt").write_text("one\n")
    (work / ".gitattributes").write_text("*.txt filter=evil diff=evil merge=evil\n")
    subprocess.run(["git", "add", "-A"], cwd=work, check=True)
    subprocess.run(["git", *IDENTITY, "commit", "-q", "-m", "first"], cwd=work, check=True)
    (work / "a.txt").write_text("two\n")


READS = [
    "git status",
    "git log --oneline -5",
    "git diff",
    "git show --stat HEAD",
    "git branch -a",
    "git rev-parse HEAD",
    "git ls-files",
    "git blame a.txt",
    "git describe --always",
    "git remote -v",
    "git stash list",
    "git log -- *.txt | head -3",
]


@pytest.mark.parametrize("line", READS)
async def test_reading_git_does_not_ask(work: Path, line: str) -> None:
    """Nothing is set up that git would run."""
    repository(work)
    async with headless(work) as opened:
        outcome = await run(opened, line)
    assert outcome.ok, outcome.error


@pytest.mark.parametrize(
    "key",
    [
        "filter.evil.clean",
        "filter.evil.process",
        "diff.evil.command",
        "diff.evil.textconv",
        "diff.external",
        "gpg.program",
        "gpg.ssh.program",
        "pager.diff",
        "merge.evil.driver",
        "remote.origin.promisor",
        "core.virtualfilesystem",
    ],
)
async def test_a_repository_that_names_programs_asks_and_names_the_key(work: Path, key: str) -> None:
    """Whatever the line reads."""
    repository(work)
    evil = plant(work, "bin", "evil")
    subprocess.run(["git", "config", key, str(evil)], cwd=work, check=True)
    async with headless(work) as opened:
        asked = [await run(opened, line) for line in ("git diff", "git status && ls", "git log -p")]
    assert [outcome.ok for outcome in asked] == [False, False, False]
    assert all(f"sets {key}" in str(outcome.error) + outcome.content for outcome in asked)
    assert not (work / "ran").exists()


async def test_programs_in_included_and_worktree_configs_and_other_repositories_ask(work: Path) -> None:
    """Git reads all of these."""
    repository(work)
    subprocess.run(["git", "init", "-q", str(work / "inner")], check=True)
    outcomes = []
    async with headless(work) as opened:
        outcomes.append(await run(opened, "git diff"))
        config = work / ".git/config"
        plain = config.read_text()
        (work / ".git/more").write_text("[diff]\n\texternal = evil\n")
        config.write_text(f"{plain}[include]\n\tpath = more\n")
        outcomes.append(await run(opened, "git diff"))
        config.write_text(plain)
        (work / ".git/config.worktree").write_text("[diff]\n\texternal = evil\n")
        outcomes.append(await run(opened, "git diff"))
        (work / ".git/config.worktree").unlink()
        outcomes.append(await run(opened, "git diff"))
        with (work / "inner/.git/config").open("a") as file:
            file.write('[filter "x"]\n\tclean = evil\n')
        outcomes.append(await run(opened, "cd inner && git status"))
    assert [outcome.ok for outcome in outcomes] == [True, False, False, True, False]


@pytest.mark.parametrize("folder", [".git/hooks", ".husky"])
async def test_a_hook_that_reading_runs_asks(work: Path, folder: str) -> None:
    """`git status` writes the index anew, and then runs this hook."""
    repository(work)
    subprocess.run(["git", "config", "core.hooksPath", folder], cwd=work, check=True)
    plant(work, folder, "post-index-change")
    async with headless(work) as opened:
        outcome = await run(opened, "git status")
    assert not outcome.ok
    assert not (work / "ran").exists()


@pytest.mark.parametrize(
    "line",
    [
        "git diff --output=x",
        "git diff --outp x",
        "git log --ext-diff",
        "git log --show-sig",
        "git log '--format=%G?'",
        "git log '--format=%h%+GG'",
        "git branch --sort=signature",
        "git log --remerge-diff",
        "git -c diff.external=x diff",
        "git branch new",
        "git branch --list x -D y",
        "git stash",
        "git stash list --output=x",
        "git log $x",
        "GIT_EXTERNAL_DIFF=x git diff",
    ],
)
async def test_what_writes_or_runs_something_asks(work: Path, line: str) -> None:
    """An option makes a harmless subcommand another one."""
    repository(work)
    async with headless(work) as opened:
        outcome = await run(opened, line)
    assert outcome.error is not None
    assert outcome.error.code in ("APPROVAL_REQUIRED", "APPROVAL_DENIED")


async def test_git_push_is_refused_at_once(work: Path) -> None:
    """No program in the sandbox has credentials; a text that only mentions it runs."""
    repository(work)
    async with runtime(work) as opened:
        pushed = await run(opened, "git add -A && git push origin main")
        mentioned = await run(opened, "echo git push")
        folder = await run(opened, "git push ./elsewhere main")
    assert pushed.error is not None
    assert pushed.error.code == "COMMAND_NOT_ALLOWED"
    assert "run `git push` yourself" in pushed.error.message
    assert mentioned.ok
    assert folder.error is not None
    assert folder.error.code == "EXIT_NONZERO"  # it was run, and there is no such repository


def test_a_link_of_the_caller_into_the_workspace_counts(tmp_path: Path) -> None:
    """The folder is the person's, and what the link leads to is anybody's who may write the workspace."""
    work, tools = tmp_path / "work", tmp_path / "tools"
    tools.mkdir()
    work.mkdir()
    (tools / "jq").symlink_to(work / "jq")
    (tools / "wc").symlink_to("/usr/bin/wc")
    roots = (Root("workspace", str(work), writable=True), Root("tools", str(tools), writable=False))
    assert SearchPath(roots, {"PATH": str(tools)}).shadowed() == ("jq",)

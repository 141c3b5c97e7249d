"""`git init`, `git clone` and `git worktree add` below the workspace: asked for, and then they work."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox, run, runtime
from handrail import Outcome
from handrail.testing import ScriptedApprover
from workspaces import below

# Rules that allow everything: new repositories are asked for all the same.
RULES = [{"effect": "allow", "touch": name} for name in ("proc.exec", "git.write", "fs.write", "fs.delete")]
REVIEW: dict[str, Any] = {"exec": {"workspace": "review"}, "limits": {"max_repeats": 1000}, "rules": RULES}
IDENTITY = "git -c user.name=a -c user.email=a@example.org"


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox("native")


def git(folder: Path, *words: str) -> str:
    """Run the machine's git as a person would."""
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


async def each(work: Path, *lines: str, direct: bool = False) -> tuple[list[Outcome], ScriptedApprover]:
    """Run lines one after the other; a person says yes to everything."""
    approver = ScriptedApprover("once")
    async with runtime(work, config={} if direct else REVIEW, approver=approver) as opened:
        return [await run(opened, line) for line in lines], approver


async def test_a_new_repository_is_asked_for_with_its_config_and_works(work: Path) -> None:
    """The samples of hooks are named and not shown."""
    out, approver = await each(work, "git init -q new", f"cd new && {IDENTITY} commit -q --allow-empty -m first")
    assert [outcome.ok for outcome in out] == [True, True]
    first = approver.asked[0]
    assert first.impact["new git repositories"] == ["new/.git"]
    assert "repositoryformatversion" in first.diff
    assert "pre-commit.sample, a sample that git does not run" in first.diff
    assert git(work / "new", "log", "--format=%s") == "first\n"


async def test_a_clone_and_a_worktree_are_asked_for_and_work(work: Path) -> None:
    """From a repository of the workspace."""
    git(work, "init", "-q", "one")
    (work / "one/a").write_text("a\n")
    git(work / "one", "add", "a")
    git(work / "one", "commit", "-qm", "first")
    out, approver = await each(work, "git clone -q one two", "git -C one worktree add -q ../tree")
    assert [outcome.ok for outcome in out] == [True, True], [outcome.content for outcome in out]
    asked = [request.impact["new git repositories"] for request in approver.asked]
    assert asked == [["two/.git"], ["one/.git/worktrees/tree"]]
    assert git(work / "two", "log", "--format=%s") == "first\n"
    assert (git(work / "tree", "status", "--porcelain"), (work / "tree/a").read_text()) == ("", "a\n")


async def test_undo_takes_a_new_repository_away_again(work: Path) -> None:
    """To the byte."""
    (work / "a").write_text("a")
    before = below(work)
    async with runtime(work, config=REVIEW) as opened:
        outcome = await run(opened, "git init -q new")
        undone = await opened.undo(outcome.call_id)
    assert (outcome.ok, undone.ok) == (True, True), undone.content
    assert below(work) == before


HOSTILE = {
    "a watcher": "git -C new config core.fsmonitor ./evil",
    "a folder of hooks": "git -C new config core.hooksPath ..",
    "a filter": "git -C new config filter.x.clean ./evil",
    "an alias": "git -C new config alias.st '!evil'",
    "another file": "git -C new config include.path ../evil",
    "a helper of a remote": "git -C new config remote.o.url 'ext::sh -c evil'",
    "a hook": "cp evil new/.git/hooks/pre-commit",
    "a link to hooks": "rm -r new/.git/hooks; ln -s ../../h new/.git/hooks",
    "a link to a config": "mv new/.git/config new/c; ln -s ../c new/.git/config",
    "another folder": "echo ../../other > new/.git/commondir",
    "no config": "echo '[core' > new/.git/config",
    "a further repository": "mkdir new/.git/modules; git init -q --separate-git-dir new/.git/modules/x sub",
}


@pytest.mark.parametrize("how", HOSTILE)
async def test_a_new_repository_that_could_run_programs_is_denied_as_before(work: Path, how: str) -> None:
    """Nobody is asked for it, and nothing of it is kept."""
    (work / "evil").write_text("#!/bin/sh\n")
    (work / "make.sh").write_text(f"git init -q new\n{HOSTILE[how]}\n")  # the line does not show what is written
    before = below(work)
    (outcome,), approver = await each(work, "sh make.sh")
    assert outcome.error is not None
    assert outcome.error.code == "PATH_PROTECTED", outcome.content
    assert [request for request in approver.asked if request.diff] == []
    assert below(work) == before


async def test_a_worktree_that_leads_elsewhere_is_denied(work: Path) -> None:
    """Its registration must name a new worktree that leads back, and the repository above it."""
    git(work, "init", "-q")
    git(work, "commit", "-q", "--allow-empty", "-m", "a")
    tree = (
        "mkdir -p .git/worktrees/t t; echo ../.. > .git/worktrees/t/commondir; "
        "echo $PWD/t/.git > .git/worktrees/t/gitdir"
    )
    settings = ".git/worktrees/t/config.worktree"
    ways = [
        f"{tree}; echo ../../../evil > .git/worktrees/t/commondir; echo gitdir: $PWD/.git/worktrees/t > t/.git",
        f"{tree}; echo gitdir: $PWD/evil > t/.git",
        f"{tree}; echo /elsewhere/.git > .git/worktrees/t/gitdir; echo gitdir: $PWD/.git/worktrees/t > t/.git",
        f"{tree}; echo gitdir: $PWD/.git/worktrees/t > t/.git; echo '[core] fsmonitor=x' > {settings}",
    ]
    for way in ways:
        (work / "make.sh").write_text(f"{way}\n")
        (outcome,), _ = await each(work, "sh make.sh")
        assert outcome.error is not None, way
        assert outcome.error.code == "PATH_PROTECTED", outcome.content
        assert not (work / "t").exists()


async def test_a_repository_that_was_there_gets_no_other_config_by_being_made_again(work: Path) -> None:
    """Removing and making it again is no new repository."""
    git(work, "init", "-q")
    before = below(work)
    (work / "make.sh").write_text("mv .git old; rm -rf .git; git init -q; git config x.y z; exit 0\n")
    await each(work, "sh make.sh")
    assert (work / ".git/config").read_bytes() == before[".git/config"]


# ── directly ─────────────────────────────────────────────────────────────────────────────────


async def test_directly_a_new_repository_stays_and_is_said_once(work: Path) -> None:
    """The command was asked for; a clone works as well."""
    line = f"git init -q new && {IDENTITY} -C new commit -q --allow-empty -m first && git clone -q new two"
    (outcome,), approver = await each(work, line, direct=True)
    assert outcome.ok, outcome.content
    assert len(approver.asked) == 1
    made = [f"the program made the git repository {name}/.git; it runs no programs" for name in ("new", "two")]
    assert sorted(outcome.warnings) == made
    assert git(work / "two", "log", "--format=%s") == "first\n"


async def test_directly_what_makes_a_new_repository_run_programs_is_taken_away(work: Path) -> None:
    """The config with the key, or the hooks; the rest of the repository stays."""
    (work / "make.sh").write_text(
        "git init -q one; git -C one config core.fsmonitor ./evil\n"
        "git init -q two; cp make.sh two/.git/hooks/pre-commit\n"
    )
    (outcome,), _ = await each(work, "sh make.sh", direct=True)
    assert outcome.ok, outcome.content
    assert not (work / "one/.git/config").exists()
    assert (work / "one/.git/HEAD").exists()
    assert not (work / "two/.git/hooks").exists()
    assert (work / "two/.git/config").exists()
    assert any("one/.git/config" in text and "sets core.fsmonitor" in text for text in outcome.warnings)
    assert any("two/.git/hooks" in text and "pre-commit is a hook" in text for text in outcome.warnings)

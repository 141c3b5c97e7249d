"""Git in a repository that tracks protected files: it neither shows nor deletes them, and everything else works."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox, run, runtime, until
from handrail import Outcome
from handrail.testing import ScriptedApprover
from handrail.workspace.git_index import clear_skipped, hidden_entries, new_hidden

SECRET = "token-of-nobody"
CONFIG: dict[str, Any] = {
    "exec": {"workspace": "review"},
    "limits": {"max_repeats": 1000},
    "rules": [{"effect": "deny", "touch": "fs.*", "target": "**/secrets/**"}],
}


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox("native")


def git(folder: Path, *words: str) -> str:
    """Run the machine's git as a person would."""
    done = subprocess.run(
        ["git", "--no-optional-locks", *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def make(folder: Path, *settings: str) -> None:
    """Make a repository with protected files that are tracked."""
    git(folder, "init", "-q", "-b", "main")
    for setting in ("user.name=a", "user.email=a@example.org", "core.autocrlf=false", *settings):
        git(folder, "config", *setting.split("="))
    for name, text in ((".env", f"A={SECRET}\n"), ("secrets/x.json", f'"{SECRET}"\n'), ("a.txt", "a\n"), ("b", "b\n")):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-qm", "first")


@pytest.fixture
def work(work: Path) -> Path:
    """A repository with two protected files among its tracked ones."""
    make(work)
    return work


def git_files(work: Path) -> dict[str, tuple[int, bytes | None]]:
    """All that lies below `.git`."""
    found = sorted((work / ".git").rglob("*"))
    return {str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else None) for path in found}


async def each(work: Path, *lines: str, config: dict[str, Any] | None = None) -> list[Outcome]:
    """Run lines one after the other; a person says yes to everything."""
    async with runtime(work, config=config or CONFIG, approver=ScriptedApprover("once")) as opened:
        return [await run(opened, line) for line in lines]


def shown(outcome: Outcome) -> str:
    """All that a caller reads."""
    assert outcome.ok, outcome.content
    return f"{outcome.data['stdout']}{outcome.data['stderr']}"


@pytest.fixture(params=["disk", "memory"])
def layer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the layer is."""
    if request.param == "memory":
        monkeypatch.setattr("handrail.processes.layer_home.homes", lambda *_: ())
    return str(request.param)


# ── in review ────────────────────────────────────────────────────────────────────────────────


async def test_reading_shows_neither_a_deletion_nor_a_content(work: Path, layer: str) -> None:
    """And changes nothing, so nobody is asked for a change of the index."""
    before = git_files(work)
    approver = ScriptedApprover("once")
    lines = ("git status --porcelain", "git diff", "git diff HEAD --stat", "git ls-files -d -m -o")
    async with runtime(work, config=CONFIG, approver=approver) as opened:
        outcomes = [await run(opened, line) for line in lines]
    assert [shown(outcome) for outcome in outcomes] == [""] * len(lines)
    assert [outcome.data["files_changed"] for outcome in outcomes] == [[]] * len(lines)
    assert not [request for request in approver.asked if request.diff]
    assert git_files(work) == before


async def test_a_commit_of_everything_keeps_protected_files_in_the_tree(work: Path, layer: str) -> None:
    """Afterwards the person's own git sees nothing unusual; undo puts `.git` back to the byte."""
    before = git_files(work)
    async with runtime(work, config=CONFIG) as opened:
        outcome = await run(opened, "echo more >> a.txt; echo new > n.txt; git add -A && git commit -qm x")
        assert outcome.ok, outcome.content
        names = git(work, "ls-tree", "-r", "--name-only", "HEAD").split()
        status = git(work, "status", "--porcelain")
        content = git(work, "show", "HEAD:.env")
        flags = git(work, "ls-files", "-v")
        undone = await opened.undo(outcome.call_id)
    assert names == [".env", "a.txt", "b", "n.txt", "secrets/x.json"]
    assert (content, status) == (f"A={SECRET}\n", "")
    assert {line[0] for line in flags.splitlines()} == {"H"}
    assert undone.ok, undone.content
    assert git_files(work) == before


async def test_everyday_git_works_around_protected_files(work: Path, layer: str) -> None:
    """Commit of all, stash and its return, a new branch, taking another file out of the index."""
    lines = (
        "echo more >> a.txt; git commit -qam more && git show --stat --format=%s HEAD",
        "echo again >> a.txt; git stash -q && cat a.txt && git stash pop -q && cat a.txt",
        "git checkout -q -b side && git branch --show-current",
        "git rm -q --cached b && git status --porcelain",
        "git reset -q --hard && git status --porcelain && cat a.txt",
    )
    outcomes = [shown(outcome) for outcome in await each(work, *lines)]
    assert outcomes == [
        "more\n\n a.txt | 1 +\n 1 file changed, 1 insertion(+)\n",
        "a\nmore\na\nmore\nagain\n",
        "side\n",
        " M a.txt\nD  b\n?? b\n",
        "a\nmore\n",
    ]
    assert (work / ".env").read_text() == f"A={SECRET}\n"
    assert (work / "secrets/x.json").exists()
    assert git(work, "status", "--porcelain") == ""
    assert hidden_entries((work / ".git/index").read_bytes()) == frozenset()
    git(work, "fsck", "--strict")


async def test_version_four_and_the_hash_of_newer_repositories(tmp_path: Path) -> None:
    """Both are read and written."""
    for name, words in (("four", ()), ("sha256", ("--object-format=sha256",))):
        folder = tmp_path / name
        folder.mkdir()
        git(folder, "init", "-q", *words)
        make(folder, "index.version=4")
        git(folder, "update-index", "--index-version", "4")
        out = await each(folder, "echo x >> a.txt; git add -A && git commit -qm x", "git status --porcelain; git diff")
        assert (out[0].ok, shown(out[1])) == (True, "")
        assert (folder / ".git/index").read_bytes()[4:8] == b"\0\0\0\4"
        assert ".env" in git(folder, "ls-tree", "-r", "--name-only", "HEAD")
        assert git(folder, "status", "--porcelain") == ""


async def test_bits_of_the_user_stay(work: Path) -> None:
    """Those that were set here are not among them afterwards."""
    git(work, "update-index", "--skip-worktree", "b")
    git(work, "update-index", "--assume-unchanged", ".env")
    (outcome,) = await each(work, "echo x >> a.txt; git commit -qam x")
    assert outcome.ok, outcome.content
    assert hidden_entries((work / ".git/index").read_bytes()) == {"b", ".env"}


async def test_a_worktree_and_an_inner_repository_are_prepared_too(work: Path) -> None:
    """Each has an index of its own, one of them beneath `.git/worktrees`."""
    git(work, "worktree", "add", "-q", "wt")
    (work / "inner").mkdir()
    make(work / "inner")
    out = await each(work, "git -C wt status --porcelain; git -C inner status --porcelain; git -C wt diff")
    assert shown(out[0]) == ""
    out = await each(work, "cd wt && echo x >> a.txt && git commit -qam x")
    assert out[0].ok, out[0].content
    assert ".env" in git(work / "wt", "ls-tree", "-r", "--name-only", "HEAD")
    assert git(work / "wt", "status", "--porcelain") == ""


# ── what a program might do about it ─────────────────────────────────────────────────────────


async def test_bits_that_a_program_sets_are_kept_for_the_judge_to_see(work: Path) -> None:
    """`new_hidden` names them; the marks for protected files are not among them."""
    before = (work / ".git/index").read_bytes()
    (outcome,) = await each(work, "git update-index --skip-worktree a.txt && git update-index --assume-unchanged b")
    assert outcome.ok, outcome.content
    assert new_hidden(before, (work / ".git/index").read_bytes()) == ("a.txt", "b")


async def test_an_index_that_cannot_be_read_is_not_kept(work: Path) -> None:
    """Malformed, or split: the marks could not be taken out. All else is kept."""
    before = (work / ".git/index").read_bytes()
    for line in ("echo nonsense > .git/index", "git update-index --split-index"):
        (outcome,) = await each(work, f"{line}; date +%N > made")
        assert outcome.ok, outcome.content
        assert "made" in outcome.data["files_changed"]
        assert any(".git/index was not kept" in text for text in outcome.warnings)
        assert (work / ".git/index").read_bytes() == before
    assert git(work, "status", "--porcelain", "--untracked-files=no") == ""


async def test_a_malformed_index_below_stops_nothing(work: Path) -> None:
    """It is as it was; git itself says what is wrong."""
    for data in (b"", b"DIRC\0\0\0\2\xff\xff\xff\xff", b"x" * 5000):
        (work / ".git/index").write_bytes(data)
        out = await each(work, "echo hi > made; cat made; rm made")
        assert shown(out[0]) == "hi\n"
        assert (work / ".git/index").read_bytes() == data


async def test_an_index_that_is_a_link_is_left_alone(work: Path, tmp_path: Path) -> None:
    """Neither followed before the program runs, nor written through afterwards."""
    outside = tmp_path / "outside"
    outside.write_bytes((work / ".git/index").read_bytes())
    kept = outside.read_bytes()
    (outcome,) = await each(work, "rm .git/index && ln -s ../../outside .git/index && echo done")
    assert shown(outcome) == "done\n"
    assert os.readlink(work / ".git/index") == "../../outside"
    (again,) = await each(work, "echo hi")
    assert shown(again) == "hi\n"
    assert outside.read_bytes() == kept


async def test_an_index_that_is_removed_or_replaced_by_a_folder_crashes_nothing(work: Path) -> None:
    """What the program did is what is judged."""
    out = await each(work, "rm .git/index", "mkdir .git/index && touch .git/index/x")
    assert [outcome.ok for outcome in out] == [True, True]
    assert (work / ".git/index/x").exists()


async def test_a_change_of_the_index_by_somebody_else_is_not_lost(work: Path, own_user: Path) -> None:
    """The person stages a file while the command runs: its index is not put over theirs."""
    (work / "staged").write_text("s")

    def answer(request: Any) -> str:
        return "no" if "somebody else" in request.reason else "once"

    async with runtime(work, config=CONFIG, approver=ScriptedApprover(answer)) as opened:
        running = asyncio.ensure_future(run(opened, "echo x > b; git add b; touch ready; sleep 0.5"))
        await until(lambda: [*(own_user / "state/handrail/layers").glob("*/upper/ready")] != [])
        git(work, "add", "staged")
        outcome = await running
    assert outcome.ok, outcome.content
    assert git(work, "diff", "--cached", "--name-only") == "staged\n"
    assert any(".git/index" in text and "somebody else" in text for text in outcome.warnings)


async def test_a_split_index_is_left_alone_and_that_is_said(work: Path) -> None:
    """Where it tracks nothing protected, nothing is said."""
    git(work, "update-index", "--split-index")
    (outcome,) = await each(work, "git status --porcelain")
    assert " M .env" in shown(outcome)
    assert any("it is a split index" in text for text in outcome.warnings)
    shutil.rmtree(work / ".git")
    git(work, "init", "-q")
    git(work, "add", "a.txt", "b")
    git(work, "update-index", "--split-index")
    (again,) = await each(work, "true")
    assert again.warnings == ()


async def test_preparing_twenty_thousand_entries_takes_a_moment(work: Path) -> None:
    """Measured against the same repository without a protected file that is tracked."""
    blob = git(work, "rev-parse", "HEAD:a.txt").strip()
    lines = "".join(f"100644 {blob}\tsrc/pack{number % 97}/module{number}.py\n" for number in range(20_000))
    subprocess.run(["git", "update-index", "--index-info"], cwd=work, input=lines.encode(), check=True)
    kept = (work / ".git/index").read_bytes()
    async with runtime(work, config=CONFIG) as opened:
        await run(opened, "true")
        begun = time.perf_counter()
        prepared = await run(opened, "true")
        with_bits = time.perf_counter() - begun
        git(work, "rm", "-q", "--cached", ".env", "secrets/x.json")
        begun = time.perf_counter()
        plain = await run(opened, "true")
        without = time.perf_counter() - begun
    print(f"`true` with 20,000 entries prepared {with_bits * 1000:.0f} ms, without {without * 1000:.0f} ms")
    assert (prepared.ok, plain.ok, prepared.data["files_changed"]) == (True, True, [])
    assert clear_skipped(kept, ()) == kept
    assert with_bits < without + 2


# ── directly ─────────────────────────────────────────────────────────────────────────────────


async def test_without_a_layer_nothing_protected_is_printed_or_deleted(work: Path) -> None:
    """Git takes hidden files for changed or deleted there and stops; what is documented."""
    config = {**CONFIG, "exec": {"workspace": "direct"}}
    out = await each(work, "git diff", "git add -A && git commit -qm x", config=config)
    assert [outcome.ok for outcome in out] == [False, False]
    assert SECRET not in f"{out[0].content}{out[1].content}"
    assert git(work, "ls-tree", "-r", "--name-only", "HEAD").split() == [".env", "a.txt", "b", "secrets/x.json"]
    assert (work / ".env").read_text() == f"A={SECRET}\n"

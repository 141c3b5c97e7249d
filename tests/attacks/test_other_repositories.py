"""Repositories that are not called `.git`, and files that git configs name: six ways to have git run code."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections import UserDict
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox, run, runtime
from handrail import Outcome, Runtime
from handrail.testing import ScriptedApprover
from handrail.words import Root
from handrail.workspace.git_config import settings_of
from handrail.workspace.repositories import RepositoryFinder

ASKED = "APPROVAL_REQUIRED"
DENIED = "PATH_PROTECTED"
ALLOWED = "ok"


def git(folder: Path, *words: str) -> str:
    """Run the machine's git as a person would."""
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def work(work: Path) -> Path:
    """A repository with one commit."""
    git(work, "init", "-q")
    (work / "a.txt").write_text("a\n")
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", "a")
    return work


def said(outcome: Outcome) -> str:
    """How a call ended, in a word."""
    return "ok" if outcome.error is None else str(outcome.error.code)


async def write(opened: Runtime, path: str, content: str = "x") -> str:
    """Write a file that is not there."""
    return said(await opened.call("write_file", {"path": path, "content": content}))


async def program(opened: Runtime, work: Path, code: str) -> Outcome:
    """Run a program whose line does not show what it writes."""
    (work / "plant.py").write_text(f"import os\n{code}\n")
    return await run(opened, "python3 plant.py")


class Environment(UserDict[str, str]):
    """Variables that note in which thread they are read."""

    def __init__(self) -> None:
        self.readers: list[int] = []
        super().__init__(os.environ)

    def keys(self) -> Any:
        """List the names, as a copy of the whole begins."""
        self.readers.append(threading.get_ident())
        return super().keys()


def headless(work: Path) -> Runtime:
    """Open a runtime whose calls are asked for and never answered."""
    return runtime(work, approver=None, mode="headless")


async def test_the_first_look_keeps_no_other_call_waiting(work: Path) -> None:
    """A large tree is walked in a thread, once; the call is then judged by what was found."""
    (work / "kept").mkdir()
    (work / "kept/HEAD").write_text("ref: refs/heads/main\n")
    async with headless(work) as opened:
        environment = Environment()
        environment.readers.clear()
        opened.parts.programs.repositories._environment = environment
        assert await write(opened, "kept/objects") == ASKED
        assert len(environment.readers) == 1
        assert threading.get_ident() not in environment.readers
        assert await write(opened, "b.txt") == ALLOWED
        assert len(environment.readers) == 1


# ── file tools ───────────────────────────────────────────────────────────────────────────────


async def test_tools_ask_before_a_folder_looks_like_a_repository(work: Path) -> None:
    """1: `HEAD` asks, in whatever order its neighbours come; what lies beside an existing one asks, too."""
    (work / "kept").mkdir()
    (work / "kept/HEAD").write_text("ref: refs/heads/main\n")
    async with headless(work) as opened:
        assert await write(opened, "src/config", "[core]\nfsmonitor = evil\n") == ALLOWED
        assert said(await opened.call("make_dir", {"path": "src/objects"})) == ALLOWED
        assert said(await opened.call("make_dir", {"path": "src/refs"})) == ALLOWED
        assert await write(opened, "src/HEAD") == ASKED
        assert await write(opened, "other/HEAD") == ASKED
        assert await write(opened, "src/header.txt") == ALLOWED
        assert await write(opened, "src/plain") == ALLOWED
        assert said(await opened.call("move_path", {"source": "src/plain", "target": "src/HEAD"})) == ASKED
        assert said(await opened.call("make_dir", {"path": "kept/objects"})) == ASKED
        assert await write(opened, "kept/refs/x") == ASKED
        assert await write(opened, "kept/commondir", "../src\n") == ASKED
        assert await write(opened, "kept/readme") == ALLOWED
        assert said(await opened.call("move_path", {"source": "kept", "target": "moved"})) == ASKED


async def test_tools_write_no_hook_where_a_config_looks_for_them(work: Path) -> None:
    """2: the folder that `core.hooksPath` names is as protected as `.git/hooks`, made or not."""
    git(work, "config", "core.hooksPath", "tools/githooks")
    async with headless(work) as opened:
        assert await write(opened, "tools/githooks/pre-commit") == DENIED
        assert await write(opened, "tools/other.sh") == ALLOWED
        assert await write(opened, "up/pre-commit") == ALLOWED
        assert said(await opened.call("move_path", {"source": "up", "target": "tools/githooks"})) == DENIED


async def test_tools_write_no_hook_where_the_whole_root_holds_them(work: Path) -> None:
    """2: where hooks are looked for in the root itself, only their names are closed."""
    git(work, "config", "core.hooksPath", ".")
    async with headless(work) as opened:
        assert await write(opened, "pre-commit") == DENIED
        assert await write(opened, "b.txt") == ALLOWED


async def test_tools_change_no_file_that_a_config_includes(work: Path) -> None:
    """3: included files are config, whatever condition they have; and what they name counts as well."""
    (work / "team.gitconfig").write_text("[core]\n\thooksPath = team-hooks ; a comment\n")
    git(work, "config", "include.path", "../team.gitconfig")
    git(work, "config", "includeIf.gitdir:/nowhere/.path", "../later.gitconfig")
    async with headless(work) as opened:
        edit = {"path": "team.gitconfig", "edits": [{"old": "team-hooks", "new": "src"}]}
        assert said(await opened.call("edit_file", edit)) == DENIED
        assert await write(opened, "later.gitconfig") == DENIED
        assert await write(opened, "team-hooks/pre-commit") == DENIED


async def test_a_file_that_two_repositories_include_counts_for_both(work: Path) -> None:
    """3: what it names is relative to each repository; that it includes itself does no harm."""
    (work / "team.gitconfig").write_text("[core]\n\thooksPath = team-hooks\n[include]\n\tpath = team.gitconfig\n")
    for name in ("first", "second"):
        git(work, "init", "-q", name)
        git(work / name, "config", "include.path", str(work / "team.gitconfig"))
    async with headless(work) as opened:
        assert await write(opened, "first/team-hooks/pre-commit") == DENIED
        assert await write(opened, "second/team-hooks/pre-commit") == DENIED
        assert await write(opened, "second/b.txt") == ALLOWED


async def test_tools_ask_where_a_config_cannot_be_read(work: Path) -> None:
    """3: what a config names is not known then."""
    (work / ".git/config").write_text("[core\n")
    async with headless(work) as opened:
        assert await write(opened, "b.txt") == ASKED


async def test_tools_treat_what_a_git_file_points_to_like_git_itself(work: Path, tmp_path: Path) -> None:
    """4: a bare repository beside its working trees, a worktree, a submodule."""
    for name in ("inner", "source"):
        git(work, "init", "-q", name)
        git(work / name, "commit", "-q", "--allow-empty", "-m", "a")
    os.rename(work / "inner/.git", work / "inner/.bare")
    (work / "inner/.git").write_text("gitdir: ./.bare\n")
    git(work, "worktree", "add", "-q", "tree")
    git(work, "submodule", "--quiet", "add", str(work / "source"), "sub")
    async with headless(work) as opened:
        for name in ("hooks/pre-commit", "config.worktree", "commondir"):
            assert await write(opened, f"inner/.bare/{name}") == DENIED
        assert await write(opened, "inner/.bare/info/exclude2") == ASKED
        assert await write(opened, "inner/b.txt") == ALLOWED
        assert await write(opened, ".git/worktrees/tree/config.worktree") == DENIED
        assert await write(opened, ".git/modules/sub/hooks/post-checkout") == DENIED
        assert await write(opened, ".git/modules/sub/info/x") == ASKED
        assert said(await opened.call("move_path", {"source": "inner/.bare", "target": "inner/x"})) == DENIED


async def test_tools_ask_before_they_write_below_git(work: Path) -> None:
    """5 and 6: commands of a rebase, and every other file there; hooks and config stay denied."""
    async with headless(work) as opened:
        assert await write(opened, ".git/rebase-merge/git-rebase-todo", "exec evil\n") == ASKED
        assert await write(opened, ".git/info/attributes") == ASKED
        assert await write(opened, ".git/refs/heads/x") == ASKED
        assert await write(opened, ".git/hooks/pre-commit") == DENIED
        assert await write(opened, ".git/config.worktree") == DENIED


async def test_tools_know_a_config_that_changes_during_the_run(work: Path) -> None:
    """A person may name another folder of hooks at any time, and make a repository."""
    async with headless(work) as opened:
        assert await write(opened, "first/a") == ALLOWED
        git(work, "config", "core.hooksPath", "first")
        assert await write(opened, "first/b") == DENIED


async def test_an_approved_write_below_git_is_made(work: Path) -> None:
    """A question is no refusal."""
    async with runtime(work) as opened:
        assert await write(opened, ".git/info/attributes", "*.x text\n") == ALLOWED
    assert (work / ".git/info/attributes").read_text() == "*.x text\n"


# ── programs ─────────────────────────────────────────────────────────────────────────────────


BARE = """
os.makedirs("made/objects")
os.makedirs("made/refs/heads")
open("made/objects/x", "w").close()
open("made/refs/heads/x", "w").close()
open("made/HEAD", "w").write("ref: refs/heads/main\\n")
"""
FAKE = """
os.chdir("src")
os.makedirs("objects")
os.makedirs("refs")
open("config", "w").write("[core]\\nfsmonitor = ./x\\n")
open("HEAD", "w").write("ref: refs/heads/a\\n")
"""


@pytest.fixture(scope="module")
def sandbox() -> None:
    """What follows needs one."""
    need_sandbox()


@pytest.mark.usefixtures("sandbox")
async def test_a_program_turns_no_used_folder_into_a_repository(work: Path) -> None:
    """1: found afterwards, and what makes git take it for one is taken away."""
    (work / "src").mkdir()
    (work / "src/main.py").write_text("")
    async with runtime(work) as opened:
        outcome = await program(opened, work, FAKE)
        assert await write(opened, "src/refs/heads/a") == ALLOWED
    assert not (work / "src/HEAD").exists()
    assert [text for text in outcome.warnings if "src/HEAD" in text and "taken away" in text]


@pytest.mark.usefixtures("sandbox")
async def test_a_bare_repository_that_a_program_makes_is_described_and_stays(work: Path) -> None:
    """1: `git init --bare` is ordinary work; from then on it counts as a repository."""
    async with runtime(work) as opened:
        outcome = await run(opened, "git init -q --bare new.git")
    async with headless(work) as opened:
        assert await write(opened, "new.git/hooks/pre-push") == DENIED
        assert await write(opened, "new.git/packed-refs") == ASKED
    assert (work / "new.git/HEAD").exists()
    assert [text for text in outcome.warnings if "new.git/HEAD" in text and "look at it" in text]


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("workspace", ["direct", "review"])
async def test_a_repository_that_a_program_makes_is_known_to_the_next_call(work: Path, workspace: str) -> None:
    """1: also where a person approves the change, and it is kept only then."""
    async with runtime(work, "once", "once", config={"exec": {"workspace": workspace}}) as opened:
        outcome = await program(opened, work, BARE)
        assert await write(opened, "made/hooks/pre-push") == DENIED
    assert said(outcome) == ALLOWED
    assert (work / "made/HEAD").exists()


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("present", [True, False])
async def test_a_program_writes_no_hook_where_a_config_looks_for_them(work: Path, present: bool) -> None:
    """2: an existing folder is locked; a new one is taken away."""
    git(work, "config", "core.hooksPath", "tools/githooks")
    if present:
        (work / "tools/githooks").mkdir(parents=True)
    async with runtime(work) as opened:
        code = "os.makedirs('tools/githooks', exist_ok=True)\nopen('tools/githooks/pre-commit', 'w').write('evil')"
        outcome = await program(opened, work, code)
    assert not (work / "tools/githooks/pre-commit").exists()
    assert said(outcome) == ("EXIT_NONZERO" if present else ALLOWED)
    assert bool([text for text in outcome.warnings if "taken away" in text]) != present


@pytest.mark.usefixtures("sandbox")
async def test_a_link_that_leads_to_hooks_is_told(work: Path) -> None:
    """2: no lock holds a name that is not there; the person is told that it is in effect."""
    git(work, "config", "core.hooksPath", "tools/githooks")
    async with runtime(work) as opened:
        outcome = await run(opened, "mkdir -p evil/githooks && ln -s evil tools")
    assert [text for text in outcome.warnings if "tools/githooks" in text and "IN EFFECT" in text]


@pytest.mark.usefixtures("sandbox")
async def test_a_program_changes_no_file_that_a_config_includes(work: Path) -> None:
    """3: locked where it exists, taken away where it is new."""
    (work / "team.gitconfig").write_text("[core]\n")
    git(work, "config", "include.path", "../team.gitconfig")
    git(work, "config", "--add", "include.path", "../later.gitconfig")
    async with runtime(work) as opened:
        await program(opened, work, "open('later.gitconfig', 'w').write('[alias]')")
        await program(opened, work, "open('team.gitconfig', 'a').write('[alias]')")
        await program(opened, work, "os.rename('team.gitconfig', 'x')")
    assert (work / "team.gitconfig").read_text() == "[core]\n"
    assert not (work / "later.gitconfig").exists()


@pytest.mark.usefixtures("sandbox")
async def test_a_program_changes_no_config_behind_a_git_file(work: Path) -> None:
    """4: hooks and config of `.bare` are locked; git works there as before."""
    git(work, "init", "-q", "inner")
    os.rename(work / "inner/.git", work / "inner/.bare")
    (work / "inner/.git").write_text("gitdir: ./.bare\n")
    config = (work / "inner/.bare/config").read_text()
    identity = "git -c user.name=a -c user.email=a@example.org"
    async with runtime(work) as opened:
        tried = await program(opened, work, "open('inner/.bare/config', 'a').write('[alias]')")
        hooked = await program(opened, work, "open('inner/.bare/hooks/pre-commit', 'w').write('evil')")
        moved = await program(opened, work, "os.rename('inner/.bare', 'inner/.away')")
        made = await run(opened, f"cd inner && {identity} commit -q --allow-empty -m b && git log --oneline")
        planted = await program(opened, work, "open('inner/.bare/commondir', 'w').write('../x')")
    assert [said(outcome) for outcome in (tried, hooked, moved)] == ["EXIT_NONZERO"] * 3
    assert [said(outcome) for outcome in (made, planted)] == [ALLOWED] * 2
    assert (work / "inner/.bare/config").read_text() == config
    assert not (work / "inner/.bare/hooks/pre-commit").exists()
    assert not (work / "inner/.bare/commondir").exists()


@pytest.mark.usefixtures("sandbox")
async def test_commands_that_a_program_leaves_in_a_rebase_are_told(work: Path) -> None:
    """5: an unfinished rebase is ordinary; commands in it are shown to the person."""
    code = "os.mkdir('.git/rebase-merge')\nopen('.git/rebase-merge/git-rebase-todo', 'w').write('exec evil')"
    async with runtime(work) as opened:
        outcome = await program(opened, work, code)
        again = await run(opened, "touch b.txt")
    assert [text for text in outcome.warnings if "git-rebase-todo" in text and "exec" in text]
    assert not [text for text in again.warnings if "git-rebase-todo" in text]


@pytest.mark.usefixtures("sandbox")
async def test_programs_do_ordinary_work_with_git(work: Path) -> None:
    """6: what programs write below `.git` is git's own business."""
    identity = "git -c user.name=a -c user.email=a@example.org"
    commit = f"echo b > b.txt && git add b.txt && {identity} commit -q -m b"
    line = f"{commit} && git branch c && git checkout -q c && git log --oneline"
    async with runtime(work, approver=ScriptedApprover("once")) as opened:
        outcome = await run(opened, line)
        clone = await run(opened, "git clone -q . copy && cd copy && git status --short")
    assert (said(outcome), said(clone), outcome.warnings) == (ALLOWED, ALLOWED, ())
    assert git(work, "log", "--oneline", "c").count("\n") == 2


# ── floods ───────────────────────────────────────────────────────────────────────────────────


def test_large_configs_of_many_repositories_end_in_questions(tmp_path: Path) -> None:
    """A program may make repositories; what it writes into their configs neither takes long nor hides earlier ones."""
    work = tmp_path / "work"
    git(tmp_path, "init", "-q", "work/zone/real")
    git(work / "zone/real", "config", "core.hooksPath", "own-hooks")
    finder = RepositoryFinder([Root("work", str(work), writable=True)], {"HOME": str(tmp_path)}, lambda: 0)
    hooks = str(work / "zone/real/own-hooks")
    assert hooks in finder.look().named
    for number in range(40):
        made = work / f"a{number:02}/.git"
        made.mkdir(parents=True)
        (made / "config").write_text(f"[core]\nhooksPath = theirs\nlong = {'x' * 500_000}\n")
    includes = work / "b/.git"
    includes.mkdir(parents=True)
    (includes / "config").write_text("[include]\n" + "".join(f"path = f{number}\n" for number in range(50_000)))
    found = finder.look()
    assert hooks in found.named
    assert len(found.named) < 5_000
    assert str(work / "zone/real") not in found.unread
    assert len([path for path in found.unread if path.startswith(f"{work}/a")]) > 30
    assert str(work / "b") in found.unread


def test_reading_a_config_takes_linear_time() -> None:
    """Ten times as many comments take about ten times as long, not a hundred times."""

    def spent(lines: int) -> float:
        text = "[a]\n" + "b=#\n" * lines
        started = time.process_time()
        assert len(settings_of(text)) == lines
        return time.process_time() - started

    assert min(spent(250_000) for _ in range(2)) < 22 * max(spent(25_000) for _ in range(2))


class HeldEnvironment(UserDict[str, str]):
    """Variables whose next copy waits for an event."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go_on = threading.Event()
        self.holds = False
        super().__init__()

    def keys(self) -> Any:
        """List the names, as a copy of the whole begins."""
        if self.holds:
            self.holds = False
            self.entered.set()
            assert self.go_on.wait(20)
        return super().keys()


def test_nobody_is_given_what_was_found_before_a_look_that_goes_on(work: Path) -> None:
    """A look in a thread and one on the event loop: the second waits for the first instead of returning old results."""
    environment = HeldEnvironment()
    ran = [0]
    finder = RepositoryFinder([Root("workspace", str(work), writable=True)], environment, lambda: ran[0])
    assert finder.found().folders == ()
    for name in ("objects", "refs"):
        (work / "src" / name).mkdir(parents=True)
    (work / "src/HEAD").write_text("ref: refs/heads/main\n")
    ran[0] += 1
    environment.holds = True
    results: list[tuple[str, ...]] = []
    threads = [threading.Thread(target=lambda: results.append(finder.found().folders)) for _ in range(2)]
    threads[0].start()
    assert environment.entered.wait(20)
    threads[1].start()
    threads[1].join(0.3)  # it would have ended by now if it did not wait
    environment.go_on.set()
    for thread in threads:
        thread.join(20)
    assert results == [(str(work / "src"),)] * 2

"""Further ways to have git run code: a root that is a repository, links, scripts that configs name."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from attacks.test_other_repositories import ALLOWED, ASKED, DENIED, git, headless, program, said, write
from behaviour._commands import need_sandbox, run, runtime
from handrail.policy.repositories import program_of


@pytest.fixture
def work(work: Path) -> Path:
    """A repository with one commit."""
    git(work, "init", "-q")
    (work / "a.txt").write_text("a\n")
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", "a")
    return work


@pytest.fixture(scope="module")
def sandbox() -> None:
    """Programs need one."""
    need_sandbox()


@pytest.fixture
def bare(tmp_path: Path, work: Path) -> Path:
    """A workspace that is itself a bare repository, with a working tree inside."""
    git(tmp_path, "clone", "-q", "--bare", str(work), "bare")
    git(tmp_path / "bare", "worktree", "add", "-q", "main")
    return tmp_path / "bare"


async def edit(opened: object, path: str, old: str) -> str:
    """Change a file that exists."""
    call = getattr(opened, "call")  # noqa: B009
    return said(await call("edit_file", {"path": path, "edits": [{"old": old, "new": "evil"}]}))


# ── the root is the repository ───────────────────────────────────────────────────────────────


async def test_tools_treat_a_root_that_is_a_repository_like_git_itself(bare: Path) -> None:
    """Hooks and config are denied, records ask, and the working tree inside is ordinary work."""
    async with headless(bare) as opened:
        for name in ("hooks/pre-receive", "config.worktree", "commondir", "worktrees/main/config.worktree"):
            assert await write(opened, name) == DENIED
        assert await write(opened, "info/attributes") == ASKED
        assert await edit(opened, "config", "[core]") == DENIED
        assert await write(opened, "main/src/hooks/use.ts") == ALLOWED
        assert await write(opened, "main/config") == ALLOWED
        assert await write(opened, "main/.git/x") == ASKED


@pytest.mark.usefixtures("sandbox")
async def test_programs_change_no_hook_of_a_root_that_is_a_repository(bare: Path) -> None:
    """Git works in its tree as before."""
    config = (bare / "config").read_text()
    async with runtime(bare) as opened:
        await program(opened, bare, "open('hooks/pre-receive', 'w').write('evil')")
        await program(opened, bare, "open('config', 'a').write('[alias]')")
        identity = "git -c user.name=a -c user.email=a@example.org"
        outcome = await run(opened, f"cd main && echo b > b.txt && git add . && {identity} commit -q -m b")
    assert said(outcome) == ALLOWED
    assert not (bare / "hooks/pre-receive").exists()
    assert (bare / "config").read_text() == config


FAKE = """
os.makedirs("objects", exist_ok=True)
os.makedirs("refs")
open("config", "w").write("[core]\\nfsmonitor = ./x\\n")
if not os.path.exists("HEAD"):
    open("HEAD", "w").write("ref: refs/heads/a\\n")
"""


@pytest.mark.usefixtures("sandbox")
async def test_a_program_does_not_turn_the_root_into_a_repository(tmp_path: Path) -> None:
    """Its `HEAD` is taken away, and the folder is no repository afterwards: nothing asks because of it."""
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "a.txt").write_text("a\n")
    async with runtime(plain) as opened:
        outcome = await program(opened, plain, FAKE)
    assert not (plain / "HEAD").exists()
    assert len([text for text in outcome.warnings if "HEAD" in text]) == 1
    assert [text for text in outcome.warnings if "HEAD" in text and "taken away" in text]


@pytest.mark.usefixtures("sandbox")
async def test_a_folder_whose_head_was_taken_away_is_an_ordinary_one(work: Path) -> None:
    """What was made a repository and undone is forgotten within the same run."""
    (work / "src").mkdir()
    (work / "src/main.py").write_text("")
    async with runtime(work, "once", "no") as opened:
        await program(opened, work, f"os.chdir('src'){FAKE}")
        assert await write(opened, "src/further.py") == ALLOWED


@pytest.mark.usefixtures("sandbox")
async def test_a_program_completes_no_folder_that_holds_a_head(work: Path) -> None:
    """A fixture of a project may hold `HEAD`; what turns its folder into a repository is taken away."""
    (work / "fixture").mkdir()
    (work / "fixture/HEAD").write_text("ref: refs/heads/a\n")
    async with runtime(work) as opened:
        outcome = await program(opened, work, f"os.chdir('fixture'){FAKE}")
    assert sorted(os.listdir(work / "fixture")) == ["HEAD", "config", "objects"]
    assert [text for text in outcome.warnings if "fixture/refs" in text and "taken away" in text]


# ── links ────────────────────────────────────────────────────────────────────────────────────


async def test_tools_write_no_hook_behind_a_link(work: Path) -> None:
    """`.git/hooks`, `.git/config` or one hook may be links into the working tree."""
    shutil.rmtree(work / ".git/hooks")
    (work / "githooks").mkdir()
    (work / "scripts").mkdir()
    (work / "scripts/check.sh").write_text("#!/bin/sh\n")
    (work / "githooks/pre-push").symlink_to("../scripts/check.sh")
    (work / ".git/hooks").symlink_to("../githooks")
    (work / "conf").mkdir()
    os.rename(work / ".git/config", work / "conf/config")
    (work / ".git/config").symlink_to("../conf/config")
    with open(work / "conf/config", "a") as file:
        file.write("[include]\n\tpath = ../team.gitconfig\n")
    async with headless(work) as opened:
        assert await write(opened, "githooks/pre-commit") == DENIED
        assert await edit(opened, "scripts/check.sh", "sh") == DENIED
        assert await edit(opened, "conf/config", "[core]") == DENIED
        # Git takes this from the folder of the link, and this from the folder of the file.
        assert await write(opened, "team.gitconfig") == DENIED
        assert await write(opened, "conf/other") == ALLOWED
        assert await write(opened, "scripts/other.sh") == ALLOWED


@pytest.mark.usefixtures("sandbox")
async def test_a_program_writes_no_hook_behind_a_link(work: Path) -> None:
    """They are locked where they lie."""
    shutil.rmtree(work / ".git/hooks")
    (work / "githooks").mkdir()
    (work / ".git/hooks").symlink_to("../githooks")
    async with runtime(work) as opened:
        outcome = await program(opened, work, "open('githooks/pre-commit', 'w').write('evil')")
    assert said(outcome) == "EXIT_NONZERO"
    assert not (work / "githooks/pre-commit").exists()


@pytest.mark.usefixtures("sandbox")
async def test_a_link_called_git_that_a_program_replaces_is_told(work: Path) -> None:
    """No lock holds a link; the person is told that another repository is in effect."""
    os.rename(work / ".git", work / ".bare")
    (work / ".git").symlink_to(".bare")
    code = "import shutil\nshutil.copytree('.bare', 'evil')\nos.unlink('.git')\nos.symlink('evil', '.git')"
    async with runtime(work) as opened:
        outcome = await program(opened, work, code)
    assert [text for text in outcome.warnings if "/.git leads to another repository" in text and "evil" in text]


# ── scripts that configs name ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("key", "value", "file"),
    [
        ("core.fsmonitor", "tools/watch.sh", "tools/watch.sh"),
        ("filter.strip.clean", "python3 tools/strip.py %f", "tools/strip.py"),
        ("diff.x.textconv", "'./tools/show.sh'", "tools/show.sh"),
        ("merge.x.driver", "env A=1 tools/merge.sh %O %A", "tools/merge.sh"),
        ("alias.up", "!sh tools/up.sh", "tools/up.sh"),
        ("core.sshCommand", "tools/ssh -i key", "tools/ssh"),
        ("init.templateDir", "templates", "templates/hooks/pre-commit"),
    ],
)
async def test_tools_change_no_script_that_a_config_names(work: Path, key: str, value: str, file: str) -> None:
    """Git runs it outside any sandbox, as it runs a hook."""
    git(work, "config", key, value)
    async with headless(work) as opened:
        assert await write(opened, file) == DENIED
        assert await write(opened, "tools/other.py") == ALLOWED


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("alias.lint", "!ruff check src/app.py"),
        ("alias.st", "status"),
        ("core.editor", "vim"),
        ("credential.helper", "store --file .creds"),
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("user.name", "src/app.py"),
        ("core.fsmonitor", "true"),
        ("alias.x", "!"),
        ("alias.y", "!python3 -m src/app.py"),
    ],
)
def test_what_a_command_only_works_on_is_not_protected(key: str, value: str) -> None:
    """Programs that are found by name are none of the project's."""
    assert program_of(key.lower(), value) == ""


# ── branches ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("sandbox")
async def test_branches_may_have_the_names_of_git_files(work: Path) -> None:
    """They lie below `refs` and `logs`, where git looks for no hooks."""
    async with runtime(work) as opened:
        outcome = await run(opened, "git branch hooks && git branch feature/config && git branch gitdir")
    assert (said(outcome), outcome.warnings) == (ALLOWED, ())
    assert git(work, "branch", "--format=%(refname:short)").split()[:3] == ["feature/config", "gitdir", "hooks"]

"""What programs plant, once more at the border: it goes to a layer, and nothing of it reaches the workspace."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from attacks import _at_border, test_own_code
from attacks._border import border, picture
from attacks._sandbox_users import USERS
from attacks.test_other_repositories import FAKE
from attacks.test_planted import PLANT
from attacks.test_planted_commands import READS
from attacks.test_planted_to_stay import DEEP, FLOOD
from behaviour._commands import need_sandbox, run, runtime
from handrail.testing import ScriptedApprover

TAKES_EFFECT = (".git/hooks", ".git/commondir", ".git/config.worktree", "handrail.toml", "tools/githooks")


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


@pytest.fixture
def repository(work: Path) -> Path:
    """A repository without hooks whose config names a folder for them and a further file, none of which is there."""
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run([*git, "init", "-q", "--template=", "-b", "main", str(work)], check=True)
    (work / "src").mkdir()
    (work / "src/main.py").write_text("x\n")
    (work / "a.txt").write_text("one\n")
    for words in (("add", "-A"), ("commit", "-qm", "one"), ("config", "core.hooksPath", "tools/githooks")):
        subprocess.run([*git, *words], cwd=work, check=True)
    subprocess.run([*git, "config", "include.path", "../later.gitconfig"], cwd=work, check=True)
    return work


def there(work: Path) -> list[str]:
    """Name what is in effect of all that was planted."""
    return [name for name in (*TAKES_EFFECT, "later.gitconfig") if os.path.lexists(work / name)]


PLANTS = {
    "hooks and settings": PLANT,
    "a flood of protected files": FLOOD.replace("sys.argv[1]", '"."'),
    "folders without end": DEEP,
    "hooks where a config looks": "import os; os.makedirs('tools/githooks'); open('tools/githooks/pre-commit', 'w')",
    "a link to hooks": "import os; os.makedirs('evil/githooks'); os.symlink('evil', 'tools')",
    "a link above hooks": "import os; os.makedirs('evil'); open('evil/pre-commit', 'w'); os.mkdir('tools'); "
    "os.symlink('../evil', 'tools/githooks')",
    "a file that a config includes": "open('later.gitconfig', 'w').write('[alias]')",
    "a used folder as a repository": FAKE,
    "a bare repository": "import subprocess; subprocess.run(['git', 'init', '-q', '--bare', 'new.git'])",
    "commands in a rebase": "import os; os.mkdir('.git/rebase-merge'); "
    "open('.git/rebase-merge/git-rebase-todo', 'w').write('exec evil')",
    "a worktree's own config": "open('.git/config.worktree', 'w').write('[core]\\n\\tfsmonitor = evil')",
    "another folder for git": "open('.git/gitdir', 'w').write('/evil')",
    "a file for git": "import os; os.mkdir('sub'); open('sub/.git', 'w').write('gitdir: ../evil')",
}


@pytest.mark.parametrize("answer", ["no", "once"])
@pytest.mark.parametrize("code", PLANTS.values(), ids=PLANTS.keys())
async def test_nothing_that_a_program_plants_takes_effect(repository: Path, code: str, answer: str) -> None:
    """Whether the person says yes or no; without a yes, no file that git or others look at is new at all."""
    (repository / "plant.py").write_text(code)
    before = picture(repository)
    async with border(repository, answer) as opened:
        for line in ("python3 plant.py", "python3 plant.py; exit 3"):
            await run(opened, line)
    assert there(repository) == []
    new = {name: what for name, what in picture(repository).items() if name not in before}
    if answer == "no":
        assert [name for name in new if name.startswith(".git/") or name.rpartition("/")[2] == "HEAD"] == []
    hooks = [name for name in new if name.endswith(("/pre-commit", "/pre-push")) and "hooks/" in name]
    assert [name for name in hooks if not name.startswith("evil/")] == []


async def test_a_program_that_times_out_keeps_nothing_planted_either(repository: Path) -> None:
    """Its changes are judged like those of one that ended by itself."""
    (repository / "plant.py").write_text(PLANT)
    async with border(repository) as opened:
        outcome = await run(opened, "python3 plant.py; echo kept > kept.txt; sleep 60", timeout_seconds=2)
    assert outcome.error is not None
    assert outcome.error.code == "TIMEOUT"
    assert there(repository) == []
    assert (repository / "kept.txt").read_text() == "kept\n"


@pytest.mark.parametrize(
    "key", ["filter.evil.clean", "diff.evil.textconv", "diff.external", "core.fsmonitor", "gpg.program"]
)
async def test_programs_that_a_repository_names_run_inside_at_most(work: Path, tmp_path: Path, key: str) -> None:
    """Nobody is asked, and nothing outside is touched: neither a file there, nor a protected one."""
    mark = tmp_path / "outside-mark"
    (work / "evil.sh").write_text(f"#!/bin/sh\ntouch {mark} handrail.toml .env.evil\ncat\n")
    (work / "evil.sh").chmod(0o755)
    (work / "a.txt").write_text("one\n")
    (work / ".gitattributes").write_text("*.txt filter=evil diff=evil\n")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(work))
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "one"), ("config", key, "./evil.sh")):
        subprocess.run([*git, *words], check=True)
    (work / "a.txt").write_text("two\n")
    approver = ScriptedApprover(lambda _: "once")
    async with border(work, approver=approver) as opened:
        for line in READS:
            await run(opened, line)
    assert approver.asked == []
    assert not mark.exists()
    assert [name for name in ("handrail.toml", ".env.evil") if (work / name).exists()] == []


@pytest.mark.parametrize("folder", ["node_modules/.bin", ".venv/bin"])
async def test_a_planted_command_runs_inside_at_most(work: Path, tmp_path: Path, folder: str) -> None:
    """Whoever calls `ls` there gets the project's program, in the sandbox."""
    mark = tmp_path / "outside-mark"
    (work / folder).mkdir(parents=True)
    (work / folder / "ls").write_text(f"#!/bin/sh\ntouch {mark} inside-mark\n")
    (work / folder / "ls").chmod(0o755)
    async with border(work) as opened:
        outcome = await run(opened, "ls")
    assert outcome.data["files_changed"] == ["inside-mark"]
    assert not mark.exists()


@pytest.mark.parametrize("user", USERS)
def test_tools_and_programs_cannot_change_a_gate_in_the_project_at_the_border(
    user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same calls, the same outcomes."""
    direct = '{{"allow": ["*"]}}'
    assert direct in test_own_code.CALLS
    at_border = '{{"workspace": "review", "ask": "border"}}'
    monkeypatch.setattr(test_own_code, "CALLS", test_own_code.CALLS.replace(direct, at_border))
    test_own_code.test_tools_and_programs_cannot_change_a_gate_in_the_project(user)


async def test_the_second_time_is_at_the_border(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What other attacks are given for their second time lets lines run, and judges changes."""
    _at_border.open_at_border(monkeypatch)
    approver = ScriptedApprover(lambda _: "no")
    async with runtime(work, approver=approver, config={"tools": {"enable": ["exec"]}}) as opened:
        fine = await run(opened, 'eval "$(printf "echo x > y")"')
        asked = await run(opened, "echo x > AGENTS.md")
    assert (fine.ok, len(approver.asked)) == (True, 1)
    assert asked.content.startswith("Not kept: AGENTS.md")


def test_every_suite_that_is_named_is_there_and_so_is_every_exception() -> None:
    """A name that was changed would leave its tests out."""
    here = Path(__file__).parent
    names = {path.stem for path in here.glob("test_*.py")}
    assert names >= _at_border.SUITES | _at_border.LONG
    texts = "".join((here / f"{name}.py").read_text() for name in _at_border.SUITES | _at_border.LONG)
    missing: list[Any] = [name for name in _at_border.OTHERWISE if f"def {name}(" not in texts]
    assert missing == []

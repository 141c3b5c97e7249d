"""The table of changes at the border, row by row: each test fails when the rule of its row is taken out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from attacks._border import border
from behaviour._commands import need_sandbox, run
from handrail import Outcome
from handrail.policy import caches, runs_elsewhere
from handrail.testing import ScriptedApprover
from workspaces import below


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


@pytest.fixture
def repository(work: Path) -> Path:
    """A repository with two commits and a branch."""
    (work / "a.txt").write_text("one\n")
    (work / "b.txt").write_text("two\n")
    git(work, "init", "-q", "-b", "main")
    git(work, "config", "user.name", "Ann")
    git(work, "config", "user.email", "ann@example.org")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "one")
    git(work, "branch", "topic")
    git(work, "commit", "-qm", "two", "--allow-empty")
    return work


def git(folder: Path, *words: str) -> str:
    """Run git as the person would."""
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


async def at_border(
    work: Path, line: str, answer: str = "no", config: dict[str, Any] | None = None, *, undo: bool = False
) -> tuple[Outcome, ScriptedApprover]:
    """Run one command, and take back what it did where that is wanted."""
    approver = ScriptedApprover(lambda _: answer)
    async with border(work, approver=approver, config=config) as opened:
        outcome = await run(opened, line)
        if undo:
            undone = await opened.undo(outcome.call_id)
            assert undone.ok, undone.content
    return outcome, approver


# ── caches: a closed table ───────────────────────────────────────────────────────────────────

# As the design has them, and what else belongs to the same tools.
CACHES = ("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", "node_modules", "target")


def fill(folder: Path, count: int = 8) -> None:
    """Make more files than are deleted without a question."""
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / str(number)).write_text(f"{number}\n")


async def test_every_cache_of_the_table_goes_without_a_question_and_comes_back(work: Path) -> None:
    """However many files are in it, at any depth; undo puts them back while there is room."""
    assert {*CACHES} <= caches.NAMES | {*caches.BESIDE}
    for name in caches.NAMES:
        fill(work / name)
        fill(work / "deep/er" / name)
    for name, beside in caches.BESIDE.items():
        fill(work / "built" / name)
        (work / "built" / beside[0]).write_text("")
    before = below(work)
    names = " ".join(f"{name} deep/er/{name}" for name in caches.NAMES)
    outcome, approver = await at_border(work, f"rm -rf {names} built/*/", undo=True)
    assert outcome.ok, outcome.content
    assert approver.asked == []
    assert below(work) == before


@pytest.mark.parametrize(
    "name", ["build", "dist", ".venv", "vendor", "cache", "NODE_MODULES", "node_modules2", "target"]
)
async def test_no_other_folder_counts_as_a_cache(work: Path, name: str) -> None:
    """The table is closed: a name that is missing in it is ordinary work."""
    fill(work / name)
    _, approver = await at_border(work, f"rm -rf {name}")
    assert ["deletes more than 5 files" in request.reason for request in approver.asked] == [True]
    assert (work / name / "7").exists()


async def test_files_of_a_cache_do_not_count_as_bulk_with_others(work: Path) -> None:
    """Five ordinary ones and a cache are five."""
    fill(work / "node_modules")
    fill(work / "d", 5)
    _, approver = await at_border(work, "rm -rf node_modules d/?")
    assert approver.asked == []
    _, approver = await at_border(work, "touch d/{1,2,3,4,5}; rm -rf d", "once")
    assert approver.asked == []


async def test_a_cache_takes_no_room_of_other_files_and_what_is_lost_of_it_is_said_once(work: Path) -> None:
    """Undo puts back what is no cache, whatever the cache held."""
    fill(work / "node_modules", 20)
    for number in range(20):
        (work / "node_modules" / str(number)).write_bytes(os.urandom(50_000))
    (work / "z.txt").write_bytes(os.urandom(400_000))
    former = (work / "z.txt").read_bytes()
    outcome, approver = await at_border(
        work, "rm -rf node_modules; echo x > z.txt", config={"undo": {"max_bytes": 500_000}}, undo=True
    )
    assert approver.asked == []
    assert (work / "z.txt").read_bytes() == former
    assert [text for text in outcome.warnings if "files of caches cannot be put back" in text] == [*outcome.warnings]
    assert len(outcome.warnings) == 1


async def test_a_cache_beside_git_s_own_file_is_none(repository: Path) -> None:
    """A submodule or worktree: what its index tracks is not looked up, so nothing of it counts as a cache."""
    fill(repository / "sub/node_modules")
    (repository / "sub/.git").write_text("gitdir: ../.git/modules/sub\n")
    _, approver = await at_border(repository, "rm -rf sub/node_modules")
    assert len(approver.asked) == 1


# ── what git ignores ─────────────────────────────────────────────────────────────────────────


async def test_ignored_files_are_kept_like_others_while_they_can_be_put_back(repository: Path) -> None:
    """New, changed and deleted ones."""
    (repository / ".gitignore").write_text("data/\n")
    fill(repository / "data", 3)
    before = below(repository)
    line = "echo x > data/new; echo y > data/1; rm data/2"
    outcome, approver = await at_border(repository, line, undo=True)
    assert outcome.ok
    assert approver.asked == []
    assert below(repository) == before


@pytest.mark.parametrize(
    "line", ["rm data/set", "truncate -s 1 data/set", "mv data/set data/other", "echo x > data/set"]
)
async def test_an_ignored_file_without_a_former_content_that_can_be_kept_asks(repository: Path, line: str) -> None:
    """A data set or a database: being ignored lifts nothing."""
    (repository / ".gitignore").write_text("data/\n")
    (repository / "data").mkdir()
    (repository / "data/set").write_bytes(b"x" * 3000)
    config = {"undo": {"max_file_bytes": 2000}}
    _, approver = await at_border(repository, line, config=config)
    assert ["too large to be put back" in request.reason for request in approver.asked] == [True]
    assert (repository / "data/set").stat().st_size == 3000


async def test_room_for_former_contents_is_counted_over_all_changes(work: Path) -> None:
    """Each of them fits, all together do not."""
    for number in range(4):
        (work / str(number)).write_bytes(os.urandom(1000))
    _, approver = await at_border(work, "for i in 0 1 2 3; do echo x > $i; done", config={"undo": {"max_bytes": 2500}})
    assert len(approver.asked) == 1
    assert "too large to be put back" in approver.asked[0].reason
    assert sorted((work / str(number)).stat().st_size for number in range(4)) == [2, 2, 1000, 1000]


# ── below `.git` ─────────────────────────────────────────────────────────────────────────────

KEPT = {
    "objects": ("echo new | git hash-object -w --stdin", "objects/"),
    "index": ("git rm -q --cached b.txt", "index"),
    "HEAD": ("git symbolic-ref HEAD refs/heads/topic", "HEAD"),
    "ORIG_HEAD": ("git reset -q HEAD~1", "ORIG_HEAD"),
    "COMMIT_EDITMSG": ("git commit -q --allow-empty -m x", "COMMIT_EDITMSG"),
    "refs/heads": ("git update-ref refs/heads/new HEAD", "refs/heads/new"),
    "refs/heads that goes": ("git branch -qD topic", "refs/heads/topic"),
    "refs/tags": ("git tag v1", "refs/tags/v1"),
    "refs/stash": ("echo x >> a.txt; git stash -q", "refs/stash"),
    "logs of HEAD": ("git commit -q --allow-empty -m x", "logs/HEAD"),
    "logs of branches": ("git commit -q --allow-empty -m x", "logs/refs/heads/main"),
    "logs of the stash": ("echo x >> a.txt; git stash -q", "logs/refs/stash"),
    "packed-refs": ("git pack-refs --all", "packed-refs"),
}


@pytest.mark.parametrize(("line", "path"), KEPT.values(), ids=KEPT.keys())
async def test_what_git_writes_when_it_commits_is_kept_and_undone(repository: Path, line: str, path: str) -> None:
    """Nobody is asked."""
    before = below(repository)
    outcome, approver = await at_border(repository, line, undo=True)
    assert outcome.ok, outcome.content
    assert approver.asked == []
    assert [name for name in outcome.data["files_changed"] if name.startswith(f".git/{path}")]
    assert below(repository) == before


ASKED = (
    "objects/info/alternates", "objects/info/commit-graph", "objects/info/packs", "objects/pack/x.keep",
    "info/exclude", "info/attributes", "info/grafts", "info/refs", "info/sparse-checkout", "refs/remotes/origin/main",
    "refs/replace/" + "1" * 40, "refs/notes/commits", "refs/bisect/bad", "refs/x", "logs/refs/remotes/origin/main",
    "shallow", "rebase-merge/git-rebase-todo", "rebase-apply/next", "sequencer/todo", "modules/sub/HEAD",
    "modules/sub/index", "worktrees/w/HEAD", "worktrees/w/index", "MERGE_HEAD", "FETCH_HEAD", "CHERRY_PICK_HEAD",
    "AUTO_MERGE", "BISECT_LOG", "description", "index.lock", "refs/heads/x.lock", "sharedindex." + "1" * 40, "lfs/x",
    "packed-refs.lock", "gc.pid", "branches/x", "new",
)  # fmt: skip


async def test_everything_else_below_git_asks(repository: Path) -> None:
    """One by one; without a yes it is not there, and the rest of the command is."""
    before = {name: what for name, what in below(repository).items() if what is not None}
    approver = ScriptedApprover(lambda _: "no")
    async with border(repository, approver=approver) as opened:
        for number, path in enumerate(ASKED):
            line = f"mkdir -p $(dirname .git/{path}); echo x >> .git/{path}; echo {number} > kept.txt"
            outcome = await run(opened, line)
            assert len(approver.asked) == number + 1, (path, outcome.content)
            assert "own records" in approver.asked[-1].reason, path
            assert path in approver.asked[-1].diff
            before["kept.txt"] = f"{number}\n".encode()
            assert {name: what for name, what in below(repository).items() if what is not None} == before, path


@pytest.mark.parametrize("path", ["hooks/pre-commit", "config", "config.worktree", "commondir", "gitdir"])
async def test_hooks_and_config_are_denied_as_ever(repository: Path, path: str) -> None:
    """Also where a person would say yes."""
    before = below(repository)
    code = f"import os; os.makedirs(os.path.dirname('.git/{path}'), exist_ok=True); open('.git/{path}', 'a').write('x')"
    _, approver = await at_border(repository, f'python3 -c "{code}"', "once")
    assert approver.asked == []
    assert below(repository) == before


# ── files that make programs run elsewhere ───────────────────────────────────────────────────

# As the design has them, written down once more: a row that is taken out of the table is missed here.
DESIGNED = [
    ".hg/hgrc", ".gitconfig", ".config/git/config", ".config/git/attributes", ".bashrc", ".bash_profile",
    ".bash_login", ".profile", ".bash_logout", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
    ".config/fish/config.fish", ".yarnrc.yml", ".yarn/releases/yarn.cjs", ".pnpmfile.cjs", "bunfig.toml",
    ".cargo/config.toml", "lefthook.yml", ".husky/pre-commit", ".githooks/pre-commit", ".pre-commit-config.yaml",
    "mise.toml", ".exrc", ".nvim.lua", ".dir-locals.el", ".pdbrc", ".Rprofile", ".gdbinit", ".idea/workspace.xml",
    ".zed/tasks.json", "x.code-workspace", ".helix/config.toml", ".codex/config.toml", ".gemini/settings.json",
    ".cursor/rules", ".windsurf/rules", ".kiro/steering", ".roo/rules", "AGENTS.md", "CLAUDE.md",
    ".github/workflows/ci.yml", ".gitlab-ci.yml", ".gitea/workflows/ci.yml", ".forgejo/workflows/ci.yml",
    ".circleci/config.yml", ".travis.yml", ".drone.yml", ".woodpecker.yml", ".woodpecker/ci.yml",
    ".buildkite/pipeline.yml", ".cirrus.yml", ".semaphore/semaphore.yml", ".teamcity/settings.kts", ".builds/x.yml",
    ".build.yml", ".appveyor.yml", "appveyor.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml",
    "cloudbuild.yaml", "Jenkinsfile", ".config/systemd/user/x.service", ".config/autostart/x.desktop", ".local/bin/x",
    ".vscode/tasks.json", ".devcontainer/devcontainer.json", ".claude/settings.json", ".mcp.json", ".npmrc",
    ".gitattributes", ".gitmodules", ".vimrc",
]  # fmt: skip
ORDINARY = ("Makefile", "conftest.py", "package.json", "pyproject.toml", "src/main.rs", ".gitignore", "Dockerfile")


def everywhere(names: list[str]) -> list[str]:
    """Name files at the top and further below: they count at any depth."""
    return [*names, *(f"sub/folder/{name}" for name in names)]


async def test_every_file_that_makes_programs_run_elsewhere_asks_when_a_program_makes_it(work: Path) -> None:
    """One question for all of them that shows each; Makefile, conftest.py and package.json are ordinary work."""
    names = everywhere(DESIGNED)
    for start in range(0, len(names), 30):
        some = names[start : start + 30]
        line = "; ".join(f"mkdir -p $(dirname {name}); echo x > {name}" for name in [*some, *ORDINARY] if name)
        outcome, approver = await at_border(work, line)
        assert len(approver.asked) == 1, outcome.content
        assert [name for name in some if f"b/{name}" not in approver.asked[0].diff] == []
        assert [name for name in some if (work / name).exists()] == []
        assert [name for name in ORDINARY if not (work / name).exists()] == []


async def test_every_such_file_asks_when_it_is_changed_or_removed(work: Path) -> None:
    """Not only when it is new."""
    for name in DESIGNED:
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("before\n")
    approver = ScriptedApprover(lambda _: "no")
    async with border(work, approver=approver) as opened:
        for line in ("echo x >> {}", "rm {}"):
            for start in range(0, len(DESIGNED), 5):
                some = DESIGNED[start : start + 5]
                before = len(approver.asked)
                await run(opened, "; ".join(line.format(name) for name in some))
                assert len(approver.asked) == before + 1, some
                assert [name for name in some if name not in approver.asked[-1].diff] == []
    assert [name for name in DESIGNED if (work / name).read_text() != "before\n"] == []


async def test_every_such_file_asks_when_a_tool_writes_it(work: Path) -> None:
    """The same table."""
    approver = ScriptedApprover(lambda _: "no")
    async with border(work, approver=approver) as opened:
        for name in everywhere(DESIGNED):
            before = len(approver.asked)
            await opened.call("write_file", {"path": name, "content": "x\n"})
            assert len(approver.asked) == before + 1, name
        for name in ORDINARY:
            assert (await opened.call("write_file", {"path": name, "content": "x\n"})).ok, name
    assert [name for name in DESIGNED if (work / name).exists()] == []


def test_every_row_says_why() -> None:
    """A person reads it with the question."""
    assert len(runs_elsewhere.REASONS) >= 70
    assert all(len(why.split()) >= 4 for why in runs_elsewhere.REASONS.values())


@pytest.mark.parametrize(
    "path", [".envrc", ".env", ".env.local", ".aws/credentials", ".netrc", "id_rsa", "sub/.ssh/key"]
)
async def test_protected_files_and_key_material_are_never_kept(work: Path, path: str) -> None:
    """Not even with a yes; the rest is kept, and the first line says so."""
    code = f"import os; os.makedirs(os.path.dirname('./{path}'), exist_ok=True); open('{path}', 'w').write('x')"
    outcome, approver = await at_border(work, f'python3 -c "{code}"; echo kept > kept.txt', "once")
    assert approver.asked == []
    assert not (work / path).exists()
    assert (work / "kept.txt").exists()
    assert outcome.content.splitlines()[0].startswith("Not kept: ")
    assert path.split("/")[-1] in outcome.data["not_kept"]


# ── links ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("target", ["a.txt", "../a.txt", "/usr/bin/python3", "{work}/a.txt", "missing", "../d/../x"])
async def test_links_that_lead_inside_or_to_what_is_shown_read_only_are_kept(work: Path, target: str) -> None:
    """A venv's python is one."""
    (work / "d").mkdir()
    (work / "a.txt").write_text("x\n")
    outcome, approver = await at_border(work, f"ln -s {target.format(work=work)} d/link")
    expected = 1 if target == "../d/../x" else 0  # goes up from a name: another link could decide where that leads
    assert len(approver.asked) == expected, outcome.content
    assert os.path.lexists(work / "d/link") == (expected == 0)


@pytest.mark.parametrize(
    "target", ["/root", "../../outside", "/etc/passwd", "/proc/self/root", "/", "~/x", "/usr/../root"]
)
async def test_links_that_lead_out_ask(work: Path, target: str) -> None:
    """By any spelling."""
    (work / "d").mkdir()
    line = f"ln -s {target} d/link" if not target.startswith("~") else "ln -s $OLDPWD/../../x d/link"
    outcome, approver = await at_border(work, line)
    assert len(approver.asked) == 1, outcome.content
    assert "lead out of the roots" in approver.asked[0].reason
    assert not os.path.lexists(work / "d/link")


async def test_a_link_that_leads_out_by_way_of_another_asks(work: Path) -> None:
    """The person's own link leads out; a new one goes through it."""
    (work / "home").symlink_to("/root")
    (work / "lib").symlink_to("/usr/lib")
    outcome, approver = await at_border(work, "ln -s home/.ssh keys; ln -s lib/x fine; mkdir e; ln -s ../keys e/k")
    assert len(approver.asked) == 1, outcome.content
    assert sorted(approver.asked[0].impact["links that lead out of the roots"]) == ["e/k", "keys"]
    assert [os.path.lexists(work / name) for name in ("keys", "fine", "e/k")] == [False, True, False]


# ── programs where the shell looks ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("printf '#!/bin/sh\\n' > bin/x; chmod +x bin/x", True),
        ("cp /bin/true bin/true", True),
        ("chmod +x bin/notes", True),
        ("ln -s ../a.txt bin/x", True),
        ("echo x >> bin/tool", True),
        ("mkdir evil; cp /bin/true evil/x; rm way; ln -s evil way", True),
        ("ln -s bin later", True),
        ("echo x > bin/plain", False),
        ("rm bin/tool", False),
        ("mkdir bin/sub; cp /bin/true bin/sub/x", False),
    ],
)
async def test_executables_in_folders_of_the_callers_path_ask(
    work: Path, monkeypatch: pytest.MonkeyPatch, line: str, asked: bool
) -> None:
    """Also a link that leads the shell to another folder; other files there are ordinary work."""
    (work / "a.txt").write_text("x\n")
    for name in ("bin/tool", "bin/notes", "through/x"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text("#!/bin/sh\n")
    (work / "bin/tool").chmod(0o755)
    (work / "way").symlink_to("through")
    monkeypatch.setenv(
        "PATH", os.pathsep.join([*(str(work / name) for name in ("bin", "way", "later")), os.environ["PATH"]])
    )
    before = below(work)
    outcome, approver = await at_border(work, line)
    assert len(approver.asked) == asked, outcome.content
    if asked:
        assert "where your shell looks for commands" in approver.asked[0].reason
        named = [name for name in before if name.startswith(("bin", "way", "later"))]
        assert {name: below(work)[name] for name in named} == {name: before[name] for name in named}


# ── how it is asked and said ─────────────────────────────────────────────────────────────────


async def test_many_deletions_are_asked_for_once_with_the_list(work: Path) -> None:
    """Every file is named."""
    fill(work / "d", 12)
    outcome, approver = await at_border(work, "rm -rf d; echo x > new")
    assert len(approver.asked) == 1
    assert [number for number in range(12) if f"d/{number}" not in approver.asked[0].diff] == []
    assert (work / "new").exists()
    assert outcome.content.splitlines()[0].startswith("Not kept: ")


async def test_what_is_not_kept_is_in_the_runs_archive(work: Path) -> None:
    """The first line says where."""
    outcome, _ = await at_border(work, "echo text > AGENTS.md")
    first = outcome.content.splitlines()[0]
    assert first.startswith("Not kept: AGENTS.md.")
    assert "images/" in first
    assert outcome.data["not_kept"] in outcome.content


async def test_what_no_layer_can_hold_is_said_first_and_the_rest_is_kept(work: Path) -> None:
    """Pipes, sockets, names that cannot be shown: none of them drops what else a command did."""
    code = "import os, socket; os.mkfifo('pipe'); socket.socket(socket.AF_UNIX).bind('socket'); open('a\\nb', 'w')"
    outcome, approver = await at_border(work, f'python3 -c "{code}"; echo kept > kept.txt')
    assert outcome.ok, outcome.content
    assert approver.asked == []
    assert sorted(os.listdir(work)) == ["kept.txt"]
    assert outcome.content.startswith("Not kept: ")
    assert [name for name in ("pipe", "socket", "a\\u000ab") if name not in outcome.data["not_kept"]] == []

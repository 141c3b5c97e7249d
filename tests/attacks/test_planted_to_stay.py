"""What a program does so that what it planted is not found, or cannot be taken away."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from behaviour._commands import need_sandbox, run, runtime
from handrail.processes.protected import at, walked
from handrail.processes.taking import reach, take_away
from handrail.sandbox.plan import Plan
from handrail.words import Exclusion, Root
from handrail.workspace.access import Access
from handrail.workspace.beneath import choose
from handrail.workspace.roots import Roots

NOBODY = 65534
PLANTED = (".git/hooks/pre-commit", "handrail.toml")
LOCKED = (Exclusion(".git/**/hooks", "builtin.repository"), Exclusion("handrail.toml", "builtin.settings"))
FLOOD = """
import os, sys
for number in range(2100):
    os.mkdir(f"{sys.argv[1]}/d{number}")
    open(f"{sys.argv[1]}/d{number}/.env", "w").close()
os.mkdir(".git/hooks")
try:
    open(".git/hooks/pre-commit", "w").write("#!/bin/sh")
except FileNotFoundError:
    pass  # taken away already
open("handrail.toml", "w").write("[tools]")
print("planted")
"""
DEEP = """
import os
top = os.getcwd()
os.mkdir(".git/new")
open(".git/new/pre-commit", "w").write("#!/bin/sh")
os.chdir(".git/new")
for _ in range(1200):
    os.mkdir("d")
    os.chdir("d")
os.chdir(top)
os.rename(".git/new", ".git/hooks")
"""
BUSY = """
import os, time
file = os.open("handrail.toml", os.O_CREAT | os.O_RDWR)
os.ftruncate(file, 200 << 20)
for number in range(600_000):
    os.pwrite(file, b"[tools]#%d" % number, 0)
    time.sleep(0.001)
"""
SCRATCH = "$(awk '/\\/sandbox/{print $5}' /proc/self/mountinfo)"


@pytest.fixture
def repository(work: Path) -> Path:
    """A repository without hooks."""
    need_sandbox()
    for folder in (".git/objects", ".git/refs"):
        (work / folder).mkdir(parents=True)
    (work / ".git/HEAD").write_text("ref: refs/heads/main\n")
    return work


def left(work: Path) -> list[str]:
    """Which of the planted things stand there."""
    return [name for name in PLANTED if os.path.lexists(work / name)]


@pytest.mark.parametrize("where", [".", SCRATCH], ids=["workspace", "scratch"])
async def test_many_protected_files_elsewhere_hide_no_planted_hook(repository: Path, where: str) -> None:
    """More than a sandbox could mask: nothing is mounted for a look."""
    (repository / "flood.sh").write_text(f'python3 flood.py "{where}"')
    (repository / "flood.py").write_text(FLOOD)
    async with runtime(repository) as opened:
        outcome = await run(opened, "bash flood.sh")
    assert ("planted" in outcome.content, left(repository)) == (True, [])
    assert sum("it was taken away again" in text for text in outcome.warnings) == 2


@pytest.mark.parametrize(
    "line",
    [
        "mkdir .git/hooks; touch .git/hooks/.env .git/hooks/pre-commit",
        "mkdir -p .git/hooks/.ssh; touch .git/hooks/.ssh/id_rsa .git/hooks/pre-commit",
        "python3 deep.py",
    ],
    ids=["a protected file", "a protected folder", "folders without end"],
)
async def test_nothing_beside_a_planted_hook_keeps_it_from_being_taken_away(repository: Path, line: str) -> None:
    """No exclusion and no depth: all of it is the program's own."""
    (repository / "deep.py").write_text(DEEP)
    (repository / "s.sh").write_text(line)
    async with runtime(repository) as opened:
        outcome = await run(opened, "bash s.sh")
    assert sorted(os.listdir(repository / ".git")) == ["HEAD", "objects", "refs"]
    taken = "the program made .git/hooks, which no tool may do unasked (builtin.repository); it was taken away again"
    assert taken in outcome.warnings


async def test_a_job_does_not_keep_its_settings_file_by_writing_to_it(repository: Path) -> None:
    """A large file that never rests is neither hashed nor kept first."""
    (repository / "busy.py").write_text(BUSY)
    async with runtime(repository) as opened:
        await run(opened, "python3 busy.py", background=True)
        text = ""
        for _ in range(20):
            text += (await opened.call("job_read", {"job": "job-1", "wait_seconds": 1})).content
            if "handrail.toml" in text:
                break
        assert ("it was taken away again" in text, "could not" in text, left(repository)) == (True, False, [])
        assert "job-1 is running" in (await opened.call("job_list", {})).content


async def test_what_cannot_be_taken_away_is_said_to_be_in_effect(repository: Path) -> None:
    """Here the folder itself lets nothing be removed."""
    git = str(repository / ".git")
    (repository / "s.sh").write_text("mkdir .git/hooks")
    if shutil.which("chattr") is None or subprocess.run(["chattr", "+a", git], check=False).returncode:
        pytest.skip("chattr +a does not work here")
    try:
        async with runtime(repository) as opened:
            outcome = await run(opened, "bash s.sh")
    finally:
        subprocess.run(["chattr", "-a", git], check=True)
    told = "it could not be taken away and is IN EFFECT: Operation not permitted. Remove it by hand"
    made = "the program made .git/hooks, which no tool may do unasked (builtin.repository)"
    assert {*outcome.warnings} == {f"{made}; {told}"}


# ── as an ordinary user, whom a mode holds ──


@contextmanager
def ordinary() -> Iterator[None]:
    """Be one for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def ground() -> Iterator[Path]:
    """A repository of an ordinary user with hooks planted in it, and a folder `aside` next to it."""
    base = Path(tempfile.mkdtemp())
    for folder in ("aside", "ws/.git/hooks/a/b", "outside"):
        (base / folder).mkdir(parents=True)
    for file in ("ws/.git/hooks/pre-commit", "ws/.git/hooks/a/b/c", "ws/handrail.toml", "outside/kept"):
        (base / file).write_text("x")
    (base / "ws/.git/hooks/a/link").symlink_to(base / "outside")
    if os.geteuid() == 0:
        for folder, folders, files in os.walk(base):
            for name in (".", *folders, *files):
                os.chown(f"{folder}/{name}", NOBODY, NOBODY, follow_symlinks=False)
    yield base
    shutil.rmtree(base)


def access_to(base: Path) -> tuple[Access, Root]:
    """The one root of the ground."""
    root = Root("workspace", str(base / "ws"), writable=True)
    return Access(Roots((root,)), choose("auto"), None), root


CLOSED = {
    "inside": {".git/hooks/a/b": 0, ".git/hooks/a": 0o311},
    "itself": {".git/hooks": 0},
    "the repository": {".git": 0o555},
    "the repository, wholly": {".git": 0},
    "the root": {"": 0o555, ".git": 0o111},
    "the root, wholly": {"": 0},
}


@pytest.mark.parametrize("aside", ["aside", "not there"])
@pytest.mark.parametrize("closed", CLOSED.values(), ids=CLOSED.keys())
def test_no_mode_keeps_a_planted_thing(ground: Path, closed: dict[str, int], aside: str) -> None:
    """Folders are opened by their handles for the moment; those that stay have their mode back, no link is followed."""
    access, root = access_to(ground)
    for path, mode in closed.items():
        (ground / "ws" / path).chmod(mode)
    with ordinary():
        for path in (".git/hooks", "handrail.toml"):
            take_away(access, root, path, str(ground / aside))
    modes = {path: stat.S_IMODE((ground / "ws" / path).stat().st_mode) for path in closed if "hooks" not in path}
    assert modes == {path: mode for path, mode in closed.items() if "hooks" not in path}
    for path in closed:
        if "hooks" not in path:
            (ground / "ws" / path).chmod(0o755)
    found = sorted(os.path.relpath(path, ground) for path in ground.rglob("*"))
    assert found == ["aside", "outside", "outside/kept", "ws", "ws/.git"]
    access.roots.close()


def test_what_is_removed_is_told_from_the_inside_out(ground: Path) -> None:
    """As whoever puts it back needs it."""
    access, root = access_to(ground)
    changes = take_away(access, root, ".git/hooks", str(ground / "aside"))
    access.roots.close()
    assert [(change.path, change.op) for change in changes if change.op == "rmdir"] == [
        (".git/hooks/a/b", "rmdir"), (".git/hooks/a", "rmdir"), (".git/hooks", "rmdir"),
    ]  # fmt: skip
    assert sorted(change.path for change in changes if change.op == "delete") == [
        ".git/hooks/a/b/c", ".git/hooks/a/link", ".git/hooks/pre-commit",
    ]  # fmt: skip


@pytest.mark.parametrize("closed", [{".git": 0}, {".git": 0o111}, {"": 0}], ids=["closed", "unlisted", "root"])
def test_a_closed_folder_hides_nothing_where_it_would_matter(ground: Path, closed: dict[str, int]) -> None:
    """A walk names what it cannot list; the places known from before are opened for the look."""
    access, root = access_to(ground)
    plan = Plan((), (root.path,), (), LOCKED, (root,))
    for path, mode in closed.items():
        (ground / "ws" / path).chmod(mode)
    with ordinary():
        seen = walked(plan, [root])
        found, unseen = at(plan, [(root, ""), (root, ".git")], access)
    for path in closed:
        (ground / "ws" / path).chmod(0o755)
    access.roots.close()
    assert ({path for _, path in found}, unseen) == ({"handrail.toml", ".git/hooks"}, [])
    assert seen.unseen == tuple(str(ground / "ws" / path) for path in closed)


def test_a_link_in_the_way_is_not_followed(ground: Path) -> None:
    """A folder that was swapped for a link leads nowhere."""
    access, root = access_to(ground)
    (ground / "ws/swapped").symlink_to(ground / "outside")
    with pytest.raises(NotADirectoryError):
        take_away(access, root, "swapped/kept", str(ground / "aside"))
    with ExitStack() as held, pytest.raises(NotADirectoryError):
        reach(access, root, "swapped", held)
    access.roots.close()
    assert (ground / "outside/kept").exists()

"""What a program plants right before its runtime is killed: found and set aside by the next one that opens it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox, run, runtime
from handrail.policy.world import Repositories
from handrail.processes.watched import Watched, left_behind, standing
from handrail.settings import paths
from handrail.store.reader import events
from handrail.words import Root
from handrail.workspace.access import Access
from handrail.workspace.beneath import choose
from handrail.workspace.roots import Roots

# A runtime that looks for nothing itself, as one that is killed the moment before it would.
BLIND = """
import asyncio, os, signal, sys, threading, time
from pathlib import Path
from handrail import Runtime
from handrail.processes.planted import Guard
from handrail.testing import ScriptedApprover

async def nothing(self):
    if self._note is not None:
        self._note.seen()
    return []
Guard.after = nothing

def die():
    while not Path(sys.argv[1], sys.argv[2]).exists():
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    config = {"tools": {"enable": ["exec"]}}
    async with Runtime.open(sys.argv[1], config=config, approver=ScriptedApprover("once"), run_id="killed") as runtime:
        await runtime.call("run_command", {"command": "true"})
        if sys.argv[2]:
            threading.Thread(target=die, daemon=True).start()
        background = len(sys.argv) > 3
        await runtime.call("run_command", {"command": "bash plant.sh", "background": background})
        await asyncio.sleep(20)
asyncio.run(main())
"""
HOOK = ".git/hooks/pre-commit"


@pytest.fixture
def repository(work: Path) -> Path:
    """A workspace that is a repository without hooks."""
    need_sandbox()
    subprocess.run(["git", "init", "-q", "--template=", str(work)], check=True)
    plant = "mkdir .git/hooks; echo evil > .git/hooks/x; chmod 0 .git/hooks/x; mv .git/hooks/x .git/hooks/pre-commit"
    (work / "plant.sh").write_text(f"echo more > made; {plant}; sleep 20\n")
    return work


def told(run_id: str) -> list[dict[str, Any]]:
    """What a run's journal says of plants."""
    return [event for event in map(dict, events(paths.runs_dir() / run_id)) if event["kind"] == "planted.found"]


def killed(work: Path, *how: str) -> None:
    """Have a hook planted and the runtime killed at once."""
    done = subprocess.run([sys.executable, "-c", BLIND, str(work), HOOK, *how], timeout=40, check=False)
    assert (done.returncode, (work / HOOK).exists()) == (-signal.SIGKILL, True)


@pytest.mark.parametrize("how", [(), ("background",)], ids=["a command", "a job"])
async def test_what_was_planted_before_a_runtime_was_killed_is_set_aside_by_the_next(
    repository: Path, how: tuple[str, ...]
) -> None:
    """On opening, before any call; what else the program made stays, and the next command finds nothing to tell."""
    killed(repository, *how)
    async with runtime(repository, run_id="next") as opened:
        assert (repository / ".git/hooks").exists() is False
        outcome = await run(opened, "cat made")
    [event] = told("next")
    assert (event["run"], event["paths"], event["left"]) == ("killed", [".git/hooks"], [])
    assert [os.listdir(path) for path in event["aside"]] == [["pre-commit"]]
    assert (outcome.data["stdout"], outcome.warnings) == ("more\n", ())
    async with runtime(repository, run_id="third"):
        assert told("third") == []


async def test_a_runtime_of_another_workspace_leaves_it_to_those_it_concerns(repository: Path, tmp_path: Path) -> None:
    """It neither looks there, nor forgets it."""
    killed(repository)
    (tmp_path / "other").mkdir()
    async with runtime(tmp_path / "other", run_id="other"):
        assert ((repository / HOOK).exists(), told("other")) == (True, [])
    async with runtime(repository, run_id="next"):
        assert ((repository / HOOK).exists(), len(told("next"))) == (False, 1)


async def test_a_runtime_that_ends_well_leaves_no_note(repository: Path) -> None:
    """Also where commands failed to start, or were ended."""
    async with runtime(repository) as opened:
        await run(opened, "true")
        await run(opened, "sleep 5", timeout_seconds=0.2)
        await run(opened, "no-such-program-at-all")
        [note] = (paths.state_dir() / "unfinished").glob("*.watch")
        assert note.read_bytes()[:1] == b"0"
    assert [*(paths.state_dir() / "unfinished").iterdir()] == []


class Scene:
    """A note of one repository, and what another runtime would make of it."""

    def __init__(self, work: Path, notes: Path) -> None:
        (work / ".git").mkdir()
        (work / ".git/config").write_text("as it was")
        self.root, self.notes, self.git = Root("workspace", str(work), writable=True), notes, work / ".git"
        self.access = Access(Roots([self.root]), choose("auto"), None)
        self.note = Watched(str(notes), "dead")

    def begin(self) -> None:
        """Start a program."""
        stands = standing([(self.root, ""), (self.root, ".git")], [(self.root, ".git"), (self.root, ".git/config")])
        self.note.begin((), lambda: stands)

    def found(self) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """What is set aside, and what left."""
        return [(plants.paths, plants.left) for plants in left_behind(self.notes, [self.root], self.access)]

    def dies(self) -> None:
        """Let go of the lock, as the kernel does."""
        os.close(self.note._fd)
        self.note._fd = -1


@pytest.fixture
def scene(work: Path, tmp_path: Path) -> Any:
    made = Scene(work, tmp_path / "notes")
    yield made
    made.note.close()
    made.access.roots.close()


def test_a_note_whose_runtime_lives_is_left_alone(scene: Scene) -> None:
    """It looks itself."""
    scene.begin()
    (scene.git / "hooks").mkdir()
    assert (scene.found(), (scene.git / "hooks").exists()) == ([], True)


def test_what_stood_there_before_stays_whatever_became_of_it(scene: Scene) -> None:
    """A person may have changed it since; a program could not."""
    scene.begin()
    scene.dies()
    (scene.git / "config.new").write_text("by hand")
    os.rename(scene.git / "config.new", scene.git / "config")
    assert (scene.found(), (scene.git / "config").read_text()) == ([], "by hand")
    assert [*scene.notes.iterdir()] == []


def test_what_is_new_after_every_program_had_ended_is_a_persons(scene: Scene) -> None:
    """The note says that nothing ran when the runtime was killed."""
    scene.begin()
    scene.note.end()
    scene.dies()
    (scene.git / "hooks").mkdir()
    assert (scene.found(), (scene.git / "hooks").exists(), [*scene.notes.iterdir()]) == ([], True, [])


def test_what_is_much_younger_than_the_last_sign_of_life_is_told_and_left(scene: Scene) -> None:
    """No program lived so long; it may be a person's own hook."""
    scene.begin()
    long_ago = time.time() - 3600
    os.utime(scene.note._fd, (long_ago, long_ago))
    scene.dies()
    (scene.git / "hooks").mkdir()
    said = ".git/hooks is new, but younger than the programs of that run; look at it before you use it"
    assert (scene.found(), (scene.git / "hooks").exists()) == ([((), (said,))], True)


def test_of_several_roots_each_is_looked_after_by_whom_it_concerns(scene: Scene, tmp_path: Path) -> None:
    """Whoever opens one of them, or a folder above it, deals with that one; the note goes on for the other."""
    other = Root("more", str(tmp_path / "more"), writable=True)
    (tmp_path / "more" / ".git").mkdir(parents=True)
    roots = (scene.root, other)
    paths = [(root, path) for root in roots for path in (".git", ".git/config")]
    stands = standing([(root, folder) for root in roots for folder in ("", ".git")], paths)
    scene.note.begin((), lambda: stands)
    scene.dies()
    for folder in (scene.git, tmp_path / "more" / ".git"):
        (folder / "hooks").mkdir()
    assert [len(paths) for paths, _ in scene.found()] == [1]
    assert not (scene.git / "hooks").exists()
    assert ((tmp_path / "more" / ".git" / "hooks").exists(), len([*scene.notes.glob("*.watch")])) == (True, 1)
    above = Root("workspace", str(tmp_path), writable=True)
    access = Access(Roots([above]), choose("auto"), None)
    try:
        assert [plants.run_id for plants in left_behind(scene.notes, [above], access)] == ["dead"]
    finally:
        access.roots.close()
    assert ((tmp_path / "more" / ".git" / "hooks").exists(), [*scene.notes.glob("*.watch")]) == (False, [])


def test_settings_that_may_have_been_planted_elsewhere_are_told(scene: Scene) -> None:
    """In a folder that nobody noted: it may be older than the run, so it stays; what stood there before is not told."""
    sub, older = scene.git.parent / "sub", scene.git.parent / "older"
    for folder in (sub, older):
        folder.mkdir()
    (older / "handrail.toml").write_text("")
    stands = standing(
        [(scene.root, ""), (scene.root, ".git")],
        [(scene.root, ".git"), (scene.root, ".git/config"), (scene.root, "older/handrail.toml")],
    )
    scene.note.begin((), lambda: stands)
    (sub / "handrail.toml").write_text("")
    scene.dies()
    assert scene.found() == [((), ("sub/handrail.toml may be new; look at it before you use it",))]
    assert (sub / "handrail.toml").exists()


def test_repositories_by_another_name_are_looked_after(scene: Scene) -> None:
    """Hooks of one that was noted are set aside, as is what its config names; one that was made is reported."""
    work = scene.git.parent
    bare = work / "store.bare"
    for name in ("objects", "refs"):
        (bare / name).mkdir(parents=True)
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    (bare / "config").write_text("[core]\n\thooksPath = ../tools/hooks\n")
    stands = standing(
        [(scene.root, ""), (scene.root, ".git"), (scene.root, "store.bare")],
        [(scene.root, ".git"), (scene.root, ".git/config"), (scene.root, "store.bare/config")],
    )
    known = Repositories(folders=(str(bare),), named=(str(work / "tools/hooks"),))
    scene.note.begin((), lambda: stands, known)
    (bare / "hooks").mkdir()
    (work / "tools/hooks").mkdir(parents=True)
    for name in ("objects", "refs"):
        (work / "src" / name).mkdir(parents=True)
    (work / "src/HEAD").write_text("ref: refs/heads/main\n")
    scene.dies()
    [(paths, left)] = scene.found()
    assert sorted(paths) == ["store.bare/hooks", "tools/hooks"]
    assert left == ("src/HEAD may be new, and makes git use its folder as a repository; look at it before you use git",)
    assert [path.exists() for path in (bare / "hooks", work / "tools/hooks", bare / "config")] == [False, False, True]


BARE_HOOK = "store.bare/hooks/pre-commit"


async def test_a_hook_in_a_repository_by_another_name_is_set_aside_after_a_kill(work: Path) -> None:
    """Through a real runtime that is killed."""
    need_sandbox()
    subprocess.run(["git", "init", "-q", "--bare", "--template=", str(work / "store.bare")], check=True)
    plant = f"mkdir store.bare/hooks; echo evil > store.bare/hooks/x; mv store.bare/hooks/x {BARE_HOOK}; sleep 20\n"
    (work / "plant.sh").write_text(plant)
    done = subprocess.run([sys.executable, "-c", BLIND, str(work), BARE_HOOK], timeout=40, check=False)
    assert (done.returncode, (work / BARE_HOOK).exists()) == (-signal.SIGKILL, True)
    async with runtime(work, run_id="next"):
        assert not (work / BARE_HOOK).exists()
    [event] = told("next")
    assert (event["paths"], event["left"]) == (["store.bare/hooks"], [])


@pytest.mark.parametrize("data", [b"", b"1", b"1handrail-watch-1\n", b"1handrail-watch-1\n[1, 2]", b"\xff" * 99])
def test_a_note_that_nobody_of_ours_wrote_moves_nothing(scene: Scene, data: bytes) -> None:
    """Nor does it keep a workspace from being opened."""
    scene.notes.mkdir()
    (scene.notes / "a.watch").write_bytes(data)
    (scene.notes / "b.watch").symlink_to("/etc/passwd")
    os.mkfifo(scene.notes / "c.watch")
    (scene.git / "hooks").mkdir()
    assert (scene.found(), (scene.git / "hooks").exists()) == ([], True)

"""Random lines at the border: nothing outside changes, nothing protected is read, and undo takes back the rest."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from attacks._border import (
    HIDDEN,
    LOCKED,
    border,
    find_secret,
    gives_away,
    make_scene,
    picture,
    said_by,
    without_caches,
)
from attacks.test_shell_fuzz import JOINTS, generated
from behaviour._commands import need_sandbox, run
from handrail import Runtime
from handrail.errors import Misuse

SCALE = int(os.environ.get("HANDRAIL_TEST_SCALE", "1"))
LINES = 300 if SCALE == 1 else 1000 * SCALE
PART = 100  # lines of one test: several processes share them
TIMEOUT = 1.5
_PROTECTED = (*HIDDEN, *LOCKED, ".ssh", ".git", ".git/hooks", "inner/.git", "deploy/secrets", "deploy", "conf", "home")
_RECORDS = (
    ".git/HEAD", ".git/index", ".git/refs/heads/main", ".git/refs/heads/topic", ".git/objects", ".git/packed-refs",
    ".git/info/exclude", ".git/objects/info/alternates", ".git/refs/remotes/origin/main", ".git/logs", ".git/new",
)  # fmt: skip
_OUTSIDE = ("../outside/secret", "../outside", "link-out/secret", "link-out", "/", "~", "/tmp/x", "/etc/hostname", "..")
_INSIDE = (
    "a.txt", "b.txt", "src/main.py", "src", "d/0", "d/1", "d/2", "d", "dlink", "dlink/1", "link", "empty", "tool.sh",
    "new", "new/deep/er", "'new name'", "data", "data/set.bin", "node_modules", "node_modules/p", "__pycache__",
    "inner/x", "inner", ".gitignore", "AGENTS.md", ".github/workflows/ci.yml", ".vscode/tasks.json", ".envrc", "*", ".",
    "./-x", "é", "big.txt", ".env.example", ".env.new", "bin/zapper",
)  # fmt: skip
_LINES = (
    "rm -rf {}", "rm {}", "rmdir {}", "mv {} {}", "mv -T {} {}", "mv {} new/", "cp -r {} {}", "cp -a {} {}",
    "cp -al {} {}", "ln -s {} {}", "ln -sfn {} {}", "ln {} {}", "ln -f {} {}", "touch {}", "touch -d 2001-01-01 {}",
    "truncate -s 0 {}", "truncate -s 5M {}", "chmod 600 {}", "chmod 000 {}", "chmod -R u-w {}", "chmod 4755 {}",
    "mkdir {}", "mkdir -p {}/x/y", "mkdir -m 700 {}", "echo x > {}", "echo x >> {}", "cat {} > {}", "cat {}",
    "head -c 99 {}", "base64 {}", "rev {}", "grep -r lighthouse {}", "tee {} < a.txt", "dd if=a.txt of={} 2>&1",
    "sed -i s/o/0/ {}", "sort -o {} big.txt", "install -m 755 a.txt {}", "find {} -delete",
    "find {} -type f -exec rm {{}} +", "tar cf {} src; tar xf {} -C new",
    "tar cf - {} | (mkdir -p new; tar xf - -C new)", "split -l 900 big.txt {}", "mkfifo {}", "mknod {} c 0 0",
    "git add -A", "git add {}", "git commit -qam two", "git checkout -q -b other", "git checkout -q topic",
    "git stash -u", "git reset -q --hard", "git clean -qfdx", "git rm -rqf {}", "git mv {} {}", "git tag v1",
    "git branch -D topic", "git gc -q", "git init -q {}", "git worktree add -q {}",
    "git update-index --assume-unchanged {}", "git rm --cached {}", "git pack-refs --all", "git repack -adq",
    "git config core.hooksPath {}", "git -C inner commit -qam two", "git show HEAD:{}", "git clone -q . {}",
    "git update-ref refs/remotes/origin/main HEAD", "git diff --no-index a.txt {}",
    "python3 -c 'import os; os.rename(\"{}\", \"{}\")'", "python3 -c 'import os; os.link(\"{}\", \"{}\")'",
    "python3 -c 'import os; os.setxattr(\"{}\", \"user.x\", b\"y\")'",
    "python3 -c 'import os; os.utime(\"{}\", (1, 1))'", "python3 -c 'import shutil; shutil.rmtree(\"{}\")'",
    "python3 -c 'open(\"a\\nb\", \"w\"); open(b\"c\\xff\", \"w\")'",
    "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"{}\")'",
    "python3 -c 'print(open(\"{}\").read()[::-1])'", "python3 -c 'import os; os.makedirs(\"/\".join([\"x\"] * 180))'",
    "python3 -c 'open(\"n\" * 255, \"w\")'", "(sleep 0.2; echo late > late) &",
    "nohup sh -c 'sleep 9; echo late > late' &", "exec 3> {}; echo x >&3", "cd {} && rm -rf *",
    "cd {} && echo x > here", "for f in {}/*; do mv \"$f\" \"$f.old\"; done",
    "while :; do echo x >> {}; sleep 0.3; done",
)  # fmt: skip


def file_line(rng: random.Random) -> str:
    """One to three commands that change, move, link or read files of all kinds of places."""

    def place() -> str:
        groups = (*(_INSIDE,) * 9, _RECORDS, _RECORDS, _PROTECTED, _OUTSIDE)
        return rng.choice(rng.choice(groups))

    def command() -> str:
        template = rng.choice(_LINES)
        return template.format(*(place() for _ in range(template.count("{}"))))

    joint = rng.choice(("; ", rng.choice(JOINTS)))
    return joint.join(command() for _ in range(rng.choice((1, 2, 3, 4))))


def any_line(rng: random.Random) -> str:
    """A line of the shell corpus, or one of file commands."""
    return generated(rng) if rng.random() < 0.3 else file_line(rng)


class Scene:
    """One workspace, and what must be true of it."""

    def __init__(self, place: Path) -> None:
        self.work = make_scene(place)
        self._outside = place / "outside"
        self._before = without_caches(picture(self.work))
        self._beyond = picture(self._outside, exact=True)
        self._closed = self._protected()

    def _protected(self) -> dict[str, object]:
        """All that can be told of protected files."""
        found: dict[str, object] = {}
        for name in (*HIDDEN, *LOCKED):
            status = (self.work / name).lstat()
            found[name] = ((self.work / name).read_bytes(), status.st_ino, status.st_mode, status.st_ctime_ns)
        return found

    async def hold(self, opened: Runtime, lines: list[str]) -> None:
        """Run some lines, look around, take them back, and compare."""
        asked: list[str] = []
        for line in lines:
            outcome = await run(opened, line, timeout_seconds=TIMEOUT)
            asked.append(f"{line!r}: {outcome.content[:200]}")
            assert not gives_away(said_by(outcome)), line
        assert picture(self._outside, exact=True) == self._beyond, asked
        assert self._protected() == self._closed, asked
        assert find_secret(picture(self.work)) == [], asked
        await self._take_back(opened, asked)

    async def _take_back(self, opened: Runtime, asked: list[str]) -> None:
        with contextlib.suppress(Misuse):  # there is nothing to take back
            undone = await opened.undo()
            assert undone.ok, (undone.content, asked)
        after = without_caches(picture(self.work))
        different = sorted(name for name in {*after, *self._before} if after.get(name) != self._before.get(name))
        told = [(name, self._before.get(name), after.get(name)) for name in different[:5]]
        assert not different, (told, asked)


def lines_of(number: int, count: int, make: Callable[[random.Random], str]) -> list[str]:
    """The lines of one part; each part has its own."""
    rng = random.Random(16_000 + number)
    return [make(rng) for _ in range(count)]


@pytest.mark.parametrize("number", range(LINES // PART))
async def test_random_lines_at_the_border_harm_nothing_that_undo_does_not_put_back(tmp_path: Path, number: int) -> None:
    """Lines of the shell corpus and of file commands, two to nine of them between one look and the next.

    In every third part the person who is asked says yes.
    """
    need_sandbox()
    scene = Scene(tmp_path)
    lines = lines_of(number, PART, any_line)
    rng = random.Random(number)
    async with border(scene.work, "once" if number % 3 == 2 else "no") as opened:
        while lines:
            some = rng.randrange(2, 10)
            await scene.hold(opened, lines[:some])
            lines = lines[some:]

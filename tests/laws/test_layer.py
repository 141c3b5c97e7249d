"""What is kept of a layer is exactly what the layer shows; of a part of it, that part; of a failure, nothing."""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import Code, Problem
from handrail.processes.keeping import Keeper
from handrail.processes.layer import LayerChange, read_changes, with_parents
from handrail.sandbox.launching import Upper
from handrail.words import Root
from handrail.workspace.access import Access
from handrail.workspace.beneath import choose
from handrail.workspace.roots import Roots

Tree = dict[str, object]
MANY = 20_500


class Layered:
    """A workspace with a layer over it, as the system leaves one."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.layer = folder / "layer"
        self.notes = folder / "notes"
        self.work.mkdir(parents=True)
        for name in ("upper", "aside"):
            (self.layer / name).mkdir(parents=True)
        self.upper = self.layer / "upper"
        self.root = Root("workspace", str(self.work), writable=True)
        self.roots = Roots([self.root])
        self.access = Access(self.roots, choose("auto"), None)

    def changes(self) -> list[LayerChange]:
        """All that the layer changes."""
        return read_changes(self.access, {self.root: Upper(str(self.upper), str(self.layer), 1 << 62)})

    def keep(self, changes: list[LayerChange]) -> None:
        """Keep some of it."""
        Keeper(self.access, str(self.notes), "run", "call").keep(changes)


@pytest.fixture
def layered(tmp_path: Path) -> Iterator[Layered]:
    """An empty one."""
    made = Layered(tmp_path / "layered")
    yield made
    made.roots.close()


def seen(folder: Path) -> Tree:
    """All there is: folders, what files hold with their modes, and where links lead."""
    found: Tree = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_dir():
            found[name] = None
        else:
            found[name] = (path.read_bytes(), path.stat().st_mode & 0o777, path.stat().st_mtime_ns)
    return found


def fill(folder: Path, dice: random.Random, depth: int = 0) -> None:
    """Make a few files, links and folders."""
    for name in dice.sample("abcdefgh", dice.randint(1, 5)):
        path = folder / name
        kind = dice.random()
        if kind < 0.3 and depth < 3:
            path.mkdir()
            fill(path, dice, depth + 1)
        elif kind < 0.4:
            path.symlink_to(dice.choice("xyz"))
        else:
            path.write_text(dice.choice(["one\n", "two\n", "three\n"]))
            path.chmod(dice.choice([0o644, 0o755, 0o600]))


def change(layered: Layered, dice: random.Random, base: str = "") -> None:
    """Change something in the layer, below a folder that is in both."""
    lower = layered.work / base
    upper = layered.upper / base
    for name in dice.sample("abcdefgh", dice.randint(1, 6)):
        below = lower / name
        above = upper / name
        kind = dice.random()
        if below.is_dir() and not below.is_symlink() and kind < 0.5:
            above.mkdir(mode=below.stat().st_mode & 0o777)
            change(layered, dice, f"{base}{name}/")
        elif os.path.lexists(below) and kind < 0.7:
            os.mknod(above, stat.S_IFCHR, 0)
        elif kind < 0.8 and not below.is_symlink() and not below.is_dir():
            above.mkdir()
            fill(above, dice, 2)
        elif kind < 0.9:
            above.symlink_to(dice.choice("xyz"))
        else:
            above.write_text(dice.choice(["one\n", "two\n", "four\n"]))


def merged(lower: Path, upper: Path, into: Path) -> None:
    """Copy what the layer shows over what is below: the law that keeping is held to."""
    shutil.copytree(lower, into, symlinks=True)
    for folder, names, files in os.walk(upper):
        for name in (*names, *files):
            source = Path(folder, name)
            target = into / source.relative_to(upper)
            status = source.lstat()
            real = stat.S_ISDIR(status.st_mode) and target.is_dir() and not target.is_symlink()
            if not real and os.path.lexists(target):
                shutil.rmtree(target) if target.is_dir() and not target.is_symlink() else target.unlink()
            if stat.S_ISDIR(status.st_mode):
                target.mkdir(exist_ok=True)
            elif not stat.S_ISCHR(status.st_mode):
                shutil.copy2(source, target, follow_symlinks=False)


def without_times(tree: Tree) -> Tree:
    """The same, for files whose content and mode are the same keep their time."""
    return {name: what[:2] if isinstance(what, tuple) else what for name, what in tree.items()}


@pytest.mark.parametrize("seed", range(25))
def test_what_is_kept_is_what_the_layer_shows_and_a_failure_leaves_all_as_it_was(
    layered: Layered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Whatever was changed, and at whatever step it fails; no note and no former content is left behind."""
    dice = random.Random(seed)
    fill(layered.work, dice)
    change(layered, dice)
    merged(layered.work, layered.upper, tmp_path / "merged")
    before = seen(layered.work)
    changes = layered.changes()
    fails_at = dice.randint(0, len(changes))
    steps = iter(range(len(changes) + 1))
    make = Keeper._make

    def failing(self: Keeper, *args: Any) -> bool:
        if next(steps) == fails_at:
            raise Problem(Code.IO_ERROR, "the disk is full")
        return make(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Keeper, "_make", failing)
        if fails_at < len(changes):
            with pytest.raises(Problem):
                layered.keep(changes)
            assert seen(layered.work) == before
    changes = layered.changes()
    layered.keep(changes)
    assert without_times(seen(layered.work)) == without_times(seen(tmp_path / "merged"))
    assert [*layered.notes.glob("*")] == []


def test_a_part_is_kept_by_itself_with_the_folders_that_it_needs(layered: Layered) -> None:
    """What is left out stays as it was."""
    (layered.work / "old").write_text("old\n")
    (layered.upper / "old").write_text("new\n")
    (layered.upper / "a/b").mkdir(parents=True)
    for name in ("a/one", "a/b/two", "three"):
        (layered.upper / name).write_text("x\n")
    changes = layered.changes()
    layered.keep(with_parents([made for made in changes if made.path == "a/b/two"], changes))
    assert [*seen(layered.work)] == ["a", "a/b", "a/b/two", "old"]
    assert (layered.work / "old").read_text() == "old\n"


def test_there_is_no_bound_on_entries_and_large_files_are_not_held(layered: Layered) -> None:
    """More than 20,000 files, and a file of a gigabyte that is told by its size alone."""
    for number in range(MANY):
        (layered.upper / str(number)).touch()
    with open(layered.upper / "large", "wb") as file:
        file.truncate(1 << 30)
    changes = layered.changes()
    [large] = [made for made in changes if made.path == "large"]
    assert large.after is not None
    assert (len(changes), large.after.size, large.read_after(1 << 20)) == (MANY + 1, 1 << 30, None)


def test_what_has_a_later_change_time_than_the_start_is_contested(layered: Layered) -> None:
    """With all that is done to the same path, and below it."""
    (layered.work / "folder").mkdir()
    for name in ("theirs", "ours", "folder/file"):
        (layered.work / name).write_text("old\n")
    began = (layered.work / "folder/file").stat().st_ctime_ns
    while (layered.work / "theirs").stat().st_ctime_ns <= began:
        (layered.work / "theirs").write_text("edited\n")
    for name in ("theirs", "ours"):
        (layered.upper / name).write_text("program\n")
    os.mknod(layered.upper / "folder", stat.S_IFCHR, 0)
    changes = read_changes(layered.access, {layered.root: Upper(str(layered.upper), str(layered.layer), began)})
    found = {made.path: bool(made.contested) for made in changes}
    assert found == {"theirs": True, "ours": False, "folder": False, "folder/file": False}

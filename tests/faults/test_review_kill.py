"""A runtime killed while it keeps a reviewed change: then the workspace holds all of the change, or none of it."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox
from faults.keep_and_die import NEVER, lay_out, seen
from handrail.processes.layer_home import LayerHomes, sweep
from handrail.processes.steps import Step
from handrail.processes.unfinished import Note, abandoned, used_layers
from handrail.words import Change, Root
from handrail.workspace import names
from handrail.workspace.access import Access
from handrail.workspace.beneath import FOLDER, choose
from handrail.workspace.roots import Roots
from workspaces import sha

KILLS = {"unless-allowed": 8, "border": 20}
SCRIPT = Path(__file__).with_name("keep_and_die.py")


def kept(work: Path, layer: str, *steps: int, ask: str = "") -> list[list[Any]]:
    """Keep a change once for each step, and die there."""
    words = [sys.executable, str(SCRIPT), str(work), *map(str, steps)]
    env = {**os.environ, "LAYER": layer, "ASK": ask}
    told = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30 + 10 * len(steps), env=env)
    return [json.loads(line) for line in told.stdout.splitlines()]


@pytest.mark.parametrize(
    ("layer", "ask"), [("disk", "unless-allowed"), ("memory", "unless-allowed"), ("disk", "border")]
)
def test_a_review_that_is_killed_while_it_is_kept_is_kept_or_dropped_as_a_whole(
    work: Path, own_user: Path, scale: int, layer: str, ask: str
) -> None:
    """At whatever step: files, folders, links and modes are all new or all as before, and what was put back is told."""
    need_sandbox()
    lay_out(work)
    before = seen(work)
    [[_, ended, count, _, after, _]] = kept(work, layer, NEVER, ask=ask)
    assert (ended, after != before) == (0, True)
    steps = random.sample(range(1, count + 1), min(KILLS[ask] * scale, count))
    for at, ended, _, left, now, told in kept(work, layer, count // 2, *steps, ask=ask):
        # Empty files of a trial, of a process that was killed at it, are swept like other drafts.
        now = {path: what for path, what in now.items() if not path.endswith(".tmp")}
        assert (ended, now == after) in ((-9, True), (-9, False), (0, True)), at  # one that took a step less ended well
        assert now in (before, after), (at, told)
        assert [items for items, _ in told] == ([[]] if told else []), at
        # What was kept whole may have left former contents behind: those go without a word.
        assert bool(told) or {path: what for path, what in left.items() if not path.startswith(".handrail-")} == now, at
        if at == count // 2:
            assert (left != before, now == before, len(told)) == (True, True, 1), at


@pytest.fixture
def access(work: Path) -> Any:
    """The workspace's handles."""
    roots = Roots([Root("workspace", str(work), writable=True)])
    yield Access(roots, choose("auto"), None)
    roots.close()


NAMES = ("one", "two")


def laid_out(folder: Path, layer: Path) -> None:
    """Two files, and others in a layer that are to take their place."""
    (layer / "upper").mkdir(parents=True)
    (layer / "aside").mkdir()
    for name in NAMES:
        (folder / name).write_text("before\n")
        (layer / "upper" / name).write_text("after\n")


def step(root: Root, layer: Path, name: str) -> Step:
    """A file that is replaced by one of a layer."""
    inode = Path(root.path, name).stat().st_ino
    return Step(root, name, "replace", str(layer), f"upper/{name}", sha(b"before\n"), sha(b"after\n"), inode, 0o644)


def noted(access: Access, notes: Path, layer: Path) -> Note:
    """A note of two files that are replaced."""
    root = access.roots.home
    laid_out(Path(root.path), layer)
    return Note.write(notes, "run", "call", [step(root, layer, name) for name in NAMES])


def exchanged(folder: Path, layer: Path, name: str) -> None:
    """Make such a step."""
    with ExitStack() as held:
        handles = [os.open(path, FOLDER) for path in (layer / "upper", folder)]
        for fd in handles:
            held.callback(os.close, fd)
        assert names.exchange(handles[0], name, handles[1], name)


def test_what_somebody_changed_since_is_left_and_the_note_kept_for_a_person(
    work: Path, tmp_path: Path, access: Access
) -> None:
    """Putting back never overwrites what nobody noted; the former content is still in the layer."""
    layer = tmp_path / "layer"
    noted(access, tmp_path / "notes", layer).let_go()
    for name in NAMES:
        exchanged(work, layer, name)
    (work / "two").write_text("by hand\n")
    [note] = abandoned(tmp_path / "notes", {str(work)})
    changes: list[Change] = []
    left = note.roll_back(changes.append)
    aside = note.set_aside()
    assert left == ["two was changed since, and is left as it is"]
    assert [change.path for change in changes] == ["one"]
    assert ((work / "one").read_text(), (work / "two").read_text()) == ("before\n", "by hand\n")
    assert (layer / "upper/two").read_text() == "before\n"
    assert str(layer) in aside.read_text()
    assert used_layers(tmp_path / "notes") == {str(layer)}
    assert list(abandoned(tmp_path / "notes", {str(work)})) == []


def test_a_note_that_somebody_is_at_or_of_another_workspace_is_left_alone(
    work: Path, tmp_path: Path, access: Access
) -> None:
    """Another runtime on the same workspace may be keeping a change right now."""
    note = noted(access, tmp_path / "notes", tmp_path / "layer")
    assert list(abandoned(tmp_path / "notes", {str(work)})) == []
    note.let_go()
    assert list(abandoned(tmp_path / "notes", {"/elsewhere"})) == []
    [found] = abandoned(tmp_path / "notes", {str(work)})
    assert (found.run_id, found.call_id, list(found.steps)) == ("run", "call", list(note.steps))
    found.remove()
    assert list((tmp_path / "notes").iterdir()) == []


def test_whoever_opens_another_workspace_does_not_even_take_hold_of_a_note(
    work: Path, tmp_path: Path, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held for a moment by others, it would be passed over by the one who should put things back."""
    noted(access, tmp_path / "notes", tmp_path / "layer").let_go()
    taken: list[int] = []
    monkeypatch.setattr("fcntl.flock", lambda _, how: taken.append(how))
    assert (list(abandoned(tmp_path / "notes", {"/elsewhere"})), taken) == ([], [])
    [note] = abandoned(tmp_path / "notes", {str(work)})
    note.let_go()
    assert len(taken) == 1


def test_what_is_put_back_has_its_extended_attributes_again(work: Path, tmp_path: Path, access: Access) -> None:
    """Of files and folders that were removed, and of files that were replaced."""
    layer = tmp_path / "layer"
    laid_out(work, layer)
    (work / "folder").mkdir()
    try:
        for name in ("folder", *NAMES):
            os.setxattr(work / name, "user.origin", f"the {name}\0\xff".encode())
    except OSError as error:
        pytest.skip(f"this file system has no extended attributes ({error.strerror})")
    root = access.roots.home
    attributes = (("user.origin", "the folder\0\xff".encode()),)
    steps = [
        Step(root, "one", "delete", str(layer), "aside/0", sha(b"before\n"), mode=0o644),
        Step(root, "folder", "rmdir", str(layer), mode=0o755, attributes=attributes),
        step(root, layer, "two"),
    ]
    Note.write(tmp_path / "notes", "run", "call", steps).let_go()
    (work / "one").rename(layer / "aside/0")
    (work / "folder").rmdir()
    exchanged(work, layer, "two")
    [note] = abandoned(tmp_path / "notes", {str(work)})
    left = note.roll_back(lambda _: None)
    note.remove()
    found = {name: os.getxattr(work / name, "user.origin").decode() for name in ("folder", *NAMES)}
    assert (left, found) == ([], {name: f"the {name}\0\xff" for name in found})


def test_a_note_also_about_the_killed_runs_own_folders_is_taken_by_a_run_of_the_same_workspace(
    work: Path, tmp_path: Path
) -> None:
    """Nobody else ever opens those; what was changed in them goes back with the rest."""
    (tmp_path / "deliverables").mkdir()
    roots = Root("workspace", str(work), writable=True), Root("run:deliverables", str(tmp_path / "deliverables"), True)
    layers = [tmp_path / f"layer{number}" for number in range(len(roots))]
    for root, layer in zip(roots, layers, strict=True):
        laid_out(Path(root.path), layer)
    steps = [step(root, layer, "one") for root, layer in zip(roots, layers, strict=True)]
    Note.write(tmp_path / "notes", "run", "call", steps).let_go()
    for root, layer in zip(roots, layers, strict=True):
        exchanged(Path(root.path), layer, "one")
    assert list(abandoned(tmp_path / "notes", {"/elsewhere"})) == []
    [note] = abandoned(tmp_path / "notes", {str(work)})
    left = note.roll_back(lambda _: None)
    note.remove()
    assert (left, [Path(root.path, "one").read_text() for root in roots]) == ([], ["before\n"] * 2)


def test_layers_of_dead_owners_are_removed_unless_a_note_names_them(work: Path, tmp_path: Path) -> None:
    """One that is held is somebody's who runs."""
    homes = LayerHomes(str(tmp_path / "layers"), [str(work)])
    held = homes.make(str(work))
    assert held is not None
    for name in ("dead", "noted"):
        (tmp_path / "layers" / name / "upper/deep").mkdir(parents=True)
        (tmp_path / "layers" / name / "upper/deep").chmod(0)
    removed = sweep(str(tmp_path / "layers"), {str(tmp_path / "layers/noted")})
    left = {path.name for path in (tmp_path / "layers").iterdir()}
    held.remove()
    assert (removed, left) == (1, {Path(held.path).name, "noted"})
    assert {path.name for path in (tmp_path / "layers").iterdir()} == {"noted"}


def test_a_torn_note_is_no_note(work: Path, tmp_path: Path) -> None:
    """It has its name only once it is whole, so that half of one was put there by somebody else."""
    (tmp_path / "half.note").write_bytes(b"handrail-unfinished-2\n[")
    assert list(abandoned(tmp_path, {str(work)})) == []


def test_a_layer_that_was_not_touched_is_used_once_more_and_removed_in_the_end(work: Path, tmp_path: Path) -> None:
    """Not one that something was made in, that the system has mounted, or whose root has another mode by now."""
    layers = tmp_path / "layers"
    homes = LayerHomes(str(layers), [str(work)])

    def made() -> Any:
        layer = homes.make(str(work))
        assert layer is not None
        return layer

    first = made()
    first.let_go()
    again = made()
    assert again.path == first.path
    (Path(again.path) / "upper/file").write_text("x")
    again.let_go()
    assert not Path(again.path).exists()
    mounted = made()
    (Path(mounted.path) / "work/work").mkdir()
    mounted.let_go()
    assert not Path(mounted.path).exists()
    former = made()
    former.let_go()
    work.chmod(0o750)
    current = made()
    assert current.path != former.path
    assert stat.S_IMODE((Path(current.path) / "upper").stat().st_mode) == 0o750
    current.let_go()
    homes.close()
    assert [*layers.iterdir()] == []
    late = made()
    late.let_go()
    assert [*layers.iterdir()] == []

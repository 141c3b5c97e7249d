"""A runtime killed while it keeps a reviewed change: then the workspace holds all of the change, or none of it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox
from faults.keep_and_die import NEVER, lay_out, seen
from handrail.processes.layer import Made
from handrail.processes.unfinished import Note, abandoned, steps_of
from handrail.words import Change, Root
from handrail.workspace.access import Access
from handrail.workspace.beneath import choose
from handrail.workspace.roots import Roots

KILLS = 8
SCRIPT = Path(__file__).with_name("keep_and_die.py")


def kept(work: Path, *steps: int) -> list[list[Any]]:
    """Keep a change once for each step, and die there."""
    words = [sys.executable, str(SCRIPT), str(work), *map(str, steps)]
    told = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30 + 10 * len(steps))
    return [json.loads(line) for line in told.stdout.splitlines()]


def test_a_review_that_is_killed_while_it_is_kept_is_kept_or_dropped_as_a_whole(
    work: Path, own_user: Path, scale: int
) -> None:
    """At whatever step: files, folders, links and modes are all new or all as before, and what was put back is told."""
    need_sandbox()
    lay_out(work)
    before = seen(work)
    [[_, ended, count, _, after, _]] = kept(work, NEVER)
    assert (ended, after != before) == (0, True)
    steps = random.sample(range(1, count + 1), min(KILLS * scale, count))
    for at, ended, _, left, now, told in kept(work, count // 2, *steps):
        assert (ended, now == after) in ((-9, True), (-9, False), (0, True)), at  # one that took a step less ended well
        assert now in (before, after), (at, told)
        assert [items for items, _ in told] == ([[]] if told else []), at
        assert bool(told) or left == now, at
        if at == count // 2:
            assert (left != before, now == before, len(told)) == (True, True, 1), at


@pytest.fixture
def access(work: Path) -> Any:
    """The workspace's handles."""
    roots = Roots([Root("workspace", str(work), writable=True)])
    yield Access(roots, choose("auto"), None)
    roots.close()


def noted(access: Access, notes: Path) -> Note:
    """A note of two files that are replaced."""
    root = access.roots.home
    changes = [Made(root, name, "replace", b"before\n", b"after\n", 0o644) for name in ("one", "two")]
    return Note.write(notes, "run", "call", steps_of(access, changes))


def test_what_somebody_changed_since_is_left_and_the_note_kept_for_a_person(
    work: Path, tmp_path: Path, access: Access
) -> None:
    """Putting back never overwrites what nobody noted."""
    for name in ("one", "two"):
        (work / name).write_text("before\n")
    noted(access, tmp_path / "notes").let_go()
    (work / "one").write_text("after\n")
    (work / "two").write_text("by hand\n")
    [note] = abandoned(tmp_path / "notes", {str(work)})
    changes: list[Change] = []
    left = note.roll_back(changes.append)
    aside = note.set_aside()
    assert left == ["two was changed since, and is left as it is"]
    assert [change.path for change in changes] == ["one"]
    assert ((work / "one").read_text(), (work / "two").read_text()) == ("before\n", "by hand\n")
    assert b"before\n" in aside.read_bytes()
    assert list(abandoned(tmp_path / "notes", {str(work)})) == []


def test_a_note_that_somebody_is_at_or_of_another_workspace_is_left_alone(
    work: Path, tmp_path: Path, access: Access
) -> None:
    """Another runtime on the same workspace may be keeping a change right now."""
    for name in ("one", "two"):
        (work / name).write_text("before\n")
    note = noted(access, tmp_path / "notes")
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
    for name in ("one", "two"):
        (work / name).write_text("before\n")
    noted(access, tmp_path / "notes").let_go()
    taken: list[int] = []
    monkeypatch.setattr("fcntl.flock", lambda _, how: taken.append(how))
    assert (list(abandoned(tmp_path / "notes", {"/elsewhere"})), taken) == ([], [])
    [note] = abandoned(tmp_path / "notes", {str(work)})
    note.let_go()
    assert len(taken) == 1


def test_what_is_put_back_has_its_extended_attributes_again(work: Path, tmp_path: Path, access: Access) -> None:
    """Of files and folders that were removed, and of files that were replaced."""
    (work / "folder").mkdir()
    for name in ("removed", "replaced"):
        (work / name).write_text("before\n")
    try:
        for name in ("folder", "removed", "replaced"):
            os.setxattr(work / name, "user.origin", f"the {name}\0\xff".encode())
    except OSError as error:
        pytest.skip(f"this file system has no extended attributes ({error.strerror})")
    root = access.roots.home
    changes = [
        Made(root, "removed", "delete", b"before\n"),
        Made(root, "replaced", "replace", b"before\n", b"after\n", 0o644),
        Made(root, "folder", "rmdir"),
    ]
    Note.write(tmp_path / "notes", "run", "call", steps_of(access, changes)).let_go()
    (work / "removed").unlink()
    (work / "folder").rmdir()
    (work / "replaced").write_text("after\n")
    [note] = abandoned(tmp_path / "notes", {str(work)})
    left = note.roll_back(lambda _: None)
    note.remove()
    found = {name: os.getxattr(work / name, "user.origin").decode() for name in ("folder", "removed", "replaced")}
    assert (left, found) == ([], {name: f"the {name}\0\xff" for name in found})


def test_a_note_also_about_the_killed_runs_own_folders_is_taken_by_a_run_of_the_same_workspace(
    work: Path, tmp_path: Path
) -> None:
    """Nobody else ever opens those; what was changed in them goes back with the rest."""
    (tmp_path / "deliverables").mkdir()
    roots = Root("workspace", str(work), writable=True), Root("run:deliverables", str(tmp_path / "deliverables"), True)
    handles = Roots([*roots])
    for root in roots:
        Path(root.path, "one").write_text("before\n")
    changes = [Made(root, "one", "replace", b"before\n", b"after\n", 0o644) for root in roots]
    Note.write(tmp_path / "notes", "run", "call", steps_of(Access(handles, choose("auto"), None), changes)).let_go()
    handles.close()
    for root in roots:
        Path(root.path, "one").write_text("after\n")
    assert list(abandoned(tmp_path / "notes", {"/elsewhere"})) == []
    [note] = abandoned(tmp_path / "notes", {str(work)})
    left = note.roll_back(lambda _: None)
    note.remove()
    assert (left, [Path(root.path, "one").read_text() for root in roots]) == ([], ["before\n"] * 2)


def test_a_torn_note_is_no_note(work: Path, tmp_path: Path) -> None:
    """It has its name only once it is whole, so that half of one was put there by somebody else."""
    (tmp_path / "half.note").write_bytes(b"handrail-unfinished-1\n\xff\0\0\0\0\0\0\0[")
    assert list(abandoned(tmp_path, {str(work)})) == []

"""Two looks at a tree tell exactly what was created, changed and removed between them."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.processes.effects import Watch
from handrail.words import Change, Root
from handrail.workspace.files import WorkspaceFiles

NAMES = ("a", "b", "d/a", "d/b", "d/e/a", "f/a")
Steps = list[tuple[str, str, str]]
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "remove", "link", "touch"]), st.sampled_from(NAMES), st.sampled_from("xyz")),
    max_size=12,
)


@contextmanager
def watching() -> Iterator[tuple[Path, Watch]]:
    """A watch on an empty folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        files = WorkspaceFiles([Root("workspace", str(folder), writable=True)])
        try:
            yield folder, Watch(files.roots, files.access)
        finally:
            files.access.roots.close()


def carry_out(folder: Path, steps: Steps) -> None:
    """Do to a folder what programs do."""
    for what, name, text in steps:
        path = folder / name
        if what == "remove":
            shutil.rmtree(path.parent if path.parent != folder and text == "x" else path, ignore_errors=True)
            path.unlink(missing_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if what == "touch":
            path.touch()
            continue
        path.unlink(missing_ok=True) if what == "link" or path.is_symlink() else None
        if what == "link":
            path.symlink_to(text)
        else:
            path.write_text(text)


def state(folder: Path) -> dict[str, str | None]:
    """Hashes of files, targets of links, None for folders."""
    found: dict[str, str | None] = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        else:
            found[name] = None if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@settings(max_examples=80, deadline=None)
@given(STEPS, STEPS)
def test_the_changes_are_the_difference(first: Steps, then: Steps) -> None:
    """Every path that differs, by the right word and with its hashes; no other."""
    with watching() as (folder, watch):
        carry_out(folder, first)
        before, seen = state(folder), watch.look()
        watch.learn(seen)
        carry_out(folder, then)
        after = state(folder)
        changes, warnings = watch.changes(seen, watch.look())
    assert warnings == []
    told = {change.path for change in changes if change.before is None or change.before != change.after}
    differing = {path for path in before.keys() | after.keys() if before.get(path, "-") != after.get(path, "-")}
    relinked = {path for path in told - differing if str(after.get(path, "")).startswith("->")}
    assert told - relinked == differing
    for change in changes:
        if change.op == "create" and change.after is not None:
            assert change.after == after[change.path]
        if change.op == "delete" and change.before is not None:
            assert change.before == before[change.path]
        assert not change.kept


def test_objects_of_git_and_roots_of_their_own_are_left_out() -> None:
    """What is stored under its hash says nothing, and each root is told once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for path in (".git/objects/ab", "objects", "inner", "apart"):
            (folder / path).mkdir(parents=True)
        roots = [Root("workspace", str(folder), True), Root(str(folder / "inner"), str(folder / "inner"), True)]
        files = WorkspaceFiles(roots)
        watch = Watch(files.roots, files.access, [str(folder / "apart")])
        before = watch.look()
        for path in (".git/objects/ab/cd", ".git/HEAD", "objects/x", "inner/y", "apart/z"):
            (folder / path).write_text("")
        changes, _ = watch.changes(before, watch.look())
        files.access.roots.close()
    empty = hashlib.sha256(b"").hexdigest()
    assert changes == [
        Change(".git/HEAD", "create", None, empty, kept=False),
        Change("objects/x", "create", None, empty, kept=False),
        Change(f"{folder}/inner/y", "create", None, empty, kept=False),
    ]


@pytest.mark.parametrize("most", [3, 4])
def test_more_than_is_looked_at_is_said(most: int) -> None:
    """Neither look may be cut short silently."""
    with watching() as (folder, watch):
        for name in "abcd":
            (folder / name).write_text("")
        seen = watch.look(most)
        changes, warnings = watch.changes(seen, seen)
    assert (seen.trees is None) is (most < 4)
    assert changes == []
    assert len(warnings) == (most < 4)


def test_a_folder_that_became_a_link_leads_nowhere(tmp_path: Path) -> None:
    """What lies outside is neither listed nor hashed."""
    (tmp_path / "secret").write_text("outside")
    with watching() as (folder, watch):
        (folder / "d").mkdir()
        (folder / "d/secret").write_text("inside")
        before = watch.look()
        shutil.rmtree(folder / "d")
        (folder / "d").symlink_to(tmp_path)
        changes, _ = watch.changes(before, watch.look())
    assert [(change.path, change.op, change.after) for change in changes] == [
        ("d/secret", "delete", None),
        ("d", "rmdir", None),
        ("d", "create", None),
    ]

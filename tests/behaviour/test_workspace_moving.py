"""Moving: within and between roots and file systems, never over something that nobody saw."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail.errors import Code
from handrail.words import Change, Root
from handrail.workspace import WorkspaceFiles, names
from handrail.workspace.bound import BoundFiles
from workspaces import KeptImages, below, grow, in_place, leftovers, refused, replaced, sha


async def test_a_moved_file_takes_its_content_and_mode_along(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """Folders on the way are made and recorded; nothing else stands in its old place."""
    (ws / "a").write_bytes(b"data")
    (ws / "a").chmod(0o600)
    changes = await call.move(files.resolve("a"), files.resolve("x/y/b"), overwrite=False)
    move = Change("x/y/b", "move", after=sha(b"data"), mode=0o600, source="a")
    assert changes == [Change("x", "mkdir"), Change("x/y", "mkdir"), move]
    assert below(ws) == {"x": None, "x/y": None, "x/y/b": b"data"}
    assert stat.S_IMODE((ws / "x/y/b").stat().st_mode) == 0o600


async def test_a_folder_and_a_link_move_as_they_are(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """What lies in a folder comes along; a link is moved, not its target."""
    grow(ws)
    (ws / "l").symlink_to("d")
    await call.move(files.resolve("d"), files.resolve("e"), overwrite=False)
    await call.move(files.resolve("l", follow=False), files.resolve("m"), overwrite=False)
    assert below(ws) == {
        "e": None, "e/1": b"1", "e/out": str(ws.parent), "e/sub": None, "e/sub/2": b"2", "keep": b"k", "m": "d",
    }  # fmt: skip


async def test_a_move_replaces_only_files_and_only_when_told(
    files: WorkspaceFiles, call: BoundFiles, ws: Path, images: KeptImages
) -> None:
    """Then the old one is kept as a pre-image and recorded as deleted."""
    grow(ws)
    (ws / "a").write_bytes(b"a")
    for source, target, overwrite in (("a", "keep", False), ("a", "d", False), ("d", "keep", True)):
        problem = await refused(call.move(files.resolve(source), files.resolve(target), overwrite=overwrite))
        assert problem.code is Code.ALREADY_EXISTS
    assert (await refused(call.move(files.resolve("a"), files.resolve("d"), overwrite=True))).code is Code.NOT_A_FILE
    assert call.changes == []
    assert await call.move(files.resolve("a"), files.resolve("keep"), overwrite=True) == [
        Change("keep", "delete", sha(b"k"), mode=0o644),
        Change("keep", "move", after=sha(b"a"), mode=0o644, source="a"),
    ]
    assert ((ws / "keep").read_bytes(), (ws / "a").exists(), leftovers(ws)) == (b"a", False, [])
    assert images.kept == {sha(b"k"): b"k"}


async def test_a_move_into_itself_is_refused(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """Also onto itself."""
    grow(ws)
    for target in ("d", "d/inner", "d/sub/x"):
        problem = await refused(call.move(files.resolve("d"), files.resolve(target), overwrite=True))
        assert problem.code is Code.INVALID_ARGS


async def test_a_target_that_appears_in_the_last_moment_is_kept(
    files: WorkspaceFiles, call: BoundFiles, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody's file is moved over, and folders made for it are taken back."""
    (ws / "a").write_bytes(b"ours")
    put = names.put_new

    def late(source: int, name: str, folder: int, target: str) -> None:
        (ws / "b").write_bytes(b"theirs")
        put(source, name, folder, target)

    place = files.resolve("b")
    monkeypatch.setattr(names, "put_new", late)
    assert (await refused(call.move(files.resolve("a"), place, overwrite=True))).code is Code.STALE_FILE
    assert (below(ws), call.changes) == ({"a": b"ours", "b": b"theirs"}, [])


async def test_a_source_that_is_replaced_in_the_last_moment_stays(
    files: WorkspaceFiles, call: BoundFiles, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file than the judged one is moved back."""
    (ws / "a").write_bytes(b"ours")
    put, late = names.put_new, iter([lambda: replaced(ws / "a")])

    def once(source: int, name: str, folder: int, target: str) -> None:
        next(late, lambda: None)()
        put(source, name, folder, target)

    monkeypatch.setattr(names, "put_new", once)
    problem = await refused(call.move(files.resolve("a"), files.resolve("b"), overwrite=False))
    assert (problem.code, below(ws), call.changes) == (Code.STALE_FILE, {"a": b"theirs"}, [])


async def test_a_source_that_became_a_link_is_not_moved(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """It was judged as a file."""
    (ws / "a").write_bytes(b"ours")
    place = files.resolve("a")
    (ws / "a").unlink()
    (ws / "a").symlink_to("secret")
    assert (await refused(call.move(place, files.resolve("b"), overwrite=False))).code is Code.STALE_FILE
    assert below(ws) == {"a": "secret"}


@pytest.mark.parametrize("outside", [replaced, in_place])
async def test_a_target_that_changes_in_the_last_moment_is_not_moved_over(
    files: WorkspaceFiles,
    call: BoundFiles,
    ws: Path,
    outside: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both are where they were, with what they held."""
    (ws / "a").write_bytes(b"ours")
    (ws / "b").write_bytes(b"old")
    exchange, late = names.exchange, iter([lambda: outside(ws / "b")])

    def once(source: int, name: str, folder: int, target: str) -> bool:
        next(late, lambda: None)()
        return exchange(source, name, folder, target)

    monkeypatch.setattr(names, "exchange", once)
    problem = await refused(call.move(files.resolve("a"), files.resolve("b"), overwrite=True))
    assert (problem.code, call.changes) == (Code.STALE_FILE, [])
    assert below(ws) == {"a": b"ours", "b": b"theirs"}


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs a second file system")
async def test_a_file_moves_between_file_systems(tmp_path: Path, images: KeptImages) -> None:
    """It is copied durably and then removed; over an existing one only when told; a folder is refused."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        far = Path(os.path.realpath(memory))
        (tmp_path / "ws/d").mkdir(parents=True)
        (tmp_path / "ws/a").write_bytes(b"new")
        (tmp_path / "ws/a").chmod(0o640)
        (far / "taken").write_bytes(b"old")
        roots = [Root("workspace", str(tmp_path / "ws"), True), Root(str(far), str(far), True)]
        files = WorkspaceFiles(roots, allow_absolute=True, images=images, locks_dir=None)
        call = files.bind("c", ())
        try:
            await call.move(files.resolve("a"), files.resolve(f"{far}/b"), overwrite=False)
            assert ((far / "b").read_bytes(), stat.S_IMODE((far / "b").stat().st_mode)) == (b"new", 0o640)
            assert below(tmp_path / "ws") == {"d": None}
            await call.move(files.resolve(f"{far}/taken"), files.resolve("back"), overwrite=False)
            await call.move(files.resolve("back"), files.resolve(f"{far}/b"), overwrite=True)
            assert below(far) == {"b": b"old"}
            assert images.kept == {sha(b"new"): b"new"}
            problem = await refused(call.move(files.resolve("d"), files.resolve(f"{far}/d"), overwrite=False))
            assert problem.code is Code.NOT_A_FILE
            assert [change.op for change in call.changes] == ["move", "move", "delete", "move"]
        finally:
            await files.close()


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs a second file system")
async def test_a_file_that_changes_while_it_is_copied_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between file systems too: nothing arrives, nothing is gone."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        far = Path(os.path.realpath(memory))
        (tmp_path / "ws").mkdir()
        (tmp_path / "ws/a").write_bytes(b"ours")
        roots = [Root("workspace", str(tmp_path / "ws"), True), Root(str(far), str(far), True)]
        files = WorkspaceFiles(roots, allow_absolute=True, images=None, locks_dir=None)
        fresh, late = names.fresh, iter([lambda: in_place(tmp_path / "ws/a")])

        def once(kind: str = "tmp") -> str:
            next(late, lambda: None)()
            return fresh(kind)

        monkeypatch.setattr(names, "fresh", once)
        call = files.bind("c", ())
        try:
            problem = await refused(call.move(files.resolve("a"), files.resolve(f"{far}/b"), overwrite=False))
            assert (problem.code, call.changes) == (Code.STALE_FILE, [])
            assert (below(tmp_path / "ws"), below(far)) == ({"a": b"theirs"}, {})
        finally:
            await files.close()

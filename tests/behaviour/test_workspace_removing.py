"""Deleting and putting back: what was checked and nothing else, with what undo needs."""

from __future__ import annotations

import asyncio
import ctypes
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from handrail.errors import Code
from handrail.words import Change, Exclusion
from handrail.workspace import WorkspaceFiles, names
from handrail.workspace.bound import BoundFiles
from workspaces import KeptImages, below, grow, in_place, refused, replaced, sha, whole

# ── deleting ──


async def test_a_deleted_file_is_kept_as_a_pre_image(
    files: WorkspaceFiles, call: BoundFiles, ws: Path, images: KeptImages
) -> None:
    """The record has its hash and mode."""
    (ws / "f").write_bytes(b"data")
    (ws / "f").chmod(0o640)
    changes = await call.delete(files.resolve("f"), recursive=False, expected_sha256=sha(b"data"))
    assert changes == call.changes == [Change("f", "delete", sha(b"data"), mode=0o640)]
    assert (images.kept, below(ws)) == ({sha(b"data"): b"data"}, {})


async def test_a_deleted_link_leaves_its_target_alone(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """The link goes, its text is on record."""
    (ws / "f").write_bytes(b"data")
    (ws / "l").symlink_to("f")
    changes = await call.delete(files.resolve("l", follow=False), recursive=False)
    assert changes == [Change("l", "delete", mode=0o777, link="f")]
    assert below(ws) == {"f": b"data"}


async def test_a_folder_goes_only_when_all_of_it_may(
    files: WorkspaceFiles, call: BoundFiles, ws: Path, images: KeptImages
) -> None:
    """Without `recursive` it is refused with the call that would work; with it each thing is on record, inner first."""
    grow(ws)
    problem = await refused(call.delete(files.resolve("d"), recursive=False))
    assert problem.code is Code.NOT_A_FILE
    assert problem.next_call == {"tool": "delete_path", "args": {"path": "d", "recursive": True}}
    changes = await call.delete(whole(files, "d"), recursive=True)
    assert changes == [
        Change("d/1", "delete", sha(b"1"), mode=0o644),
        Change("d/out", "delete", mode=0o777, link=str(ws.parent)),
        Change("d/sub/2", "delete", sha(b"2"), mode=0o644),
        Change("d/sub", "rmdir", mode=0o755),
        Change("d", "rmdir", mode=0o755),
    ]
    assert (below(ws), set(images.kept.values())) == ({"keep": b"k"}, {b"1", b"2"})


async def test_a_folder_with_something_protected_in_it_stays_whole(files: WorkspaceFiles, ws: Path) -> None:
    """The refusal comes before anything is gone."""
    grow(ws)
    (ws / "d/sub/.env").write_bytes(b"secret")
    call = files.bind("c", (Exclusion(".env", "rule"),))
    before = below(ws)
    problem = await refused(call.delete(whole(files, "d"), recursive=True))
    assert (problem.code, problem.details["path"]) == (Code.PATH_PROTECTED, "d/sub/.env")
    assert (below(ws), call.changes) == (before, [])


async def test_a_root_is_never_deleted_or_moved(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """Whatever a caller says."""
    root = files.resolve(".")
    assert (await refused(call.delete(root, recursive=True))).code is Code.PATH_PROTECTED
    assert (await refused(call.move(root, files.resolve("x"), overwrite=True))).code is Code.PATH_PROTECTED
    assert ws.is_dir()


@pytest.fixture
def mounted(ws: Path) -> Iterator[Path]:
    """A folder with another file system in it."""
    (ws / "d/sub/mount").mkdir(parents=True)
    (ws / "d/1").write_bytes(b"1")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", bytes(ws / "d/sub/mount"), b"tmpfs", 0, None) != 0:
        pytest.skip("file systems cannot be mounted here")
    try:
        (ws / "d/sub/mount/2").write_bytes(b"2")
        yield ws / "d/sub/mount"
    finally:
        libc.umount2(bytes(ws / "d/sub/mount"), 2)


async def test_a_mount_point_is_never_crossed(files: WorkspaceFiles, call: BoundFiles, ws: Path, mounted: Path) -> None:
    """A folder on another file system stops the whole deletion before it begins."""
    before = below(ws)
    for path in ("d", "d/sub/mount"):
        problem = await refused(call.delete(whole(files, path), recursive=True))
        assert (problem.code, problem.details["path"]) == (Code.PATH_PROTECTED, "d/sub/mount")
    assert below(ws) == before


@pytest.mark.parametrize("outside", [replaced, in_place])
async def test_a_file_that_changes_in_the_last_moment_is_not_deleted(
    files: WorkspaceFiles,
    call: BoundFiles,
    ws: Path,
    outside: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was moved aside turns out to be another one, and comes back."""
    (ws / "f").write_bytes(b"old")
    take_away = names.take_away

    def late(folder: int, name: str, wanted: Callable[[str], bool]) -> str | None:
        outside(ws / "f")
        return take_away(folder, name, wanted)

    monkeypatch.setattr(names, "take_away", late)
    problem = await refused(call.delete(files.resolve("f"), recursive=False))
    assert (problem.code, call.changes, below(ws)) == (Code.STALE_FILE, [], {"f": b"theirs"})


async def test_a_folder_that_took_a_files_place_is_not_deleted(
    files: WorkspaceFiles, call: BoundFiles, ws: Path
) -> None:
    """It was never judged, empty or not, whatever `recursive` says."""
    (ws / "f").write_bytes(b"data")
    place = files.resolve("f")
    (ws / "f").unlink()
    (ws / "f").mkdir()
    problem = await refused(call.delete(place, recursive=True))
    assert (problem.code, below(ws)) == (Code.STALE_FILE, {"f": None})


async def test_a_folder_that_nobody_looked_into_is_deleted_only_when_empty(
    files: WorkspaceFiles, call: BoundFiles, ws: Path
) -> None:
    """A place without what lies below it stands for the folder alone."""
    (ws / "d/in").mkdir(parents=True)
    problem = await refused(call.delete(files.resolve("d"), recursive=True))
    assert (problem.code, below(ws)) == (Code.STALE_FILE, {"d": None, "d/in": None})
    assert await call.delete(files.resolve("d/in"), recursive=True) == [Change("d/in", "rmdir", mode=0o755)]


async def test_nothing_there_cannot_be_deleted(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """NOT_FOUND with near names; another content than expected is STALE_FILE."""
    (ws / "file.txt").write_bytes(b"x")
    problem = await refused(call.delete(files.resolve("fiel.txt"), recursive=False))
    assert (problem.code, problem.details["near"]) == (Code.NOT_FOUND, ["file.txt"])
    stale = call.delete(files.resolve("file.txt"), recursive=False, expected_sha256=sha(b"y"))
    assert (await refused(stale)).code is Code.STALE_FILE


# ── putting back ──


async def test_what_a_call_did_can_be_put_back_last_first(
    files: WorkspaceFiles, call: BoundFiles, ws: Path, images: KeptImages
) -> None:
    """After undoing every change all is as it was, modes and links included."""
    grow(ws)
    (ws / "d/1").chmod(0o600)
    (ws / "d/sub").chmod(0o700)
    (ws / "l").symlink_to("keep")
    before = below(ws)
    await call.write(files.resolve("new/f"), b"f", expected_sha256=None)
    await call.write(files.resolve("keep"), b"changed", expected_sha256=None)
    await call.delete(whole(files, "d"), recursive=True)
    await call.delete(files.resolve("l", follow=False), recursive=False)
    undo = files.bind("undo", ())
    for change in reversed(call.changes):
        data = images.kept.get(change.before or "")
        await undo.restore(files.resolve(change.path, follow=False), change, data)
    assert below(ws) == before
    assert stat.S_IMODE((ws / "d/1").stat().st_mode) == 0o600
    assert stat.S_IMODE((ws / "d/sub").stat().st_mode) == 0o700


async def test_what_was_changed_since_is_not_put_back(
    files: WorkspaceFiles, call: BoundFiles, ws: Path, images: KeptImages
) -> None:
    """A later change wins over undo, a folder that is used stays, and a lost pre-image is told."""
    (ws / "f").write_bytes(b"1")
    await call.write(files.resolve("f"), b"2", expected_sha256=None)
    await call.write(files.resolve("d/g"), b"g", expected_sha256=None)
    replace, mkdir, create = call.changes
    (ws / "f").write_bytes(b"3")
    (ws / "d/g").write_bytes(b"h")
    undo = files.bind("undo", ())
    assert (await refused(undo.restore(files.resolve("f"), replace, b"1"))).code is Code.STALE_FILE
    assert (await refused(undo.restore(files.resolve("d/g"), create, None))).code is Code.STALE_FILE
    assert (await refused(undo.restore(files.resolve("d"), mkdir, None))).code is Code.STALE_FILE
    assert (await refused(undo.restore(files.resolve("f"), replace, None))).code is Code.NOT_FOUND
    assert (below(ws), undo.changes) == ({"d": None, "d/g": b"h", "f": b"3"}, [])


async def test_a_deletion_cancelled_halfway_knows_what_is_gone(
    files: WorkspaceFiles, call: BoundFiles, ws: Path, images: KeptImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on record and what is still there make up the whole."""
    (ws / "d").mkdir()
    for number in range(50):
        (ws / f"d/{number:02}").write_bytes(b"x")
    loop, tenth = asyncio.get_running_loop(), asyncio.Event()
    take_away, count = names.take_away, iter(range(1000))

    def counting(folder: int, name: str, wanted: Callable[[str], bool]) -> str | None:
        if next(count) == 10:
            loop.call_soon_threadsafe(tenth.set)
            asyncio.run_coroutine_threadsafe(cancelled.wait(), loop).result(10)
        return take_away(folder, name, wanted)

    cancelled = asyncio.Event()
    monkeypatch.setattr(names, "take_away", counting)
    task = asyncio.create_task(call.delete(whole(files, "d"), recursive=True))
    await tenth.wait()
    task.cancel()
    await asyncio.sleep(0)
    cancelled.set()
    await asyncio.wait((task,))
    gone = {change.path for change in call.changes}
    there = {f"d/{path.name}" for path in (ws / "d").iterdir()}
    assert task.cancelled()
    assert (len(gone), gone | there, gone & there) == (11, {f"d/{number:02}" for number in range(50)}, set())

"""Deleting, moving and putting back: what was checked and nothing else, with what undo needs."""

from __future__ import annotations

import asyncio
import ctypes
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from handrail.errors import Code
from handrail.words import Change, Exclusion, Root
from handrail.workspace import WorkspaceFiles, beneath, names
from handrail.workspace.bound import BoundFiles
from workspaces import KeptImages, leftovers, refused, sha, workspace


@pytest.fixture
def images() -> KeptImages:
    """Where pre-images go."""
    return KeptImages()


@pytest.fixture(params=["openat2", "walk", "no-exchange"])
async def files(
    tmp_path: Path, images: KeptImages, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[WorkspaceFiles]:
    """A workspace, with each way to open, and on a system that can neither exchange nor rename without replacing."""
    if request.param == "no-exchange":
        monkeypatch.setattr(beneath, "_renameat2", beneath._missing_renameat2)
    if request.param == "walk":
        monkeypatch.setattr(beneath, "has_openat2", lambda: False)
    made = workspace(tmp_path, images=images)
    yield made
    await made.close()


@pytest.fixture
def ws(tmp_path: Path, files: WorkspaceFiles) -> Path:
    """Where the workspace lies on the disk."""
    return tmp_path / "ws"


@pytest.fixture
def call(files: WorkspaceFiles) -> BoundFiles:
    """The workspace of one call."""
    return files.bind("call-1", ())


def below(folder: Path) -> dict[str, bytes | str | None]:
    """All that lies below: bytes of files, targets of links, None for folders."""
    found: dict[str, bytes | str | None] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        found[name] = os.readlink(path) if path.is_symlink() else None if path.is_dir() else path.read_bytes()
    return found


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


def grow(ws: Path) -> None:
    """A folder with files, a link out and a folder in it."""
    (ws / "d/sub").mkdir(parents=True)
    (ws / "d/1").write_bytes(b"1")
    (ws / "d/sub/2").write_bytes(b"2")
    (ws / "d/out").symlink_to(ws.parent)
    (ws / "keep").write_bytes(b"k")


async def test_a_folder_goes_only_when_all_of_it_may(
    files: WorkspaceFiles, call: BoundFiles, ws: Path, images: KeptImages
) -> None:
    """Without `recursive` it is refused with the call that would work; with it each thing is on record, inner first."""
    grow(ws)
    problem = await refused(call.delete(files.resolve("d"), recursive=False))
    assert problem.code is Code.NOT_A_FILE
    assert problem.next_call == {"tool": "delete_path", "args": {"path": "d", "recursive": True}}
    changes = await call.delete(files.resolve("d"), recursive=True)
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
    problem = await refused(call.delete(files.resolve("d"), recursive=True))
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
        problem = await refused(call.delete(files.resolve(path), recursive=True))
        assert (problem.code, problem.details["path"]) == (Code.PATH_PROTECTED, "d/sub/mount")
    assert below(ws) == before


def replaced(path: Path) -> None:
    """Another file takes the name."""
    path.with_name("editor").write_bytes(b"theirs")
    path.with_name("editor").replace(path)


def in_place(path: Path) -> None:
    """The same file gets other bytes."""
    path.write_bytes(b"theirs")


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


async def test_nothing_there_cannot_be_deleted(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """NOT_FOUND with near names; another content than expected is STALE_FILE."""
    (ws / "file.txt").write_bytes(b"x")
    problem = await refused(call.delete(files.resolve("fiel.txt"), recursive=False))
    assert (problem.code, problem.details["near"]) == (Code.NOT_FOUND, ["file.txt"])
    stale = call.delete(files.resolve("file.txt"), recursive=False, expected_sha256=sha(b"y"))
    assert (await refused(stale)).code is Code.STALE_FILE


# ── moving ──


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
    import tempfile

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
    await call.delete(files.resolve("d"), recursive=True)
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
    task = asyncio.create_task(call.delete(files.resolve("d"), recursive=True))
    await tenth.wait()
    task.cancel()
    await asyncio.sleep(0)
    cancelled.set()
    await asyncio.wait((task,))
    gone = {change.path for change in call.changes}
    there = {f"d/{path.name}" for path in (ws / "d").iterdir()}
    assert task.cancelled()
    assert (len(gone), gone | there, gone & there) == (11, {f"d/{number:02}" for number in range(50)}, set())

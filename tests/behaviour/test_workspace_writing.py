"""Writing and making folders: atomic, durable, never over a change that nobody saw."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from handrail.errors import Code
from handrail.words import Change, Root
from handrail.workspace import WorkspaceFiles, beneath, names, standing
from handrail.workspace.bound import BoundFiles
from workspaces import KeptImages, in_place, leftovers, refused, replaced, sha, without_unnamed, workspace


@pytest.fixture(params=["openat2", "walk", "no-exchange", "named", "in place"])
async def files(
    tmp_path: Path, images: KeptImages, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[WorkspaceFiles]:
    """A workspace, with each way to open, on a system that can neither exchange nor rename without
    replacing, where no file can be without a name, and with a disk that is waited for in place."""
    if request.param == "no-exchange":
        monkeypatch.setattr(beneath, "_renameat2", beneath._missing_renameat2)
    if request.param in ("no-exchange", "named"):
        without_unnamed(monkeypatch)
    made = workspace(tmp_path, images=images, opener="walk" if request.param == "walk" else "auto")
    for root in made.roots:
        made._shared[2].pace(root).quick = request.param == "in place"
    yield made
    await made.close()


@pytest.fixture
def call(files: WorkspaceFiles) -> BoundFiles:
    """The workspace of one call, which nobody else waits with."""
    bound = files.bind("call-1", ())
    bound.alone = True
    return bound


async def test_a_new_file_is_made_with_its_folders(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """Each made folder and the file are recorded in order; the mode is what the umask leaves."""
    change = await call.write(files.resolve("a/b/new.txt"), b"data", expected_sha256=None)
    assert change == Change("a/b/new.txt", "create", after=sha(b"data"))
    assert call.changes == [Change("a", "mkdir"), Change("a/b", "mkdir"), change]
    assert (ws / "a/b/new.txt").read_bytes() == b"data"
    assert stat.S_IMODE((ws / "a/b/new.txt").stat().st_mode) == 0o666 & ~umask()
    assert (call.bytes_written, leftovers(ws)) == (4, [])


def umask() -> int:
    """The mask in force."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


async def test_without_mkdirs_a_missing_folder_is_not_made(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """NOT_FOUND names the folder, and nothing appears."""
    problem = await refused(call.write(files.resolve("a/new.txt"), b"x", expected_sha256=None, mkdirs=False))
    assert (problem.code, problem.details["path"], list(ws.iterdir())) == (Code.NOT_FOUND, "a", [])


async def test_a_replaced_file_keeps_its_mode_and_a_pre_image(
    files: WorkspaceFiles, call: BoundFiles, ws: Path, images: KeptImages
) -> None:
    """The record says what was and what is; extra permissions are dropped as the system itself would."""
    (ws / "run.sh").write_bytes(b"old")
    (ws / "run.sh").chmod(0o4750)
    os.setxattr(ws / "run.sh", "user.tag", b"kept")
    change = await call.write(files.resolve("run.sh"), b"new", expected_sha256=sha(b"old"))
    assert change == Change("run.sh", "replace", sha(b"old"), sha(b"new"), 0o4750)
    assert stat.S_IMODE((ws / "run.sh").stat().st_mode) == 0o750
    assert os.getxattr(ws / "run.sh", "user.tag") == b"kept"
    assert images.kept == {sha(b"old"): b"old"}
    assert ((ws / "run.sh").read_bytes(), leftovers(ws)) == (b"new", [])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
async def test_a_replaced_file_keeps_its_owner(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """Whoever owned the old file owns the new one."""
    (ws / "f").write_bytes(b"old")
    os.chown(ws / "f", 1234, 2345)
    await call.write(files.resolve("f"), b"new", expected_sha256=None)
    status = (ws / "f").stat()
    assert (status.st_uid, status.st_gid) == (1234, 2345)


async def test_a_pre_image_without_room_is_told(tmp_path: Path) -> None:
    """The change says that it cannot be undone from here."""
    images = KeptImages(most=2)
    files = workspace(tmp_path, images=images)
    try:
        (tmp_path / "ws/f").write_bytes(b"old")
        change = await files.bind("c", ()).write(files.resolve("f"), b"new", expected_sha256=None)
        assert (change.kept, images.kept) == (False, {})
    finally:
        await files.close()


STALE: dict[str, tuple[bytes | None, str | None, bool, Code]] = {
    "another content": (b"now", sha(b"then"), False, Code.STALE_FILE),
    "gone": (None, sha(b"then"), False, Code.STALE_FILE),
    "there, where nothing should be": (b"now", "", False, Code.STALE_FILE),
    "there, where it must be new": (b"now", None, True, Code.ALREADY_EXISTS),
}


@pytest.mark.parametrize(("there", "expected", "exclusive", "code"), STALE.values(), ids=STALE)
async def test_a_write_is_refused_over_what_was_not_expected(
    files: WorkspaceFiles,
    call: BoundFiles,
    ws: Path,
    there: bytes | None,
    expected: str | None,
    exclusive: bool,
    code: Code,
) -> None:
    """Nothing changes and nothing is left behind."""
    if there is not None:
        (ws / "f").write_bytes(there)
    write = call.write(files.resolve("f"), b"new", expected_sha256=expected, exclusive=exclusive)
    problem = await refused(write)
    assert (problem.code, call.changes, leftovers(ws)) == (code, [], [])
    assert ((ws / "f").read_bytes() if (ws / "f").exists() else None) == there


async def test_a_file_that_appeared_after_it_was_judged_is_not_replaced(
    files: WorkspaceFiles, call: BoundFiles, ws: Path
) -> None:
    """Judged as new, it stays new; what this very call made it may write again."""
    place = files.resolve("f")
    (ws / "f").write_bytes(b"theirs")
    assert (await refused(call.write(place, b"ours", expected_sha256=None))).code is Code.STALE_FILE
    (ws / "f").unlink()
    await call.write(place, b"ours", expected_sha256=None)
    await call.write(place, b"ours again", expected_sha256=sha(b"ours"))
    assert (ws / "f").read_bytes() == b"ours again"


async def test_a_hard_linked_file_is_not_split_silently(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """The refusal says so; reading it is allowed."""
    outside = ws.parent / "outside"
    outside.write_bytes(b"shared")
    (ws / "f").hardlink_to(outside)
    problem = await refused(call.write(files.resolve("f"), b"new", expected_sha256=None))
    assert (problem.code, problem.details["links"]) == (Code.PATH_PROTECTED, 2)
    assert (outside.read_bytes(), (ws / "f").read_bytes()) == (b"shared", b"shared")
    assert (await call.read(files.resolve("f"), 100)).data == b"shared"


async def test_a_link_inside_is_written_through(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """The link stays a link; its target changes, also one that did not exist."""
    (ws / "real").write_bytes(b"old")
    (ws / "link").symlink_to("real")
    (ws / "dangling").symlink_to("made")
    await call.write(files.resolve("link"), b"new", expected_sha256=None)
    await call.write(files.resolve("dangling"), b"fresh", expected_sha256=None)
    assert (os.readlink(ws / "link"), (ws / "real").read_bytes()) == ("real", b"new")
    assert (os.readlink(ws / "dangling"), (ws / "made").read_bytes()) == ("made", b"fresh")


def linked(path: Path) -> None:
    """A link takes the name."""
    path.unlink()
    path.symlink_to("/etc/hostname")


@pytest.mark.parametrize("moment", ["renamed_old", "exchange"])
@pytest.mark.parametrize("outside", [replaced, in_place, linked])
async def test_a_change_between_check_and_replace_is_found_and_kept(
    files: WorkspaceFiles,
    call: BoundFiles,
    ws: Path,
    outside: Callable[[Path], None],
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever changes the file in the last moment, or in the very last, keeps what they wrote."""
    (ws / "f").write_bytes(b"old")
    once(monkeypatch, moment, lambda: outside(ws / "f"))
    problem = await refused(call.write(files.resolve("f"), b"new", expected_sha256=sha(b"old")))
    assert (problem.code, call.changes, leftovers(ws)) == (Code.STALE_FILE, [], [])
    assert os.readlink(ws / "f") == "/etc/hostname" if outside is linked else (ws / "f").read_bytes() == b"theirs"


def once(monkeypatch: pytest.MonkeyPatch, step: str, before: Callable[[], None]) -> None:
    """Let something happen right before a step is done for the first time."""
    real, late = getattr(names, step), iter([before])

    def disturbed(*args: object) -> object:
        next(late, lambda: None)()
        return real(*args)

    monkeypatch.setattr(names, step, disturbed)


async def test_a_file_made_by_another_in_the_last_moment_is_kept(
    files: WorkspaceFiles, call: BoundFiles, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new file takes no name that something has by then."""
    for step in ("put_new", "name_unnamed"):
        once(monkeypatch, step, lambda: in_place(ws / "f"))
    problem = await refused(call.write(files.resolve("f"), b"ours", expected_sha256=None))
    assert (problem.code, leftovers(ws), (ws / "f").read_bytes()) == (Code.STALE_FILE, [], b"theirs")


async def test_a_file_system_without_unnamed_files_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then new files are written under a temporary name there, and nothing of it stays."""
    asked: list[str] = []
    real = os.open

    def refusing(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            asked.append(path)
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(names, "_unnamed", {})
    monkeypatch.setattr(os, "open", refusing)
    files, ws = workspace(tmp_path), tmp_path / "ws"
    call = files.bind("c", ())
    for name in ("a", "b"):
        await call.write(files.resolve(name), name.encode(), expected_sha256=None)
    await files.close()
    assert ({path.name: path.read_bytes() for path in ws.iterdir()}, asked) == ({"a": b"a", "b": b"b"}, ["."])


async def test_where_a_file_cannot_be_named_later_it_has_a_temporary_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container without `/proc`, or that forbids the link, can open a file without a name and do nothing with it."""

    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(names, "_unnamed", {})
    monkeypatch.setattr(os, "link", forbidden)
    files, ws = workspace(tmp_path), tmp_path / "ws"
    await files.bind("c", ()).write(files.resolve("a"), b"a", expected_sha256=None)
    await files.close()
    assert {path.name: path.read_bytes() for path in ws.iterdir()} == {"a": b"a"}


async def test_a_third_version_is_never_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When someone saves again while an exchange is taken back, that is what stands there, the other one beside it."""
    files = workspace(tmp_path)
    ws = tmp_path / "ws"
    (ws / "f").write_bytes(b"old")
    put_back = standing._put_back

    def second(folder: int, temporary: str, name: str, *rest: object) -> None:
        (ws / "editor").write_bytes(b"theirs again")
        (ws / "editor").replace(ws / "f")
        put_back(folder, temporary, name, *rest)  # type: ignore[arg-type]

    once(monkeypatch, "exchange", lambda: replaced(ws / "f"))
    monkeypatch.setattr(standing, "_put_back", second)
    try:
        problem = await refused(files.bind("c", ()).write(files.resolve("f"), b"new", expected_sha256=None))
        kept = ws / problem.details["kept"]
        assert ((ws / "f").read_bytes(), kept.read_bytes()) == (b"theirs again", b"theirs")
    finally:
        await files.close()


async def test_a_folder_is_made_with_its_parents_once(files: WorkspaceFiles, call: BoundFiles, ws: Path) -> None:
    """What was made is recorded; making it again changes nothing."""
    assert await call.make_dir(files.resolve("a/b")) == [Change("a", "mkdir"), Change("a/b", "mkdir")]
    assert await call.make_dir(files.resolve("a/b")) == []
    (ws / "f").touch()
    for path in ("f", "f/x"):
        assert (await refused(call.make_dir(files.resolve(path)))).code is Code.NOT_A_DIRECTORY


async def test_a_folder_is_not_made_through_a_link_that_came_later(
    files: WorkspaceFiles, call: BoundFiles, ws: Path
) -> None:
    """What was judged as missing is made there or nowhere."""
    (ws.parent / "outside").mkdir()
    place = files.resolve("new/folder")
    (ws / "new").symlink_to(ws.parent / "outside")
    assert (await refused(call.make_dir(place))).code is Code.NOT_A_DIRECTORY
    assert list((ws.parent / "outside").iterdir()) == []


async def test_nothing_is_changed_beneath_a_root_that_is_only_read(tmp_path: Path) -> None:
    """Whoever allowed it: writing, making, deleting, moving out and in, putting back."""
    for folder in ("ws", "docs"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f").write_bytes(b"old")
    roots = [Root("workspace", str(tmp_path / "ws"), True), Root("docs", str(tmp_path / "docs"), False)]
    files = WorkspaceFiles(roots, allow_absolute=True, images=None, locks_dir=None)
    call, ours, theirs = files.bind("c", ()), files.resolve("f"), files.resolve(f"{tmp_path}/docs/f")
    try:
        for attempt in (
            call.write(theirs, b"new", expected_sha256=None),
            call.make_dir(files.resolve(f"{tmp_path}/docs/new")),
            call.delete(theirs, recursive=False),
            call.move(theirs, files.resolve("g"), overwrite=False),
            call.move(ours, theirs, overwrite=True),
            call.restore(theirs, Change("f", "create"), None),
        ):
            assert (await refused(attempt)).code is Code.PATH_OUTSIDE_ROOTS
        assert [path.read_bytes() for path in tmp_path.glob("*/*")] == [b"old", b"old"]
    finally:
        await files.close()


async def test_a_file_that_has_grown_since_it_was_judged_is_not_read_through(tmp_path: Path) -> None:
    """It is another one, whatever is in it; to find that out by its hash would take as long as it is large."""
    files = workspace(tmp_path)
    file = tmp_path / "ws/a"
    file.write_bytes(b"x")
    place, call = files.resolve("a"), files.bind("c", ())
    os.truncate(file, 1 << 40)  # it would take a quarter of an hour
    problem = await refused(call.write(place, b"y", expected_sha256=sha(b"x")))
    assert (problem.code, "it has grown since this call was judged" in problem.message) == (Code.STALE_FILE, True)
    assert (file.stat().st_size, call.changes, leftovers(tmp_path / "ws")) == (1 << 40, [], [])
    await files.close()

"""No power loss, at whatever moment, loses an acknowledged record or leaves a file in half."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from faults.crash_images import Image, Recorder, broken, verdicts
from handrail.errors import Problem, RunFault
from handrail.store import private, reader
from handrail.store.journal import FileJournal
from handrail.store.state import fold
from handrail.words import Root
from handrail.workspace.files import WorkspaceFiles
from journaling import Clock, write_half_then_fail
from workspaces import without_unnamed

SKIP = frozenset({"lock"})
TEXT = "x" * 700  # more than a sector


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where images are restored: in memory, since nothing there has to last."""
    memory = Path("/dev/shm")
    return (memory if memory.is_dir() else tmp_path) / f"handrail-image-{os.getpid()}"


# ── the journal ──────────────────────────────────────────────────────────────────────────────


def opened(root: Path) -> FileJournal:
    return FileJournal.open(root / "run", "run", Clock())


def tell(recorder: Recorder) -> None:
    recorder.tell(reader.head_of(recorder.root / "run"))


async def first_run(recorder: Recorder) -> None:
    """A new run with durable lines between lines that were only flushed, then closed."""
    journal = opened(recorder.root)
    journal.append("run.started", None, {})
    journal.flush()
    for number in range(2):
        journal.append("tool.started", f"c{number}", {"tool": "write_file", "text": TEXT})
        await journal.durable()
        tell(recorder)
        for size in (1, 5, 900):
            journal.append("display", f"c{number}", {"text": "y" * size})
            journal.flush()
    await journal.close()
    tell(recorder)


async def second_run(recorder: Recorder) -> None:
    """A run that lost its owner without a sync, opened by the next one, who adds nothing and keeps a checkpoint."""
    journal = opened(recorder.root)
    await journal.close()
    tell(recorder)


async def full_run(recorder: Recorder) -> None:
    """A run on a disk that is full for a moment, in the middle of a write of several lines."""
    journal = opened(recorder.root)
    journal.append("run.started", None, {})
    journal.flush()
    for number in range(3):
        journal.append("display", f"c{number}", {"text": TEXT})
    with pytest.MonkeyPatch.context() as patch:
        write_half_then_fail(patch, errno.ENOSPC)
        with pytest.raises(Problem):
            journal.flush()
    for number in range(3):
        journal.append("display", f"d{number}", {"text": "z" * 300 * number})
        journal.flush()
    await journal.close()
    tell(recorder)


async def mended_run(recorder: Recorder) -> None:
    """A run with a torn end, mended and gone on with."""
    journal = opened(recorder.root)
    assert journal.mended
    for number in range(2):
        journal.append("display", f"d{number}", {"text": "z" * 300})
        journal.flush()
    journal.append("tool.started", "c9", {"tool": "write_file"})
    await journal.durable()
    tell(recorder)
    journal.abandon()


async def hasty_run(recorder: Recorder) -> None:
    """What must be caught: acknowledges what is written and not yet synced."""
    journal = opened(recorder.root)
    journal._syncer.nudge = lambda: None  # type: ignore[method-assign]  # it would sync some time later
    journal.append("tool.started", "c1", {"tool": "write_file", "text": TEXT})
    journal.flush()
    tell(recorder)
    journal.abandon()


def check_journal(place: Path, image: Image) -> str:
    """What is wrong with a journal after a crash, or nothing."""
    run = place / "run"
    try:
        journal = opened(place)
    except RunFault as fault:
        return f"cannot be opened: {fault}"
    journal.abandon()
    if journal.read_only:
        return f"taken for tampering: {journal.read_only}"
    for head in image.told:
        if not (found := reader.verify(run, head)).ok:
            return f"acknowledged and lost: {found.problem}"
    found = reader.verify(run)
    if not found.ok or found.torn_bytes:
        return f"torn after opening: {found.problem}"
    return "" if fold(reader.events(run)) == journal.state else "the state is not what the events give"


def record(root: Path, scenario: Callable[[Recorder], object], ignore: frozenset[str] = frozenset()) -> Recorder:
    """Run a scenario below a folder, recorded."""
    root.mkdir(exist_ok=True)
    with Recorder(root, ignore=ignore, skip=SKIP) as recorder:
        asyncio.run(scenario(recorder))  # type: ignore[arg-type]
    return recorder


@pytest.mark.parametrize("scenario", [first_run, full_run])
def test_no_crash_loses_an_acknowledged_line_or_makes_a_run_unusable(
    tmp_path: Path, place: Path, scenario: Callable[[Recorder], object]
) -> None:
    """Every image of a new run opens, is not taken for tampered, and holds all that was told durable."""
    count, wrong = broken(record(tmp_path / "root", scenario), place, check_journal)
    assert (count > 100, wrong) == (True, [])


def test_a_checkpoint_never_vouches_for_lines_that_a_crash_can_take(tmp_path: Path, place: Path) -> None:
    """What a killed owner left unsynced is synced before the next one builds on it."""
    root = tmp_path / "root"
    root.mkdir()
    with Recorder(root, skip=SKIP) as recorder:
        write_and_die(root)
        asyncio.run(second_run(recorder))
    count, wrong = broken(recorder, place, check_journal)
    assert (count > 200, wrong) == (True, [])


def write_and_die(root: Path) -> None:
    """Write lines and let go of the run as a killed process does: nothing is synced."""
    journal = opened(root)
    journal._syncer.nudge = lambda: None  # type: ignore[method-assign]
    journal._syncer.stop = lambda: None  # type: ignore[method-assign]
    for number in range(3):
        journal.append("display", None, {"n": number, "text": TEXT})
        journal.flush()
    journal.abandon()


@pytest.mark.parametrize(
    "torn",
    [b'{"seq":3,"ts"', b'{"seq":3,"text":"' + b"y" * 3000, b"\0" * 600, b"\0" * 512 + b'{"seq":4}\n{"seq":5}\n'],
    ids=["short", "long", "hole", "hole with lines"],
)
def test_a_crash_while_mending_can_be_mended_again(tmp_path: Path, place: Path, torn: bytes) -> None:
    """The torn bytes are kept aside in full before they are cut, whenever the power goes."""
    root = tmp_path / "root"
    record(root, first_run)
    with (root / "run" / "events.jsonl").open("ab") as file:
        file.write(torn)
    recorder = record(root, mended_run)

    def check(place: Path, image: Image) -> str:
        kept_before = check_journal(place, image)
        aside = [path.read_bytes() for path in (place / "run").glob("torn-*.bin")]
        return kept_before or ("" if torn in aside else "the torn bytes are gone")

    count, wrong = broken(recorder, place, check)
    assert (count > 30, wrong) == (True, [])


@pytest.mark.parametrize(
    ("scenario", "ignore", "symptom"),
    [
        (first_run, {"file"}, "acknowledged and lost"),
        (first_run, {"folder"}, "acknowledged and lost"),
        (hasty_run, set(), "acknowledged and lost"),
    ],
    ids=["without syncing the file", "without syncing the folder", "telling before syncing"],
)
def test_the_simulator_catches_a_journal_that_does_not_wait_for_the_disk(
    tmp_path: Path, place: Path, scenario: Callable[[Recorder], object], ignore: set[str], symptom: str
) -> None:
    """Each of the three ways to be careless shows as a lost record."""
    found = verdicts(record(tmp_path / "root", scenario, frozenset(ignore)), place, check_journal)
    assert any(problem.startswith(symptom) for problem in found)


# ── atomic writing ───────────────────────────────────────────────────────────────────────────

Writer = Callable[[Path, bytes], None]
OLD, NEW = b"old " * 300, b"new " * 400


def store_writer(path: Path, data: bytes) -> None:
    """How the store replaces its files."""
    private.write_atomic(path, [data[:100], data[100:]])


def careless(path: Path, data: bytes, *, in_place: bool = False) -> None:
    """How files are replaced by who has not thought of crashes."""
    draft = path if in_place else path.with_name("draft")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(handle, data)
    os.fsync(handle)
    os.close(handle)
    if not in_place:
        os.rename(draft, path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def workspace_writer(path: Path, data: bytes) -> None:
    """How tools replace and make files: through the workspace, with its exchange of names."""

    async def write() -> None:
        files = WorkspaceFiles((Root("workspace", str(path.parent), writable=True),), images=None, locks_dir=None)
        try:
            bound = files.bind("call", ())
            await bound.write(files.resolve(path.name), data, expected_sha256=None)
        finally:
            await files.close()

    asyncio.run(write())


def named_writer(path: Path, data: bytes) -> None:
    """The same where a file cannot be without a name."""
    with pytest.MonkeyPatch.context() as patch:
        without_unnamed(patch)
        workspace_writer(path, data)


WRITERS: dict[str, Writer] = {"store": store_writer, "workspace": workspace_writer, "named": named_writer}


def replaced(root: Path, write: Writer, ignore: frozenset[str] = frozenset()) -> Recorder:
    """Replace a file and tell when it is done, recorded."""
    root.mkdir()
    (root / "file").write_bytes(OLD)
    with Recorder(root, ignore=ignore) as recorder:
        write(root / "file", NEW)
        recorder.tell("new")
    return recorder


def check_file(place: Path, image: Image) -> str:
    """What is wrong with a replaced file after a crash, or nothing."""
    if not (place / "file").exists():
        return "gone"
    found = (place / "file").read_bytes()
    if found not in (OLD, NEW):
        return "neither old nor new"
    return "told and lost" if image.told and found != NEW else ""


@pytest.mark.parametrize("name", WRITERS)
def test_a_replaced_file_is_old_or_new_and_new_once_told(tmp_path: Path, place: Path, name: str) -> None:
    """Whenever the power goes, the file is whole; after the call it is the new one."""
    count, wrong = broken(replaced(tmp_path / "root", WRITERS[name]), place, check_file)
    assert (count > 20, wrong) == (True, [])


@pytest.mark.parametrize(
    ("write", "ignore", "symptom"),
    [
        (store_writer, {"file"}, "neither old nor new"),
        (store_writer, {"folder"}, "told and lost"),
        (workspace_writer, {"file"}, "neither old nor new"),
        (workspace_writer, {"folder"}, "told and lost"),
        (partial(careless, in_place=True), set(), "neither old nor new"),
        (careless, {"file"}, "neither old nor new"),
    ],
    ids=[
        "without syncing the file",
        "without syncing the folder",
        "a workspace without syncing the file",
        "a workspace without syncing the folder",
        "in place",
        "renamed before it is synced",
    ],
)
def test_the_simulator_catches_careless_writing(
    tmp_path: Path, place: Path, write: Writer, ignore: set[str], symptom: str
) -> None:
    """Leaving out any step of an atomic write shows."""
    assert symptom in verdicts(replaced(tmp_path / "root", write, frozenset(ignore)), place, check_file)


@pytest.mark.parametrize("name", WRITERS)
def test_a_new_file_is_there_whole_or_not_at_all(tmp_path: Path, place: Path, name: str) -> None:
    """Also where nothing stood before."""
    root = tmp_path / "root"
    root.mkdir()
    with Recorder(root) as recorder:
        WRITERS[name](root / "file", NEW)
        recorder.tell("new")

    def check(place: Path, image: Image) -> str:
        found = (place / "file").read_bytes() if (place / "file").exists() else None
        return "" if found == NEW or (found is None and not image.told) else "lost or in half"

    assert broken(recorder, place, check)[1] == []
    with Recorder(root, ignore=frozenset({"file"})) as hasty:
        WRITERS[name](root / "other", NEW)
    assert any(
        (found := (image.folders[image.root]).get("other")) is not None and image.files.get(found) != NEW
        for image in hasty.images()
    )
    bare = replaced(tmp_path / "bare", partial(careless, in_place=True))
    assert broken(bare, place, check_file)[1] != []


def test_writing_around_the_recorder_is_noticed(tmp_path: Path) -> None:
    """A write it does not see would make every image a lie."""
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(AssertionError), Recorder(root):
        (root / "file").write_bytes(b"unseen")

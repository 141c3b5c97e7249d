"""What lies in a run's folder beside the journal: places, lists, spilled output, pre-images, outcomes, projections."""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest

from handrail.errors import Code, Misuse, Problem, RunFault
from handrail.ports import Spill
from handrail.store import folders, projections
from handrail.store.images import Images
from handrail.store.journal import FileJournal
from handrail.store.outcomes import Outcomes
from handrail.store.spill import FileSpill
from handrail.words import Ref
from journaling import Clock


def modes(folder: Path) -> set[str]:
    return {oct(path.stat().st_mode & 0o777) for path in [folder, *folder.rglob("*")]}


# ── folders ──────────────────────────────────────────────────────────────────────────────────


def test_a_run_has_all_its_places_and_they_are_private(tmp_path: Path) -> None:
    """Made at once with the folders above it; making it again changes nothing."""
    run = folders.create(tmp_path / "state" / "runs", "run-1")
    assert folders.create(tmp_path / "state" / "runs", "run-1") == run
    places = [run.logs, run.outcomes, run.observations, run.artifacts]
    places += [run.deliverables, run.workspace, run.sandbox, run.archive]
    assert sorted(run.path.iterdir()) == sorted(places)
    assert modes(tmp_path / "state") == {"0o700"}
    assert (run.run_id, run.events) == ("run-1", run.path / "events.jsonl")


def test_places_that_were_open_to_others_are_closed(tmp_path: Path) -> None:
    """A folder made by somebody less careful is made private."""
    (tmp_path / "run-1" / "logs").mkdir(parents=True, mode=0o755)
    run = folders.create(tmp_path, "run-1")
    assert modes(run.path) == {"0o700"}


@pytest.mark.parametrize("planted", ["run-1", "run-1/observations"])
def test_a_link_in_the_place_of_a_folder_is_refused(tmp_path: Path, planted: str) -> None:
    """Nothing of a run goes where somebody else points to."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = tmp_path / "runs" / planted
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    with pytest.raises(RunFault) as caught:
        folders.create(tmp_path / "runs", "run-1")
    assert caught.value.code is Code.JOURNAL_UNAVAILABLE
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("run_id", ["", "..", ".x", "a/b", "a" * 129])
def test_a_run_is_never_made_outside_its_place(tmp_path: Path, run_id: str) -> None:
    """An unsafe name is misuse, before anything is made."""
    with pytest.raises(Misuse):
        folders.create(tmp_path / "runs", run_id)
    assert not (tmp_path / "runs").exists()


def write_events(run: folders.RunFolder, clock: Clock, count: int) -> None:
    journal = FileJournal.open(run.path, run.run_id, clock)
    for number in range(count):
        clock.time += 1
        journal.append("display", None, {"n": number, "text": "x" * 70_000})
    journal.flush()
    journal.abandon()


def test_runs_are_listed_newest_first_from_their_folders(tmp_path: Path) -> None:
    """By description and journal's ends alone; a torn end, a stray file and a foreign folder do not disturb."""
    clock = Clock()
    for name in ("b", "a"):
        run = folders.create(tmp_path, name)
        run.describe({"workspace": f"/{name}"})
        write_events(run, clock, 2)
    with (tmp_path / "a" / "events.jsonl").open("ab") as file:
        file.write(b'{"seq":3')
    folders.create(tmp_path, "empty")
    shutil.copytree(tmp_path / "a", tmp_path / ".hidden")
    (tmp_path / "stray").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert folders.list_runs(tmp_path) == [
        folders.RunInfo(
            "a",
            tmp_path / "a",
            "2023-11-14T22:13:23.250000Z",
            "2023-11-14T22:13:24.250000Z",
            2,
            "display",
            {"workspace": "/a"},
        ),
        folders.RunInfo(
            "b",
            tmp_path / "b",
            "2023-11-14T22:13:21.250000Z",
            "2023-11-14T22:13:22.250000Z",
            2,
            "display",
            {"workspace": "/b"},
        ),
    ]
    assert folders.list_runs(tmp_path / "none") == []


# ── spill ────────────────────────────────────────────────────────────────────────────────────


def test_every_spilled_text_has_a_number_of_its_own(tmp_path: Path) -> None:
    """Across names, after opening again, and beside files that are there already."""
    spill: Spill = FileSpill(tmp_path)
    refs = [spill.put("one").ref, spill.put("two", "stdout").ref]
    (tmp_path / "3.txt").write_text("somebody else's")
    refs += [spill.put("three").ref, FileSpill(tmp_path).put("four", "stderr").ref]
    assert refs == [
        "run:observations/1.txt",
        "run:observations/stdout_2.txt",
        "run:observations/4.txt",
        "run:observations/stderr_5.txt",
    ]
    assert (tmp_path / "3.txt").read_text() == "somebody else's"


def test_a_spilled_text_is_kept_as_it_is_and_named_by_its_hash(tmp_path: Path) -> None:
    """The reference tells size and hash of the bytes in the file, which only the owner can read."""
    text = "übel \udce4 \r\n\0"
    ref = FileSpill(tmp_path).put(text)
    data = (tmp_path / "1.txt").read_bytes()
    assert ref == Ref("run:observations/1.txt", sha256(data).hexdigest(), len(data))
    assert data == "übel \\udce4 \r\n\0".encode()
    assert (tmp_path / "1.txt").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["../x", "a/b", ".", "a\0", "é", "a" * 65])
def test_the_name_of_a_spilled_text_cannot_lead_elsewhere(tmp_path: Path, name: str) -> None:
    """It is part of a file's name."""
    with pytest.raises(ValueError, match="cannot name"):
        FileSpill(tmp_path).put("text", name)


# ── pre-images ───────────────────────────────────────────────────────────────────────────────


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


@pytest.mark.parametrize("data", [b"", b"some text\n", os.urandom(3_000_000)])
@pytest.mark.parametrize("by_handle", [True, False])
def test_a_pre_image_gives_back_every_byte(tmp_path: Path, data: bytes, by_handle: bool) -> None:
    """From a path or from an open file, wherever its position stands and without moving it."""
    source, images = tmp_path / "source", Images(tmp_path, 10_000_000)
    source.write_bytes(data)
    with source.open("rb") as file:
        file.seek(5)
        assert images.keep(file.fileno() if by_handle else source, digest(data))
        assert file.tell() == 5
    assert images.load(digest(data)) == data
    assert modes(tmp_path / "images") == {"0o700", "0o600"}


def test_the_same_content_is_kept_once(tmp_path: Path) -> None:
    """And counts once against the bound, also after opening again."""
    images = Images(tmp_path, 25)
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"0123456789")
        assert images.keep(tmp_path / name, digest(b"0123456789"))
    for again in (images, Images(tmp_path, 25)):
        assert (again.room(15), again.room(16)) == (True, False)


def test_an_image_beyond_the_bound_is_not_kept(tmp_path: Path) -> None:
    """Keeping says so and leaves nothing behind."""
    (tmp_path / "a").write_bytes(b"0123456789")
    images = Images(tmp_path, 9)
    assert not images.keep(tmp_path / "a", digest(b"0123456789"))
    assert list((tmp_path / "images").iterdir()) == []


def test_what_is_not_what_it_should_be_is_not_kept(tmp_path: Path) -> None:
    """A file that changed since it was hashed would put the wrong thing back."""
    (tmp_path / "a").write_bytes(b"changed")
    with pytest.raises(Problem) as caught:
        Images(tmp_path, 100).keep(tmp_path / "a", digest(b"as it was"))
    assert caught.value.code is Code.STALE_FILE
    assert list((tmp_path / "images").iterdir()) == []


def test_a_damaged_or_missing_image_is_never_given_back(tmp_path: Path) -> None:
    """Undo refuses rather than write something else."""
    (tmp_path / "a").write_bytes(b"text")
    images = Images(tmp_path, 100)
    images.keep(tmp_path / "a", digest(b"text"))
    images.path(digest(b"text")).write_bytes(b"tex!")
    for wanted, code in ((b"text", Code.IO_ERROR), (b"other", Code.NOT_FOUND)):
        with pytest.raises(Problem) as caught:
            images.load(digest(wanted))
        assert caught.value.code is code
    with pytest.raises(ValueError, match="is not a sha256"):
        images.load("../../etc/passwd")


# ── outcomes ─────────────────────────────────────────────────────────────────────────────────


def test_an_outcome_is_found_by_its_key_alone(tmp_path: Path) -> None:
    """Any text is a key; the last outcome counts; what cannot be read is none."""
    outcomes = Outcomes(tmp_path / "outcomes")
    for key in ("k", "../k", "\udce4", "k" * 10_000):
        assert outcomes.get(key) is None
        outcomes.put(key, {"status": "failed"})
        outcomes.put(key, {"status": "ok", "content": key[:10]})
    assert [outcomes.get(key) for key in ("k", "../k", "\udce4")] == [
        {"status": "ok", "content": "k"},
        {"status": "ok", "content": "../k"},
        {"status": "ok", "content": "\\udce4"},
    ]
    assert modes(tmp_path / "outcomes") == {"0o700", "0o600"}
    assert len(list((tmp_path / "outcomes").iterdir())) == 4
    (tmp_path / "outcomes" / f"{digest(b'k')}.json").write_bytes(b"{")
    assert outcomes.get("k") is None


# ── projections ──────────────────────────────────────────────────────────────────────────────

STARTED = {"trace_id": "t", "tool": "write_file", "version": "1.0.0", "risk": "high", "args": {"path": "a"}}
GRANT = {"id": "g", "request": "q", "uses_left": None}
EVENTS: list[tuple[str, str | None, dict[str, Any]]] = [
    ("run.started", None, {}),
    ("approval.granted", "c1", {"grant": GRANT}),
    ("tool.started", "c1", STARTED),
    ("tool.started", "c2", {**STARTED, "tool": "now"}),
    (
        "tool.completed",
        "c1",
        {
            "trace_id": "t",
            "tool": "write_file",
            "status": "ok",
            "effect": "done",
            "duration_ms": 2.0,
            "approved": True,
            "scope": "run",
            "files_changed": [{"path": "a", "op": "create", "before": None, "after": "h1"}],
            "refs": [{"ref": "run:observations/1.txt", "sha256": "h2", "bytes": 1}],
            "evidence": [["file", "a", "h1"], ["tool", "b", None]],
        },
    ),
    (
        "tool.failed",
        "c3",
        {
            **STARTED,
            "status": "denied",
            "code": "POLICY_DENIED",
            "class": "policy",
            "message": "no",
            "effect": "none",
            "duration_ms": 1.0,
            "started": False,
        },
    ),
]


def test_projections_tell_every_finished_call_every_failure_and_every_grant(tmp_path: Path) -> None:
    """One line a finished call with what its start said, one a failed call, the grants in force; written anew."""
    journal = FileJournal.open(tmp_path, "run-1", Clock())
    for kind, call_id, fields in EVENTS:
        journal.append(kind, call_id, fields)
    journal.flush()
    journal.abandon()
    for _ in range(2):
        projections.project(tmp_path)
    ts = "2023-11-14T22:13:20.250000Z"
    common = {"ts": ts, "trace_id": "t", "tool": "write_file"}
    call = {**common, "version": "1.0.0", "risk": "high", "args": {"path": "a"}}
    tools = [
        {
            **call,
            "call_id": "c1",
            "ok": True,
            "status": "ok",
            "code": None,
            "duration_ms": 2.0,
            "approved": True,
            "scope": "run",
            "artifacts": {"files_changed": ["a"], "commands_run": [], "refs": ["run:observations/1.txt"]},
            "hashes": {"a": "h1", "run:observations/1.txt": "h2"},
        },
        {
            **call,
            "call_id": "c3",
            "ok": False,
            "status": "denied",
            "code": "POLICY_DENIED",
            "duration_ms": 1.0,
            "approved": False,
            "scope": "none",
            "artifacts": {"files_changed": [], "commands_run": [], "refs": []},
            "hashes": {},
        },
    ]
    failure = {"status": "denied", "code": "POLICY_DENIED", "class": "policy", "message": "no", "effect": "none"}
    assert _lines(tmp_path / "logs" / "tools.jsonl") == tools
    assert _lines(tmp_path / "logs" / "errors.jsonl") == [{**common, **failure, "call_id": "c3", "duration_ms": 1.0}]
    assert orjson.loads((tmp_path / "grants.json").read_bytes()) == [GRANT]
    assert {path.name for path in tmp_path.rglob("*.tmp")} == set()


LOGS = ("logs/tools.jsonl", "logs/errors.jsonl", "grants.json")


def _projected(folder: Path) -> list[bytes]:
    projections.project(folder)
    return [(folder / name).read_bytes() for name in LOGS]


@pytest.mark.parametrize("harm", ["none", "no logs", "shorter log", "spoiled mark", "other journal"])
def test_projecting_bit_by_bit_gives_what_projecting_at_once_gives(tmp_path: Path, harm: str) -> None:
    """After every event, whatever became of the logs or the journal in between."""
    for number, (kind, call_id, fields) in enumerate(EVENTS):
        journal = FileJournal.open(tmp_path / "bits", "run-1", Clock())
        journal.append(kind, call_id, fields)
        journal.flush()
        journal.abandon()
        bits = _projected(tmp_path / "bits")
        if harm == "no logs" and number == 4:
            (tmp_path / "bits" / LOGS[0]).unlink()
        if harm == "shorter log" and number == 4:
            os.truncate(tmp_path / "bits" / LOGS[0], 10)
        if harm == "spoiled mark":
            (tmp_path / "bits" / "logs" / ".reached.json").write_bytes(b"{}")
    if harm == "other journal":
        data = (tmp_path / "bits" / "events.jsonl").read_bytes().replace(b'"write_file"', b'"write_safe"')
        (tmp_path / "bits" / "events.jsonl").write_bytes(data)
        bits = _projected(tmp_path / "bits")
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "events.jsonl").write_bytes((tmp_path / "bits" / "events.jsonl").read_bytes())
    assert bits == _projected(tmp_path / "whole")


def _lines(path: Path) -> list[Any]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]

"""The journal: its lines and their chain, its checkpoint, and that one process owns it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handrail.errors import Code, Misuse, Problem, RunFault
from handrail.ports import Journal
from handrail.store import checkpoint, reader
from handrail.store import journal as journal_module
from handrail.store.chain import Mark
from handrail.store.checkpoint import Checkpoint
from handrail.store.journal import FileJournal
from handrail.store.state import KeyRecord, fold
from journaling import Clock, forged, lines_of, open_run, reopen, write_calls, write_run


async def test_a_line_has_the_header_of_the_contract_then_the_fields(tmp_path: Path) -> None:
    """Names, order, time and hashes of the first two lines are exactly these."""
    journal = open_run(tmp_path / "run")
    journal.append("run.started", None, {})
    journal.append("tool.started", "c-1", {"trace_id": "t", "tool": "now"})
    await journal.close()
    first = b'{"seq":1,"ts":"2023-11-14T22:13:20.250000Z","run_id":"run-1","kind":"run.started","prev":"%b"}' % (
        b"0" * 64
    )
    second = (
        b'{"seq":2,"ts":"2023-11-14T22:13:20.250000Z","run_id":"run-1","kind":"tool.started","call_id":"c-1",'
        b'"prev":"%b","trace_id":"t","tool":"now"}' % sha256(first).hexdigest().encode()
    )
    assert (tmp_path / "run" / "events.jsonl").read_bytes() == first + b"\n" + second + b"\n"
    assert (journal.seq, journal.head) == (2, sha256(second).hexdigest())


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
fields = st.dictionaries(st.text(max_size=8).map(lambda name: f"x_{name}"), json_values, max_size=5)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(many=st.lists(fields, max_size=8))
def test_whatever_is_appended_can_be_read_back_and_verified(
    tmp_path_factory: pytest.TempPathFactory, many: list[dict[str, Any]]
) -> None:
    """Lone surrogates, huge numbers, bytes: every line is JSON, fits the chain and names the same fields."""
    folder = tmp_path_factory.mktemp("run")
    journal = open_run(folder)
    for one in many:
        journal.append("display", "c-1", one)
    journal.flush()
    journal.abandon()
    found = list(reader.events(folder))
    assert reader.verify(folder) == reader.Verification(True, len(many), reader.head_of(folder))
    assert [len([name for name in event if name.startswith("x_")]) for event in found] == [len(one) for one in many]


async def test_an_event_is_in_the_file_after_flush_and_not_before(tmp_path: Path) -> None:
    """Appending writes nothing; flush hands over all lines in one write."""
    journal = open_run(tmp_path)
    as_the_kernel_sees_it: Journal = journal
    as_the_kernel_sees_it.append("display", None, {"n": 1})
    journal.append("display", None, {"n": 2})
    assert lines_of(tmp_path) == []
    journal.flush()
    assert [event["n"] for event in reader.events(tmp_path)] == [1, 2]
    await journal.close()


async def test_a_reopened_run_goes_on_where_it_was(tmp_path: Path) -> None:
    """Numbers and hashes continue over processes."""
    await write_run(tmp_path, 3)
    journal = open_run(tmp_path)
    assert (journal.seq, journal.mended, journal.read_only) == (3, False, "")
    journal.append("display", None, {"n": 4})
    await journal.close()
    assert reader.verify(tmp_path) == reader.Verification(True, 4, reader.head_of(tmp_path))


async def test_everything_in_a_run_is_private(tmp_path: Path) -> None:
    """Folders are 0700 and files 0600, also where the folder was open to others before."""
    folder = tmp_path / "runs" / "run-1"
    folder.mkdir(parents=True, mode=0o755)
    await write_run(folder, 3, checkpoint=True)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in [folder, *folder.iterdir()]}
    assert modes == {"run-1": "0o700", "events.jsonl": "0o600", "lock": "0o600", "checkpoint.json": "0o600"}


async def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    """A journal that is a link to somewhere else is refused, and that place stays as it is."""
    target = tmp_path / "elsewhere"
    target.write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "events.jsonl").symlink_to(target)
    with pytest.raises(RunFault) as caught:
        open_run(tmp_path / "run")
    assert (caught.value.code, caught.value.details) == (Code.JOURNAL_UNAVAILABLE, {"errno": errno.ELOOP})
    assert target.read_text() == "precious"


@pytest.mark.parametrize("run_id", ["", ".", "..", ".hidden", "a/b", "a b", 'a"b', "é", "a" * 129, "a\n"])
def test_an_unsafe_run_id_is_misuse(tmp_path: Path, run_id: str) -> None:
    """A run id is safe as a folder's name and inside a line."""
    with pytest.raises(Misuse):
        FileJournal.open(tmp_path / "run", run_id, Clock())


# ── checkpoint ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("at", [None, 0, 1, 7, 9])
async def test_checkpoint_and_tail_give_what_the_whole_journal_gives(tmp_path: Path, at: int | None) -> None:
    """Wherever the checkpoint was taken, the state after opening is the fold over all events."""
    state = await write_calls(tmp_path, 10, checkpoint_at=at)
    assert (tmp_path / "checkpoint.json").exists() == (at not in (None, 0))
    journal, _ = reopen(tmp_path)
    assert journal.state == fold(reader.events(tmp_path)) == state


async def test_a_checkpoint_in_the_middle_of_calls_knows_that_they_are_under_way(tmp_path: Path) -> None:
    """After a crash behind it, a call that had started is still unknown and still holds its key."""
    journal = open_run(tmp_path)
    journal.append("tool.started", "c-1", {"tool": "write_file", "key": "k", "args_digest": "d"})
    journal.checkpoint()
    journal.abandon()
    told: list[tuple[int, int]] = []
    journal = FileJournal.open(tmp_path, "run-1", Clock(), progress=lambda done, total: told.append((done, total)))
    journal.abandon()
    assert told == []  # from the checkpoint alone
    assert journal.state.keys == {"k": KeyRecord("c-1", "d", done=False)}
    assert journal.state.open_calls == {"c-1": {"tool": "write_file", "ts": "2023-11-14T22:13:20.250000Z", "key": "k"}}


async def test_a_long_journal_without_a_checkpoint_is_read_whole_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening it keeps a checkpoint at once, not only when it is closed."""
    state = await write_calls(tmp_path, 20)
    monkeypatch.setattr(journal_module, "CHECKPOINT_EVERY", 20)
    reopen(tmp_path)
    assert checkpoint.load(tmp_path) == Checkpoint(Mark(20, *_end(tmp_path)), state)


def _end(folder: Path) -> tuple[str, int]:
    return reader.head_of(folder).partition(":")[2], (folder / "events.jsonl").stat().st_size


async def test_opening_with_a_checkpoint_reads_only_the_tail(tmp_path: Path) -> None:
    """Progress is told of the bytes behind the checkpoint alone; without one, of all."""
    await write_calls(tmp_path, 2000)
    size = (tmp_path / "events.jsonl").stat().st_size
    told: list[tuple[int, int]] = []
    journal = FileJournal.open(tmp_path, "run-1", Clock(), progress=lambda done, total: told.append((done, total)))
    assert told == [(size, size)]
    journal.append("display", None, {})
    await journal.close()
    told.clear()
    journal = FileJournal.open(tmp_path, "run-1", Clock(), progress=lambda done, total: told.append((done, total)))
    assert (told, journal.seq, journal.state) == ([], 2001, fold(reader.events(tmp_path)))
    await journal.close()


async def test_a_spoiled_checkpoint_is_as_good_as_none(tmp_path: Path) -> None:
    """Whatever byte of it is changed, opening gives the state that the events give."""
    state = await write_calls(tmp_path, 4, checkpoint_at=3)
    good = (tmp_path / "checkpoint.json").read_bytes()
    for index in range(len(good)):
        (tmp_path / "checkpoint.json").write_bytes(good[:index] + bytes([good[index] ^ 1]) + good[index + 1 :])
        journal, _ = reopen(tmp_path)
        assert (journal.state, journal.read_only) == (state, ""), index


async def test_a_journal_that_lacks_what_its_checkpoint_vouches_for_is_read_only(tmp_path: Path) -> None:
    """A checkpoint stands only behind durable lines: without them the journal was cut or rewritten."""
    await write_calls(tmp_path, 6, checkpoint_at=5)
    lines = lines_of(tmp_path)
    (tmp_path / "events.jsonl").write_bytes(b"".join(lines[:3]))
    journal, _ = reopen(tmp_path)
    assert journal.read_only == "the journal ends at line 3, but its checkpoint vouches for line 5"
    (tmp_path / "events.jsonl").write_bytes(
        b"".join(forged([lines[0].replace(b'"now"', b'"not"'), *lines[1:]], "0" * 64))
    )
    journal, _ = reopen(tmp_path)
    assert journal.read_only == "line 5 is not the one that the checkpoint vouches for"


async def test_a_checkpoint_is_wanted_after_enough_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not again until as many have been added."""
    monkeypatch.setattr(journal_module, "CHECKPOINT_EVERY", 3)
    journal = open_run(tmp_path)
    wanted = []
    for _ in range(7):
        journal.append("display", None, {})
        wanted.append(journal.wants_checkpoint())
        if wanted[-1]:
            journal.checkpoint()
    await journal.close()
    assert wanted == [False, False, True, False, False, True, False]


# ── one owner ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_second_opening_is_told_who_holds_the_run(tmp_path: Path) -> None:
    """In this process and in another one: pid, program and since when; after closing it is free."""
    journal = open_run(tmp_path)
    with pytest.raises(RunFault) as caught:
        open_run(tmp_path)
    assert (caught.value.code, caught.value.details["pid"], caught.value.details["since"]) == (
        Code.RUN_BUSY,
        os.getpid(),
        "2023-11-14T22:13:20Z",
    )
    assert "this process" in str(caught.value)
    code = (
        "import sys, time, pathlib\n"
        "time.now = time.time\n"
        "from handrail.errors import RunFault\n"
        "from handrail.store.journal import FileJournal\n"
        "try: FileJournal.open(pathlib.Path(sys.argv[1]), 'run-1', time)\n"
        "except RunFault as fault: print(fault.code, fault.details['pid'])"
    )
    told = subprocess.run([sys.executable, "-c", code, tmp_path], check=True, capture_output=True, text=True)
    assert told.stdout == f"RUN_BUSY {os.getpid()}\n"
    await journal.close()
    await open_run(tmp_path).close()


async def test_a_refused_opening_changes_nothing(tmp_path: Path) -> None:
    """Nobody but the owner mends or cuts: a half-written line of the owner is not taken for a torn one."""
    journal = open_run(tmp_path)
    journal.append("display", None, {})
    journal.flush()
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"seq":2')
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(RunFault):
        open_run(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    await journal.close()


async def test_the_lock_names_no_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments can hold secrets, and the file outlives a killed process."""
    monkeypatch.setattr(sys, "argv", ["/usr/bin/handrail", "call", "token=hunter2"])
    journal = open_run(tmp_path)
    held_by = orjson.loads((tmp_path / "lock").read_bytes())
    await journal.close()
    assert held_by == {
        "pid": os.getpid(),
        "host": os.uname().nodename,
        "since": "2023-11-14T22:13:20Z",
        "cmdline": "handrail",
    }


async def test_closing_twice_or_appending_afterwards_is_safe(tmp_path: Path) -> None:
    """The second close does nothing; an append is refused; threads and descriptors are back where they were."""
    before = threading.active_count(), len(os.listdir("/proc/self/fd"))
    journal = open_run(tmp_path)
    journal.append("display", None, {})
    await journal.durable()
    await journal.close()
    await journal.close()
    with pytest.raises(Problem, match="closed"):
        journal.append("display", None, {})
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == before
    assert reader.verify(tmp_path).events == 1

"""What somebody changed in a journal is found; what a crash left is mended and not mistaken for it."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import orjson
import pytest

from handrail.errors import Code, Problem, RunFault
from handrail.store import checkpoint, reader
from journaling import forged, open_run, reopen, write_run


def tamperings(lines: list[bytes]) -> Iterator[tuple[str, list[bytes], int]]:
    """Every single change, removal, insertion and swap, with the line where it shows."""
    for index, line in enumerate(lines):
        before, after, number = lines[:index], lines[index + 1 :], index + 1
        if after:
            yield f"changed {number}", [*before, line.replace(b"number", b"Number"), *after], number + 1
            yield f"removed {number}", [*before, *after], number
            yield f"swapped {number}", [*before, after[0], line, *after[1:]], number
            yield f"spoiled {number}", [*before, b"x" + line[1:], *after], number
        yield f"doubled {number}", [*before, line, line, *after], number + 1
        other = line.replace(b'"run-1"', b'"run-2"')
        yield (
            f"of another run {number}",
            [*before, *forged([other], orjson.loads(line)["prev"]), *after],
            number + (index == 0),
        )
        yield f"renumbered {number}", [*before, line.replace(b'"seq":', b'"seq":1'), *after], number
        yield f"no event {number}", [*before, b"[]\n", *after], number


async def test_any_changed_removed_or_inserted_line_is_found_and_closes_the_run(tmp_path: Path) -> None:
    """Verifying names the line; opening is read-only, changes no byte and refuses every append, saying why."""
    lines = await write_run(tmp_path / "run")
    cases = list(tamperings(lines))
    assert len(cases) == 36
    for name, tampered, number in cases:
        (tmp_path / "run" / "events.jsonl").write_bytes(b"".join(tampered))
        found = reader.verify(tmp_path / "run")
        assert (found.ok, found.line) == (False, number), name
        journal = open_run(tmp_path / "run")
        assert journal.read_only, name
        with pytest.raises(Problem) as caught:
            journal.append("display", None, {})
        assert caught.value.code is Code.JOURNAL_UNAVAILABLE
        assert journal.read_only in str(caught.value)
        journal.abandon()
        assert (tmp_path / "run" / "events.jsonl").read_bytes() == b"".join(tampered), name


async def test_no_checkpoint_covers_a_change_made_while_the_run_was_open(tmp_path: Path) -> None:
    """Closing keeps none, so that the next opening reads the journal and finds the change."""
    journal = open_run(tmp_path)
    for number in range(3):
        journal.append("display", None, {"n": number})
    await journal.durable()
    data = (tmp_path / "events.jsonl").read_bytes()
    (tmp_path / "events.jsonl").write_bytes(data.replace(b'"n":0', b'"n":7'))
    await journal.close()
    assert checkpoint.load(tmp_path) is None
    assert reopen(tmp_path)[0].read_only == "line 2 does not follow the line before it"


async def test_a_checkpoint_that_knows_more_or_something_else_tells_of_loss(tmp_path: Path) -> None:
    """Cut at a line's end or rewritten as a whole, the chain holds; what the run kept beside it contradicts."""
    folder = tmp_path / "run"
    whole = await write_run(folder, checkpoint=True)
    known = checkpoint.load(folder)
    assert known is not None
    assert (known.mark.seq, reader.verify(folder).ok) == (len(whole), True)

    (folder / "events.jsonl").write_bytes(b"".join(whole[:-1]))
    cut = reader.verify(folder)
    lost = f"the checkpoint knows {len(whole)} events, but the journal ends after {len(whole) - 1}: events were lost"
    assert (cut.ok, cut.events, cut.problem, cut.line) == (False, len(whole) - 1, lost, len(whole))

    forgery = forged([whole[0].replace(b"number 0", b"nothing!"), *whole[1:]], "0" * 64)
    (folder / "events.jsonl").write_bytes(b"".join(forgery))
    told = f"line {len(whole)} is not the one that the checkpoint knows: the journal was rewritten"
    assert reader.verify(folder) == reader.Verification(False, len(whole), reader.head_of(folder), told, len(whole))


async def test_cutting_and_rewriting_are_found_only_with_a_head_kept_elsewhere(tmp_path: Path) -> None:
    """The chain alone holds for a shorter or a wholly new journal; a head of any earlier moment tells."""
    folder = tmp_path / "run"
    lines = await write_run(folder)
    events = folder / "events.jsonl"
    kept = f"4:{sha256(lines[3][:-1]).hexdigest()}"
    assert reader.verify(folder, kept).ok
    assert reader.verify(folder, kept.partition(":")[2]).ok

    events.write_bytes(b"".join(lines[:3]))
    assert reader.verify(folder).ok
    assert reader.verify(folder, kept).problem == (
        "the kept head is line 4, but the journal ends at line 3: lines were cut off"
    )
    assert not reader.verify(folder, kept.partition(":")[2]).ok

    events.write_bytes(b"".join(forged([lines[0].replace(b"number 0", b"nothing!"), *lines[1:]], "0" * 64)))
    assert reader.verify(folder).ok
    assert reader.verify(folder, kept) == reader.Verification(
        False, 5, reader.head_of(folder), "line 4 is not the one whose head was kept: the journal was rewritten", 4
    )


async def test_a_head_kept_in_a_file_is_never_replaced_by_one_that_forgets(tmp_path: Path) -> None:
    """Keeping a later head works; after lines were cut it is refused and the old head stays."""
    folder, target = tmp_path / "run", tmp_path / "elsewhere.json"
    lines = await write_run(folder)
    assert reader.keep_head(folder, target) == reader.head_of(folder)
    assert reader.keep_head(folder, target) == reader.head_of(folder)
    assert reader.check_head(folder, target).ok
    (folder / "events.jsonl").write_bytes(b"".join(lines[:-1]))
    before = target.read_bytes()
    with pytest.raises(RunFault, match="lines were cut off"):
        reader.keep_head(folder, target)
    assert (target.read_bytes(), reader.check_head(folder, target).ok) == (before, False)


@pytest.mark.parametrize("head", ["", "x", "5", "5:abc", f"x:{'0' * 64}", f"-1:{'0' * 64}", f"{'g' * 64}"])
async def test_what_is_no_head_is_refused(tmp_path: Path, head: str) -> None:
    """A slip of the pen is not taken for a journal that holds."""
    await write_run(tmp_path)
    with pytest.raises(RunFault) as caught:
        reader.verify(tmp_path, head)
    assert caught.value.code is Code.INVALID_ARGS


# ── torn ends ──────────────────────────────────────────────────────────────────────────────────────


async def test_cut_at_any_byte_a_journal_opens_with_every_whole_line(tmp_path: Path) -> None:
    """What was torn is kept aside byte by byte and recorded; the chain holds and names the crash before and after."""
    lines = await write_run(tmp_path / "whole", 3)
    data = b"".join(lines)
    starts = [0, len(lines[0]), len(lines[0]) + len(lines[1]), len(data)]
    cuts = sorted(
        {*range(0, len(data), 11), *starts, *(start - 1 for start in starts[1:]), *(s + 1 for s in starts[:3])}
    )
    for cut in cuts:
        folder = tmp_path / f"cut-{cut}"
        folder.mkdir()
        (folder / "events.jsonl").write_bytes(data[:cut])
        whole = sum(start <= cut for start in starts[1:])
        torn = data[starts[whole] : cut]
        found = reader.verify(folder)
        assert (found.ok, found.events, found.torn_bytes) == (True, whole, len(torn))
        journal, after = reopen(folder)
        assert (journal.mended, journal.read_only, after[:whole]) == (bool(torn), "", lines[:whole])
        if torn:
            assert (folder / f"torn-{whole + 1}.bin").read_bytes() == torn
            told = orjson.loads(after[whole])
            assert (told["kind"], told["bytes"], told["kept"]) == (
                "journal.mended",
                len(torn),
                f"torn-{whole + 1}.bin",
            )
        assert reader.verify(folder) == reader.Verification(True, whole + bool(torn), reader.head_of(folder))


@pytest.mark.parametrize(
    "tail",
    [b'{"seq":4,\n', b"\0" * 700, b"\0" * 700 + b"\n", b"\xff\xfe\n", b"\n", b"\0" * 512 + b'{"seq":5}\n{"seq":6}\n'],
)
async def test_what_a_crash_can_leave_is_mended_and_not_called_tampering(tmp_path: Path, tail: bytes) -> None:
    """A last line that cannot be parsed, and pages that were never written with all behind them, are torn."""
    lines = await write_run(tmp_path, 3)
    (tmp_path / "events.jsonl").write_bytes(b"".join(lines) + tail)
    assert reader.verify(tmp_path).torn_bytes == len(tail)
    journal, after = reopen(tmp_path)
    assert (journal.mended, after[:3], len(after)) == (True, lines, 4)
    assert (tmp_path / "torn-4.bin").read_bytes() == tail


async def test_a_crash_while_mending_loses_neither_the_torn_bytes_nor_the_record(tmp_path: Path) -> None:
    """Kept aside but not yet cut, and cut but not yet recorded, both end with one record that names the bytes."""
    lines = await write_run(tmp_path / "uncut", 3)
    (tmp_path / "uncut" / "events.jsonl").write_bytes(b"".join(lines) + b"torn")
    (tmp_path / "uncut" / "torn-4.bin").write_bytes(b"to")
    reopen(tmp_path / "uncut")
    assert (tmp_path / "uncut" / "torn-4-2.bin").read_bytes() == b"torn"

    await write_run(tmp_path / "cut", 3)
    (tmp_path / "cut" / "torn-4.bin").write_bytes(b"torn")
    journal, after = reopen(tmp_path / "cut")
    assert (journal.mended, len(after), orjson.loads(after[3])["kept"]) == (True, 4, "torn-4.bin")
    journal, after = reopen(tmp_path / "cut")
    assert (journal.mended, len(after)) == (False, 4)


async def test_reading_changes_nothing_and_stops_before_a_torn_end(tmp_path: Path) -> None:
    """Only the owner of a run mends it."""
    lines = await write_run(tmp_path, 3)
    data = b"".join(lines) + b'{"seq":4'
    (tmp_path / "events.jsonl").write_bytes(data)
    assert [event["seq"] for event in reader.events(tmp_path)] == [1, 2, 3]
    assert reader.head_of(tmp_path) == f"3:{sha256(lines[2][:-1]).hexdigest()}"
    assert (tmp_path / "events.jsonl").read_bytes() == data

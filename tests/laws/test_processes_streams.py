"""Streams of programs: the same whatever the chunks, bounded whatever the size, hidden whatever the timing."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handrail.output.redact import CONTEXT, MARK, Redactor
from handrail.processes.ring import Ring
from handrail.processes.sink import Sink
from handrail.processes.text import Room
from handrail.store.spill import FileSpill, FileSpool

SECRET = "hunter2-9f31-aaaa-zz"
PLAIN = Redactor((SECRET,), engine="plain")
ROOM = Room(50, 2000, 200)
in_folder = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    """Split bytes at places."""
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@in_folder
@given(
    st.lists(st.sampled_from(["line\n", "grün ", SECRET, "\x1b[1mx\x1b[0m", "10%\r", "y" * 700, "\n"]), max_size=60),
    st.lists(st.integers(0, 10**6), max_size=12),
)
def test_a_stream_is_captured_alike_in_any_chunks(tmp_path: Path, pieces: list[str], cuts: list[int]) -> None:
    """Text, counts and the kept whole do not depend on how the bytes came."""
    data = "".join(pieces).encode()
    found = []
    for parts in ([data], chunks(data, cuts)):
        sink = Sink(PLAIN, FileSpill(tmp_path), "stdout", 4000)
        for part in parts:
            sink.feed(part)
        told = sink.captured(ROOM, 0.5)
        name = told.ref.ref if told.ref else "-"
        found.append((told.text.replace(name, "@"), told.bytes, told.lines, told.cut, told.ref and told.ref.sha256))
        assert SECRET not in told.text
        if told.ref is not None:
            kept = (tmp_path / told.ref.ref.rpartition("/")[2]).read_bytes()
            assert kept.decode() == PLAIN.text(data.decode())
    assert found[0] == found[1]


@pytest.mark.parametrize("cut", range(6))
def test_bytes_that_are_no_text_are_replaced_wherever_they_are_torn(tmp_path: Path, cut: int) -> None:
    """And it is said; a character that comes in two parts is none of them."""
    data = "ü".encode() + b"\xff" + "語".encode()
    sink = Sink(PLAIN, FileSpill(tmp_path), "stderr", 4000)
    sink.feed(data[:cut])
    sink.feed(data[cut:])
    assert sink.captured(ROOM, 0.5).text == "ü\ufffd語"
    assert sink.warnings == ["stderr is not all UTF-8; what is not is shown as \ufffd"]


def test_a_full_disk_is_told_and_ends_nothing(tmp_path: Path) -> None:
    """What is shown is still shown."""

    class Full:
        def write(self, _: str) -> None:
            raise OSError(28, "No space left on device")

        def discard(self) -> None:
            pass

    class FullSpill(FileSpill):
        def stream(self, name: str, max_bytes: int = 0) -> FileSpool:
            return Full()  # type: ignore[return-value]

    sink = Sink(PLAIN, FullSpill(tmp_path), "stdout", 1000)
    sink.feed(b"line\n" * 10_000)
    told = sink.captured(ROOM, 0.5)
    assert told.text.startswith("line\nline\n")
    assert told.ref is None
    assert sink.warnings == ["stdout is not kept whole (No space left on device)"]


@in_folder
@given(st.lists(st.text(alphabet="aü語\n", max_size=40), max_size=40), st.sampled_from([64, 100, 1000]))
def test_a_spool_keeps_all_or_both_ends(tmp_path: Path, parts: list[str], most: int) -> None:
    """Within the bound the text itself; beyond it as much of each end, whole characters, and what was dropped."""
    spool = FileSpill(tmp_path).stream("stdout", most)
    for part in parts:
        spool.write(part)
    ref = spool.finish()
    kept = (tmp_path / ref.ref.rpartition("/")[2]).read_bytes()
    whole = "".join(parts).encode()
    assert (ref.sha256, ref.bytes) == (hashlib.sha256(kept).hexdigest(), len(kept))
    kept.decode()
    if len(whole) <= most - 3:
        assert kept == whole
    elif b"are not kept" in kept:
        head, _, rest = kept.partition(b"\n[")
        tail = rest.partition(b"]\n")[2]
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert most // 2 - 3 <= len(head) <= most // 2
        assert most // 2 - 3 <= len(tail) <= most // 2


@in_folder
@given(
    st.lists(st.one_of(st.text(alphabet="abü\n", max_size=50), st.integers(5, 60)), max_size=60),
    st.sampled_from([40, 100, 10_000]),
)
def test_a_ring_gives_every_byte_once_or_counts_it(tmp_path: Path, steps: list[str | int], size: int) -> None:
    """Text written and read in any order: what is read joins to what was written, less what is said to be lost."""
    ring, written, cursor = Ring(str(tmp_path), size), b"", 0
    try:
        for step in [*steps, *([10_000] * 3)]:
            if isinstance(step, str):
                ring.write(step)
                written += step.encode()
                continue
            text, after, skipped = ring.read(cursor, step)
            assert after >= cursor + skipped
            assert written[cursor + skipped : after] == text.encode()
            assert cursor + skipped >= 0
            assert skipped == 0 or len(written) - cursor > size - 4
            cursor = after
        assert cursor == len(written)
    finally:
        ring.close()


@given(st.integers(1, len(SECRET) - 1), st.text(alphabet="ab \n", max_size=30))
def test_what_follows_a_flush_is_still_hidden_with_what_came_before(cut: int, before: str) -> None:
    """The second half of a secret is not shown because its first half was."""
    stream = PLAIN.stream()
    first = stream.feed(before + SECRET[:cut]) + stream.flush()
    second = stream.feed(SECRET[cut:] + " end\n") + stream.finish()
    assert first == before + SECRET[:cut]
    assert second == " end\n"
    assert MARK not in first


def test_flushing_again_and_again_keeps_memory_bounded() -> None:
    """An endless line that is read as it comes is forgotten as it goes."""
    stream = PLAIN.stream()
    for _ in range(50):
        stream.feed("x" * CONTEXT)
        stream.flush()
    assert len(stream._text) <= 2 * CONTEXT

"""Secrets that only show once a terminal's sequences are gone, and input that nobody reads."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from handrail.output.redact import MARK, Redactor
from handrail.processes.pipes import Feeder, pipe
from handrail.processes.sink import Hidden, Sink
from handrail.processes.text import Room, legible
from handrail.store.spill import FileSpill

SECRET = "hunter2-9f31-aaaa-zz"
REDACTOR = Redactor((SECRET,), engine="plain")


@pytest.mark.parametrize("within", ["\x1b[01;31m\x1b[K", "\x1b[m", "\x00", "\x9b1m", "x\x08", "\x1b]0;t\x07"])
def test_a_secret_with_a_sequence_within_is_hidden_in_the_stream(within: str) -> None:
    """As colours of a search put it there; the line keeps its neighbours as they came."""
    stream = Hidden(REDACTOR)
    text = f"\x1b[1mfirst\x1b[m\na {SECRET[:9]}{within}{SECRET[9:]} b\nlast\x1b[m\n"
    assert stream.feed(text) + stream.finish() == f"\x1b[1mfirst\x1b[m\na {MARK} b\nlast\x1b[m\n"


def test_a_coloured_secret_is_not_in_what_is_kept_of_a_stream(tmp_path: Path) -> None:
    """Where read_file would fetch it back."""
    spill = FileSpill(tmp_path)
    sink = Sink(REDACTOR, spill, "stdout", 4000)
    sink.feed(f"{SECRET[:5]}\x1b[31m{SECRET[5:]}\n\x1b[32mgreen\x1b[m\n".encode())
    captured = sink.captured(Room(50, 2000, 200), 0.5)
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert (captured.text, kept) == (f"{MARK}\ngreen\n", f"{MARK}\n\x1b[32mgreen\x1b[m\n".encode())


async def test_input_that_a_program_does_not_read_is_counted_as_far_as_it_was_taken() -> None:
    """The pipe takes some of it; who sent it is told how much."""
    read, write = pipe()
    feeder = Feeder(write)
    sent = await feeder.send(bytes(1_000_000), 0.05)
    os.set_blocking(read, False)
    taken = 0
    while taken < sent:
        taken += len(os.read(read, 1 << 20))
    with pytest.raises(BlockingIOError):
        os.read(read, 1)
    assert 0 < sent == taken < 1_000_000
    feeder.close()
    os.close(read)


async def test_closing_the_input_ends_the_wait_of_whoever_sends() -> None:
    """No task is left behind when a job ends."""
    read, write = pipe()
    feeder = Feeder(write)
    sending = asyncio.ensure_future(feeder.send(bytes(1_000_000)))
    await asyncio.sleep(0)
    feeder.close()
    assert 0 < await asyncio.wait_for(sending, 5) < 1_000_000
    os.close(read)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain name.txt", "plain name.txt"),
        ("grün.txt", "grün.txt"),
        ("a\nb", "a\\u000ab"),
        ("a\udcffb", "a\\xffb"),
        ("a\u202eb\u200bc", "a\\u202eb\\u200bc"),
        ("\x1b[31m", "\\u001b[31m"),
    ],
)
def test_a_file_name_is_shown_on_one_line_as_valid_text(name: str, shown: str) -> None:
    """Every sign of it can be seen."""
    assert legible(name) == shown

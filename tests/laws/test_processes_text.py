"""What is shown of a program's output: what a terminal would leave, head and tail, and how to fetch the rest."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.processes.text import Kept, Room, plain, show

ROOM = Room(100, 4000, 200)


@pytest.mark.parametrize(
    ("raw", "left"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[1;31mred\x1b[0m\n", "red\n"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPdevice\x1b\\text", "text"),
        ("\x1b(Btext\x1b=", "text"),
        ("\x9b31mred", "red"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("10%\r100%\r\n", "100%\n"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("working\r", "working"),
        ("one\n10%\r20%", "one\n20%"),
        ("b\x08bo\x08ol\x08ld\x08d", "bold"),
        ("bell\x07 nul\x00 form\x0cfeed", "bell nul formfeed"),
        ("torn \x1b[", "torn "),
        ("unclosed \x1b]0;title\nnext", "unclosed \nnext"),
        ("grüße 語\n", "grüße 語\n"),
    ],
)
def test_control_sequences_leave_what_a_terminal_would_show(raw: str, left: str) -> None:
    """Colours, titles, progress bars and overstriking are gone; the text stays."""
    assert plain(raw) == left


@given(st.text(alphabet=st.sampled_from("ab\r\n\x1b[]0;m\x07\x08\x9b\\P")))
def test_no_line_is_lost_and_no_control_is_left(text: str) -> None:
    """Cleaning keeps every line end and lets no control character but it and the tab through."""
    cleaned = plain(text)
    assert cleaned.count("\n") == text.count("\n")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", cleaned)
    assert plain(cleaned) == cleaned


def kept(text: str, keep: int) -> Kept:
    """What a sink keeps of a text."""
    lines = text.count("\n") + (not text.endswith("\n") and text != "")
    if len(text) <= 2 * keep:
        return Kept(text, "", len(text.encode()), lines)
    rest = text[keep:]
    return Kept(text[:keep], rest[-keep:], len(text.encode()), lines, whole=False)


@given(
    st.lists(st.text(alphabet=st.sampled_from("abcü "), max_size=300), max_size=400),
    st.sampled_from([0.25, 0.5]),
    st.sampled_from([8000, 20000]),
)
def test_what_is_shown_keeps_to_its_room(lines: list[str], share: float, keep: int) -> None:
    """Never more lines or bytes than there is room for; whole where all fits, else both ends and a notice."""
    text = "".join(f"{line}\n" for line in lines)
    shown = show(kept(text, keep), ROOM, "run:observations/stdout_1.txt", share)
    assert len(shown.text.encode()) <= ROOM.max_bytes
    assert shown.text.count("\n") <= ROOM.max_lines + 1
    assert all(len(line) <= ROOM.max_line_chars for line in shown.text.split("\n"))
    if not shown.cut:
        assert shown.text == text


@given(st.integers(101, 5000), st.sampled_from([0.25, 0.5]), st.sampled_from([4000, 10**6]))
def test_the_notice_names_the_first_line_that_is_missing(count: int, share: float, keep: int) -> None:
    """Reading on from where the notice says gives the line after the last one shown."""
    text = "".join(f"line {number}\n" for number in range(1, count + 1))
    shown = show(kept(text, keep), ROOM, "run:observations/stdout_1.txt", share)
    match = re.search(r"\[(\d+) of (\d+) lines not shown; the rest: read_file (\{.*\})\]", shown.text)
    assert match is not None
    head, tail = shown.text[: match.start()].splitlines(), shown.text[match.end() + 1 :].splitlines()
    fetch = json.loads(match[3])
    assert fetch == {"path": "run:observations/stdout_1.txt", "offset": len(head) + 1}
    assert head == [f"line {number}" for number in range(1, len(head) + 1)]
    assert tail == [f"line {number}" for number in range(count - len(tail) + 1, count + 1)]
    assert int(match[1]) == count - len(head) - len(tail)
    assert len(tail) >= len(head)


def test_lines_are_counted_as_read_file_counts_them() -> None:
    """A lone carriage return ends a line in a file, though the screen shows only the last state."""
    text = "10%\r20%\r30%\n" * 200
    shown = show(kept(text, 10**6), ROOM, "r", 0.5)
    match = re.search(r"read_file (\{.*\})", shown.text)
    assert match is not None
    head = shown.text[: match.start()].count("30%")
    assert json.loads(match[1])["offset"] == head * 3 + 1


def test_one_endless_line_shows_both_its_ends() -> None:
    """Without a line end there is still a head and a tail, and a byte to go on from."""
    text = "START" + "x" * 100_000 + "END"
    shown = show(kept(text, 10_000), ROOM, "r", 0.5)
    assert shown.cut
    assert shown.text.startswith("STARTx")
    assert shown.text.endswith("xEND")
    assert '"byte_offset": 10000' in shown.text
    assert len(shown.text) < ROOM.max_bytes


def test_a_long_line_among_others_is_shortened_in_its_middle() -> None:
    """What stands around it is shown as it is."""
    text = f"a\n{'x' * 5000}y\nb\n"
    shown = show(kept(text, 10_000), ROOM, "r", 0.5)
    assert shown.cut
    lines = shown.text.split("\n")
    assert (lines[0], lines[2]) == ("a", "b")
    assert lines[1].endswith("xy")
    assert "characters not shown" in lines[1]

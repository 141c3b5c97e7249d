"""Laws of cutting: never over the bounds, whole lines, honest counts."""

from typing import Literal, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.output.bound import Bounds, Keep, bound

laws = settings(max_examples=200, deadline=None)
KEEPS = get_args(Keep)
LINES = st.lists(st.text(st.sampled_from("ab é漢😀\t\r"), max_size=20), max_size=40)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n", "\n\n"]))
BOUNDS = st.builds(Bounds, st.integers(1, 12), st.integers(8, 400), st.integers(1, 30))


def size(text: str) -> int:
    return len(text.encode())


def lines_of(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


@laws
@given(TEXTS, BOUNDS, st.sampled_from(KEEPS))
def test_what_is_shown_never_exceeds_the_bounds(text: str, bounds: Bounds, keep: Keep) -> None:
    """Lines and bytes stay within the bounds, marks and gap included."""
    cut = bound(text, bounds, keep)
    shown = text if cut is None else cut.text
    assert size(shown) <= bounds.max_bytes
    assert len(lines_of(shown)) <= bounds.max_lines
    assert all(len(line.partition(" … [")[0]) <= bounds.max_line_chars for line in lines_of(shown) if line[:1] != "…")


@laws
@given(TEXTS, BOUNDS, st.sampled_from(KEEPS))
def test_a_text_is_cut_exactly_when_it_does_not_fit(text: str, bounds: Bounds, keep: Keep) -> None:
    """None means: within every bound."""
    fits = (
        size(text) <= bounds.max_bytes
        and len(lines_of(text)) <= bounds.max_lines
        and all(len(line) <= bounds.max_line_chars for line in lines_of(text))
    )
    assert (bound(text, bounds, keep) is None) == fits


def cut_lines(text: str, width: int) -> str:
    """The whole text with its over-long lines cut: what every shown line is taken from."""
    lines = text.split("\n")
    marks = (f" … [{len(line) - width} more characters]" if len(line) > width else "" for line in lines)
    return "\n".join(f"{line[:width]}{mark}" for line, mark in zip(lines, marks, strict=True))


@laws
@given(TEXTS, BOUNDS)
def test_the_head_is_a_beginning_by_whole_lines(text: str, bounds: Bounds) -> None:
    """Each shown line is the text's line in the same place, whole or cut with a mark; only a lone line is cut short."""
    cut = bound(text, bounds, "head")
    if cut is None:
        return
    whole = cut_lines(text, bounds.max_line_chars)
    if cut.text.endswith("\n") or whole == cut.text:
        assert whole.startswith(cut.text)
    else:
        assert "\n" not in cut.text or whole.startswith(cut.text)


@laws
@given(TEXTS, BOUNDS)
def test_the_tail_is_an_end_by_whole_lines(text: str, bounds: Bounds) -> None:
    """Each shown line is the text's line counted from the end."""
    cut = bound(text, bounds, "tail")
    if cut is not None and cut.text.count("\n") > 1:
        assert cut_lines(text, bounds.max_line_chars).endswith(cut.text)


@laws
@given(TEXTS, BOUNDS, st.sampled_from(KEEPS))
def test_the_counts_are_right(text: str, bounds: Bounds, keep: Keep) -> None:
    """`total` counts the whole text, `shown` what is left of it."""
    cut = bound(text, bounds, keep)
    if cut is None:
        return
    assert cut.total == (len(lines_of(text)) if cut.by == "lines" else size(text))
    assert 0 <= cut.shown <= cut.total
    if cut.by == "lines":
        assert cut.shown == sum(not line.startswith("… [") for line in lines_of(cut.text))


@pytest.mark.parametrize(
    ("keep", "text", "shown"),
    [
        ("head", "0\n1\n2\n3\n", 4),
        ("tail", "6\n7\n8\n9\n", 4),
        ("middle", "0\n… [7 lines not shown] …\n8\n9\n", 3),
    ],
)
def test_each_way_keeps_its_end(keep: Literal["head", "tail", "middle"], text: str, shown: int) -> None:
    """Head keeps the first lines, tail the last, middle both with a line between."""
    cut = bound("".join(f"{number}\n" for number in range(10)), Bounds(max_lines=4), keep)
    assert cut is not None
    assert (cut.text, cut.by, cut.shown, cut.total) == (text, "lines", shown, 10)


def test_one_line_too_long_for_all_bytes_is_cut_between_characters() -> None:
    """A code point is never split, and something is shown."""
    for keep in KEEPS:
        cut = bound("😀" * 100, Bounds(max_bytes=10), keep)
        assert cut is not None
        assert (cut.text, cut.by, cut.shown, cut.total) == ("😀😀", "bytes", 8, 400)


def test_a_long_line_says_how_much_follows() -> None:
    """The mark counts the characters that are left out."""
    cut = bound("ab\n" + "x" * 12 + "\nc", Bounds(max_line_chars=10))
    assert cut is not None
    assert cut.text == "ab\nxxxxxxxxxx … [2 more characters]\nc"


def test_both_ends_together_stay_within_the_bytes() -> None:
    """The tail gets what the head and the line between leave over."""
    cut = bound("".join(f"line {number:03}\n" for number in range(200)), Bounds(max_bytes=400), "middle")
    assert cut is not None
    assert 300 < size(cut.text) <= 400
    assert (cut.by, cut.total) == ("bytes", 1800)
    assert cut.text.startswith("line 000\n")
    assert cut.text.endswith("line 199\n")

"""Laws of edits: only what is quoted changes, how it was found is told, and nothing is found by likeness."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from handrail.errors import Code, Problem
from handrail.tools.fs._edits import Edit, Edited, apply_edits
from handrail.tools.fs._ladder import LEVELS, Folded, Original
from handrail.tools.fs._text import body_of, decode, encode, ending_of, fold_endings, lines_of

signs = st.sampled_from(
    [
        "\n",
        "\r\n",
        "\r",
        "a",
        "b",
        "x = 1",
        " ",
        "  ",
        "\t",
        "‘",
        "’",
        "“",
        "—",
        "…",
        "é",
        "e\u0301",
        "\u00a0",
        "$&",
        "\\1",
        "语",
    ]
)
texts = st.lists(signs, min_size=1, max_size=30).map("".join)
levels = st.sampled_from(LEVELS[1:4])


def edited(text: str, *edits: Edit) -> Edited:
    """Make edits where nothing is hidden."""
    return apply_edits(text, list(edits), "f", lambda: (), lambda _edits: None)


def tried(text: str, *edits: Edit) -> Edited | Problem:
    """Make edits, or give why they cannot be made."""
    try:
        return edited(text, *edits)
    except Problem as problem:
        return problem


def refused(text: str, *edits: Edit) -> Problem:
    """Make edits that cannot be made; gives why."""
    with pytest.raises(Problem) as caught:
        edited(text, *edits)
    return caught.value


# ── what is not quoted stays ─────────────────────────────────────────────────────────────────


@given(texts, st.data())
def test_every_character_outside_the_quoted_text_stays(text: str, draw: Any) -> None:
    """What stands before and after the one place of the old text is the same afterwards, to the character."""
    start = draw.draw(st.integers(0, len(text) - 1))
    end = draw.draw(st.integers(start + 1, len(text)))
    new = draw.draw(texts)
    matches = Original(text).find(text[start:end])
    assume(len(matches) == 1)
    found = tried(text, Edit(text[start:end], new))
    if isinstance(found, Problem):
        assert found.code in (Code.INVALID_ARGS, Code.ALREADY_APPLIED)
        return
    result = found.text
    (match,) = matches
    assert result.startswith(text[: match.start])
    assert result.endswith(text[match.end :])
    assert len(result) >= match.start + len(text) - match.end
    middle = result[match.start : len(result) - (len(text) - match.end)]
    assert fold_endings(middle) == fold_endings(new) or match.level != "exact"


@given(
    texts,
    st.sampled_from(
        [("utf-8", b""), ("utf-8", b"\xef\xbb\xbf"), ("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")]
    ),
)
def test_every_byte_outside_the_quoted_text_stays_in_every_encoding(text: str, kind: tuple[str, bytes]) -> None:
    """BOM, encoding and the bytes around an edit are those of the file before."""
    encoding, bom = kind
    before = encode(f"{text}\nTARGET\r\n{text}", encoding, bom)
    found = decode(before, "f")
    after = encode(edited(found.text, Edit("TARGET", "новый $& \\0")).text, found.encoding, found.bom)
    head, tail = encode(f"{text}\n", encoding, bom), encode(f"\r\n{text}", encoding)
    assert after == head + "новый $& \\0".encode(encoding) + tail


@given(texts, texts, st.lists(st.sampled_from(["\n", "\r\n", "\r"]), min_size=3, max_size=3))
def test_new_lines_take_the_endings_of_their_place(one: str, other: str, endings: list[str]) -> None:
    """Replaced lines keep the ending of the line they replace; the file's other endings stay."""
    text = f"{one}#{endings[0]}alpha{endings[1]}beta{endings[2]}{other}"
    assume(len(Original(text).find("alpha\nbeta\n")) == 1)
    assume(not (endings[2] == "\r" and other.startswith("\n")))
    result = edited(text, Edit("alpha\nbeta\n", "ALPHA\nBETA\n")).text
    assert result == f"{one}#{endings[0]}ALPHA{endings[1]}BETA{endings[2]}{other}"


# ── how it is found ──────────────────────────────────────────────────────────────────────────


@given(texts, levels, st.data())
def test_a_folded_stretch_folds_to_itself_where_it_came_from(text: str, level: str, draw: Any) -> None:
    """A place found in the folded text leads to characters that fold to what was found."""
    folded = Folded(text, level)
    assume(folded.text)
    start = draw.draw(st.integers(0, len(folded.text) - 1))
    end = draw.draw(st.integers(start + 1, len(folded.text)))
    span = folded.origin(start, end)
    if span is None:
        return
    there = text[span[0] : span[1]]
    # Blanks at the end of a stretch may be in the middle of a line: only the whole tells.
    assert Folded(there + "|", level).text == folded.text[start:end] + "|"


@given(texts)
def test_an_exact_place_is_always_found_as_such(text: str) -> None:
    """Quoting a whole file finds it exactly, once."""
    assert [(match.start, match.end, match.level) for match in Original(text).find(text)] == [(0, len(text), "exact")]


@given(texts.filter(lambda text: body_of(text).strip()))
def test_each_level_finds_what_only_it_forgives(text: str) -> None:
    """A quote with folded endings is found by the level of its first real difference or an earlier one."""
    quoted = fold_endings(text)
    found = Original(text).find(quoted)
    assert found, "folding endings never loses a place"
    assert found[0].level == ("exact" if quoted == text else "line_endings")


LADDER = [
    ("exact", "one\ntwo\n", "two"),
    ("line_endings", "one\r\ntwo\r\n", "one\ntwo"),
    ("line_endings", "one\rtwo\r", "one\ntwo"),
    ("trailing_blanks", "one  \ntwo\t\n", "one\ntwo\n"),
    ("trailing_blanks", "one\ntwo\n", "one  \ntwo\n"),
    ("typographic", "say “hi” — it’s…\n", 'say "hi" - it\'s...'),
    ("typographic", "a\u00a0b\n", "a b"),
    ("typographic", "cafe\u0301\n", "café"),
    ("indent", "    if x:\n        y()\n", "if x:\n    y()\n"),
    ("indent", "if x:\n    y()\n", "\t\tif x:\n\t\t    y()\n"),
]


@pytest.mark.parametrize(("level", "text", "quoted"), LADDER)
def test_the_level_that_found_a_text_is_named(level: str, text: str, quoted: str) -> None:
    """Each step of the ladder forgives its own difference and says so."""
    assert edited(text, Edit(quoted, "\t\tnew")).matched_by == (level,)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("the quick brown fox\n", "the quick brown fix\n"),
        ("раss\n", "pass\n"),  # Cyrillic er and a
        ("a = 1\nb = 2\n", "a = 1\n\nb = 2\n"),
        ("if x:\n  y()\n    z()\n", "if x:\n    y()\n    z()\n"),
        ("    if x:\n      y()\n", "if x:\n    y()\n"),
        ("    if x:\n        z()\n", "if x:\n    y()\n"),
        ("ABC\n", "abc\n"),
        ("wait…\n", "wait.."),  # half of a sign that stands for three
        ("y = 5\n", "x\ny = "),
    ],
)
def test_nothing_is_found_by_likeness(text: str, quoted: str) -> None:
    """What differs in letters, lines, case or uneven indent is not the quoted text."""
    assert refused(text, Edit(quoted, "new")).code is Code.NO_MATCH


def test_blanks_quoted_at_the_end_are_only_forgiven_at_the_end_of_a_line() -> None:
    """A trailing blank in the quote does not swallow the blank before the next word."""
    assert edited("x  \ny =\n", Edit("x\ny = ", "z")).text == "z\n"
    assert refused("x  \ny = 5\n", Edit("x\ny =   ", "z")).code is Code.NO_MATCH


# ── several edits ────────────────────────────────────────────────────────────────────────────


@given(st.permutations(range(6)), st.randoms())
def test_the_order_of_edits_does_not_matter(order: list[int], chance: random.Random) -> None:
    """All edits are found in the original, so any order gives the same text."""
    text = "".join(f"line {index};\n" for index in range(6))
    edits = [Edit(f"line {index};", f"line {(index + 1) % 6}; {chance.randrange(9)}") for index in range(6)]
    expected = "".join(f"{edit.new}\n" for edit in edits)
    assert edited(text, *(edits[index] for index in order)).text == expected


@given(st.text("ab\n", min_size=1, max_size=40), st.text("ab\n", min_size=1, max_size=3), st.text("ab$\\&", max_size=4))
def test_replacing_all_is_what_replace_does(text: str, old: str, new: str) -> None:
    """Every place that does not overlap an earlier one is replaced, and counted."""
    assume(old in text and old != new and text.replace(old, new) != text)
    result = edited(text, Edit(old, new, "all"))
    assert (result.text, result.replacements) == (text.replace(old, new), text.count(old))


@given(st.integers(0, 20), st.integers(1, 10), st.integers(0, 20), st.integers(1, 10))
def test_edits_that_overlap_are_refused_and_others_are_not(one: int, size: int, two: int, other_size: int) -> None:
    """Two edits of the same character are refused; edits side by side are fine."""
    text = "abcdefghijklmnopqrstuvwxyzABCDEF"
    first, second = text[one : one + size], text[two : two + other_size]
    overlap = one < two + other_size and two < one + size
    edits = Edit(first, "<1>"), Edit(second, "<2>")
    if overlap:
        problem = refused(text, *edits)
        assert (problem.code, problem.details) == (Code.INVALID_ARGS, {"edits": [0, 1]})
    else:
        assert edited(text, *edits).text == text.replace(first, "<1>").replace(second, "<2>")


# ── one of many ──────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(1, 4), min_size=2, max_size=5), st.integers(1, 25))
def test_the_nearest_of_several_places_is_taken_and_a_tie_is_not(gaps: list[int], near: int) -> None:
    """`near_line` picks the closest place; where two are as close, the edit stays ambiguous."""
    lines: list[str] = []
    for gap in gaps:
        lines += ["-"] * (gap - 1) + ["here"]
    places = [index + 1 for index, line in enumerate(lines) if line == "here"]
    text = "".join(f"{line}\n" for line in lines)
    distances = sorted(abs(place - near) for place in places)
    edit = Edit("here", "there", near_line=near)
    if distances[0] == distances[1]:
        problem = refused(text, edit)
        assert (problem.code, problem.details["lines"]) == (Code.AMBIGUOUS_MATCH, places)
        return
    chosen = min(places, key=lambda place: abs(place - near))
    expected = [("there" if index + 1 == chosen else line) for index, line in enumerate(lines)]
    assert edited(text, edit).text == "".join(f"{line}\n" for line in expected)


def test_an_overlapping_second_place_makes_a_quote_ambiguous() -> None:
    """`aa` stands twice in `aaa`."""
    assert refused("aaa", Edit("aa", "b")).details["matches"] == 2
    assert edited("aaa", Edit("aa", "b", "first")).text == "ba"


# ── what was done before ─────────────────────────────────────────────────────────────────────


@given(texts, texts)
def test_an_edit_made_twice_changes_nothing_the_second_time(before: str, after: str) -> None:
    """A repeated edit is refused as done, also when the old text is part of the new one."""
    text = f"{before}\nimport one\n{after}"
    edit = Edit("import one\n", "import one\nimport two\n")
    assume(not after.startswith("import") and not before.endswith("\r"))
    result = edited(text, edit).text
    problem = refused(result, edit)
    assert (problem.code, problem.details["applied"][0]["edit"]) == (Code.ALREADY_APPLIED, 0)


# ── how it is written ────────────────────────────────────────────────────────────────────────


@given(st.lists(st.sampled_from(["a", "b", "c “d”", "e  "]), min_size=2, max_size=6), st.data())
def test_lines_that_an_edit_repeats_keep_their_own_bytes(bodies: list[str], draw: Any) -> None:
    """Context quoted loosely is not rewritten: only the line that the edit changes is."""
    lines = [f"{index} {body}\r\n" for index, body in enumerate(bodies)]
    at = draw.draw(st.integers(0, len(lines) - 1))
    quoted = [
        f"{index} {body}".rstrip().replace("“", '"').replace("”", '"') + "\n" for index, body in enumerate(bodies)
    ]
    wanted = [*quoted[:at], "NEW\n", *quoted[at + 1 :]]
    result = edited("".join(lines), Edit("".join(quoted), "".join(wanted))).text
    assert result == "".join([*lines[:at], "NEW\r\n", *lines[at + 1 :]])


@given(st.sampled_from(["  ", "    ", "\t", "\t\t"]))
def test_new_text_is_indented_as_the_place_is(deeper: str) -> None:
    """A quote that stands deeper in the file puts its new text as deep; empty lines stay empty."""
    text = f"def f():\n{deeper}if x:\n{deeper}    y()\n"
    result = edited(text, Edit("if x:\n    y()\n", "if z:\n    y()\n\n    w()\n"))
    expected = f"def f():\n{deeper}if z:\n{deeper}    y()\n\n{deeper}    w()\n"
    assert (result.text, result.matched_by) == (expected, ("indent",)) or deeper == "    "


def test_text_that_cannot_be_moved_as_far_left_is_refused() -> None:
    """Where the new text is less indented than the difference, nothing is guessed."""
    assert refused("x:\n    y\n", Edit("    x:\n        y\n", "    x:\n  z\n")).code is Code.NO_MATCH


def test_an_edit_of_nothing_but_line_endings_is_taken_at_its_word() -> None:
    """Turning CRLF into LF in one place does just that."""
    assert edited("a\r\nb\r\nc\r\n", Edit("a\r\nb\r\n", "a\nb\n")).text == "a\nb\nc\r\n"


def test_thousands_of_lines_are_edited_at_once() -> None:
    """A thousand edits of a file of five thousand mixed lines leave all else as it was."""
    lines = [f"line {index}" + ("\r\n" if index % 3 else "\n") for index in range(5000)]
    edits = [Edit(f"line {index}{ending_of(lines[index])}", f"LINE {index}\n") for index in range(2500, 3500)]
    result = edited("".join(lines), *edits)
    expected = [f"LINE {index}{ending_of(line)}" if 2500 <= index < 3500 else line for index, line in enumerate(lines)]
    assert lines_of(result.text) == expected
    assert (result.replacements, result.first_changed_line) == (1000, 2501)

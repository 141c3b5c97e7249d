"""Laws of patches: what a diff says is what the file becomes, wherever its lines stand now."""

from __future__ import annotations

import difflib
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from handrail.errors import Code, Problem
from handrail.ports import Limits
from handrail.tools.fs._diff import changed_blocks, diff_compared, diff_texts
from handrail.tools.fs._hunks import Patched, apply_hunks
from handrail.tools.fs._patch import FilePatch, Hunk, parse_patch
from handrail.tools.fs._text import body_of, ending_of, lines_of
from unhidden import Open

words = st.sampled_from(
    ["alpha", "beta", "gamma", "", "  delta", "-- dash", "++ plus", "@@ at", "\\ back", "*** star", "}"]
)
documents = st.lists(words, max_size=12)
endings = st.sampled_from(["\n", "\r\n"])
WIDE = Limits(max_output_lines=100_000, max_output_bytes=10_000_000, max_line_chars=100_000)


def patched(text: str, hunks: tuple[Hunk, ...]) -> Patched:
    """Apply hunks where nothing is hidden."""
    return apply_hunks(text, hunks, "f", lambda: ())


def refused(text: str, hunks: tuple[Hunk, ...]) -> Problem:
    """Apply hunks that do not fit; gives why."""
    with pytest.raises(Problem) as caught:
        patched(text, hunks)
    return caught.value


def tried(patch: str) -> list[FilePatch] | Problem:
    """Read a patch, or give why it cannot be read."""
    try:
        return parse_patch(patch)
    except Problem as problem:
        return problem


def only(patch: str) -> FilePatch:
    """Read a patch of one file."""
    (found,) = parse_patch(patch)
    return found


def joined(lines: list[str], ending: str, bare: bool) -> str:
    """A text of lines; `bare`: the last one has no ending."""
    text = "".join(line + ending for line in lines)
    return text.removesuffix(ending) if bare else text


# ── diffs of our own and of others ───────────────────────────────────────────────────────────


@given(documents, documents, endings, st.booleans(), st.booleans())
def test_our_own_diff_makes_the_new_text_of_the_old(
    old: list[str], new: list[str], ending: str, bare_old: bool, bare_new: bool
) -> None:
    """A diff that an answer shows can be applied, to the byte."""
    before, after = joined(old, ending, bare_old), joined(new, ending, bare_new)
    diff = diff_texts(before, after, "f", Open(), WIDE)
    if before == after:
        assert diff == ""
        return
    found = only(diff)
    assert (found.operation, found.path) == ("update", "f")
    assert patched(before, found.hunks).text == after


@given(documents, documents, endings)
def test_a_diff_of_another_program_makes_the_new_text_of_the_old(old: list[str], new: list[str], ending: str) -> None:
    """A plain unified diff with numbers that fit gives exactly the new text."""
    before, after = [line + ending for line in old], [line + ending for line in new]
    assume(before != after and old)
    diff = "".join(difflib.unified_diff(before, after, "a/f", "b/f"))
    result = patched("".join(before), only(diff).hunks)
    assert (result.text, result.done) == ("".join(after), False)
    assert {item.level for item in result.placed} == {"exact"}


@given(st.lists(st.integers(0, 40), max_size=30), st.lists(st.integers(0, 40), max_size=30))
def test_changed_blocks_lead_from_one_text_to_the_other(one: list[int], other: list[int]) -> None:
    """What lies outside the blocks is the same on both sides."""
    old, new = [f"{item}\n" for item in one], [f"{item}\n" for item in other]
    made: list[str] = []
    at = 0
    for a, b, c, d in changed_blocks(old, new):
        made += old[at:a] + new[c:d]
        at = b
    assert made + old[at:] == new


@given(
    st.lists(st.sampled_from(["a", "", "längst", "x" * 60, "x" * 120, "***", "\r"]), max_size=14),
    st.booleans(),
    st.sampled_from(["f", "n" * 90, "ä/ö"]),
    st.sampled_from([WIDE, Limits(26, 2400, 160), Limits(30, 4000, 130)]),
)
def test_the_diff_of_a_new_file_is_made_in_one_piece_as_line_by_line(
    lines: list[str], bare: bool, name: str, limits: Limits
) -> None:
    """Also where it must be cut or its lines shortened: then the short way is not taken."""
    text = joined(lines, "\n", bare)
    assert diff_texts(None, text, name, Open(), limits) == diff_compared(None, text, name, Open(), limits)


def test_a_diff_of_large_texts_is_found_at_once() -> None:
    """Two texts of fifty thousand lines that differ throughout do not take the time of comparing each pair."""
    old = "".join(f"line {index}\n" for index in range(50_000))
    new = "".join(f"line {index if index % 10 else -index}\n" for index in range(50_000))
    assert diff_texts(old, new, "f", Open(), WIDE).count("\n+line -") == 4999


# ── lines that stand elsewhere by now ────────────────────────────────────────────────────────


def _numbered(size: int, changed: int) -> tuple[str, str, str]:
    before = [f"line {index}\n" for index in range(size)]
    after = [*before[:changed], "changed\n", "and more\n", *before[changed + 1 :]]
    return "".join(before), "".join(after), "".join(difflib.unified_diff(before, after, "a/f", "b/f"))


@given(st.integers(1, 20), st.data(), st.integers(0, 10), st.integers(0, 10))
def test_a_shifted_hunk_is_found_by_its_lines(size: int, draw: Any, above: int, below: int) -> None:
    """Lines added above and below a hunk since move it and nothing else."""
    before, after, diff = _numbered(size, draw.draw(st.integers(0, size - 1)))
    head = "".join(f"above {index}\n" for index in range(above))
    tail = "".join(f"below {index}\n" for index in range(below))
    assert patched(head + before + tail, only(diff).hunks).text == head + after + tail


@given(st.integers(1, 20), st.data(), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_lines_outside_a_hunk_keep_their_bytes(size: int, draw: Any, ending: str, bare: bool) -> None:
    """A diff with plain newlines changes a file with other endings, and new lines take those."""
    assume(size > 1 or not bare)  # a file of one bare line has no endings to take
    before, after, diff = _numbered(size, draw.draw(st.integers(0, size - 1)))
    lines = [body_of(line) + ending for line in lines_of(before)]
    expected = [body_of(line) + ending for line in lines_of(after)]
    if bare:
        lines[-1], expected[-1] = body_of(lines[-1]), body_of(expected[-1])
    assert patched("".join(lines), only(diff).hunks).text == "".join(expected)


@given(st.lists(endings, min_size=6, max_size=6), st.integers(0, 5))
def test_mixed_endings_stay_where_they_are(kinds: list[str], changed: int) -> None:
    """Each line that a patch leaves alone keeps its own ending."""
    lines = [f"line {index}{ending}" for index, ending in enumerate(kinds)]
    hunk = "".join(f"{'-' if index == changed else ' '}line {index}\n" for index in range(6))
    hunk = hunk.replace(f"-line {changed}\n", f"-line {changed}\n+new\n")
    found = only(f"*** Begin Patch\n*** Update File: f\n@@\n{hunk}*** End Patch")
    result = lines_of(patched("".join(lines), found.hunks).text)
    assert result[:changed] + result[changed + 1 :] == lines[:changed] + lines[changed + 1 :]
    assert result[changed] == f"new{ending_of(lines[changed])}"


@given(st.integers(1, 20), st.data())
def test_a_patch_applied_twice_is_found_in_place(size: int, draw: Any) -> None:
    """Applying a patch to its own result says that it is done."""
    before, after, diff = _numbered(size, draw.draw(st.integers(0, size - 1)))
    hunks = only(diff).hunks
    assert not patched(before, hunks).done
    assert patched(after, hunks) == Patched(after, (), True)


# ── reading patches ──────────────────────────────────────────────────────────────────────────


@given(
    st.lists(
        st.sampled_from(
            [
                "*** Begin Patch",
                "*** End Patch",
                "*** Update File: f",
                "*** Add File: g",
                "*** Delete File: h",
                "*** Move to: i",
                "*** End of File",
                "diff --git a/f b/f",
                "--- a/f",
                "+++ b/f",
                "--- /dev/null",
                "+++ /dev/null",
                "@@ -1,2 +1,2 @@",
                "@@ -1 +1,3 @@ def f():",
                "@@",
                "@@ class A",
                " context",
                "-old",
                "+new",
                "",
                "\\ No newline at end of file",
                "rename from f",
                "rename to k",
                "new file mode 100644",
                "deleted file mode 100644",
                "index 1..2",
                "GIT binary patch",
                '--- "a/\\303\\244"',
                "junk",
            ]
        ),
        max_size=14,
    )
)
def test_any_text_is_a_patch_or_refused_with_a_line(lines: list[str]) -> None:
    """Whatever is sent, reading gives changes of named files or INVALID_ARGS with a line of the patch."""
    found = tried("\n".join(lines))
    if isinstance(found, Problem):
        assert found.code is Code.INVALID_ARGS
        assert 1 <= found.details["line"] <= max(1, len(lines))
        return
    assert found
    for item in found:
        assert item.path
        assert all(any(sign != " " for sign, _ in hunk.lines) for hunk in item.hunks)


@given(documents.filter(bool))
def test_an_added_file_holds_what_the_patch_says(lines: list[str]) -> None:
    """Both forms give the same new file."""
    added = "".join(f"+{line}\n" for line in lines)
    content = "".join(f"{line}\n" for line in lines)
    marked = only(f"*** Begin Patch\n*** Add File: f\n{added}*** End Patch\n")
    unified = only(f"--- /dev/null\n+++ b/f\n@@ -0,0 +1,{len(lines)} @@\n{added}")
    bare = only(f"--- /dev/null\n+++ b/f\n@@ -0,0 +1,{len(lines)} @@\n{added}\\ No newline at end of file\n")
    assert [(item.operation, item.path, item.content) for item in (marked, unified, bare)] == [
        ("add", "f", content),
        ("add", "f", content),
        ("add", "f", content[:-1]),
    ]


GIT = """\
From 1234 Mon Sep 17 00:00:00 2001
Subject: a message

diff --git a/src/one.py b/src/one.py
index 1..2 100644
--- a/src/one.py
+++ b/src/one.py
@@ -1,3 +1,3 @@ def one():
 a
--- b
+++ c
 d
diff --git a/old name.txt b/new name.txt
similarity index 100%
rename from old name.txt
rename to new name.txt
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
diff --git a/empty b/empty
new file mode 100644
index 000..e69
diff --git "a/\\303\\244.txt" "b/\\303\\244.txt"
--- "a/\\303\\244.txt"
+++ "b/\\303\\244.txt"
@@ -2 +2 @@
-x
+y
--
2.43.0
"""


def test_git_writes_renames_deletions_and_odd_names() -> None:
    """Each of git's headers is understood; removed lines that look like headers are lines."""
    found = parse_patch(GIT)
    assert [(item.operation, item.path, item.target) for item in found] == [
        ("update", "src/one.py", None),
        ("update", "old name.txt", "new name.txt"),
        ("delete", "gone.txt", None),
        ("add", "empty", None),
        ("update", "ä.txt", None),
    ]
    (hunk,) = found[0].hunks
    assert (hunk.old, hunk.new, hunk.hint, hunk.anchors) == (["a", "-- b", "d"], ["a", "++ c", "d"], 1, ("def one():",))
    assert [hunk.old for hunk in found[2].hunks] == [["bye"]]


def test_wrong_counts_do_not_lose_lines() -> None:
    """A hunk ends where its lines end, not where a wrong count says."""
    patch = "--- a/f\n+++ b/f\n@@ -1,9 +1,1 @@\n one\n-two\n+2\n three\n+four\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n"
    one, other = parse_patch(patch)
    assert (one.path, one.hunks[0].new, other.path) == ("f", ["one", "2", "three", "four"], "g")


def test_sections_of_one_file_become_one_change() -> None:
    """Two updates of a file are joined; anything else twice is refused."""
    twice = "*** Update File: f\n@@\n-{}\n+{}\n"
    (found,) = parse_patch(f"*** Begin Patch\n{twice.format('a', 'b')}{twice.format('c', 'd')}*** End Patch")
    assert [hunk.new for hunk in found.hunks] == [["b"], ["d"]]
    with pytest.raises(Problem) as caught:
        parse_patch("*** Begin Patch\n*** Add File: f\n+x\n*** Delete File: f\n*** End Patch")
    assert caught.value.details == {"line": 4}


# ── which place ──────────────────────────────────────────────────────────────────────────────

TWINS = "class A:\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n"


def _hunk(head: str, body: str) -> tuple[Hunk, ...]:
    return only(f"*** Begin Patch\n*** Update File: f\n{head}\n{body}*** End Patch").hunks


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("@@ class A:", 3),
        ("@@ class B:", 7),
        ("@@ class B:\n@@     def f(self):", 7),
        ("@@ -3,1 +3,1 @@", 3),
        ("@@ -7,1 +7,1 @@", 7),
    ],
)
def test_anchors_and_numbers_choose_between_twins(head: str, line: int) -> None:
    """A hunk that fits twice goes where its header points."""
    result = patched(TWINS, _hunk(head, "-        return 1\n+        return 2\n"))
    assert [item.start + 1 for item in result.placed] == [line]


def test_a_hunk_that_fits_twice_is_refused_with_both_lines() -> None:
    """Without an anchor nothing is guessed."""
    problem = refused(TWINS, _hunk("@@", "-        return 1\n+        return 2\n"))
    assert (problem.code, problem.details["lines"]) == (Code.AMBIGUOUS_MATCH, [3, 7])


def test_a_second_hunk_is_looked_for_after_the_first() -> None:
    """Hunks come in the order of the file."""
    hunks = _hunk("@@", " class B:\n     def f(self):\n-        return 1\n+        return 2\n")
    first = _hunk("@@", "-class A:\n+class Z:\n")
    text = TWINS + "\nclass B:\n"
    assert [item.start + 1 for item in patched(TWINS, first + hunks).placed] == [1, 5]
    assert text.count("class B:") == 2


def test_the_end_of_the_file_is_a_place() -> None:
    """`*** End of File` takes the last of several places, and adds lines without any around them."""
    end = "-x\n+y\n*** End of File\n"
    assert patched("x\nx\n", _hunk("@@", end)).text == "x\ny\n"
    assert patched("a\nb", _hunk("@@", "+c\n*** End of File\n")).text == "a\nb\nc"
    appended = patched("a\nb\n", _hunk("@@", "+c\n"))
    assert (appended.text, appended.placed[0].level) == ("a\nb\nc\n", "appended")
    assert refused("a\nb\n", _hunk("@@ missing", "+c\n")).code is Code.AMBIGUOUS_MATCH
    assert patched("a\nb\n", _hunk("@@ a", "+c\n")).text == "a\nc\nb\n"


@pytest.mark.parametrize(
    ("before", "diff", "after"),
    [
        ("a", "-a\n\\ No newline at end of file\n+b\n", "b\n"),
        ("a\n", "-a\n+b\n\\ No newline at end of file\n", "b"),
        ("a", "-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n", "b"),
        ("a", "-a\n+b\n", "b"),
        ("a\n", "-a\n+b\n", "b\n"),
        ("a", " a\n+b\n", "a\nb"),
        ("a\r\nb", " a\n-b\n+c\n+d\n", "a\r\nc\r\nd"),
    ],
)
def test_the_end_without_a_newline_is_kept_or_changed_as_the_patch_says(before: str, diff: str, after: str) -> None:
    """A last line without an ending stays so unless the patch says otherwise."""
    assert patched(before, only(f"--- a/f\n+++ b/f\n@@ -1 +1 @@\n{diff}").hunks).text == after


def test_a_closing_bracket_that_stands_there_is_no_proof_of_a_patch_done() -> None:
    """Adding another bracket where one follows is a change, not a repeat."""
    text, added = "f {\n  g {\n  x\n  }\n", _hunk("@@", "   x\n+  }\n")
    assert patched(text, added) == Patched("f {\n  g {\n  x\n  }\n  }\n", patched(text, added).placed, False)


def test_hunks_that_change_the_same_lines_are_refused() -> None:
    """Two hunks of one line cannot both be meant."""
    assert refused("a\nb\n", _hunk("@@", "-a\n+x\n@@\n-a\n+y\n")).code is Code.INVALID_ARGS

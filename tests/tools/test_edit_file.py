"""edit_file: what is quoted changes, every other byte stays, and each refusal says how to mend the call."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import Code, Problem
from handrail.output.redact import MARK
from handrail.ports import Limits
from handrail.tools.fs.edit_file import edit_file
from handrail.tools.fs.read_file import read_file
from handrail.words import Evidence, How, TouchKind
from tools._fakes import Desk, desk_at


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A workspace with the usual limits."""
    async with desk_at(tmp_path) as desk:
        yield desk


def sha256(data: bytes) -> str:
    """The hash of a file that holds this."""
    return hashlib.sha256(data).hexdigest()


def edit(old: str, new: str, **more: Any) -> dict[str, Any]:
    """One edit as a caller sends it."""
    return {"old": old, "new": new, **more}


async def test_an_edit_changes_what_is_quoted_and_tells_what_it_did(desk: Desk) -> None:
    """The answer has replacements, the first line, how it was found, both hashes and the diff."""
    desk.put("f", "one\ntwo\nthree\n")
    answer = await desk.call(edit_file, path="f", edits=[edit("two", "zwei")])
    after = b"one\nzwei\nthree\n"
    assert desk.bytes("f") == after
    data, diff = answer.data, "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n"
    assert (data.path, data.replacements, data.first_changed_line, data.matched_by) == ("f", 1, 2, ["exact"])
    assert (data.diff, data.written, answer.content) == (diff, True, diff)
    assert (data.sha256_before, data.sha256_after) == (sha256(b"one\ntwo\nthree\n"), sha256(after))
    assert answer.evidence == (Evidence("file", "f", "1 replaced", sha256(after)),)
    assert [(change.path, change.op) for change in desk.changes] == [("f", "replace")]


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\rb\rc", "b\n", "B\nBB\n", b"a\rB\rBB\rc"),
        (b"a\nb\r\nc\rd\n", "b\nc", "B\nC", b"a\nB\r\nC\rd\n"),
        (b"\xef\xbb\xbfa\nb\n", "a", "A", b"\xef\xbb\xbfA\nb\n"),
        ("\ufeffa\r\nb\r\n".encode("utf-16-le"), "b", "ä😀", "\ufeffa\r\nä😀\r\n".encode("utf-16-le")),
        ("\ufeffa\nb".encode("utf-16-be"), "a\nb", "c\nd", "\ufeffc\nd".encode("utf-16-be")),
        ("\ufeffab".encode("utf-32-le"), "b", "c", "\ufeffac".encode("utf-32-le")),
        (b"no newline at the end", "the end", "all", b"no newline at all"),
        (b"price: 5\n", "5", "$& \\1 \\g<0> $1", b"price: $& \\1 \\g<0> $1\n"),
        (b"a\\nb\n", "a\\nb", "c\\td", b"c\\td\n"),
        ("it’s “here”\n".encode(), 'it\'s "here"', "it is here", b"it is here\n"),
        (b"x\n\n\ny\n", "x\n\n\ny\n", "x\ny\n", b"x\ny\n"),
        (b"keep\ndrop\nkeep\n", "drop\n", "", b"keep\nkeep\n"),
        (b"a\r\nb\r\n", "\nb", "\nB", b"a\r\nB\r\n"),
        (b"a\r\nb\r\n", "\nb", "x\nB", b"ax\r\nB\r\n"),
        (b"a\r\nb\r\n", "a\r", "c\r", b"c\r\nb\r\n"),
    ],
)
async def test_only_the_quoted_bytes_change(desk: Desk, before: bytes, old: str, new: str, after: bytes) -> None:
    """BOM, encoding, endings and all that is not quoted stay byte for byte."""
    desk.put("f", before)
    await desk.call(edit_file, path="f", edits=[edit(old, new)])
    assert desk.bytes("f") == after


async def test_mode_bits_stay(desk: Desk) -> None:
    """An edited script stays a script."""
    desk.put("run.sh", "#!/bin/sh\necho one\n").chmod(0o754)
    await desk.call(edit_file, path="run.sh", edits=[edit("one", "two")])
    assert os.stat(desk.folder / "run.sh").st_mode & 0o777 == 0o754


async def test_several_edits_are_made_at_once_or_not_at_all(desk: Desk) -> None:
    """One edit that cannot be made leaves the file as it was."""
    desk.put("f", "a\nb\nc\n")
    answer = await desk.call(edit_file, path="f", edits=[edit("c", "b"), edit("b", "c")])
    assert (desk.bytes("f"), answer.data.replacements) == (b"a\nc\nb\n", 2)
    problem = await desk.problem(edit_file, path="f", edits=[edit("a", "A"), edit("nowhere to be seen", "x")])
    assert (problem.code, desk.bytes("f"), desk.changes) == (Code.NO_MATCH, b"a\nc\nb\n", [])


async def test_loose_matches_are_labelled_for_the_reader(desk: Desk) -> None:
    """How each edit was found is in the data and, where it was not exact, in the content."""
    desk.put("f", "def f():\n    return 1  \n\nx = 1\n")
    edits = [edit("def f():\n    return 1\n", "def f():\n    return 2\n"), edit("x = 1", "x = 2")]
    answer = await desk.call(edit_file, path="f", edits=edits)
    assert answer.data.matched_by == ["trailing_blanks", "exact"]
    assert str(answer.content).startswith("Matched loosely: edits.0 by trailing_blanks.\n--- a/f")
    assert desk.bytes("f") == b"def f():\n    return 2\n\nx = 2\n"


# ── refusals ─────────────────────────────────────────────────────────────────────────────────


async def test_a_text_that_is_not_there_is_shown_where_it_nearly_is(desk: Desk) -> None:
    """The nearest place, the first line that differs, with its blanks visible, and the call that shows it."""
    desk.put("f", "import os\n\ndef f():\n\tx = 1\n\treturn x\n")
    problem = await desk.problem(edit_file, path="f", edits=[edit("def f():\n    x = 2\n\treturn x\n", "")])
    assert problem.code is Code.NO_MATCH
    assert problem.details == {
        "nearest_line": 3,
        "line": 4,
        "expected": "····x·=·2",
        "found": "→x·=·1",
    }
    assert problem.next_call == {"tool": "read_file", "args": {"path": "f", "offset": 1, "limit": 9}}


async def test_letters_that_only_look_alike_are_named(desk: Desk) -> None:
    """A Cyrillic letter in a Latin word is no match, and its number is told."""
    desk.put("f", "pаssword_check = true\n")  # the second letter is Cyrillic
    problem = await desk.problem(edit_file, path="f", edits=[edit("password_check = true", "x")])
    assert problem.code is Code.NO_MATCH
    assert "There stands U+0430 where U+0061 is expected" in problem.message


async def test_a_text_unlike_anything_is_said_to_be(desk: Desk) -> None:
    """Where nothing is near, the whole file is the next thing to read."""
    desk.put("f", "one\n")
    problem = await desk.problem(edit_file, path="f", edits=[edit("something else altogether", "x")])
    assert (problem.code, problem.next_call) == (Code.NO_MATCH, {"tool": "read_file", "args": {"path": "f"}})


async def test_a_text_that_is_there_twice_names_its_lines_and_the_way_out(desk: Desk) -> None:
    """The next call works as it stands: it picks a line."""
    desk.put("f", "x = 1\ny = 2\nx = 1\n")
    problem = await desk.problem(edit_file, path="f", edits=[edit("x = 1", "x = 3")])
    assert (problem.code, problem.details["lines"]) == (Code.AMBIGUOUS_MATCH, [1, 3])
    assert problem.next_call is not None
    await desk.call(edit_file, **problem.next_call["args"])
    assert desk.bytes("f") == b"x = 3\ny = 2\nx = 1\n"


@pytest.mark.parametrize(
    ("more", "after"),
    [
        ({"match": "first"}, b"B\na\na\n"),
        ({"match": "all"}, b"B\nB\nB\n"),
        ({"near_line": 2}, b"a\nB\na\n"),
        ({"near_line": 99}, b"a\na\nB\n"),
    ],
)
async def test_one_or_all_of_several_places_are_chosen(desk: Desk, more: dict[str, Any], after: bytes) -> None:
    """first, all and near_line say which."""
    desk.put("f", "a\na\na\n")
    await desk.call(edit_file, path="f", edits=[edit("a", "B", **more)])
    assert desk.bytes("f") == after


async def test_an_edit_that_was_made_before_says_so(desk: Desk) -> None:
    """A repeated call changes nothing; the edits that are left are the next call."""
    desk.put("f", "alpha\nbeta\n")
    first = edit("alpha", "gamma")
    await desk.call(edit_file, path="f", edits=[first])
    problem = await desk.problem(edit_file, path="f", edits=[first])
    assert (problem.code, problem.details) == (Code.ALREADY_APPLIED, {"applied": [{"edit": 0, "line": 1}]})
    problem = await desk.problem(edit_file, path="f", edits=[first, edit("beta", "delta")])
    assert problem.code is Code.ALREADY_APPLIED
    assert problem.next_call is not None
    await desk.call(edit_file, **problem.next_call["args"])
    assert desk.bytes("f") == b"gamma\ndelta\n"


async def test_an_addition_that_was_made_before_is_not_made_again(desk: Desk) -> None:
    """The old text is still there, inside the new one: once is enough."""
    desk.put("f", "import a\n\ncode\n")
    addition = edit("import a\n", "import a\nimport bcd\n")
    await desk.call(edit_file, path="f", edits=[addition])
    problem = await desk.problem(edit_file, path="f", edits=[addition])
    assert (problem.code, desk.bytes("f")) == (Code.ALREADY_APPLIED, b"import a\nimport bcd\n\ncode\n")


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [edit("", "x")],
        [edit("a", "a")],
        [edit("a", "b"), edit("a\nb", "c")],
        [edit("a", "x", match="all", near_line=1)],
        [edit("a", "x", near_line=0)],
        [edit("a", "x", match="best")],
        [edit("a", "half \ud83d")],
        [{"old": "a"}],
        [edit("a", "x", more=1)],
    ],
)
async def test_edits_that_cannot_be_meant_are_refused(desk: Desk, edits: list[dict[str, Any]]) -> None:
    """Nothing to do, everywhere, overlapping or not writable: INVALID_ARGS, and the file stays."""
    desk.put("f", "a\nb\n")
    problem = await desk.problem(edit_file, path="f", edits=edits)
    assert (problem.code, desk.bytes("f")) == (Code.INVALID_ARGS, b"a\nb\n")


async def test_an_empty_quote_fills_an_empty_or_missing_file_only(desk: Desk) -> None:
    """Where there is no text, there is nothing to quote."""
    desk.put("empty", "")
    await desk.call(edit_file, path="empty", edits=[edit("", "filled\n")])
    answer = await desk.call(edit_file, path="new", edits=[edit("", "made\n")])
    assert (desk.bytes("empty"), desk.bytes("new")) == (b"filled\n", b"made\n")
    assert (answer.data.sha256_before, answer.data.diff) == ("", "--- /dev/null\n+++ b/new\n@@ -0,0 +1,1 @@\n+made\n")


async def test_a_file_that_is_not_what_the_caller_expects_is_not_touched(desk: Desk) -> None:
    """Another hash is STALE_FILE with the hash now and the call that reads it."""
    desk.put("f", "a\n")
    problem = await desk.problem(edit_file, path="f", edits=[edit("a", "b")], expected_sha256="0" * 64)
    assert (problem.code, problem.details) == (
        Code.STALE_FILE,
        {"path": "f", "expected_sha256": "0" * 64, "actual_sha256": sha256(b"a\n")},
    )
    assert problem.next_call == {"tool": "read_file", "args": {"path": "f"}}
    assert desk.bytes("f") == b"a\n"


async def test_a_change_from_outside_between_reading_and_writing_is_not_overwritten(desk: Desk) -> None:
    """What an editor saved meanwhile stays; the call is STALE_FILE."""
    desk.put("f", "a\n")
    parsed, _ = edit_file.parse({"path": "f", "edits": [edit("a", "b")]})
    inputs = desk._inputs(edit_file, parsed)
    files = inputs["files"]
    write = files.write

    async def late(*args: Any, **more: Any) -> Any:
        desk.put("f", "someone else's\n")
        return await write(*args, **more)

    class Racing:
        """The workspace, with someone who is quicker."""

        def __getattr__(self, name: str) -> Any:
            return late if name == "write" else getattr(files, name)

    with pytest.raises(Problem) as caught:
        await edit_file.function(**{**inputs, "files": Racing()})
    assert (caught.value.code, desk.bytes("f")) == (Code.STALE_FILE, b"someone else's\n")


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"\0\1\2", Code.NOT_TEXT), (b"caf\xe9 and more words", Code.BAD_ENCODING), (b"x" * 2000, Code.FILE_TOO_LARGE)],
)
async def test_what_cannot_be_read_cannot_be_edited(tmp_path: Path, data: bytes, code: Code) -> None:
    """Binary, badly encoded and too large files are refused as reading refuses them."""
    async with desk_at(tmp_path, Limits(max_read_bytes=1000)) as desk:
        desk.put("f", data)
        problem = await desk.problem(edit_file, path="f", edits=[edit("x", "y")])
        assert (problem.code, desk.bytes("f")) == (code, data)


async def test_a_missing_file_names_what_is_near(desk: Desk) -> None:
    """NOT_FOUND as everywhere."""
    desk.put("main.py", "x\n")
    assert (await desk.problem(edit_file, path="mian.py", edits=[edit("x", "y")])).code is Code.NOT_FOUND


# ── hidden values ────────────────────────────────────────────────────────────────────────────


async def test_the_mark_of_a_hidden_value_is_never_written(desk: Desk) -> None:
    """New text that holds the mark would destroy a value; one that stood there before may stay."""
    desk.put("f", f"note: {MARK}\nname = x\n")
    problem = await desk.problem(edit_file, path="f", edits=[edit("name = x", f"name = {MARK}")])
    assert (problem.code, problem.details) == (Code.INVALID_ARGS, {"marker": MARK})
    await desk.call(edit_file, path="f", edits=[edit(f"note: {MARK}\nname = x", f"note: {MARK}\nname = y")])
    assert desk.bytes("f") == f"note: {MARK}\nname = y\n".encode()


async def test_quoting_the_mark_is_explained(desk: Desk) -> None:
    """A model that quotes what it saw is told that the mark is not in the file."""
    desk.put("f", "name = hunter2\n")
    problem = await desk.problem(edit_file, path="f", edits=[edit(f"name = {MARK}", "x")])
    assert problem.code is Code.NO_MATCH
    assert "only marks a value that is hidden from you" in problem.message


KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEA0123456789abcdef\n" * 8 + "-----END RSA PRIVATE KEY-----\n"


async def test_neither_diff_nor_refusal_shows_what_the_whole_would_hide(desk: Desk) -> None:
    """Lines of a key are hidden in the diff around a change, and where a quote nearly stands."""
    desk.put("f", f"{KEY}after\n")
    answer = await desk.call(edit_file, path="f", edits=[edit("after", "later")])
    assert "0123456789" not in answer.data.diff
    assert "+later" in answer.data.diff
    quote = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA0123456789abcdeX\n"
    problem = await desk.problem(edit_file, path="f", edits=[edit(quote, "x")])
    assert "0123456789" not in str(problem.details.get("found"))
    assert "abcdef" not in problem.message


# ── dry runs and what is stated ──────────────────────────────────────────────────────────────


async def test_a_dry_run_shows_all_and_writes_nothing(desk: Desk) -> None:
    """The same answer as the real call, but for `written`; it only reads."""
    desk.put("f", "a\n")
    answer = await desk.call(edit_file, path="f", edits=[edit("a", "b")], dry_run=True)
    assert [(touch.kind, touch.how) for touch in desk.touches] == [(TouchKind.FS_READ, How.PLAIN)]
    assert (desk.bytes("f"), desk.changes, answer.data.written) == (b"a\n", [], False)
    real = await desk.call(edit_file, path="f", edits=[edit("a", "b")])
    assert [(touch.kind, touch.how) for touch in desk.touches] == [
        (TouchKind.FS_READ, How.PLAIN),
        (TouchKind.FS_WRITE, How.EDIT),
    ]
    assert (real.data.diff, real.data.sha256_after) == (answer.data.diff, answer.data.sha256_after)


async def test_the_preview_is_the_diff_and_fails_where_the_call_would(desk: Desk) -> None:
    """A person is shown what would change, and is not asked about what cannot be done."""
    desk.put("f", "a\n")
    args = {"path": "f", "edits": [edit("a", "b")]}
    assert await desk.preview(edit_file, **args) == "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-a\n+b\n"
    assert desk.bytes("f") == b"a\n"
    with pytest.raises(Problem):
        await desk.preview(edit_file, path="f", edits=[edit("zzz", "b")])


async def test_who_knew_the_file_whole_knows_it_after_the_edit(desk: Desk) -> None:
    """An edit does not make a known file unknown, nor an unknown one known."""
    desk.put("f", "a\nb\n")
    place = desk.files.resolve("f")
    await desk.call(edit_file, path="f", edits=[edit("a", "c")])
    assert desk.files.bind("x", ()).seen(place) is None
    await desk.call(read_file, path="f")
    await desk.call(edit_file, path="f", edits=[edit("c", "d")])
    assert desk.files.bind("x", ()).seen(place) == sha256(b"d\nb\n")


async def test_a_file_of_thousands_of_lines_keeps_every_other_byte(desk: Desk) -> None:
    """One word in the middle of ten thousand mixed lines."""
    lines = [f"line {n}".encode() + (b"\r\n" if n % 2 else b"\n") for n in range(10_000)]
    desk.put("f", b"".join(lines))
    answer = await desk.call(edit_file, path="f", edits=[edit("line 5001\n", "changed\n")])
    assert answer.data.matched_by == ["line_endings"]
    assert desk.bytes("f") == b"".join([*lines[:5001], b"changed\r\n", *lines[5002:]])
    assert answer.data.first_changed_line == 5002

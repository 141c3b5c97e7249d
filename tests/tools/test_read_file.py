"""read_file: text as it stands, whole or in parts that lead on, and clear words for what is no text."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import Code, Problem
from handrail.ports import Limits
from handrail.tools.fs.read_file import read_file
from handrail.words import Evidence, Truncation
from tools._fakes import Desk, desk_at


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A workspace with the usual limits."""
    async with desk_at(tmp_path) as desk:
        yield desk


def sha256(data: str | bytes) -> str:
    """The hash of a file that holds this."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


async def follow(desk: Desk, **args: Any) -> str:
    """Read on as each answer says until nothing is left; gives all that was shown."""
    shown: str = ""
    for _ in range(1000):
        answer = await desk.call(read_file, **args)
        shown += answer.data.text
        if answer.truncation is None or answer.truncation.next_cursor is None:
            return shown
        args = json.loads(answer.truncation.next_cursor)
        assert f"read_file {answer.truncation.next_cursor}" in str(answer.content)
    raise AssertionError("no end")


# ── the whole of a small file ────────────────────────────────────────────────────────────────


async def test_a_small_file_is_given_whole_with_what_it_is(desk: Desk) -> None:
    """Text, counts, hash, encoding and evidence; the content is the very text of the data."""
    desk.put("docs/a.md", "one\ntwo\n")
    answer = await desk.call(read_file, path="docs/a.md")
    data = answer.data
    assert (data.text, data.start, data.end, data.total_lines, data.bytes) == ("one\ntwo\n", 1, 2, 2, 8)
    assert (data.sha256, data.encoding, data.bom, data.eol, data.complete) == (
        sha256("one\ntwo\n"),
        "utf-8",
        False,
        "lf",
        True,
    )
    assert answer.content is data.text
    assert answer.summary == "Lines 1-2 of 2 of docs/a.md"
    assert answer.evidence == (Evidence("file", "docs/a.md", "8 bytes", sha256("one\ntwo\n")),)
    assert answer.truncation is None


@pytest.mark.parametrize(
    ("data", "text", "lines", "encoding", "bom", "eol"),
    [
        (b"", "", 0, "utf-8", False, "none"),
        (b"no newline", "no newline", 1, "utf-8", False, "none"),
        (b"a\r\nb\r\n", "a\r\nb\r\n", 2, "utf-8", False, "crlf"),
        (b"a\rb\rc", "a\rb\rc", 3, "utf-8", False, "cr"),
        (b"a\nb\r\nc\rd", "a\nb\r\nc\rd", 4, "utf-8", False, "mixed"),
        (b"\xef\xbb\xbfbom\n", "bom\n", 1, "utf-8", True, "lf"),
        ("\ufeffzwei\n".encode("utf-16-le"), "zwei\n", 1, "utf-16-le", True, "lf"),
        ("\ufeffzwei\r\n".encode("utf-16-be"), "zwei\r\n", 1, "utf-16-be", True, "crlf"),
        ("\ufeff😀\n".encode("utf-32-le"), "😀\n", 1, "utf-32-le", True, "lf"),
        ("\ufeff😀\n".encode("utf-32-be"), "😀\n", 1, "utf-32-be", True, "lf"),
        ("a\u2028b\x0bc\x0cd\x85e\n".encode(), "a\u2028b\x0bc\x0cd\x85e\n", 1, "utf-8", False, "lf"),
    ],
)
async def test_encodings_and_endings_are_told_and_kept(
    desk: Desk, data: bytes, text: str, lines: int, encoding: str, bom: bool, eol: str
) -> None:
    """Every encoding with a mark is read, every ending stays as it is."""
    desk.put("f", data)
    found = (await desk.call(read_file, path="f")).data
    assert (found.text, found.total_lines, found.encoding, found.bom, found.eol, found.complete) == (
        text,
        lines,
        encoding,
        bom,
        eol,
        True,
    )
    assert (found.bytes, found.sha256) == (len(data), sha256(data))


async def test_only_a_file_shown_whole_counts_as_seen(desk: Desk) -> None:
    """A part is not enough to overwrite a file later."""
    desk.put("f", "one\ntwo\n")
    place = desk.files.resolve("f")
    await desk.call(read_file, path="f", limit=1)
    assert desk.files.bind("x", ()).seen(place) is None
    await desk.call(read_file, path="f")
    assert desk.files.bind("x", ()).seen(place) == sha256("one\ntwo\n")


# ── parts ────────────────────────────────────────────────────────────────────────────────────


async def test_lines_from_an_offset_say_how_to_go_on(desk: Desk) -> None:
    """A part names what it shows, of how much, and the arguments of the next part."""
    desk.put("f", "".join(f"{n}\n" for n in range(1, 11)))
    answer = await desk.call(read_file, path="f", offset=3, limit=2)
    assert (answer.data.text, answer.data.start, answer.data.end, answer.data.complete) == ("3\n4\n", 3, 4, False)
    onward = '{"path": "f", "offset": 5, "limit": 2}'
    assert answer.content == f"3\n4\n[Lines 3-4 of 10 of f shown; go on with read_file {onward}]"
    assert answer.truncation == Truncation("lines", 2, 10, onward)


async def test_the_last_lines_say_how_to_go_back(desk: Desk) -> None:
    """A tail names the arguments of what comes before it."""
    desk.put("f", "".join(f"{n}\n" for n in range(1, 11)))
    answer = await desk.call(read_file, path="f", tail=3)
    assert (answer.data.text, answer.data.start, answer.data.end) == ("8\n9\n10\n", 8, 10)
    assert answer.truncation == Truncation("lines", 3, 10, '{"path": "f", "offset": 1, "limit": 7}')


async def test_a_tail_longer_than_the_file_is_the_whole_file(desk: Desk) -> None:
    """Asking for more lines than there are gives them all, as complete."""
    desk.put("f", "a\nb")
    answer = await desk.call(read_file, path="f", tail=9)
    assert (answer.data.text, answer.data.complete, answer.truncation) == ("a\nb", True, None)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
async def test_a_file_over_the_limits_is_read_to_its_end_by_following_the_answers(desk: Desk, ending: str) -> None:
    """No line is lost or shown twice between the parts of a file of five thousand lines."""
    text = "".join(f"line {n} {'x' * (n % 50)}{ending}" for n in range(5000))
    desk.put("f", text)
    assert await follow(desk, path="f") == text


async def test_content_stays_within_the_limits_with_its_last_line(desk: Desk) -> None:
    """Lines, bytes and the line that says how to go on fit together."""
    desk.put("f", "ä\n" * 5000)
    answer = await desk.call(read_file, path="f")
    assert answer.content is not None
    assert answer.content.count("\n") + 1 == 2000
    desk.put("g", ("ä" * 1500 + "\n") * 200)
    answer = await desk.call(read_file, path="g")
    assert answer.content is not None
    assert 40_000 < len(answer.content.encode()) <= 51200
    assert answer.truncation is not None
    assert answer.truncation.by == "bytes"


async def test_exactly_the_limit_of_lines_is_complete(desk: Desk) -> None:
    """Two thousand lines need no cut."""
    desk.put("f", "x\n" * 2000)
    answer = await desk.call(read_file, path="f")
    assert (answer.data.complete, answer.data.end, answer.truncation) == (True, 2000, None)


async def test_a_long_line_is_cut_and_read_on_by_column(desk: Desk) -> None:
    """The mark in a cut line is the call that shows the rest; no line is longer than the limit."""
    line = "".join(chr(97 + n % 26) for n in range(5000))
    desk.put("f", f"head\n{line}\nfoot\n")
    answer = await desk.call(read_file, path="f")
    assert answer.content is not None
    assert max(map(len, answer.content.splitlines())) <= 2000
    assert not answer.data.complete
    mark = answer.data.text.split(" … [line 2 goes on: read_file ")
    args = json.loads(mark[1].split("]\n")[0])
    shown = len(mark[0]) - len("head\n")
    assert args == {"path": "f", "offset": 2, "limit": 1, "column": shown + 1}
    assert answer.data.text.endswith("]\nfoot\n")
    pieces = [line[:shown]]
    while True:
        answer = await desk.call(read_file, **args)
        pieces.append(answer.data.text.split(" … [line 2 goes on")[0].removesuffix("\n"))
        assert answer.truncation is not None
        args = json.loads(answer.truncation.next_cursor or "")
        if args["offset"] != 2:
            break
    assert "".join(pieces) == line


async def test_byte_ranges_lead_through_a_file(desk: Desk) -> None:
    """A range starts and ends at whole characters and names the next one."""
    text = "αβγ\n" * 40
    desk.put("f", text)
    answer = await desk.call(read_file, path="f", byte_offset=3, byte_limit=4)
    assert (answer.data.text, answer.data.start, answer.data.end) == ("βγ\n", 1, 1)
    assert answer.truncation == Truncation("bytes", 5, 280, '{"path": "f", "byte_offset": 7, "byte_limit": 4}')
    assert await follow(desk, path="f", byte_offset=0, byte_limit=11) == text


async def test_the_line_of_a_byte_range_is_told(desk: Desk) -> None:
    """A range names the lines it touches."""
    desk.put("f", "one\ntwo\nthree\nfour\n")
    data = (await desk.call(read_file, path="f", byte_offset=8, byte_limit=8)).data
    assert (data.text, data.start, data.end) == ("three\nfo", 3, 4)
    desk.put("g", "a\r\nb\rc")
    lines = [(await desk.call(read_file, path="g", byte_offset=at, byte_limit=1)).data.start for at in range(6)]
    assert lines == [1, 1, 1, 2, 2, 3]


# ── arguments ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "args",
    [
        {"offset": 0},
        {"offset": -1},
        {"limit": 0},
        {"tail": 0},
        {"column": 0},
        {"byte_offset": -1},
        {"byte_limit": 0, "byte_offset": 0},
        {"max_bytes": 0},
        {"offset": "two"},
        {"byte_limit": 5},
        {"offset": 2, "tail": 1},
        {"tail": 1, "byte_offset": 0},
        {"whole": True, "offset": 2},
        {"whole": True, "limit": 5},
        {"byte_offset": 0, "column": 2},
    ],
)
async def test_arguments_that_cannot_be_meant_are_refused(desk: Desk, args: dict[str, Any]) -> None:
    """Zero, negative and contradicting parts are INVALID_ARGS."""
    desk.put("f", "a\nb\nc\n")
    assert (await desk.problem(read_file, path="f", **args)).code is Code.INVALID_ARGS


async def test_past_the_end_is_refused_with_the_size(desk: Desk) -> None:
    """An offset, column or byte past the end names what there is."""
    desk.put("f", "a\nbcd\n")
    offset = await desk.problem(read_file, path="f", offset=3)
    assert (offset.code, offset.details) == (Code.INVALID_ARGS, {"total_lines": 2})
    column = await desk.problem(read_file, path="f", offset=2, limit=1, column=4)
    assert (column.code, column.details) == (Code.INVALID_ARGS, {"line_chars": 3})
    byte = await desk.problem(read_file, path="f", byte_offset=6)
    assert (byte.code, byte.details) == (Code.INVALID_ARGS, {"bytes": 6})


# ── what is no text file ─────────────────────────────────────────────────────────────────────


async def test_a_binary_file_is_described(desk: Desk) -> None:
    """Size, type and first bytes are told instead of noise."""
    desk.put("f", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    problem = await desk.problem(read_file, path="f")
    assert (problem.code, problem.details) == (
        Code.NOT_TEXT,
        {"size": 16, "type": "PNG image", "first_bytes": "89 50 4e 47 0d 0a 1a 0a 00 00 00 0d 49 48 44 52"},
    )


async def test_bytes_that_do_not_fit_are_located(desk: Desk) -> None:
    """Text in an older encoding is BAD_ENCODING with the offset of the first such byte."""
    desk.put("f", "caf\xe9 au lait".encode("latin-1"))
    problem = await desk.problem(read_file, path="f")
    assert (problem.code, problem.details) == (
        Code.BAD_ENCODING,
        {"encoding": "utf-8", "byte_offset": 3, "byte": "e9"},
    )


async def test_a_folder_names_the_call_that_lists_it(desk: Desk) -> None:
    """A folder is NOT_A_FILE and leads to list_dir."""
    (desk.folder / "src").mkdir()
    problem = await desk.problem(read_file, path="src")
    assert (problem.code, problem.next_call) == (Code.NOT_A_FILE, {"tool": "list_dir", "args": {"path": "src"}})


async def test_a_missing_file_names_the_clearly_nearest(desk: Desk) -> None:
    """One near name becomes the next call; several alike are only named."""
    desk.put("docs/config.yaml", "")
    problem = await desk.problem(read_file, path="docs/config.yml")
    assert (problem.code, problem.details["near"]) == (Code.NOT_FOUND, ["docs/config.yaml"])
    assert problem.next_call == {"tool": "read_file", "args": {"path": "docs/config.yaml"}}
    desk.put("a1.txt", "")
    desk.put("a2.txt", "")
    problem = await desk.problem(read_file, path="a3.txt")
    assert (problem.next_call, sorted(problem.details["near"])) == (None, ["a1.txt", "a2.txt"])


async def test_a_pipe_never_blocks(desk: Desk) -> None:
    """A FIFO is refused at once."""
    os.mkfifo(desk.folder / "pipe")
    assert (await desk.problem(read_file, path="pipe")).code is Code.NOT_A_FILE


# ── what must stay hidden ────────────────────────────────────────────────────────────────────

KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEA0123456789abcdef\n" * 8 + "-----END RSA PRIVATE KEY-----\n"


@pytest.mark.parametrize("limits", [Limits(), Limits(max_read_bytes=100)])
@pytest.mark.parametrize(
    "args",
    [
        {"offset": 3, "limit": 2},
        {"byte_offset": 66, "byte_limit": 30},
        {"tail": 4},
        {"offset": 4, "limit": 1, "column": 9},
    ],
)
async def test_a_slice_never_shows_what_the_whole_would_hide(
    tmp_path: Path, limits: Limits, args: dict[str, Any]
) -> None:
    """The middle of a private key is hidden although the slice has neither its head nor its foot."""
    async with desk_at(tmp_path, limits) as desk:
        desk.put("f", KEY)
        answer = await desk.call(read_file, path="f", **args)
        assert "01234" not in answer.data.text + str(answer.content)


async def test_a_secret_at_the_cut_of_a_long_line_stays_hidden(tmp_path: Path) -> None:
    """A known value that the cut would split shows in neither part."""
    async with desk_at(tmp_path, known=("tr0ub4dor&3-battery",)) as desk:
        desk.put("f", "x" * 1900 + "tr0ub4dor&3-battery" * 3 + "y" * 3000)
        shown = await follow(desk, path="f")
        assert "tr0ub" not in shown
        assert "batt" not in shown


async def test_a_file_that_grows_meanwhile_is_streamed(desk: Desk) -> None:
    """What was small when it was resolved and is not any more gives an excerpt, not an error."""
    desk.put("f", "x\n")
    place = desk.files.resolve("f")
    desk.put("f", "line\n" * 5000)
    parsed, _ = read_file.parse({"path": "f", "max_bytes": 1000})
    inputs = desk._inputs(read_file, parsed)
    answer = await read_file.function(**{**inputs, "path": place})
    assert (answer.data.total_lines, answer.data.complete) == (5000, False)


async def test_nothing_but_a_problem_is_raised_for_a_file_that_vanishes(desk: Desk) -> None:
    """A file that is deleted between resolving and opening is NOT_FOUND."""
    desk.put("f", "x\n")
    parsed, _ = read_file.parse({"path": "f"})
    inputs = desk._inputs(read_file, parsed)
    (desk.folder / "f").unlink()
    with pytest.raises(Problem) as caught:
        await read_file.function(**inputs)
    assert caught.value.code is Code.NOT_FOUND

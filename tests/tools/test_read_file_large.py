"""read_file on files too large to be read whole: the same parts, in little memory."""

from __future__ import annotations

import hashlib
import os
import resource
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import Code
from handrail.ports import Limits
from handrail.tools.fs.read_file import read_file
from tools._fakes import Desk, desk_at

SCALE = float(os.environ.get("HANDRAIL_TEST_SCALE", "1"))


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A workspace with the usual limits."""
    async with desk_at(tmp_path) as desk:
        yield desk


def sha256(data: str) -> str:
    """The hash of a file that holds this."""
    return hashlib.sha256(data.encode()).hexdigest()


async def test_a_file_over_max_bytes_gives_an_excerpt_that_leads_on(desk: Desk) -> None:
    """Too large to be read whole: head, hash of all, and the way to the rest; with `whole` it fails."""
    text = "".join(f"line {n} ä\n" for n in range(3000))
    desk.put("f", text)
    answer = await desk.call(read_file, path="f", max_bytes=1000)
    data = answer.data
    assert (data.sha256, data.total_lines, data.bytes, data.complete) == (sha256(text), 3000, len(text.encode()), False)
    assert text.startswith(data.text)
    assert 900 < len(data.text.encode()) <= 1000
    problem = await desk.problem(read_file, path="f", max_bytes=1000, whole=True)
    assert (problem.code, problem.details) == (
        Code.FILE_TOO_LARGE,
        {"bytes": len(text.encode()), "max_bytes": 1000},
    )
    assert (await desk.call(read_file, path="f", whole=True)).data.text == text


async def test_a_small_max_bytes_is_filled_with_lines_and_not_passed(desk: Desk) -> None:
    """The notice that says how to go on takes none of it; byte ranges and long lines obey it as well."""
    desk.put("f", "".join(f"{n}\n" for n in range(1, 101)))
    answer = await desk.call(read_file, path="f", max_bytes=20)
    assert (answer.data.text, answer.data.end) == ("1\n2\n3\n4\n5\n6\n", 6)
    ranged = await desk.call(read_file, path="f", max_bytes=20, byte_offset=4)
    assert ranged.data.text == "3\n4\n5\n6\n7\n8\n9\n10\n11\n"
    desk.put("long", "x" * 1500)
    cut = await desk.call(read_file, path="long", max_bytes=200)
    assert 0 < cut.data.text.count("x") <= 200


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "args",
    [
        {},
        {"offset": 1500, "limit": 7},
        {"tail": 5},
        {"offset": 3000, "limit": 1},
        {"offset": 42, "limit": 1, "column": 6},
        {"byte_offset": 20_001, "byte_limit": 30},
    ],
)
async def test_a_large_file_shows_the_same_parts_as_a_small_one(
    tmp_path: Path, encoding: str, ending: str, args: dict[str, Any]
) -> None:
    """Streaming and reading whole give the same answer, in every encoding and with every ending."""
    async with desk_at(tmp_path) as small, desk_at(tmp_path, Limits(max_read_bytes=999)) as large:
        small.put("f", "".join(f"line {n} ä😀{ending}" for n in range(3000)).encode(encoding))
        assert await large.call(read_file, path="f", **args) == await small.call(read_file, path="f", **args)


@pytest.mark.parametrize("args", [{}, {"tail": 1}, {"limit": 1, "column": 250_001}])
async def test_a_line_longer_than_any_window_is_read_in_parts(tmp_path: Path, args: dict[str, Any]) -> None:
    """One line of a megabyte: streaming shows what reading whole shows."""
    async with desk_at(tmp_path) as small, desk_at(tmp_path, Limits(max_read_bytes=999)) as large:
        small.put("f", "".join(chr(97 + n * n % 26) for n in range(1_000_000)))
        one, other = await large.call(read_file, path="f", **args), await small.call(read_file, path="f", **args)
        assert (one.data, one.content) == (other.data, other.content)
        assert one.truncation is not None
        assert other.truncation is not None
        assert one.truncation.next_cursor == other.truncation.next_cursor


async def test_a_huge_file_and_a_huge_line_take_little_memory(tmp_path: Path) -> None:
    """Streaming keeps memory flat: far less than the file is read at a time."""
    size = int(64 * SCALE) << 20
    async with desk_at(tmp_path) as desk:
        with (tmp_path / "lines").open("wb") as lines, (tmp_path / "line").open("wb") as line:
            for _ in range(size >> 20):
                lines.write((b"x" * 63 + b"\n") * (1 << 14))
                line.write(b"y" * (1 << 20))
        before = _peak()
        for name in ("lines", "line"):
            answer = await desk.call(read_file, path=name)
            assert (answer.data.bytes, answer.data.complete) == (size, False)
            await desk.call(read_file, path=name, tail=1)
            await desk.call(read_file, path=name, byte_offset=size - 100)
        assert _peak() - before < 24 << 20


def _peak() -> int:
    """The most memory this process ever held, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


async def test_a_large_binary_file_is_not_text_either(tmp_path: Path) -> None:
    """The first bytes of a large file decide before it is streamed."""
    async with desk_at(tmp_path, Limits(max_read_bytes=100)) as desk:
        desk.put("f", b"\x7fELF" + b"\0" * 500)
        problem = await desk.problem(read_file, path="f")
        assert (problem.code, problem.details["type"], problem.details["size"]) == (Code.NOT_TEXT, "ELF program", 504)


async def test_a_bad_byte_far_into_a_large_file_is_located(tmp_path: Path) -> None:
    """Strict decoding holds for streamed files, with the offset in the file."""
    async with desk_at(tmp_path, Limits(max_read_bytes=100)) as desk:
        desk.put("f", b"good\n" * 1000 + b"\xff\n")
        problem = await desk.problem(read_file, path="f")
        assert (problem.code, problem.details["byte_offset"]) == (Code.BAD_ENCODING, 5000)


async def test_a_raised_setting_holds_for_a_call_that_names_no_bound(tmp_path: Path) -> None:
    """Settings say how large a file may be; a call may ask for less, never for more."""
    text = "x" * 99 + "\n"
    large = text * 60_000
    async with desk_at(tmp_path, Limits(max_read_bytes=7 << 20)) as desk:
        desk.put("f", large)
        assert (await desk.call(read_file, path="f", whole=True)).data.text == large
        problem = await desk.problem(read_file, path="f", whole=True, max_bytes=1000)
        assert (problem.code, problem.details["max_bytes"]) == (Code.FILE_TOO_LARGE, 1000)
    async with desk_at(tmp_path, Limits(max_read_bytes=5 << 20)) as desk:
        problem = await desk.problem(read_file, path="f", whole=True, max_bytes=7 << 20)
        assert (problem.code, problem.details["max_bytes"]) == (Code.FILE_TOO_LARGE, 5 << 20)


@pytest.mark.parametrize("most_shown", [51200, 64 << 20])
@pytest.mark.parametrize(
    ("text", "fits"), [("plain text\n" * 690_000, True), ("plain text\n" * 850_000, False), ('"' * 4_500_000, False)]
)
async def test_what_one_answer_cannot_hold_is_not_given_as_whole(
    tmp_path: Path, text: str, fits: bool, most_shown: int
) -> None:
    """All of it, or FILE_TOO_LARGE with the call that reads it in parts; what JSON adds counts."""
    limits = Limits(max_output_lines=10_000_000, max_output_bytes=most_shown, max_read_bytes=16 << 20)
    async with desk_at(tmp_path, limits) as desk:
        desk.put("f", text)
        if fits:
            answer = await desk.call(read_file, path="f", whole=True)
            assert (answer.data.text == text, answer.data.complete) == (True, True)
            return
        problem = await desk.problem(read_file, path="f", whole=True, max_bytes=16 << 20)
    assert (problem.code, problem.next_call) == (Code.FILE_TOO_LARGE, {"tool": "read_file", "args": {"path": "f"}})
    assert problem.details == {"bytes": len(text), "max_bytes": 8 << 20}
    assert "leave `whole` out" in problem.message

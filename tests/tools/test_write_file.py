"""write_file: make, replace what is known, append; nothing is lost unseen."""

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
from handrail.tools.fs.read_file import read_file
from handrail.tools.fs.write_file import write_file
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


async def test_a_new_file_is_made_with_its_folders(desk: Desk) -> None:
    """Bytes, hash, created and diff are told; the content does not repeat what was sent."""
    answer = await desk.call(write_file, path="a/b/c.txt", content="ä\n")
    data = answer.data
    assert desk.bytes("a/b/c.txt") == "ä\n".encode()
    assert (data.path, data.bytes, data.sha256, data.created) == ("a/b/c.txt", 3, sha256("ä\n".encode()), True)
    assert data.diff == "--- /dev/null\n+++ b/a/b/c.txt\n@@ -0,0 +1,1 @@\n+ä\n"
    assert answer.content == f"Created a/b/c.txt: 3 bytes, sha256 {data.sha256}"
    assert answer.evidence == (Evidence("file", "a/b/c.txt", "3 bytes", data.sha256),)
    assert [(change.op, change.path) for change in desk.changes] == [
        ("mkdir", "a"),
        ("mkdir", "a/b"),
        ("create", "a/b/c.txt"),
    ]


async def test_without_mkdirs_a_missing_folder_is_not_made(desk: Desk) -> None:
    """NOT_FOUND, and nothing appears."""
    problem = await desk.problem(write_file, path="a/b.txt", content="x", mkdirs=False)
    assert (problem.code, os.listdir(desk.folder)) == (Code.NOT_FOUND, [])


async def test_what_is_there_is_not_replaced_by_creating(desk: Desk) -> None:
    """An unknown file leads to reading it, a known one to overwriting it."""
    desk.put("f", "old\n")
    problem = await desk.problem(write_file, path="f", content="new\n")
    assert (problem.code, problem.next_call) == (Code.ALREADY_EXISTS, {"tool": "read_file", "args": {"path": "f"}})
    await desk.call(read_file, path="f")
    problem = await desk.problem(write_file, path="f", content="new\n")
    assert problem.next_call == {
        "tool": "write_file",
        "args": {"path": "f", "content": "new\n", "mode": "overwrite"},
    }
    await desk.call(write_file, **problem.next_call["args"])
    assert desk.bytes("f") == b"new\n"


async def test_overwriting_needs_that_the_file_was_read_whole(desk: Desk) -> None:
    """Not read, read in part, changed since: STALE_FILE with the hash now; read whole: done, with the diff."""
    desk.put("f", "one\ntwo\n")
    args: dict[str, Any] = {"path": "f", "content": "one\nthree\n", "mode": "overwrite"}
    problem = await desk.problem(write_file, **args)
    assert (problem.code, problem.details) == (
        Code.STALE_FILE,
        {"path": "f", "expected_sha256": None, "actual_sha256": sha256(b"one\ntwo\n")},
    )
    assert problem.next_call == {"tool": "read_file", "args": {"path": "f"}}
    await desk.call(read_file, path="f", limit=1)
    assert (await desk.problem(write_file, **args)).code is Code.STALE_FILE
    await desk.call(read_file, path="f")
    desk.put("f", "changed by someone\n")
    problem = await desk.problem(write_file, **args)
    assert problem.details["expected_sha256"] == sha256(b"one\ntwo\n")
    assert desk.bytes("f") == b"changed by someone\n"
    await desk.call(read_file, path="f")
    answer = await desk.call(write_file, **args)
    assert (desk.bytes("f"), answer.data.created) == (b"one\nthree\n", False)
    assert answer.data.diff == "--- a/f\n+++ b/f\n@@ -1,1 +1,2 @@\n-changed by someone\n+one\n+three\n"
    assert str(answer.content).endswith(answer.data.diff)


async def test_overwriting_with_the_hash_needs_no_reading(desk: Desk) -> None:
    """Who names what is there may replace it; a wrong name may not."""
    desk.put("f", "old\n")
    args: dict[str, Any] = {"path": "f", "content": "new\n", "mode": "overwrite"}
    assert (await desk.problem(write_file, **args, expected_sha256="0" * 64)).code is Code.STALE_FILE
    await desk.call(write_file, **args, expected_sha256=sha256(b"old\n"))
    assert desk.bytes("f") == b"new\n"


async def test_a_written_file_is_known_and_can_be_overwritten(desk: Desk) -> None:
    """What this run wrote it need not read."""
    await desk.call(write_file, path="f", content="1\n")
    await desk.call(write_file, path="f", content="2\n", mode="overwrite")
    await desk.call(write_file, path="f", content="3\n", mode="overwrite")
    assert desk.bytes("f") == b"3\n"


async def test_a_hash_of_a_file_that_is_gone_is_stale(desk: Desk) -> None:
    """Expecting something where nothing is refuses; expecting nothing makes the file."""
    for mode in ("create", "overwrite", "append"):
        problem = await desk.problem(write_file, path="f", content="x", mode=mode, expected_sha256="0" * 64)
        assert (problem.code, os.listdir(desk.folder)) == (Code.STALE_FILE, [])
    await desk.call(write_file, path="f", content="x", mode="overwrite", expected_sha256="")
    assert desk.bytes("f") == b"x"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\n", b"a\nb\xc3\xa4\n"),
        (b"no newline", "no newlinebä\n".encode()),
        (b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfa\nb\xc3\xa4\n"),
        ("\ufeffa\n".encode("utf-16-le"), "\ufeffa\nbä\n".encode("utf-16-le")),
        ("\ufeffa\n".encode("utf-32-be"), "\ufeffa\nbä\n".encode("utf-32-be")),
        (b"", b"b\xc3\xa4\n"),
    ],
)
async def test_appending_keeps_the_encoding_and_all_that_is_there(desk: Desk, before: bytes, after: bytes) -> None:
    """What was there stays to the byte, what is added is written as the file is."""
    desk.put("f", before)
    answer = await desk.call(write_file, path="f", content="bä\n", mode="append")
    assert (desk.bytes("f"), answer.data.created, answer.data.bytes) == (after, False, len(after))


async def test_appending_to_nothing_makes_the_file(desk: Desk) -> None:
    """A log starts somewhere."""
    answer = await desk.call(write_file, path="log", content="first\n", mode="append")
    assert (desk.bytes("log"), answer.data.created) == (b"first\n", True)


async def test_appending_to_what_is_no_text_is_refused(desk: Desk) -> None:
    """A binary file is not added to."""
    desk.put("f", b"\x7fELF\0\0")
    assert (await desk.problem(write_file, path="f", content="x", mode="append")).code is Code.NOT_TEXT


async def test_a_binary_file_can_be_replaced_without_a_diff(desk: Desk) -> None:
    """Who knows its hash may replace it; there is nothing to show of it."""
    desk.put("f", b"\0\1\2")
    answer = await desk.call(
        write_file, path="f", content="text\n", mode="overwrite", expected_sha256=sha256(b"\0\1\2")
    )
    assert (desk.bytes("f"), "no diff is shown" in answer.data.diff) == (b"text\n", True)


async def test_a_large_file_can_be_replaced_without_reading_it_whole(tmp_path: Path) -> None:
    """Its hash is streamed; appending to it is refused."""
    async with desk_at(tmp_path, Limits(max_read_bytes=100)) as desk:
        desk.put("f", "x" * 500)
        assert (await desk.problem(write_file, path="f", content="y", mode="append")).code is Code.FILE_TOO_LARGE
        await desk.call(write_file, path="f", content="y", mode="overwrite", expected_sha256=sha256(b"x" * 500))
        assert desk.bytes("f") == b"y"


async def test_mode_bits_stay_and_links_inside_are_followed(desk: Desk) -> None:
    """The file behind a link is written, the link stays."""
    desk.put("real", "old\n").chmod(0o751)
    (desk.folder / "link").symlink_to("real")
    await desk.call(read_file, path="link")
    await desk.call(write_file, path="link", content="new\n", mode="overwrite")
    assert (desk.bytes("real"), (desk.folder / "link").is_symlink()) == (b"new\n", True)
    assert os.stat(desk.folder / "real").st_mode & 0o777 == 0o751


async def test_hard_linked_files_are_not_split(desk: Desk) -> None:
    """Another name of the same file keeps the same content: the write is refused."""
    desk.put("one", "x\n")
    os.link(desk.folder / "one", desk.folder / "two")
    await desk.call(read_file, path="one")
    assert (await desk.problem(write_file, path="one", content="y\n", mode="overwrite")).code is Code.PATH_PROTECTED
    assert (desk.bytes("one"), desk.bytes("two")) == (b"x\n", b"x\n")


async def test_a_folder_is_no_file(desk: Desk) -> None:
    """A folder leads to list_dir in every mode."""
    (desk.folder / "d").mkdir()
    for mode in ("create", "overwrite", "append"):
        assert (await desk.problem(write_file, path="d", content="x", mode=mode)).code is Code.NOT_A_FILE


async def test_the_mark_of_a_hidden_value_is_never_added(desk: Desk) -> None:
    """Created, overwritten or appended: more marks than before are refused, as many are not."""
    problem = await desk.problem(write_file, path="new", content=f"key: {MARK}\n")
    assert (problem.code, problem.details) == (Code.INVALID_ARGS, {"marker": MARK})
    desk.put("f", "key: s3cr3t\n")
    await desk.call(read_file, path="f")
    for mode in ("overwrite", "append"):
        problem = await desk.problem(write_file, path="f", content=f"key: {MARK}\n", mode=mode)
        assert problem.details == {"marker": MARK}
    desk.put("binary", MARK.encode() + b"\0")
    whole = sha256(MARK.encode() + b"\0")
    problem = await desk.problem(write_file, path="binary", content=MARK * 2, mode="overwrite", expected_sha256=whole)
    assert problem.details == {"marker": MARK}
    desk.put("doc", f"we write {MARK}\n")
    await desk.call(read_file, path="doc")
    await desk.call(write_file, path="doc", content=f"We write {MARK}.\n", mode="overwrite")
    assert desk.bytes("doc") == f"We write {MARK}.\n".encode()


async def test_half_a_character_is_refused(desk: Desk) -> None:
    """A lone surrogate cannot be written."""
    assert (await desk.problem(write_file, path="f", content="x\ud800")).code is Code.INVALID_ARGS


async def test_what_a_write_will_touch_depends_on_its_mode(desk: Desk) -> None:
    """Creating and overwriting replace, appending edits; where the diff shows the old text, it is read, too."""
    for mode, how in (("create", How.REPLACE), ("overwrite", How.REPLACE), ("append", How.EDIT)):
        parsed, _ = write_file.parse({"path": "f", "content": "", "mode": mode})
        *reads, touch = write_file.touches(parsed)
        assert (touch.kind, touch.target, touch.how) == (TouchKind.FS_WRITE, "f", how)
        assert [(read.kind, read.target) for read in reads] == [(TouchKind.FS_READ, "f")] * (mode != "create")


async def test_the_preview_is_the_diff_and_fails_where_the_call_would(desk: Desk) -> None:
    """A person is shown what would change; nothing is written."""
    desk.put("f", "a\n")
    await desk.call(read_file, path="f")
    args: dict[str, Any] = {"path": "f", "content": "b\n", "mode": "overwrite"}
    assert await desk.preview(write_file, **args) == "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-a\n+b\n"
    with pytest.raises(Problem):
        await desk.preview(write_file, path="f", content="b\n")
    assert desk.bytes("f") == b"a\n"


async def test_a_long_diff_is_cut_with_the_way_to_the_rest(desk: Desk) -> None:
    """A diff of many lines keeps within the limits and says how much it shows."""
    desk.put("f", "".join(f"old {n}\n" for n in range(5000)))
    args = {"path": "f", "content": "".join(f"new {n}\n" for n in range(5000)), "mode": "overwrite"}
    answer = await desk.call(write_file, **args, expected_sha256=sha256(desk.bytes("f")))
    lines = answer.data.diff.splitlines()
    assert len(lines) < 2000
    assert lines[-1].endswith('of 10003 lines of this diff shown; read_file {"path": "f"} shows the file as it is]')
    assert len(str(answer.content).encode()) <= 51200

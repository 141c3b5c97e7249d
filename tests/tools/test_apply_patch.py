"""apply_patch: several files at once, all or none, found by content."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import Code, Problem
from handrail.output.redact import MARK
from handrail.tools.fs.apply_patch import apply_patch
from handrail.words import How, TouchKind
from tools._fakes import Desk, desk_at


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A workspace with the usual limits."""
    async with desk_at(tmp_path) as desk:
        yield desk


def sha256(data: bytes) -> str:
    """The hash of a file that holds this."""
    return hashlib.sha256(data).hexdigest()


def marked(body: str) -> str:
    """A patch in the `*** Begin Patch` form."""
    return f"*** Begin Patch\n{body}*** End Patch\n"


def everything(desk: Desk) -> dict[str, bytes]:
    """All files of the workspace."""
    found = sorted(path for path in desk.folder.rglob("*") if path.is_file())
    return {str(path.relative_to(desk.folder)): path.read_bytes() for path in found}


ALL = marked(
    "*** Update File: src/a.py\n@@ def f():\n     x = 1\n-    y = 2\n+    y = 3\n"
    "*** Add File: src/new.py\n+print('hi')\n+\n"
    "*** Delete File: old.txt\n"
    "*** Update File: name.txt\n*** Move to: docs/name.txt\n@@\n-old name\n+new name\n"
)


def lay_out(desk: Desk) -> dict[str, bytes]:
    """The files that the patch above changes."""
    desk.put("src/a.py", "def f():\n    x = 1\n    y = 2\n    return x\n")
    desk.put("old.txt", "gone soon\n")
    desk.put("name.txt", "old name\n").chmod(0o640)
    return everything(desk)


AFTER = {
    "docs/name.txt": b"new name\n",
    "src/a.py": b"def f():\n    x = 1\n    y = 3\n    return x\n",
    "src/new.py": b"print('hi')\n\n",
}


async def test_a_patch_adds_updates_moves_and_deletes_in_one_call(desk: Desk) -> None:
    """Each file's operation, place of its hunks and hashes are told."""
    before = lay_out(desk)
    answer = await desk.call(apply_patch, patch=ALL)
    assert everything(desk) == AFTER
    told = [(one.path, one.operation, one.target, one.state) for one in answer.data.files]
    assert told == [
        ("src/a.py", "update", None, "applied"),
        ("src/new.py", "add", None, "applied"),
        ("old.txt", "delete", None, "applied"),
        ("name.txt", "move", "docs/name.txt", "applied"),
    ]
    assert [(hunk.line, hunk.matched_by) for hunk in answer.data.files[0].hunks] == [(2, "exact")]
    hashes = [(one.sha256_before, one.sha256_after) for one in answer.data.files]
    assert hashes == [
        (sha256(before["src/a.py"]), sha256(AFTER["src/a.py"])),
        (None, sha256(AFTER["src/new.py"])),
        (sha256(before["old.txt"]), None),
        (sha256(before["name.txt"]), sha256(AFTER["docs/name.txt"])),
    ]
    assert os.stat(desk.folder / "docs/name.txt").st_mode & 0o777 == 0o640
    assert answer.summary == "4 files: 4 applied"


async def test_what_a_patch_will_touch_is_stated_from_its_text(desk: Desk) -> None:
    """Updates edit, additions are plain writes, deletions and sources of moves are deletes of the thing itself.

    What is there before is read: the diff shows it.
    """
    lay_out(desk)
    parsed, _ = apply_patch.parse({"patch": ALL})
    stated = [(touch.kind, touch.target, touch.how, touch.follow) for touch in apply_patch.touches(parsed)]
    assert stated == [
        (TouchKind.FS_READ, "src/a.py", How.PLAIN, True),
        (TouchKind.FS_WRITE, "src/a.py", How.EDIT, True),
        (TouchKind.FS_WRITE, "src/new.py", How.PLAIN, True),
        (TouchKind.FS_READ, "old.txt", How.PLAIN, True),
        (TouchKind.FS_DELETE, "old.txt", How.PLAIN, False),
        (TouchKind.FS_READ, "name.txt", How.PLAIN, True),
        (TouchKind.FS_DELETE, "name.txt", How.MOVE, False),
        (TouchKind.FS_WRITE, "docs/name.txt", How.PLAIN, True),
    ]
    parsed["dry_run"] = True
    assert {touch.kind for touch in apply_patch.touches(parsed)} == {TouchKind.FS_READ}


async def test_a_dry_run_shows_all_and_writes_nothing(desk: Desk) -> None:
    """The plan has the hashes and the diff of the real call."""
    before = lay_out(desk)
    plan = await desk.call(apply_patch, patch=ALL, dry_run=True)
    assert (everything(desk), desk.changes) == (before, [])
    assert {one.state for one in plan.data.files} == {"planned"}
    preview = await desk.preview(apply_patch, patch=ALL)
    real = await desk.call(apply_patch, patch=ALL)
    assert plan.data.diff == real.data.diff == preview
    assert [one.sha256_after for one in plan.data.files] == [one.sha256_after for one in real.data.files]


async def test_a_unified_diff_with_wrong_numbers_applies_where_its_lines_are(desk: Desk) -> None:
    """Line numbers are hints."""
    desk.put("f", "".join(f"line {n}\n" for n in range(100)))
    diff = "--- a/f\n+++ b/f\n@@ -3,3 +3,3 @@\n line 69\n-line 70\n+LINE 70\n line 71\n"
    answer = await desk.call(apply_patch, patch=diff)
    assert desk.bytes("f").splitlines()[70] == b"LINE 70"
    assert [(hunk.line, hunk.matched_by) for hunk in answer.data.files[0].hunks] == [(70, "exact")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\nc\r\n", b"a\r\nX\r\nY\r\nc\r\n"),
        (b"a\rb\rc", b"a\rX\rY\rc"),
        (b"a\nb\r\nc", b"a\nX\r\nY\r\nc"),
        (b"\xef\xbb\xbfa\nb\nc\n", b"\xef\xbb\xbfa\nX\nY\nc\n"),
        ("\ufeffa\r\nb\r\nc".encode("utf-16-le"), "\ufeffa\r\nX\r\nY\r\nc".encode("utf-16-le")),
        ("\ufeffa\nb\nc\n".encode("utf-32-be"), "\ufeffa\nX\nY\nc\n".encode("utf-32-be")),
        (b"a  \nb\t\nc\n", b"a  \nX\nY\nc\n"),
        (b"    a\n    b\n    c\n", b"    a\n    X\n    Y\n    c\n"),
    ],
)
async def test_every_byte_outside_the_change_stays(desk: Desk, before: bytes, after: bytes) -> None:
    """BOM, encoding, endings and context stay as they are; new lines take the endings and indent of the place."""
    desk.put("f", before)
    await desk.call(apply_patch, patch=marked("*** Update File: f\n@@\n a\n-b\n+X\n+Y\n c\n"))
    assert desk.bytes("f") == after


async def test_dollars_and_backslashes_are_only_text(desk: Desk) -> None:
    """Nothing in a patch is a pattern."""
    desk.put("f", "a.*b\n")
    await desk.call(apply_patch, patch=marked("*** Update File: f\n@@\n-a.*b\n+$& \\1 \\n\n"))
    assert desk.bytes("f") == b"$& \\1 \\n\n"


# ── all or none ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        (
            "*** Update File: src/a.py\n@@\n-    y = 2\n+    y = 3\n*** Update File: old.txt\n@@\n-not there\n+x\n",
            Code.NO_MATCH,
        ),
        ("*** Update File: src/a.py\n@@\n-    y = 2\n+    y = 3\n*** Add File: old.txt\n+x\n", Code.ALREADY_EXISTS),
        (
            "*** Update File: src/a.py\n@@\n-    y = 2\n+    y = 3\n*** Update File: nope.txt\n@@\n-a\n+b\n",
            Code.NOT_FOUND,
        ),
        ("*** Update File: src/a.py\n*** Move to: old.txt\n@@\n-    y = 2\n+    y = 3\n", Code.ALREADY_EXISTS),
        ("*** Delete File: src\n*** Add File: z\n+x\n", Code.NOT_A_FILE),
    ],
)
async def test_a_patch_that_does_not_fit_changes_nothing(desk: Desk, broken: str, code: Code) -> None:
    """Everything is worked out before the first file is written."""
    before = lay_out(desk)
    for dry_run in (True, False):
        problem = await desk.problem(apply_patch, patch=marked(broken), dry_run=dry_run)
        assert (problem.code, everything(desk), desk.changes) == (code, before, [])


class Failing:
    """The workspace, where one kind of step fails for one file."""

    def __init__(self, files: Any, step: str, name: str, error: BaseException) -> None:
        self._files, self._step, self._name, self._error = files, step, name, error

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._files, name)
        if name != self._step:
            return real

        async def step(place: Any, *args: Any, **more: Any) -> Any:
            if place.shown == self._name:
                raise self._error
            return await real(place, *args, **more)

        return step


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("write", "src/a.py"),
        ("write", "src/new.py"),
        ("delete", "old.txt"),
        ("move", "name.txt"),
        ("write", "docs/name.txt"),
    ],
)
@pytest.mark.parametrize(
    "error", [Problem(Code.IO_ERROR, "disk full"), OSError(28, "no space"), asyncio.CancelledError()]
)
async def test_a_failure_half_way_takes_back_what_was_done(
    desk: Desk, step: str, name: str, error: BaseException
) -> None:
    """Whichever step fails, and however, the files are what they were."""
    before = lay_out(desk)
    parsed, _ = apply_patch.parse({"patch": ALL})
    inputs = desk._inputs(apply_patch, parsed)
    inputs["files"] = Failing(inputs["files"], step, name, error)
    with pytest.raises(type(error)):
        await apply_patch.function(**inputs)
    assert everything(desk) == before
    assert os.stat(desk.folder / "name.txt").st_mode & 0o777 == 0o640


@pytest.mark.parametrize("name", ["src/a.py", "src/new.py", "docs/name.txt"])
async def test_a_caller_who_gives_up_half_way_leaves_nothing_half_done(desk: Desk, name: str) -> None:
    """Cancelled in the middle of a write: the write is seen to its end, then all is taken back."""
    before = lay_out(desk)
    parsed, _ = apply_patch.parse({"patch": ALL})
    inputs = desk._inputs(apply_patch, parsed)
    files, reached, release = inputs["files"], asyncio.Event(), asyncio.Event()

    class Slow:
        """The workspace, which tells when it has written a file and then takes its time."""

        def __getattr__(self, step: str) -> Any:
            return self._write if step == "write" else getattr(files, step)

        async def _write(self, place: Any, *args: Any, **more: Any) -> Any:
            if place.shown != name:
                return await files.write(place, *args, **more)
            made = await files.write(place, *args, **more)
            reached.set()
            await release.wait()
            return made

    task = asyncio.ensure_future(apply_patch.function(**{**inputs, "files": Slow()}))
    await reached.wait()
    task.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert everything(desk) == before


async def test_what_could_not_be_taken_back_is_told(desk: Desk) -> None:
    """Where putting back fails too, the answer names it."""
    lay_out(desk)
    parsed, _ = apply_patch.parse({"patch": ALL})
    inputs = desk._inputs(apply_patch, parsed)
    failing = Failing(inputs["files"], "write", "docs/name.txt", Problem(Code.IO_ERROR, "disk broken"))
    inputs["files"] = Failing(failing, "move", "docs/name.txt", Problem(Code.IO_ERROR, "cannot move back"))
    with pytest.raises(Problem) as caught:
        await apply_patch.function(**inputs)
    assert (caught.value.code, caught.value.details) == (Code.IO_ERROR, {"left": ["cannot move back"]})


async def test_files_for_themselves_are_told_one_by_one(desk: Desk) -> None:
    """With `atomic` false what fits is done, and what does not is named with its reason."""
    lay_out(desk)
    patch = marked(
        "*** Update File: src/a.py\n@@\n-    y = 2\n+    y = 3\n*** Update File: old.txt\n@@\n-not there at all\n+x\n"
    )
    answer = await desk.call(apply_patch, patch=patch, atomic=False)
    assert [(one.path, one.state) for one in answer.data.files] == [("src/a.py", "applied"), ("old.txt", "failed")]
    assert str(answer.data.files[1].problem).startswith("NO_MATCH: ")
    assert answer.warnings == (f"old.txt: {answer.data.files[1].problem}",)
    assert (desk.bytes("src/a.py"), desk.bytes("old.txt")) == (AFTER["src/a.py"], b"gone soon\n")
    problem = await desk.problem(
        apply_patch, patch=marked("*** Update File: old.txt\n@@\n-nope nope\n+x\n"), atomic=False
    )
    assert problem.code is Code.NO_MATCH


# ── done before, and what cannot be meant ────────────────────────────────────────────────────


async def test_a_patch_applied_twice_is_already_applied(desk: Desk) -> None:
    """The second time nothing changes, and it is said."""
    lay_out(desk)
    await desk.call(apply_patch, patch=ALL)
    problem = await desk.problem(apply_patch, patch=ALL)
    assert problem.code is Code.ALREADY_APPLIED
    assert (everything(desk), desk.changes) == (AFTER, [])


async def test_the_rest_of_a_patch_that_is_partly_in_place_is_applied(desk: Desk) -> None:
    """Files that are as the patch wants them are left alone and told as such."""
    lay_out(desk)
    desk.put("src/new.py", "print('hi')\n\n")
    answer = await desk.call(apply_patch, patch=ALL)
    assert [one.state for one in answer.data.files] == ["applied", "already", "applied", "applied"]
    assert everything(desk) == AFTER


async def test_a_hunk_that_fits_twice_is_refused(desk: Desk) -> None:
    """AMBIGUOUS_MATCH names the lines and the path."""
    desk.put("f", "x\ny\nx\n")
    problem = await desk.problem(apply_patch, patch=marked("*** Update File: f\n@@\n-x\n+z\n"))
    assert (problem.code, problem.details) == (Code.AMBIGUOUS_MATCH, {"line": 3, "lines": [1, 3], "path": "f"})


@pytest.mark.parametrize(
    ("patch", "line"),
    [
        ("", 1),
        ("just words", 1),
        (marked(""), 1),
        (marked("*** Update File: f\n"), 2),
        (marked("*** Update File:\n@@\n-a\n+b\n"), 2),
        (marked("*** Update File: f\n@@\n context only\n"), 3),
        (marked("*** Update File: f\n@@\n-a\n+b\nno sign\n"), 6),
        (marked("*** Add File: f\nno plus\n"), 3),
        (marked("*** Add File: f\n+a\n*** Add File: f\n+b\n"), 4),
        (f"{marked('*** Delete File: f' + chr(10))}more\n", 4),
        ("--- a/f\n+++ b/f\n", 1),
        ("@@ -1 +1 @@\n-a\n+b\n", 1),
        ("diff --git a/f b/f\nGIT binary patch\n", 2),
        ("diff --git a/f b/f\nold mode 100644\nnew mode 100755\n", 1),
    ],
)
async def test_a_patch_that_cannot_be_read_is_refused_with_its_line(desk: Desk, patch: str, line: int) -> None:
    """INVALID_ARGS names the line of the patch, before anything is touched."""
    problem = await desk.problem(apply_patch, patch=patch)
    assert (problem.code, problem.details) == (Code.INVALID_ARGS, {"line": line})


async def test_a_deletion_that_quotes_another_text_is_refused(desk: Desk) -> None:
    """A diff that deletes a file says what it held; a file that holds something else stays."""
    desk.put("f", "one\ntwo and more\n")
    diff = "--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n"
    assert (await desk.problem(apply_patch, patch=diff)).code is Code.NO_MATCH
    desk.put("f", "one\ntwo\n")
    await desk.call(apply_patch, patch=diff)
    assert everything(desk) == {}


async def test_a_link_is_not_deleted_or_moved_by_a_patch(desk: Desk) -> None:
    """A patch is about files; what stands there is a link."""
    desk.put("real", "x\n")
    (desk.folder / "link").symlink_to("real")
    for patch in ("*** Delete File: link\n", "*** Update File: link\n*** Move to: other\n"):
        assert (await desk.problem(apply_patch, patch=marked(patch))).code is Code.NOT_A_FILE
    assert (desk.folder / "link").is_symlink()


async def test_the_mark_of_a_hidden_value_is_never_written(desk: Desk) -> None:
    """Neither a new nor a changed file gets it."""
    desk.put("f", "key = x\n")
    for patch in (f"*** Update File: f\n@@\n-key = x\n+key = {MARK}\n", f"*** Add File: g\n+key = {MARK}\n"):
        assert (await desk.problem(apply_patch, patch=marked(patch))).details["marker"] == MARK
    assert everything(desk) == {"f": b"key = x\n"}


async def test_renaming_alone_keeps_the_file(desk: Desk) -> None:
    """A move without hunks needs no text at all."""
    desk.put("a.bin", b"\0\1\2")
    answer = await desk.call(apply_patch, patch="diff --git a/a.bin b/b/c.bin\nrename from a.bin\nrename to b/c.bin\n")
    assert (everything(desk), answer.data.diff) == ({"b/c.bin": b"\0\1\2"}, "rename from a.bin\nrename to b/c.bin\n")


async def test_a_thousand_hunks_in_a_file_of_thousands_of_lines(desk: Desk) -> None:
    """Many changes in one large file leave all other lines as they were."""
    lines = [f"line {n}" for n in range(6000)]
    desk.put("f", "".join(f"{line}\r\n" for line in lines))
    hunks = "".join(f"@@\n line {n - 1}\n-line {n}\n+LINE {n}\n" for n in range(5, 6000, 6))
    answer = await desk.call(apply_patch, patch=marked(f"*** Update File: f\n{hunks}"))
    assert len(answer.data.files[0].hunks) == 1000
    expected = [line.upper() if n % 6 == 5 else line for n, line in enumerate(lines)]
    assert desk.bytes("f") == "".join(f"{line}\r\n" for line in expected).encode()

"""delete_path: what is confirmed goes, what must stay stays."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import Code
from handrail.tools.fs.delete_path import delete_path
from handrail.words import Evidence, Exclusion, TouchKind
from tools._fakes import Desk, desk_at


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A workspace with a file, a folder and links."""
    async with desk_at(tmp_path) as desk:
        desk.put("f", "x\n")
        desk.put("d/e/g", "y\n")
        (desk.folder / "link").symlink_to("d")
        yield desk


async def test_a_confirmed_file_is_deleted(desk: Desk) -> None:
    """The answer says what went, and its hash is the evidence."""
    answer = await desk.call(delete_path, path="f", confirm=True)
    assert (answer.data.path, answer.data.type, answer.data.removed) == ("f", "file", 1)
    assert answer.evidence == (Evidence("file", "f", "deleted", hashlib.sha256(b"x\n").hexdigest()),)
    assert not (desk.folder / "f").exists()
    assert [(change.op, change.path) for change in desk.changes] == [("delete", "f")]


async def test_a_folder_goes_with_all_that_lies_below_only_when_asked(desk: Desk) -> None:
    """Without `recursive` the refusal names the call that would."""
    problem = await desk.problem(delete_path, path="d", confirm=True)
    assert (problem.code, problem.next_call) == (
        Code.NOT_A_FILE,
        {"tool": "delete_path", "args": {"path": "d", "recursive": True, "confirm": True}},
    )
    answer = await desk.call(delete_path, path="d", recursive=True, confirm=True)
    assert (answer.data.type, answer.data.removed) == ("directory", 3)
    assert sorted(os.listdir(desk.folder)) == ["f", "link"]


async def test_a_link_goes_itself_and_not_what_it_points_to(desk: Desk) -> None:
    """Deleting a link to a folder leaves the folder, also when recursive."""
    answer = await desk.call(delete_path, path="link", recursive=True, confirm=True)
    assert answer.data.type == "link"
    assert desk.bytes("d/e/g") == b"y\n"


async def test_without_confirm_nothing_is_deleted(desk: Desk) -> None:
    """The tool refuses too, should policy ever let it pass; the touch says that it is not confirmed."""
    problem = await desk.problem(delete_path, path="f")
    assert (problem.code, desk.bytes("f")) == (Code.POLICY_DENIED, b"x\n")
    assert [(touch.kind, touch.deep, touch.follow, touch.confirmed) for touch in desk.touches] == [
        (TouchKind.FS_DELETE, False, False, False)
    ]
    parsed, _ = delete_path.parse({"path": "d", "recursive": True, "confirm": True})
    (touch,) = delete_path.touches(parsed)
    assert (touch.deep, touch.confirmed) == (True, True)
    assert delete_path.ask_first


@pytest.mark.parametrize(
    "path",
    [".", ".git", ".git/objects", "sub/.git", "sub/.GIT/HEAD", "sub", "deep"],
)
async def test_a_root_and_a_repository_are_never_deleted(desk: Desk, path: str) -> None:
    """Neither by name nor inside a folder that holds one."""
    for place in (".git/objects/x", "sub/.git/HEAD", "sub/.GIT/HEAD", "deep/er/.git/HEAD"):
        desk.put(place, "x")
    before = sorted(str(found) for found in desk.folder.rglob("*"))
    problem = await desk.problem(delete_path, path=path, recursive=True, confirm=True)
    assert problem.code is Code.PATH_PROTECTED
    assert sorted(str(found) for found in desk.folder.rglob("*")) == before


async def test_a_folder_with_something_protected_in_it_stays_whole(tmp_path: Path) -> None:
    """Nothing below goes while one thing may not."""
    async with desk_at(tmp_path, excluded=(Exclusion("**/secret", "rules.1"),)) as desk:
        desk.put("d/a", "1")
        desk.put("d/secret", "2")
        problem = await desk.problem(delete_path, path="d", recursive=True, confirm=True)
        assert (problem.code, desk.bytes("d/a")) == (Code.PATH_PROTECTED, b"1")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"path": "f", "expected_sha256": "0" * 64}, Code.STALE_FILE),
        ({"path": "d", "recursive": True, "expected_sha256": "0" * 64}, Code.INVALID_ARGS),
        ({"path": "nowhere"}, Code.NOT_FOUND),
    ],
)
async def test_what_is_not_what_the_caller_means_stays(desk: Desk, args: dict[str, Any], code: Code) -> None:
    """Another hash, a hash of a folder, nothing there: refused."""
    assert (await desk.problem(delete_path, **args, confirm=True)).code is code
    assert (desk.bytes("f"), desk.changes) == (b"x\n", [])

"""move_path: another name or place, and nothing replaced unless meant."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import Code, Problem
from handrail.tools.fs.move_path import move_path
from handrail.words import Evidence, How, TouchKind
from tools._fakes import Desk, desk_at


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A workspace with two files, a folder and a link."""
    async with desk_at(tmp_path) as desk:
        desk.put("a", "a\n")
        desk.put("b", "b\n")
        desk.put("d/c", "c\n")
        (desk.folder / "link").symlink_to("a")
        yield desk


async def test_a_file_is_moved_and_missing_folders_are_made(desk: Desk) -> None:
    """The answer names both ends; the hash is the evidence."""
    answer = await desk.call(move_path, source="a", target="x/y/a")
    data = answer.data
    assert (data.source, data.target, data.type, data.replaced) == ("a", "x/y/a", "file", False)
    assert (desk.bytes("x/y/a"), (desk.folder / "a").exists()) == (b"a\n", False)
    assert answer.evidence == (Evidence("file", "x/y/a", "moved from a", hashlib.sha256(b"a\n").hexdigest()),)


async def test_both_ends_are_stated(desk: Desk) -> None:
    """The source leaves, with all below it and as itself; the target is replaced."""
    await desk.call(move_path, source="d", target="e")
    stated = [(touch.kind, touch.target, touch.how, touch.deep, touch.follow) for touch in desk.touches]
    assert stated == [
        (TouchKind.FS_DELETE, "d", How.MOVE, True, False),
        (TouchKind.FS_WRITE, "e", How.REPLACE, False, True),
    ]
    assert desk.bytes("e/c") == b"c\n"


async def test_nothing_is_replaced_unless_meant(desk: Desk) -> None:
    """The refusal names the call that would; that call does."""
    problem = await desk.problem(move_path, source="a", target="b")
    assert (problem.code, desk.bytes("b")) == (Code.ALREADY_EXISTS, b"b\n")
    assert problem.next_call == {"tool": "move_path", "args": {"source": "a", "target": "b", "overwrite": True}}
    answer = await desk.call(move_path, **problem.next_call["args"])
    assert (desk.bytes("b"), answer.data.replaced) == (b"a\n", True)


async def test_nobody_is_asked_for_a_move_that_can_only_fail(desk: Desk) -> None:
    """What is said to a caller is said before a person looks at it; a move that replaces something is for them."""
    with pytest.raises(Problem) as caught:
        await desk.preview(move_path, source="a", target="b")
    assert caught.value.code is Code.ALREADY_EXISTS
    assert await desk.preview(move_path, source="a", target="b", overwrite=True) == ""


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("a", "a", "`source` and `target` are both a, so there is nothing to move; name another target."),
        ("a", "d/../a", "`source` and `target` are both a, so there is nothing to move; name another target."),
        ("./a", "link", "`source` and `target` are both a, so there is nothing to move; name another target."),
        ("d", "./d/", "`source` and `target` are both d, so there is nothing to move; name another target."),
        ("d", "d/e/f", "d/e/f lies inside d, which cannot be moved into itself; name another target."),
        ("link", "./link", "link is a link to a, which it would replace; name another target."),
    ],
)
async def test_nobody_is_asked_for_a_move_of_something_onto_itself(
    desk: Desk, source: str, target: str, said: str, overwrite: bool
) -> None:
    """However it is spelled: nothing would come of it, or what is moved would be lost."""
    with pytest.raises(Problem) as caught:
        await desk.preview(move_path, source=source, target=target, overwrite=overwrite)
    assert (caught.value.code, caught.value.message) == (Code.INVALID_ARGS, said)
    assert (await desk.problem(move_path, source=source, target=target, overwrite=overwrite)).message == said
    assert (desk.bytes("a"), desk.bytes("d/c"), os.readlink(desk.folder / "link")) == (b"a\n", b"c\n", "a")


async def test_moving_onto_a_folder_names_the_path_inside(desk: Desk) -> None:
    """`d` is no target for a file; `d/a` is."""
    problem = await desk.problem(move_path, source="a", target="d", overwrite=True)
    assert (problem.code, problem.next_call) == (
        Code.ALREADY_EXISTS,
        {"tool": "move_path", "args": {"source": "a", "target": "d/a"}},
    )
    await desk.call(move_path, source="a", target="d/a")
    assert desk.bytes("d/a") == b"a\n"


async def test_a_link_is_moved_itself(desk: Desk) -> None:
    """What it points to stays."""
    answer = await desk.call(move_path, source="link", target="other")
    assert answer.data.type == "link"
    assert (os.readlink(desk.folder / "other"), desk.bytes("a")) == ("a", b"a\n")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"source": "nowhere", "target": "x"}, Code.NOT_FOUND),
        ({"source": ".", "target": "x"}, Code.PATH_PROTECTED),
        ({"source": "d", "target": "d/inside"}, Code.INVALID_ARGS),
        ({"source": "a", "target": "a"}, Code.INVALID_ARGS),
        ({"source": "d", "target": "b", "overwrite": True}, Code.ALREADY_EXISTS),
        ({"source": "a", "target": "b/c"}, Code.NOT_A_DIRECTORY),
    ],
)
async def test_moves_that_cannot_be_are_refused(desk: Desk, args: dict[str, Any], code: Code) -> None:
    """Nothing there, a root, into itself, a folder over a file, below a file: nothing changes."""
    assert (await desk.problem(move_path, **args)).code is code
    assert (desk.bytes("a"), desk.bytes("b"), desk.bytes("d/c")) == (b"a\n", b"b\n", b"c\n")


async def test_a_misspelt_source_leads_to_the_right_one(desk: Desk) -> None:
    """The next call keeps the target."""
    desk.put("settings.toml", "")
    problem = await desk.problem(move_path, source="setings.toml", target="x")
    assert problem.next_call == {"tool": "move_path", "args": {"source": "settings.toml", "target": "x"}}

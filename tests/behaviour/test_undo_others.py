"""Undo never touches what stands where a call once left something that is elsewhere by now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from behaviour.test_undo import contents, opened

LATER: dict[str, tuple[str, dict[str, Any]]] = {
    "folder moved": ("move_path", {"source": "a", "target": "b"}),
    "file moved": ("move_path", {"source": "a/f", "target": "g"}),
    "file deleted": ("delete_path", {"path": "a/f", "confirm": True}),
    "folder deleted": ("delete_path", {"path": "a", "recursive": True, "confirm": True}),
}


@pytest.mark.parametrize("first", ["create", "replace"])
@pytest.mark.parametrize("later", LATER)
async def test_what_took_the_place_of_something_moved_or_deleted_is_left_alone(
    first: str, later: str, opens: Any, work: Path
) -> None:
    """Though it holds the same: it is somebody else's. The way back is the later call first."""
    if first == "replace":
        (work / "a").mkdir()
        (work / "a/f").write_text("old")
    before = contents(work)
    async with opened(opens) as runtime:
        given = {"path": "a/f", "content": "new", "mode": "overwrite" if first == "replace" else "create"}
        wrote = await runtime.call("write_file", given | ({"expected_sha256": "*"} if first == "replace" else {}))
        tool, args = LATER[later]
        then = await runtime.call(tool, args)
        assert (wrote.ok, then.ok) == (True, True)
        (work / "a").mkdir(exist_ok=True)
        (work / "a/f").write_text("new")  # by somebody else
        after = contents(work)
        refused = await runtime.undo(wrote.call_id)
        assert (refused.error.code, refused.error.details["later"]) == ("STALE_FILE", [then.call_id])
        assert contents(work) == after
        (work / "a/f").unlink()
        if "folder" in later:
            (work / "a").rmdir()
        assert [(await runtime.undo(call)).ok for call in (then.call_id, wrote.call_id)] == [True, True]
    assert contents(work) == before


async def test_what_was_moved_away_and_back_is_taken_back(opens: Any, work: Path) -> None:
    """It is the same file."""
    async with opened(opens) as runtime:
        wrote = await runtime.call("write_file", {"path": "f", "content": "x"})
        for source, target in (("f", "g"), ("g", "f")):
            assert (await runtime.call("move_path", {"source": source, "target": target})).ok
        assert (await runtime.undo(wrote.call_id)).ok
    assert contents(work) == {}


@pytest.mark.parametrize("moved", ["folder", "link"])
@pytest.mark.parametrize("instead", ["file", "link", "folder", "nothing"])
async def test_only_a_thing_of_its_own_kind_is_moved_back(moved: str, instead: str, opens: Any, work: Path) -> None:
    """What took its place is somebody else's."""
    (work / "c").mkdir()
    (work / "a").symlink_to("c") if moved == "link" else (work / "a").mkdir()
    async with opened(opens) as runtime:
        outcome = await runtime.call("move_path", {"source": "a", "target": "b"})
        assert outcome.ok, outcome.content
        (work / "b").rename(work / "kept")
        if instead == "file":
            (work / "b").write_text("somebody's")
        elif instead == "link":
            (work / "b").symlink_to("c")
        elif instead == "folder":
            (work / "b").mkdir()
        after = contents(work)
        undone = await runtime.undo()
        if instead == moved:
            assert undone.ok
            return
        assert (undone.error.code, contents(work)) == ("STALE_FILE", after)
        if instead != "nothing":
            (work / "b").rmdir() if instead == "folder" else (work / "b").unlink()
        (work / "kept").rename(work / "b")
        assert (await runtime.undo()).ok
        assert (work / "a").is_symlink() is (moved == "link")

"""Undo puts back what calls changed, last first, and never over a later change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handrail import Misuse
from handrail.store.reader import events
from handrail.testing import ScriptedApprover

PATCH = """*** Begin Patch
*** Update File: a.txt
@@
-one
+ONE
*** Add File: made/new.txt
+fresh
*** Delete File: gone.txt
*** End Patch
"""


@pytest.fixture
def tree(work: Path) -> dict[str, str]:
    """Some files, and what they hold."""
    (work / "a.txt").write_text("one\ntwo\n")
    (work / "gone.txt").write_text("kept\n")
    (work / "gone.txt").chmod(0o640)
    return contents(work)


def contents(work: Path) -> dict[str, str]:
    """Every path below, with its text."""
    return {
        str(path.relative_to(work)): path.read_text() if path.is_file() else "folder"
        for path in sorted(work.rglob("*"))
    }


def opened(opens: Any, **how: Any) -> Any:
    return opens(enable=("fs", "delete_path"), approver=ScriptedApprover("once"), **how)


async def test_a_patch_is_taken_back_whole(opens: Any, work: Path, tree: dict[str, str]) -> None:
    """Changed, added and deleted files are as before, folders made for them are gone, mode bits are back."""
    async with opened(opens) as runtime:
        done = await runtime.call("apply_patch", {"patch": PATCH})
        assert done.ok, done.content
        assert contents(work) != tree
        undone = await runtime.undo(done.call_id)
    assert undone.ok, undone.content
    assert contents(work) == tree
    assert (work / "gone.txt").stat().st_mode & 0o777 == 0o640


async def test_a_whole_run_is_taken_back_last_first(opens: Any, work: Path, tree: dict[str, str]) -> None:
    """Edits of the same file, a move, a new folder and a delete."""
    async with opened(opens) as runtime:
        outcomes = [
            await runtime.call("edit_file", {"path": "a.txt", "edits": [{"old": "one", "new": "1"}]}),
            await runtime.call("edit_file", {"path": "a.txt", "edits": [{"old": "1", "new": "uno"}]}),
            await runtime.call("make_dir", {"path": "d/e"}),
            await runtime.call("move_path", {"source": "a.txt", "target": "d/e/b.txt"}),
            await runtime.call("delete_path", {"path": "gone.txt", "confirm": True}),
            await runtime.call("write_file", {"path": "x/y.txt", "content": "z"}),
        ]
        assert [outcome.content for outcome in outcomes if not outcome.ok] == []
        undone = await runtime.undo()
        with pytest.raises(Misuse):
            await runtime.undo()
    assert undone.ok, undone.content
    assert contents(work) == tree


async def test_a_later_change_is_never_overwritten(opens: Any, work: Path, tree: dict[str, str]) -> None:
    """The file that somebody edited since stays, and nothing else is touched either."""
    async with opened(opens) as runtime:
        done = await runtime.call("apply_patch", {"patch": PATCH})
        (work / "a.txt").write_text("somebody's own words\n")
        after = contents(work)
        refused = await runtime.undo(done.call_id)
    assert refused.error.code == "STALE_FILE"
    assert refused.error.details["path"] == "a.txt"
    assert contents(work) == after


async def test_an_undo_is_itself_a_recorded_call(opens: Any, work: Path, tree: dict[str, str]) -> None:
    """With its own start, end and `undo.applied`."""
    async with opened(opens) as runtime:
        done = await runtime.call("edit_file", {"path": "a.txt", "edits": [{"old": "one", "new": "1"}]})
        undone = await runtime.undo(done.call_id)
        found = [event for event in events(runtime.parts.folder.path) if event.get("call_id") == undone.call_id]
    assert [event["kind"] for event in found] == ["tool.started", "tool.completed", "undo.applied"]
    assert found[2]["calls"] == [done.call_id]


async def test_a_closed_run_is_taken_back_from_another(opens: Any, work: Path, tree: dict[str, str]) -> None:
    """Pre-images are kept with the run that made the change."""
    async with opened(opens, run_id="first") as runtime:
        done = await runtime.call("edit_file", {"path": "a.txt", "edits": [{"old": "one", "new": "1"}]})
    async with opened(opens, run_id="second") as runtime:
        undone = await runtime.undo(done.call_id, run="first")
    assert undone.ok, undone.content
    assert contents(work) == tree


async def test_undo_obeys_policy(opens: Any, work: Path, tree: dict[str, str]) -> None:
    """A file that must not be written is not put back either."""
    async with opened(opens, run_id="first") as runtime:
        done = await runtime.call("edit_file", {"path": "a.txt", "edits": [{"old": "one", "new": "1"}]})
    config = {"rules": [{"effect": "deny", "touch": "fs.write", "target": "a.txt"}]}
    async with opened(opens, run_id="second", config=config) as runtime:
        refused = await runtime.undo(done.call_id, run="first")
    assert refused.error.code == "POLICY_DENIED"
    assert (work / "a.txt").read_text() == "1\ntwo\n"

"""What cannot be put back is told with its reason, and is in the way of nothing beside it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from behaviour.test_undo import breaking, contents, opened
from handrail import Misuse
from handrail.testing import ScriptedApprover
from handrail.undo_order import why_lost
from handrail.undoing import plan

OVER = {"mode": "overwrite", "expected_sha256": "*"}
TOKEN = "ghp_" + "x7Qm2Kd9" * 4 + "x7Qm"
WHY = {
    "room": "there was no room to keep it: undo.max_bytes",
    "kind": "it was no regular file",
    "name": "its name is hidden in the record",
    "program": "a program changed it, and no former content was kept",
}


def commanding(opens: Any) -> Any:
    return opens(enable=("fs", "delete_path", "exec"), approver=ScriptedApprover("once"))


def told(tool: str, call: str, what: str) -> str:
    return f"{tool} (call {call}) changed what cannot be taken back: {what}"


async def test_the_rest_of_a_run_is_taken_back_where_a_command_changed_something(opens: Any, work: Path) -> None:
    """What the command made stays, and the outcome says so; a second time nothing is left but that."""
    (work / "a").write_text("old")
    async with commanding(opens) as runtime:
        assert (await runtime.call("write_file", {"path": "a", "content": "new", **OVER})).ok
        ran = await runtime.call("run_command", {"command": "echo hi > made.txt"})
        assert ran.ok, ran.content
        lost = told("run_command", ran.call_id, f"made.txt ({WHY['program']})")
        with pytest.raises(Misuse) as alone:
            await runtime.undo(ran.call_id)
        undone = await runtime.undo()
        with pytest.raises(Misuse) as again:
            await runtime.undo()
    assert (undone.ok, undone.warnings) == (True, (lost,)), undone.content
    assert contents(work) == {"a": "old", "made.txt": "hi\n"}
    assert f"stays as it is: {lost}; " in str(alone.value)
    assert "(write_file: a)" in str(alone.value)  # what can be taken back instead
    assert f"stays as it is: {lost}; " in str(again.value)


# What a command did after a call, and what somebody else did then.
AFTER: dict[str, tuple[str, str | None]] = {
    "changed it": ("echo other > f", None),
    "deleted it": ("rm f", None),
    "deleted it, and somebody made the same": ("rm f", "new"),
    "moved it away, and somebody made the same": ("mv f g", "new"),
    "deleted it, and somebody made another": ("rm f", "mine"),
}


@pytest.mark.parametrize("whole", [True, False], ids=["run", "call"])
@pytest.mark.parametrize("after", AFTER)
async def test_what_a_command_changed_after_a_call_keeps_that_one_from_being_taken_back(
    opens: Any, work: Path, after: str, whole: bool
) -> None:
    """Nothing is touched, neither what the command left nor what is somebody's own; nobody is sent to the command."""
    (work / "f").write_text("old")
    (work / "z").write_text("old")
    command, mine = AFTER[after]
    async with commanding(opens) as runtime:
        assert (await runtime.call("write_file", {"path": "z", "content": "new", **OVER})).ok
        wrote = await runtime.call("write_file", {"path": "f", "content": "new", **OVER})
        ran = await runtime.call("run_command", {"command": command})
        assert (wrote.ok, ran.ok) == (True, True)
        if mine is not None:
            (work / "f").write_text(mine)
        stands = contents(work)
        refused = await runtime.undo(None if whole else wrote.call_id)
    assert (refused.error.code, contents(work)) == ("STALE_FILE", stands)
    assert refused.error.details.get("later") is None
    assert f"in a way that cannot be taken back by {ran.call_id} (run_command)" in refused.error.message


async def test_a_step_over_a_command_between_two_calls_is_refused_before_anything_is_touched(
    opens: Any, work: Path
) -> None:
    """The later call could be taken back, the former one not: the run is not left half way."""
    (work / "f").write_text("old")
    async with commanding(opens) as runtime:
        first = await runtime.call("write_file", {"path": "f", "content": "one", **OVER})
        ran = await runtime.call("run_command", {"command": "echo two > f"})
        last = await runtime.call("write_file", {"path": "f", "content": "three", **OVER})
        assert (first.ok, ran.ok, last.ok) == (True, True, True)
        refused = await runtime.undo()
        assert (refused.error.code, (work / "f").read_text()) == ("STALE_FILE", "three")
        assert f"Call {last.call_id} can be taken back by itself." in refused.error.message
        assert (await runtime.undo(last.call_id)).ok
    assert (work / "f").read_text() == "two\n"


async def test_a_folder_that_a_call_made_and_a_command_removed_is_in_nobodys_way(opens: Any, work: Path) -> None:
    """There is nothing left of it; where somebody made one, it is refused, and theirs stays."""
    (work / "z").write_text("old")
    async with commanding(opens) as runtime:
        assert (await runtime.call("write_file", {"path": "z", "content": "new", **OVER})).ok
        assert (await runtime.call("make_dir", {"path": "d"})).ok
        assert (await runtime.call("run_command", {"command": "rmdir d"})).ok
        (work / "d").mkdir()
        assert (await runtime.undo()).error.code == "STALE_FILE"
        assert contents(work) == {"d": "folder", "z": "new"}
        (work / "d").rmdir()
        undone = await runtime.undo()
    assert (undone.ok, contents(work)) == (True, {"z": "old"}), undone.content


async def test_a_folder_with_something_that_is_no_file_is_put_back_without_it(opens: Any, work: Path) -> None:
    """The deletion says what it cannot be undone of and why, and so does the undo."""
    (work / "d").mkdir()
    os.mkfifo(work / "d/p")
    (work / "d/g").write_text("precious")
    async with opened(opens) as runtime:
        gone = await runtime.call("delete_path", {"path": "d", "recursive": True, "confirm": True})
        undone = await runtime.undo(gone.call_id)
    assert gone.summary == "Deleted d with 2 things below; not all of it can be undone"
    assert gone.warnings == (f"no undo of d/p: {WHY['kind']}",)
    assert undone.warnings == (told("delete_path", gone.call_id, f"d/p ({WHY['kind']})"),)
    assert (undone.ok, contents(work)) == (True, {"d": "folder", "d/g": "precious"})


async def test_a_move_over_a_file_that_there_was_no_room_to_keep_is_taken_back_alone(opens: Any, work: Path) -> None:
    """What was moved goes back; what it replaced is lost, and that is said."""
    (work / "a").write_text("A")
    (work / "b").write_text("b" * 500)
    async with opened(opens, config={"undo": {"max_bytes": 300}}) as runtime:
        moved = await runtime.call("move_path", {"source": "a", "target": "b", "overwrite": True})
        assert moved.warnings == ("no room to keep what stood in b (undo.max_bytes): no undo",)
        undone = await runtime.undo(moved.call_id)
    assert (undone.ok, contents(work)) == (True, {"a": "A"}), undone.content
    assert undone.warnings == (told("move_path", moved.call_id, f"b ({WHY['room']})"),)


async def test_what_was_lost_once_is_not_looked_for_in_what_somebody_made_since(opens: Any, work: Path) -> None:
    """Taking back the rest of a deletion does not bring it back: what stands there now is another one."""
    (work / "d").mkdir()
    (work / "d/big").write_text("old")
    (work / "d/g").write_text("g")
    async with opened(opens, config={"undo": {"max_bytes": 10}}) as runtime:
        wrote = await runtime.call("write_file", {"path": "d/big", "content": "b" * 500, **OVER})
        gone = await runtime.call("delete_path", {"path": "d", "recursive": True, "confirm": True})
        assert (wrote.ok, gone.ok) == (True, True)
        assert (await runtime.undo(gone.call_id)).warnings == (
            told("delete_path", gone.call_id, f"d/big ({WHY['room']})"),
        )
        (work / "d/big").write_text("b" * 500)
        after = contents(work)
        assert (await runtime.undo(wrote.call_id)).error.code == "STALE_FILE"
        assert (await runtime.undo()).error.code == "STALE_FILE"
    assert contents(work) == after


NAMED: dict[str, tuple[tuple[str, dict[str, Any]], str]] = {
    "written": (("write_file", {"path": f"{TOKEN}.txt", "content": "new", **OVER}), "***REDACTED***.txt"),
    "edited": (
        ("edit_file", {"path": f"{TOKEN}.txt", "edits": [{"old": "old", "new": "new"}]}),
        "***REDACTED***.txt",
    ),
    "moved away": (("move_path", {"source": f"{TOKEN}.txt", "target": "plain"}), "plain"),
    "moved there": (("move_path", {"source": "other", "target": f"d/{TOKEN}"}), "d/***REDACTED***"),
    "deleted": (("delete_path", {"path": f"{TOKEN}.txt", "confirm": True}), "***REDACTED***.txt"),
    "patched": (
        ("apply_patch", {"patch": f"*** Begin Patch\n*** Delete File: {TOKEN}.txt\n*** End Patch\n"}),
        "***REDACTED***.txt",
    ),
}


@pytest.mark.parametrize("given", NAMED.values(), ids=NAMED)
async def test_a_change_whose_name_is_hidden_is_said_to_have_no_undo(
    opens: Any, work: Path, given: tuple[tuple[str, dict[str, Any]], str]
) -> None:
    """By the call itself and by the undo, with the true reason; no sentence says otherwise."""
    call, shown = given
    (work / f"{TOKEN}.txt").write_text("old")
    (work / "other").write_text("old")
    async with opened(opens) as runtime:
        outcome = await runtime.call(*call)
        assert outcome.ok, outcome.content
        with pytest.raises(Misuse) as refused:
            await runtime.undo(outcome.call_id)
    assert outcome.warnings[-1] == f"no undo of {shown}: {WHY['name']}"
    assert "; it can be undone" not in outcome.content
    made = "d (it holds what stays), " if shown.startswith("d/") else ""
    assert told(call[0], outcome.call_id, f"{made}{shown} ({WHY['name']})") in str(refused.value)
    if call[0] == "delete_path":
        assert (outcome.data["undoable"], outcome.summary) == (
            False,
            "Deleted ***REDACTED***.txt; not all of it can be undone",
        )


async def test_a_folder_that_was_moved_to_a_hidden_name_is_not_taken_for_one_that_somebody_made(
    opens: Any, work: Path
) -> None:
    """What stands where a call wrote is another thing by now, though it holds the same."""
    async with opened(opens) as runtime:
        wrote = await runtime.call("write_file", {"path": "d/f", "content": "x"})
        assert (await runtime.call("move_path", {"source": "d", "target": TOKEN})).ok
        (work / "d").mkdir()
        (work / "d/f").write_text("x")
        for call in (wrote.call_id, None):
            assert (await runtime.undo(call)).error.code == "STALE_FILE"
    assert contents(work) == {TOKEN: "folder", f"{TOKEN}/f": "x", "d": "folder", "d/f": "x"}


@pytest.mark.parametrize("damaged", [True, False], ids=["damaged", "missing"])
async def test_a_former_content_that_is_not_there_is_found_before_the_first_step(
    opens: Any, work: Path, damaged: bool
) -> None:
    """Nothing is taken back then, and the call is named; the others can be taken back one by one."""
    for name in "abc":
        (work / name).write_text(f"old {name}")
    async with opened(opens) as runtime:
        calls = [await runtime.call("write_file", {"path": name, "content": "new", **OVER}) for name in "abc"]
        image = runtime.parts.folder.path / "archive/images" / hashlib.sha256(b"old b").hexdigest()
        image.write_bytes(b"other") if damaged else image.unlink()
        refused = await runtime.undo()
        assert contents(work) == dict.fromkeys("abc", "new")
        assert refused.error.code == ("IO_ERROR" if damaged else "NOT_FOUND")
        assert (refused.error.details["path"], refused.error.details["call"]) == ("b", calls[1].call_id)
        assert "Nothing was taken back; other calls can be, one by one." in refused.error.message
        assert [(await runtime.undo(calls[number].call_id)).ok for number in (0, 2)] == [True, True]
    assert contents(work) == {"a": "old a", "b": "new", "c": "old c"}


async def test_a_step_that_fails_all_the_same_says_how_many_were_taken_back(
    opens: Any, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of an undo before it that broke off, too."""
    async with opened(opens) as runtime:
        for name in "abcd":
            assert (await runtime.call("write_file", {"path": name, "content": name})).ok
        for taken in (1, 3):
            with monkeypatch.context() as patched:
                breaking(patched, 1 if taken == 1 else 2)
                broken = await runtime.undo()
            said = f"Before that, {taken} of 4 changes had been taken back; the next undo goes on from there."
            assert (broken.error.code, broken.error.message) == ("IO_ERROR", f"the disk failed {said}")
        assert (await runtime.undo()).ok
    assert contents(work) == {}


async def test_a_moved_link_that_another_link_took_the_place_of_is_left_alone(opens: Any, work: Path) -> None:
    """It leads elsewhere, so it is somebody else's; the very same one is moved back."""
    (work / "l").symlink_to("one")
    async with opened(opens) as runtime:
        assert (await runtime.call("move_path", {"source": "l", "target": "m"})).ok
        (work / "m").unlink()
        (work / "m").symlink_to("two")
        refused = await runtime.undo()
        assert (refused.error.code, os.readlink(work / "m")) == ("STALE_FILE", "two")
        assert refused.error.details["actual_sha256"] == "link"
        (work / "m").unlink()
        (work / "m").symlink_to("one")
        assert (await runtime.undo()).ok
    assert (os.readlink(work / "l"), (work / "m").is_symlink()) == ("one", False)


def test_each_way_to_lose_a_former_content_has_its_reason() -> None:
    """As far as the record tells; what ran a program is told by what it touched or by the commands it ran."""
    digest = "0" * 64
    assert why_lost({"path": "f", "op": "replace", "before": digest, "after": digest}) == WHY["room"]
    assert why_lost({"path": "f", "op": "delete", "before": digest}) == WHY["room"]
    assert why_lost({"path": "f", "op": "delete", "before": None}) == WHY["kind"]
    assert why_lost({"path": "f", "op": "move", "source": "***REDACTED***"}) == WHY["name"]
    assert why_lost({"path": "***REDACTED***/f", "op": "create", "after": digest}) == WHY["name"]
    assert why_lost({"path": "f", "op": "create", "after": digest}) == WHY["program"]
    assert why_lost({"path": "f", "op": "delete", "before": digest}, program=True) == WHY["program"]
    change = {"path": "f", "op": "delete", "before": digest, "kept": False}
    end = {"kind": "tool.completed", "tool": "t", "call_id": "c", "files_changed": [change]}
    start = {"kind": "tool.started", "tool": "t", "call_id": "c", "touches": [{"kind": "proc.exec", "target": "x"}]}
    for events, why in (([end], "room"), ([start, end], "program"), ([{**end, "commands_run": ["x"]}], "program")):
        assert plan(events, None).lost == (told("t", "c", f"f ({WHY[why]})"),)

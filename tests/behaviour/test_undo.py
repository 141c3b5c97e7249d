"""Undo puts back what calls changed, last first, and never over a later change.

Longer than 500 lines because all of it shares the runs that are taken back and the way to break an undo off.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from handrail import Misuse
from handrail.errors import Code, Problem
from handrail.settings import PRESETS, preset
from handrail.store.reader import events
from handrail.testing import ScriptedApprover
from handrail.workspace.bound import BoundFiles

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

EDITS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("edit_file", {"path": "a.txt", "edits": [{"old": "one", "new": "1"}]}),
    ("edit_file", {"path": "a.txt", "edits": [{"old": "1", "new": "uno"}]}),
    ("make_dir", {"path": "d/e"}),
    ("move_path", {"source": "a.txt", "target": "d/e/b.txt"}),
    ("delete_path", {"path": "gone.txt", "confirm": True}),
    ("write_file", {"path": "x/y.txt", "content": "z"}),
)
STEPS = 8  # back from these: two folders and the file in one of them among them


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
        str(path.relative_to(work)): path.read_text() if path.is_file() else "link" if path.is_symlink() else "folder"
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
        outcomes = [await runtime.call(name, args) for name, args in EDITS]
        assert [outcome.content for outcome in outcomes if not outcome.ok] == []
        undone = await runtime.undo()
        with pytest.raises(Misuse):
            await runtime.undo()
    assert undone.ok, undone.content
    assert contents(work) == tree


# Runs that move folders, files in them changed before and after.
MOVED: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "written": (
        ("write_file", {"path": "d/f.txt", "content": "x"}),
        ("move_path", {"source": "d", "target": "e"}),
    ),
    "edited": (
        ("edit_file", {"path": "old/k.txt", "edits": [{"old": "k", "new": "K"}]}),
        ("move_path", {"source": "old", "target": "new"}),
        ("edit_file", {"path": "new/k.txt", "edits": [{"old": "K", "new": "KK"}]}),
        ("write_file", {"path": "new/more/l.txt", "content": "l"}),
    ),
    "twice": (
        ("write_file", {"path": "a/d/f.txt", "content": "x"}),
        ("move_path", {"source": "a/d/f.txt", "target": "a/d/g.txt"}),
        ("move_path", {"source": "link", "target": "a/d/link"}),
        ("move_path", {"source": "a/d/link", "target": "a/d/other"}),
        ("move_path", {"source": "a/d", "target": "a/e"}),
        ("write_file", {"path": "a/d/f.txt", "content": "another"}),
        ("move_path", {"source": "a", "target": "z"}),
    ),
    "replaced": (
        ("edit_file", {"path": "old/k.txt", "edits": [{"old": "k", "new": "K"}]}),
        ("delete_path", {"path": "old", "recursive": True, "confirm": True}),
        ("write_file", {"path": "fresh/k.txt", "content": "fresh"}),
        ("move_path", {"source": "fresh", "target": "old"}),
        ("delete_path", {"path": "old/k.txt", "confirm": True}),
    ),
    "into a folder": (
        ("write_file", {"path": "f", "content": "x"}),
        ("move_path", {"source": "f", "target": "old/f"}),
        ("move_path", {"source": "old", "target": "e"}),
        ("delete_path", {"path": "e/f", "confirm": True}),
    ),
    "a folder into a folder": (
        ("write_file", {"path": "i/f", "content": "x"}),
        ("move_path", {"source": "i", "target": "old/i"}),
        ("move_path", {"source": "old", "target": "e"}),
        ("delete_path", {"path": "e/i", "recursive": True, "confirm": True}),
    ),
    "in and out": (
        ("write_file", {"path": "f", "content": "x"}),
        ("move_path", {"source": "f", "target": "old/f"}),
        ("move_path", {"source": "old", "target": "e"}),
        ("move_path", {"source": "e/f", "target": "g"}),
    ),
}


def _to_be_moved(work: Path) -> dict[str, str]:
    """A folder and a link; gives what stands there."""
    (work / "old").mkdir()
    (work / "old/k.txt").write_text("k")
    (work / "link").symlink_to("nowhere")
    return contents(work)


@pytest.mark.parametrize("calls", MOVED.values(), ids=MOVED)
async def test_a_run_that_moved_the_folder_of_what_it_changed_is_taken_back_whole(
    opens: Any, work: Path, calls: tuple[tuple[str, dict[str, Any]], ...]
) -> None:
    """What lies in a moved folder is looked at where it lies now, and put back where it lay."""
    before = _to_be_moved(work)
    async with opened(opens) as runtime:
        outcomes = [await runtime.call(name, args) for name, args in calls]
        assert [outcome.content for outcome in outcomes if not outcome.ok] == []
        undone = await runtime.undo()
    assert undone.ok, undone.content
    assert contents(work) == before


@pytest.mark.parametrize("after", range(9))
@pytest.mark.parametrize("calls", MOVED.values(), ids=MOVED)
async def test_an_undo_that_broke_off_between_moved_folders_goes_on(
    opens: Any, work: Path, monkeypatch: pytest.MonkeyPatch, calls: Any, after: int
) -> None:
    """After any number of steps; where it had come to its end before it broke, it is whole at once."""
    before = _to_be_moved(work)
    async with opened(opens) as runtime:
        for name, args in calls:
            assert (await runtime.call(name, args)).ok
        with monkeypatch.context() as context:
            breaking(context, after)
            if not (await runtime.undo()).ok:
                context.undo()
                undone = await runtime.undo()
                assert undone.ok, undone.content
    assert contents(work) == before


# Runs in which a file and a folder have the same path, one after the other.
TURNED: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "a file, then a folder": (
        ("delete_path", {"path": "f", "confirm": True}),
        ("make_dir", {"path": "f"}),
    ),
    "a file, then a folder with a file in it": (
        ("delete_path", {"path": "f", "confirm": True}),
        ("write_file", {"path": "f/g/h.txt", "content": "x"}),
        ("write_file", {"path": "last.txt", "content": "x"}),
    ),
    "a file that is moved away, then a folder": (
        ("move_path", {"source": "f", "target": "g"}),
        ("make_dir", {"path": "f"}),
        ("move_path", {"source": "g", "target": "f/g"}),
    ),
    "a folder, then a file": (
        ("delete_path", {"path": "old", "recursive": True, "confirm": True}),
        ("write_file", {"path": "old", "content": "x"}),
        ("edit_file", {"path": "old", "edits": [{"old": "x", "new": "y"}]}),
    ),
    "an empty folder, then a file, then a folder": (
        ("make_dir", {"path": "d"}),
        ("delete_path", {"path": "d", "recursive": True, "confirm": True}),
        ("write_file", {"path": "d", "content": "x"}),
        ("delete_path", {"path": "d", "confirm": True}),
        ("make_dir", {"path": "d/e"}),
    ),
    "a folder that is moved away, then a file": (
        ("edit_file", {"path": "old/k.txt", "edits": [{"old": "k", "new": "K"}]}),
        ("move_path", {"source": "old", "target": "new"}),
        ("write_file", {"path": "old", "content": "x"}),
        ("edit_file", {"path": "new/k.txt", "edits": [{"old": "K", "new": "KK"}]}),
    ),
    "a file, then a folder that is moved there": (
        ("delete_path", {"path": "f", "confirm": True}),
        ("move_path", {"source": "old", "target": "f"}),
        ("edit_file", {"path": "f/k.txt", "edits": [{"old": "k", "new": "K"}]}),
    ),
    "a link, then a folder": (
        ("delete_path", {"path": "link", "confirm": True}),
        ("make_dir", {"path": "link"}),
        ("write_file", {"path": "link/g.txt", "content": "x"}),
    ),
}


@pytest.mark.parametrize("after", range(9))
@pytest.mark.parametrize("calls", TURNED.values(), ids=TURNED)
async def test_an_undo_that_broke_off_goes_on_where_a_file_and_a_folder_had_the_same_path(
    opens: Any, work: Path, monkeypatch: pytest.MonkeyPatch, calls: Any, after: int
) -> None:
    """After any number of steps; where it had come to its end before it broke, it is whole at once."""
    (work / "f").write_text("f")
    before = _to_be_moved(work)
    async with opened(opens) as runtime:
        for name, args in (("make_dir", {"path": "first"}), *calls):  # so that the last step back comes after theirs
            assert (await runtime.call(name, args)).ok
        with monkeypatch.context() as context:
            breaking(context, after)
            first = await runtime.undo()
        if not first.ok:
            assert first.error.code == "IO_ERROR", first.content
            undone = await runtime.undo()
            assert undone.ok, undone.content
    assert contents(work) == before


async def test_what_took_the_place_of_a_folder_that_a_call_made_stays_and_nothing_is_taken_back(
    opens: Any, work: Path
) -> None:
    """A file and a link are somebody's own, also where nothing but the folder is on record."""
    for mine in (lambda: (work / "d").write_text("mine"), lambda: (work / "d").symlink_to("other")):
        async with opened(opens) as runtime:
            assert (await runtime.call("write_file", {"path": "g.txt", "content": "x"})).ok
            assert (await runtime.call("make_dir", {"path": "d"})).ok
            (work / "d").rmdir()
            mine()
            after = contents(work)
            refused = await runtime.undo()
        assert (refused.error.code, refused.error.details["path"]) == ("STALE_FILE", "d"), refused.content
        assert contents(work) == after
        (work / "d").unlink()
        (work / "g.txt").unlink()


async def test_an_undo_that_broke_off_never_goes_on_behind_a_link_of_somebody_else(
    opens: Any, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That nothing stands there but behind the link does not mean that it was taken back."""
    (work / "a").mkdir()
    async with opened(opens) as runtime:
        for name in ("a/x", "y"):
            assert (await runtime.call("write_file", {"path": name, "content": name})).ok
        with monkeypatch.context() as patched:
            breaking(patched, 1)
            assert (await runtime.undo()).error.code == "IO_ERROR"
        (work / "a").rename(work / "aa")
        (work / "a").symlink_to("aa")
        after = contents(work)
        refused = await runtime.undo()
        assert (refused.error.code, contents(work)) == ("STALE_FILE", after)
        assert "A link on the way to a/x leads to aa/x by now" in refused.error.message
        (work / "a").unlink()
        (work / "aa").rename(work / "a")
        assert (await runtime.undo()).ok
    assert contents(work) == {"a": "folder"}


async def test_a_file_changed_in_a_moved_folder_by_somebody_else_is_never_overwritten(opens: Any, work: Path) -> None:
    """It is named as it is called now, and nothing is moved."""
    async with opened(opens) as runtime:
        for name, args in MOVED["written"]:
            assert (await runtime.call(name, args)).ok
        (work / "e/f.txt").write_text("somebody's own words\n")
        after = contents(work)
        refused = await runtime.undo()
    assert (refused.error.code, refused.error.details["path"]) == ("STALE_FILE", "e/f.txt")
    assert contents(work) == after


async def test_a_folder_that_somebody_uses_by_now_stays_and_the_rest_is_taken_back(opens: Any, work: Path) -> None:
    """It was made on the way, and what lies in it is not the call's; that it stays is said."""
    async with opened(opens) as runtime:
        done = await runtime.call("write_file", {"path": "a/b/f.txt", "content": "x"})
        (work / "a/mine.txt").write_text("mine")
        undone = await runtime.undo(done.call_id)
    assert undone.ok, undone.content
    assert contents(work) == {"a": "folder", "a/mine.txt": "mine"}
    assert undone.warnings == ("a: a folder that holds something else by now, so it stays",)
    assert undone.data["paths"] == ["a/b/f.txt", "a/b"]


async def test_undo_never_follows_a_link_that_took_the_place_of_a_folder(opens: Any, work: Path) -> None:
    """What it leads to was never changed by the run: nothing is taken back until the link's own move is."""
    for name, text in (("b/x", "bx"), ("c/x", "cx")):
        (work / name).parent.mkdir()
        (work / name).write_text(text)
    (work / "l").symlink_to("c")
    before = contents(work)
    async with opened(opens) as runtime:
        edit = {"path": "b/x", "edits": [{"old": "bx", "new": "cx"}]}
        assert (await runtime.call("edit_file", edit)).ok
        assert (await runtime.call("move_path", {"source": "b", "target": "bb"})).ok
        link = await runtime.call("move_path", {"source": "l", "target": "b"})
        after = contents(work)
        refused = await runtime.undo()
        assert (refused.error.code, contents(work)) == ("STALE_FILE", after)
        assert "A link on the way to b/x leads to c/x by now" in refused.error.message
        assert (await runtime.undo(link.call_id)).ok
        assert (await runtime.undo()).ok
    assert contents(work) == before


async def test_a_single_call_whose_folder_was_moved_later_names_what_to_take_back_first(opens: Any, work: Path) -> None:
    """The moves, last first; in this order it can then be taken back."""
    async with opened(opens) as runtime:
        wrote = await runtime.call("write_file", {"path": "d/f.txt", "content": "x"})
        other = await runtime.call("write_file", {"path": "other.txt", "content": "x"})
        moved = await runtime.call("move_path", {"source": "d", "target": "e"})
        again = await runtime.call("move_path", {"source": "e/f.txt", "target": "g.txt"})
        after = contents(work)
        refused = await runtime.undo(wrote.call_id)
        assert contents(work) == after
        assert refused.error.message == (
            f"d/f.txt has changed since call {wrote.call_id}; nothing was taken back. Calls of the same run changed or "
            f"moved it later; take these back first: {again.call_id}, {moved.call_id}."
        )
        assert refused.error.details["later"] == [again.call_id, moved.call_id]
        for call in (*refused.error.details["later"], wrote.call_id):
            assert (await runtime.undo(call)).ok
    assert (other.ok, contents(work)) == (True, {"other.txt": "x"})


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


def breaking(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Make the disk fail once so many steps back are done."""
    done = 0

    def counted(real: Any) -> Any:
        async def step(self: BoundFiles, *args: Any, **named: Any) -> Any:
            nonlocal done
            if done == after:
                raise Problem(Code.IO_ERROR, "the disk failed")
            done += 1
            return await real(self, *args, **named)

        return step

    for name in ("restore", "move"):
        monkeypatch.setattr(BoundFiles, name, counted(getattr(BoundFiles, name)))


@pytest.mark.parametrize("after", range(STEPS))
async def test_an_undo_that_broke_off_goes_on_where_it_stopped(
    opens: Any, work: Path, tree: dict[str, str], monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """After any number of steps, and then all of it is taken back."""
    async with opened(opens) as runtime:
        for name, args in EDITS:
            assert (await runtime.call(name, args)).ok
        with monkeypatch.context() as patched:
            breaking(patched, after)
            assert (await runtime.undo()).error.code == "IO_ERROR"
        undone = await runtime.undo()
        with pytest.raises(Misuse):
            await runtime.undo()
    assert (undone.ok, len(undone.data["calls"])) == (True, len(EDITS)), undone.content
    assert contents(work) == tree


async def test_an_undo_that_broke_off_does_not_go_on_over_a_later_change(
    opens: Any, work: Path, tree: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of what is still to be taken back nor of what was."""
    for path, after in (("d/e/b.txt", 2), ("gone.txt", 4)):
        async with opened(opens, run_id=path.replace("/", "-")) as runtime:
            for name, args in EDITS:
                assert (await runtime.call(name, args)).ok
            with monkeypatch.context() as patched:
                breaking(patched, after)
                assert (await runtime.undo()).error.code == "IO_ERROR"
            mine = (work / path).read_text()
            (work / path).write_text("somebody's own words\n")
            changed = contents(work)
            refused = await runtime.undo()
            assert (refused.error.code, refused.error.details["path"]) == ("STALE_FILE", path)
            assert contents(work) == changed
            (work / path).write_text(mine)
            assert (await runtime.undo()).ok
        assert contents(work) == tree


async def test_what_stands_as_it_did_in_between_is_a_later_change(opens: Any, work: Path, tree: dict[str, str]) -> None:
    """Where no undo broke off, a person wrote that, and it stays."""
    async with opened(opens) as runtime:
        for old, new in (("one", "two-b"), ("two-b", "three-c")):
            assert (await runtime.call("edit_file", {"path": "a.txt", "edits": [{"old": old, "new": new}]})).ok
        between = (work / "a.txt").read_text().replace("three-c", "two-b")
        (work / "a.txt").write_text(between)
        refused = await runtime.undo()
    assert (refused.error.code, (work / "a.txt").read_text()) == ("STALE_FILE", between)


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
    """What is protected is not put back, nor what a rule keeps from the tool for it; rules for models do not count."""
    async with opened(opens, run_id="first") as runtime:
        done = await runtime.call("edit_file", {"path": "a.txt", "edits": [{"old": "one", "new": "1"}]})
    deny = {"effect": "deny", "touch": "fs.write", "target": "a.txt"}
    ends = []
    for number, config in enumerate(
        ({"workspace": {"protected": ["a.txt"]}}, {"rules": [{**deny, "tool": "undo_changes"}]}, {"rules": [deny]})
    ):
        async with opened(opens, run_id=f"later-{number}", config=config) as runtime:
            undone = await runtime.undo(done.call_id, run="first")
        ends.append(undone.error.code if undone.error else (work / "a.txt").read_text())
    assert ends == ["PATH_PROTECTED", "POLICY_DENIED", tree["a.txt"]]


@pytest.mark.parametrize("name", PRESETS)
async def test_a_file_that_a_call_made_is_taken_back_under_each_preset(opens: Any, work: Path, name: str) -> None:
    """What a preset denies to a model (deleting, or all writing) does not keep a person from undoing."""
    config = dict(preset(name))
    lax = {**config, "rules": [], "tools": {"enable": ["fs"]}}
    approver = ScriptedApprover("once")
    async with opens(config=lax, run_id="r", approver=approver) as runtime:
        done = await runtime.call("write_file", {"path": "made.txt", "content": "x\n"})
        root = Path(runtime.kernel.parts.workspace)
    assert (done.ok, (root / "made.txt").exists()) == (True, True), done.content
    async with opens(config=config, run_id="r") as runtime:
        undone = await runtime.undo(done.call_id)
    assert (undone.ok, (root / "made.txt").exists()) == (True, False), undone.content


async def test_steps_that_are_on_no_record_are_not_taken(opens: Any, work: Path, tree: dict[str, str]) -> None:
    """A model that calls the tool by its name deletes and writes nothing with it."""
    after = hashlib.sha256((work / "a.txt").read_bytes()).hexdigest()
    step = {"op": "create", "path": "a.txt", "call": "c", "after": after}
    async with opened(opens, run_id="r") as runtime:
        refused = await runtime.call("undo_changes", {"run": "r", "steps": [step]})
    assert (refused.error.code, contents(work)) == ("POLICY_DENIED", tree)

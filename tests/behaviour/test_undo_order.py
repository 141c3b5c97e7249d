"""A call is taken back by itself only where no later call is bound to it; the way that a refusal names leads there."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from behaviour.test_undo import contents, opened
from handrail.undoing import plan

Given = tuple[str, dict[str, Any]]
SCALE = float(os.environ.get("HANDRAIL_TEST_SCALE", "1"))


def move(source: str, target: str) -> Given:
    return "move_path", {"source": source, "target": target}


def write(path: str, text: str = "new", *, over: bool = False) -> Given:
    return "write_file", {"path": path, "content": text} | (
        {"mode": "overwrite", "expected_sha256": "*"} if over else {}
    )


def delete(path: str) -> Given:
    return "delete_path", {"path": path, "recursive": True, "confirm": True}


# What is taken back first is in the way of the call before; in the end all is as it was.
BOUND: dict[str, tuple[Given, ...]] = {
    "a file in a moved folder is written": (move("d", "e"), write("e/f", over=True)),
    "a file is made in a moved folder": (move("d", "e"), write("e/new")),
    "a file is made deep in a moved folder": (move("d", "e"), write("e/s/t/new")),
    "a file is moved into a moved folder": (move("d", "e"), move("x", "e/x")),
    "a file is moved out of a moved folder": (move("d", "e"), move("e/f", "y")),
    "a file in a moved folder is deleted": (move("d", "e"), delete("e/f")),
    "a moved folder is moved on, and a file made in it": (move("d", "e"), move("e", "g"), write("g/new")),
    "a moved folder is deleted": (move("d", "e"), delete("e")),
    "the folder that a file came from is moved": (move("d/f", "y"), move("d", "e")),
    "the folder that a file came from is deleted": (move("d/f", "y"), delete("d")),
    "the folder that a file came from is moved, and another one there": (
        move("d/f", "y"),
        move("d", "e"),
        move("other", "d"),
    ),
    "a file is made where one came from, and moved on": (move("x", "y"), write("x"), move("x", "z")),
    "a file is made where one came from, and deleted": (move("x", "y"), write("x"), delete("x")),
    "a folder is made where one came from, and deleted": (move("d", "e"), write("d/f"), delete("d")),
    "a folder that was made is filled": (("make_dir", {"path": "m"}), move("x", "m/x")),
    "a folder that was made is moved and filled": (
        ("make_dir", {"path": "m/n"}),
        move("m/n", "z"),
        write("z/new"),
    ),
    "names are changed round": (move("x", "t"), move("d/f", "x"), move("t", "d/f")),
    "the folder of a deleted file is deleted": (delete("d/f"), delete("d")),
}


def prepare(work: Path) -> dict[str, str]:
    for name in ("d/f", "d/g", "x", "other/o"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text(name)
    (work / "d").chmod(0o700)
    return contents(work)


@pytest.mark.parametrize("calls", BOUND.values(), ids=BOUND)
async def test_a_call_that_later_ones_are_bound_to_is_refused_and_the_named_way_takes_all_back(
    opens: Any, work: Path, calls: tuple[Given, ...]
) -> None:
    """Nothing is touched before; each call that is named can be taken back in the order they are named in."""
    before = prepare(work)
    async with opened(opens) as runtime:
        outcomes = [await runtime.call(*call) for call in calls]
        assert [outcome.content for outcome in outcomes if not outcome.ok] == []
        after, (first, *later) = contents(work), [outcome.call_id for outcome in outcomes]
        refused = await runtime.undo(first)
        assert (refused.error.code, contents(work)) == ("STALE_FILE", after)
        assert refused.error.details["later"] == later[::-1]
        for call in (*refused.error.details["later"], first):
            undone = await runtime.undo(call)
            assert undone.ok, undone.content
    assert contents(work) == before
    assert (work / "d").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("calls", BOUND.values(), ids=BOUND)
async def test_the_run_as_a_whole_is_taken_back_in_its_order(opens: Any, work: Path, calls: tuple[Given, ...]) -> None:
    """What is in the way of one call by itself is in nobody's way then."""
    before = prepare(work)
    async with opened(opens) as runtime:
        for call in calls:
            assert (await runtime.call(*call)).ok
        undone = await runtime.undo()
    assert (undone.ok, contents(work)) == (True, before), undone.content


# Neighbours only: the first call is taken back by itself.
FREE: dict[str, tuple[Given, ...]] = {
    "a file beside a moved folder": (move("d", "e"), write("ee")),
    "a file in a folder of the like name": (move("d", "e"), write("e2/f")),
    "a file in the folder that a file was moved to": (move("x", "d/x"), write("d/new")),
    "a file in the folder that a file came from": (move("d/f", "y"), write("d/new")),
    "a file in a folder that was made on the way": (write("m/one"), write("m/two")),
    "a file in a folder that was deleted": (delete("d"), write("d/new")),
}


@pytest.mark.parametrize("calls", FREE.values(), ids=FREE)
async def test_a_call_that_later_ones_only_lie_beside_is_taken_back_by_itself(
    opens: Any, work: Path, calls: tuple[Given, ...]
) -> None:
    """And what the later call made stays, until it is taken back, too."""
    prepare(work)
    async with opened(opens) as runtime:
        first, second = [await runtime.call(*call) for call in calls]
        assert (first.ok, second.ok) == (True, True)
        undone = await runtime.undo(first.call_id)
        assert undone.ok, undone.content
        assert (work / calls[1][1]["path"]).read_text() == "new"
        assert (await runtime.undo(second.call_id)).ok
    assert {"d/f", "d/g", "x", "other/o"} == {name for name, text in contents(work).items() if text != "folder"}


async def test_what_somebody_put_into_a_moved_folder_goes_back_with_it(opens: Any, work: Path) -> None:
    """It is no call's, so it is in the way of none; what it holds stays as it is."""
    before = prepare(work)
    async with opened(opens) as runtime:
        moved = await runtime.call(*move("d", "e"))
        (work / "e/mine").write_text("mine")
        assert (await runtime.undo(moved.call_id)).ok
    assert contents(work) == before | {"d/mine": "mine"}


async def test_a_change_of_somebody_else_between_two_calls_is_found_before_anything_is_taken_back(
    opens: Any, work: Path
) -> None:
    """What one step leaves is not what the next one expects: refused whole, and the last call goes by itself."""
    prepare(work)
    async with opened(opens) as runtime:
        first = await runtime.call(*write("x", "one", over=True))
        (work / "x").write_text("mine")
        second = await runtime.call(*write("x", "two", over=True))
        refused = await runtime.undo()
        assert (refused.error.code, (work / "x").read_text()) == ("STALE_FILE", "two")
        assert refused.error.message == (
            f"Something else changed x after call {first.call_id} and before call {second.call_id}; nothing was taken "
            f"back. Call {second.call_id} can be taken back by itself."
        )
        assert (await runtime.undo(second.call_id)).ok
        assert (work / "x").read_text() == "mine"
        assert (await runtime.undo()).error.code == "STALE_FILE"
    assert (work / "x").read_text() == "mine"


async def test_a_folder_that_somebody_moved_away_before_another_took_its_name_is_found_before(
    opens: Any, work: Path
) -> None:
    """Where the folder is moved away again, nothing stands that could be put back."""
    prepare(work)
    async with opened(opens) as runtime:
        assert (await runtime.call(*write("d/f", "one", over=True))).ok
        (work / "d").rename(work / "mine")
        assert (await runtime.call(*move("other", "d"))).ok
        after = contents(work)
        assert (await runtime.undo()).error.code == "STALE_FILE"
    assert contents(work) == after


async def test_what_later_calls_made_below_the_place_that_a_folder_came_from_is_taken_back_first(
    opens: Any, work: Path
) -> None:
    """The folder they made there would stand in the way of it."""
    before = prepare(work)
    async with opened(opens) as runtime:
        moved, again, below = [
            (await runtime.call(*call)).call_id
            for call in (move("d", "other/d"), move("x", "d/f"), ("make_dir", {"path": "d/m"}))
        ]
        refused = await runtime.undo(moved)
        assert (refused.error.code, refused.error.details["later"]) == ("STALE_FILE", [below, again])
        for call in (below, again, moved):
            assert (await runtime.undo(call)).ok
    assert contents(work) == before


def _chosen(pick: random.Random, work: Path, number: int) -> Given | None:
    """A call that may well succeed; texts and most names are new ones."""
    there = {str(path.relative_to(work)): path.is_dir() for path in sorted(work.rglob("*"))}
    folders, files = [name for name in there if there[name]], [name for name in there if not there[name]]
    inside = f"{pick.choice(folders)}/" if folders and pick.random() < 0.7 else ""
    name = pick.choice([f"n{number}", "d", "x", "d/f", f"{inside}m{number}", f"{inside}m{number}/s", f"{inside}f"])
    kind = pick.choice(["write", "over", "move", "move", "move", "delete", "make"])
    if kind == "write":
        return write(name, f"text {number}")
    if kind == "make":
        return "make_dir", {"path": name}
    if not files:
        return None
    if kind == "over":
        return write(pick.choice(files), f"text {number}", over=True)
    chosen = pick.choice([*there])
    return move(chosen, name) if kind == "move" else delete(chosen)


@pytest.mark.parametrize("seed", range(round(12 * SCALE)))
async def test_in_whatever_order_calls_are_taken_back_the_named_way_leads_to_the_end(
    opens: Any, work: Path, seed: int
) -> None:
    """At most empty folders that were made on the way to something stay, which is said."""
    before, pick, left, stayed = prepare(work), random.Random(seed), list[str](), set[str]()
    async with opened(opens, config={"limits": {"max_repeats": 0}}) as runtime:
        for number in range(9):
            if (call := _chosen(pick, work, number)) is not None and (done := await runtime.call(*call)).changes:
                left.append(done.call_id)
        while left:
            call_id = pick.choice(left)
            after, outcome = contents(work), await runtime.undo(call_id)
            way = [call_id]
            if not outcome.ok:
                assert contents(work) == after
                way = [*outcome.error.details["later"], call_id]
            for step in way:
                undone = outcome if outcome.ok else await runtime.undo(step)
                assert undone.ok, undone.content
                stayed.update(undone.warnings)
                left.remove(step)
    more = {name: text for name, text in contents(work).items() if before.get(name) != text}
    assert before.items() <= contents(work).items()
    assert not more or (set(more.values()) == {"folder"} and stayed)


def test_a_run_of_many_calls_and_large_deletions_is_planned_quickly() -> None:
    """Each change is looked up, not compared with every other one."""
    gone = [{"path": f"d/{number // 100}/{number}", "op": "delete", "before": "0" * 64} for number in range(20_000)]
    ends = [{"kind": "tool.completed", "tool": "delete_path", "call_id": "a", "files_changed": gone}]
    for number in range(2_000):
        change = {"path": f"d/{number // 100}/{number}", "op": "create", "after": "1" * 64}
        ends.append(
            {"kind": "tool.completed", "tool": "write_file", "call_id": f"c{number}", "files_changed": [change]}
        )
    began = time.process_time()
    found = plan(ends, "a")
    assert time.process_time() - began < 15
    assert (len(found.steps), len(found.first)) == (20_000, 2_000)
    assert sum(step.get("later", False) for step in found.steps) == 2_000


def _replaced(count: int, *, lost: bool) -> list[dict[str, object]]:
    """The ends of calls that replaced one file again and again; with `lost`, every second one by a program."""
    ends: list[dict[str, object]] = []
    for number in range(count):
        change: dict[str, object] = {"path": "a.txt", "op": "replace", "before": f"{number:064}"}
        change["after"] = f"{number + 1:064}"
        if lost and number % 2:
            change["kept"] = False
        ends.append({"kind": "tool.completed", "tool": "edit_file", "call_id": f"c{number}", "files_changed": [change]})
    return ends


@pytest.mark.parametrize(("only", "lost"), [("c0", False), (None, False), (None, True), ("c0", True)])
def test_replacements_of_one_file_are_planned_in_linear_time(only: str | None, lost: bool) -> None:
    """Four times the calls take about four times the time; sixteen times is what pairs of calls would take."""
    seconds = {}
    for count in (2_000, 8_000):
        ends = _replaced(count, lost=lost)
        took = []
        for _ in range(3):
            began = time.process_time()
            plan(ends, only)
            took.append(time.process_time() - began)
        seconds[count] = min(took)
    assert seconds[8_000] < 9 * seconds[2_000] + 0.05, seconds

"""Small edits and patches that would cost the square of their size: they cost what they are long, beside the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import Code, Problem
from handrail.output.redact import Redactor
from handrail.tools.fs import _diff, _effort
from handrail.tools.fs._aside import LARGE, aside
from handrail.tools.fs._edits import Edit, apply_edits
from handrail.tools.fs._effort import Effort
from handrail.tools.fs._hunks import apply_hunks
from handrail.tools.fs._patch import Hunk, parse_patch, trimmed
from handrail.tools.fs._rows import Indents, Rows
from handrail.tools.fs.apply_patch import apply_patch
from handrail.tools.fs.edit_file import edit_file
from steps import steps_of
from tools._fakes import desk_at


def edit_all(text: str, *edits: Edit) -> object:
    """Make edits where nothing is hidden."""
    return apply_edits(text, list(edits), "f", lambda: (), lambda _edits: None)


def patch_all(text: str, patch: str) -> object:
    """Apply the hunks of one file where nothing is hidden."""
    return apply_hunks(text, parse_patch(patch)[0].hunks, "f", lambda: ())


def unified(*hunks: str) -> str:
    """A patch of one file."""
    return "--- a/f\n+++ b/f\n" + "".join(hunks)


def many_hits(size: int) -> str:
    """Hunks that each fit everywhere."""
    return unified(*(f"@@ -{at * 20 + 1},3 +{at * 20 + 1},3 @@\n a\n-a\n+c\n a\n" for at in range(size)))


def marked(size: int) -> str:
    """Hunks that each name a line that stands everywhere."""
    hunks = "".join("@@ a\n@@ a\n a\n-a\n+c\n" for _ in range(size))
    return f"*** Begin Patch\n*** Update File: f\n{hunks}*** End Patch\n"


WORK: dict[str, Callable[[int], object]] = {
    "indent": lambda n: edit_all("a b\n" * n * 10, Edit("  a b\n" * n + "c", "q")),
    "indent found": lambda n: edit_all("a b\n" * n * 4, Edit("  a b\n" * n, "q")),
    "indents": lambda n: edit_all("a b\n a b\n" * n * 4, Edit("  a b\n   a b\n" * n + " c", "q")),
    "many misses": lambda n: edit_all("a b\n" * n, *(Edit("a b\n" * at + "c", f"q{at}") for at in range(1, n // 4))),
    "all of them": lambda n: edit_all("a b\r\n" * n + "x", Edit("a b", "c\nd", "all")),
    "done before": lambda n: edit_all("a" * n * 9, Edit("no", "a" * n)),
    "many hits": lambda n: patch_all("a\n" * n * 25, many_hits(n)),
    "long hunk": lambda n: patch_all(
        "a\n" * n * 2, unified(f"@@ -1,{n + 1} +1,{n + 1} @@\n" + " a\n" * n + "-b\n+c\n")
    ),
    "made before": lambda n: patch_all("a1b\n" * n * 2, unified("@@ -1,1 +1,2 @@\n a1b\n+a1b\n" * n)),
    "named lines": lambda n: patch_all("a\n" * n * 5, marked(n)),
    "blank lines": lambda n: parse_patch(unified("@@ -1,1 +1,1 @@\n-a\n+b\n" + "\n" * n * 10)),
}


@pytest.mark.parametrize("name", WORK)
def test_twice_as_much_takes_twice_the_steps(name: str) -> None:
    """Not four times: at each place no more is looked at than can still be the one."""
    steps_of(lambda: WORK[name](10))
    once, twice = (steps_of(lambda size=size: WORK[name](size)) for size in (150, 300))  # type: ignore[misc]
    assert twice < 2.6 * once


class Kept(list[tuple[str, str]]):
    """Lines that count how often they are copied."""

    copies = 0

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        Kept.copies += isinstance(at, slice)
        return Kept(found) if isinstance(at, slice) else found


def test_empty_lines_at_the_end_of_a_hunk_are_not_taken_off_one_by_one() -> None:
    """All of them at once, in one copy."""
    Kept.copies = 0
    assert trimmed(Kept([("-", "a"), *[("", "")] * 1000])) == (("-", "a"),)
    assert Kept.copies == 1


class Line:
    """A line that counts how often it is looked at."""

    looks = 0

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        Line.looks += 1
        return isinstance(other, Line) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def test_lines_in_a_row_are_found_without_comparing_each_with_each() -> None:
    """Every place is found, though each begins inside the one before."""
    lines, wanted = [Line("a") for _ in range(2000)], [Line("a") for _ in range(1000)]
    Line.looks = 0
    assert Rows(lines).places(wanted, Effort()) == list(range(1001))
    assert Line.looks < 5 * (len(lines) + len(wanted))


def by_hand(lines: list[str], wanted: list[str]) -> list[tuple[int, str, str]]:
    """What `Indents` finds, by its definition."""
    found = []
    for start in range(len(lines) - len(wanted) + 1):
        pairs = [(there, asked) for there, asked in zip(lines[start:], wanted, strict=False) if asked.strip()]
        blank = all(not there.strip() for there, asked in zip(lines[start:], wanted, strict=False) if not asked.strip())
        for deeper, shallower in (("  ", ""), ("\t", ""), (" ", ""), ("", " "), ("", "  "), ("", "\t")):
            if pairs and blank and all(deeper + asked == shallower + there for there, asked in pairs):
                found.append((start, deeper, shallower))
    return found


def test_lines_that_stand_deeper_or_shallower_are_found_as_defined() -> None:
    """On many small texts of few different lines."""
    import random

    source = random.Random(7)
    kinds = ["", " ", "a", " a", "  a", "\ta", "b", " b", "  b", "\t\tb"]
    hits = 0
    for _ in range(3000):
        lines = source.choices(kinds, k=source.randrange(0, 12))
        wanted = source.choices(kinds, k=source.randrange(1, 5))
        found = [hit for hit in Indents(lines).places(wanted, Effort()) if hit[0] + len(wanted) <= len(lines)]
        expected = [hit for hit in by_hand(lines, wanted) if len(hit[1] + hit[2]) <= 2]
        assert [hit for hit in found if hit in expected] == expected, (lines, wanted)
        assert len({hit[0] for hit in found}) == len(found)
        hits += len(expected)
    assert hits > 100


# ── beside the loop, and not for ever ────────────────────────────────────────────────────────


class Noting(Redactor):
    """Notes which thread asks what is hidden."""

    asked_by: int | None = None

    def spans(self, text: str) -> list[tuple[int, int]]:
        self.asked_by = threading.get_ident()
        return super().spans(text)


SMALL = "a b\n" * 10_000


@pytest.mark.parametrize("preview", [False, True])
@pytest.mark.parametrize(
    ("tool", "args"),
    [
        (edit_file, {"path": "f", "edits": [{"old": "a b\n" * 500 + "c", "new": "q"}] * 20}),
        (apply_patch, {"patch": unified("@@ -1,1 +1,1 @@\n-a b\n+c\n" * 20).replace("a/f", "f").replace("b/f", "f")}),
    ],
    ids=["edit_file", "apply_patch"],
)
async def test_a_small_file_sought_through_often_is_left_to_a_thread(
    tmp_path: Path, tool: Any, args: dict[str, Any], preview: bool
) -> None:
    """What counts is the work, not the size of the file; also before a person is asked."""
    assert len(SMALL) < LARGE
    async with desk_at(tmp_path) as desk:
        desk.put("f", SMALL)
        noting = desk._secrets = Noting(engine="plain")
        with suppress(Problem):
            await (desk.preview(tool, **args) if preview else desk.call(tool, **args, dry_run=True))
    assert noting.asked_by not in (None, threading.get_ident())


async def test_who_gives_up_stops_the_thread() -> None:
    """A deadline ends the call at once, and its work at the next step."""
    effort, began, ended = Effort(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        try:
            while True:
                effort.spend(0)
        finally:
            ended.set()

    task = asyncio.ensure_future(aside(LARGE, work, effort))
    await asyncio.to_thread(began.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, 10)


@pytest.mark.parametrize("name", ["indent found", "many hits", "all of them", "named lines"])
def test_more_comparing_than_a_call_may_do_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """With a sentence that says what to do about it."""
    monkeypatch.setattr(_effort, "MOST_STEPS", 1000)
    with pytest.raises(Problem) as caught:
        WORK[name](100)
    assert caught.value.code is Code.INVALID_ARGS
    assert "takes more comparing than one call may do" in caught.value.message


def test_what_is_put_everywhere_is_refused_before_it_fills_memory() -> None:
    """A hundred thousand places, a megabyte for each."""
    with pytest.raises(Problem, match="takes more comparing than one call may do"):
        edit_all("a\n" * 90_000, Edit("a", "b" * 1_000_000, "all"))


def test_a_diff_compares_so_many_lines_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that stand once cut a text into as many parts as one likes; all of them together are bounded."""
    made = []

    class Counted(_diff.SequenceMatcher):  # type: ignore[misc,name-defined]
        def __init__(self, junk: None, old: list[str], new: list[str], autojunk: bool) -> None:
            made.append(len(old) * len(new))
            super().__init__(junk, old, new, autojunk)

    monkeypatch.setattr(_diff, "SequenceMatcher", Counted)
    old = [line for at in range(60) for line in (f"{at}\n", *["a\n"] * 200)]
    new = [line for at in range(60) for line in (f"{at}\n", *["b\n"] * 200)]
    blocks = _diff.changed_blocks(old, new)
    assert sum(b - a for a, b, _, _ in blocks) == 60 * 200
    assert sum(made) <= _diff._COMPARED_ALL


def test_a_hunk_of_each_way_is_placed_as_before() -> None:
    """By its number, by what it names, or after the hunk before it."""
    text = "a\nb\n" * 5
    lines = ((" ", "a"), ("-", "b"), ("+", "c"))
    placed = apply_hunks(text, (Hunk(lines, 1, hint=3), Hunk(lines, 5, hint=9)), "f", lambda: ()).placed
    assert [one.start for one in placed] == [2, 8]


@pytest.mark.parametrize("old", [["x\n"] * 500, ["x\n", "y\n"] * 250], ids=["one line", "two lines"])
def test_lines_that_stand_everywhere_are_not_compared_with_each_other(old: list[str]) -> None:
    """Such texts would take the cube of their lines; they are one change."""
    new = [line for pair in zip(["x\n"] * 250, ["y\n"] * 250, strict=True) for line in pair] + ["z\n"]
    assert steps_of(lambda: _diff.changed_blocks(["a\n", *old, "b\n"], ["c\n", *new, "d\n"])) < 20_000

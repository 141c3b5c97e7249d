"""A folder or file that is looked at again: what was told may be kept, and nothing but the same things is the same."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Outcome, Runtime
from handrail.words import Exclusion, Root
from handrail.workspace import listing
from handrail.workspace.exclude import leaves_out

CONFIG: dict[str, Any] = {"limits": {"max_repeats": 0}}
OLD = 1_600_000_000


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with two folders, whose runs are kept beneath the test's own folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = tmp_path / "work"
    for name in ("d/b.txt", "d/a.txt", "d/.dot", "d/e/c.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
        os.utime(root / name, (OLD, OLD))
    return root


async def asked(runtime: Runtime, tool: str, **args: Any) -> Outcome:
    """Ask for what can be told."""
    outcome = await runtime.call(tool, args)
    assert outcome.ok, outcome.content
    return outcome


def rows(outcome: Outcome) -> list[tuple[str, str, int]]:
    """Name, type and size of each entry but a folder's size, which is the file system's."""
    entries = outcome.data["entries"]
    return [(row["name"], row["type"], row["size"] if row["type"] == "file" else 0) for row in entries]


def put_back(file: Path, change: Callable[[Path], object]) -> None:
    """Change a file and give it back its date."""
    before = file.stat()
    change(file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("depth", [1, 3])
async def test_every_change_below_a_folder_is_told_after_it_was_listed_before(work: Path, depth: int) -> None:
    """Also a size without a date, a date without a size, a kind, and what came or went."""
    async with Runtime.open(work, config=CONFIG) as runtime:

        async def listed() -> Outcome:
            return await asked(runtime, "list_dir", path="d", depth=depth)

        for _ in range(3):
            first = await listed()
        put_back(work / "d/a.txt", lambda file: file.write_text("longer than before"))
        sized = await listed()
        os.utime(work / "d/b.txt", (OLD + 5, OLD + 5))
        dated = await listed()
        (work / "d/new.txt").write_text("")
        added = await listed()
        (work / "d/b.txt").unlink()
        (work / "d/b.txt").symlink_to("a.txt")
        linked = await listed()
        (work / "d/new.txt").unlink()
        removed = await listed()
        last = await listed()
    below = [("e/c.txt", "file", 9)] if depth > 1 else []
    start = [("a.txt", "file", 7), ("b.txt", "file", 7), ("e", "directory", 0), *below]
    assert rows(first) == start
    assert rows(sized) == [("a.txt", "file", 18), *start[1:]]
    assert [row["mtime"] for row in dated.data["entries"] if row["name"] == "b.txt"] == ["2020-09-13T12:26:45Z"]
    assert rows(added) == [*rows(sized), ("new.txt", "file", 0)]
    assert [row[:2] for row in rows(linked)] == [
        ("a.txt", "file"),
        ("b.txt", "link"),
        *(r[:2] for r in rows(added)[2:]),
    ]
    assert (rows(last), last.content, last.summary) == (rows(removed), removed.content, removed.summary)


async def test_each_way_to_ask_has_its_own_answer(work: Path) -> None:
    """However often another one was asked before."""
    ways: list[dict[str, Any]] = [
        {},
        {"hidden": True},
        {"sort": "size"},
        {"limit": 1},
        {"ignore": ["*.txt"]},
        {"ignore": []},
        {"limit": 1, "ignore": []},
        {"depth": 2},
        {"path": "./d"},
    ]
    async with Runtime.open(work, config=CONFIG) as runtime:
        alone = []
        for way in ways:
            async with Runtime.open(work, config=CONFIG) as other:
                alone.append(await asked(other, "list_dir", **{"path": "d", **way}))
        for _ in range(3):
            together = [await asked(runtime, "list_dir", **{"path": "d", **way}) for way in ways]
    assert [(one.data, one.content, one.summary) for one in together] == [
        (one.data, one.content, one.summary) for one in alone
    ]


@pytest.mark.parametrize(("tool", "path"), [("list_dir", "d"), ("stat_path", "d/a.txt")])
async def test_what_a_caller_does_to_an_answer_stays_with_that_answer(work: Path, tool: str, path: str) -> None:
    """Every outcome has data of its own, with all that lies in it."""
    async with Runtime.open(work, config=CONFIG) as runtime:
        first = await asked(runtime, tool, path=path)
        known = json.dumps(first.data)
        for _ in range(3):
            again = await asked(runtime, tool, path=path)
            assert json.dumps(again.data) == known
            for row in again.data.get("entries", ()):
                row["name"] = "spoilt"
            again.data["path"] = "spoilt"


@pytest.mark.parametrize(("tool", "path"), [("list_dir", "d"), ("stat_path", "d/melchior-and-sons")])
async def test_what_became_secret_is_hidden_though_it_was_shown_before(work: Path, tool: str, path: str) -> None:
    """An answer is finished anew once more values are to be hidden."""
    (work / "d/melchior-and-sons").write_text("")
    async with Runtime.open(work, config=CONFIG) as runtime:
        for _ in range(3):
            assert "melchior" in (await asked(runtime, tool, path=path)).content
        runtime.parts.redactor.learn(["melchior-and-sons"])
        again = await asked(runtime, tool, path=path)
    assert (again.redacted, "melchior" in json.dumps([again.data, again.content, again.summary])) == (True, False)


async def test_a_thing_that_changed_is_told_as_it_is_now(work: Path) -> None:
    """Size, mode, dates and kind, one by one."""
    file = work / "d/a.txt"
    async with Runtime.open(work, config=CONFIG) as runtime:

        async def told() -> Any:
            return (await asked(runtime, "stat_path", path="d/a.txt")).data

        for _ in range(3):
            first = await told()
        put_back(file, lambda file: file.write_text("longer"))
        sized = await told()
        file.chmod(0o600)
        closed = await told()
        os.utime(file, (OLD + 1, OLD + 2))
        dated = await told()
    assert sized == {**first, "size": 6, "atime": sized["atime"]}
    assert closed == {**sized, "mode": "0600"}
    assert dated == {**closed, "atime": "2020-09-13T12:26:41Z", "mtime": "2020-09-13T12:26:42Z"}


@pytest.mark.parametrize("each", [80, 90, 300])
async def test_what_is_not_shown_is_counted_once_however_much_there_is(work: Path, each: int) -> None:
    """Also where a look that was to be quick finds more than that: nothing of it is told twice."""
    for number in range(3 * each):
        folder = work / f"m/{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.txt").write_text("")
        (folder / f".{number}").write_text("")
    async with Runtime.open(work, config=CONFIG) as runtime:
        told = [(await asked(runtime, "list_dir", path="m", depth=5, limit=1000)).data for _ in range(3)]
    names = sorted([f"{number % 3}/{number}.txt" for number in range(3 * each)] + ["0", "1", "2"], key=_parts)
    shown = [row["name"] for row in told[0]["entries"]]
    assert (shown, told[0]["total"], told[0]["hidden"]) == (names[: len(shown)], 3 * each + 3, 3 * each)
    assert told == [told[0]] * 3


def _parts(name: str) -> list[str]:
    return name.split("/")


async def test_each_time_is_on_record(work: Path) -> None:
    """A call that is answered as the one before it is a call like every other."""
    async with Runtime.open(work, config=CONFIG) as runtime:
        ids = [(await asked(runtime, "list_dir", path="d")).call_id for _ in range(4)]
        runtime.parts.journal.flush()
        lines = (runtime.parts.folder.path / "events.jsonl").read_bytes().splitlines()
    events = [event for event in map(json.loads, lines) if event["kind"].startswith("tool.")]
    assert [(event["kind"], event["call_id"]) for event in events] == [
        (kind, name) for name in ids for kind in ("tool.started", "tool.completed")
    ]
    ends = [
        {**event, **dict.fromkeys(("seq", "ts", "call_id", "prev", "hash", "duration_ms"))} for event in events[1::2]
    ]
    assert ends == [ends[0]] * 4


def test_what_is_left_out_goes_by_the_exclusions_and_root_of_the_call() -> None:
    """However many others were looked at before, and wherever in memory they lay."""
    here, there = Root("workspace", "/a", True), Root("/b", "/b", True)
    for number in range(300):
        exclusions = (Exclusion(f"x{number}", "rule"), Exclusion("y", "rule", root="workspace"))
        for _ in range(2):
            found = [
                [leaves_out(exclusions, root)(name, name) for name in (f"x{number}", f"x{number + 1}", "y", "z")]
                for root in (here, there)
            ]
            assert found == [[True, False, True, False], [True, False, False, False]]


@pytest.mark.parametrize(
    ("names", "ask", "where"),
    [
        (100, {"depth": 2}, "loop"),
        (300, {"depth": 1}, "loop"),
        (300, {"depth": 2}, "thread"),
        (300, {"depth": 2, "hidden": True}, "thread"),
        (100, {"depth": 1, "ignore": ["*.x"]}, "loop"),
        (300, {"depth": 1, "ignore": ["*.x"]}, "thread"),
        (100, {"depth": 1, "ignore": ["*.a", "*.b", "*.c", "*.d", "*.e"]}, "thread"),
    ],
)
async def test_the_loop_waits_for_few_names_alone_shown_or_not(
    work: Path, monkeypatch: pytest.MonkeyPatch, names: int, ask: dict[str, Any], where: str
) -> None:
    """A name that is hidden or ignored costs as much as one that is told."""
    for number in range(names):
        (work / f"d/e/.{number}" if ask["depth"] > 1 else work / f"d/.{number}").touch()
    ended: list[str] = []
    loop, real = threading.get_ident(), listing.walked

    def noted(*args: Any) -> None:
        real(*args)
        ended.append("loop" if threading.get_ident() == loop else "thread")

    monkeypatch.setattr(listing, "walked", noted)
    async with Runtime.open(work, config=CONFIG) as runtime:
        await asked(runtime, "list_dir", path="d", **ask)
    assert ended == [where]


async def test_what_is_not_shown_is_counted_anew(work: Path) -> None:
    """Names that came and are hidden or protected change no row."""
    async with Runtime.open(work, config=CONFIG) as runtime:
        for _ in range(3):
            first = await asked(runtime, "list_dir", path="d")
        for name in (".more", ".env"):
            (work / f"d/{name}").touch()
        then = await asked(runtime, "list_dir", path="d")
    counted = [(item.data["hidden"], item.data["protected"]) for item in (first, then)]
    assert (rows(first), counted) == (rows(then), [(1, 0), (2, 1)])

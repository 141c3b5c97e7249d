"""Runs that other settings keep in the project: no tool of a later run reads, searches or changes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conftest import Opens
from handrail import Runtime
from handrail.words import Outcome

WRITES = ("fs", "delete_path")


@pytest.fixture(params=["runs", ".agent/runs", ".handrail/runs", ".handrail", "kept/by/me"])
async def runs(request: pytest.FixtureRequest, work: Path) -> Path:
    """A folder of runs beneath the workspace, with a run that kept a former content."""
    (work / "a.txt").write_text("before\n")
    settings = {"runs_dir": request.param, "tools": {"enable": ["fs"]}}
    async with Runtime.open(work, config=settings, run_id="old") as runtime:
        edit = {"path": "a.txt", "edits": [{"old": "before", "new": "after"}]}
        assert (await runtime.call("edit_file", edit)).ok
    return work / str(request.param)


def image(runs: Path) -> Path:
    """The former content of a file, as it is kept for undo."""
    return next((runs / "old" / "archive" / "images").iterdir())


def calls(runs: Path, work: Path) -> Mapping[str, dict[str, Any]]:
    """What would read, forge or take away another run's record."""
    run = str((runs / "old").relative_to(work))
    journal, kept = f"{run}/events.jsonl", str(image(runs).relative_to(work))
    patch = f"--- a/{journal}\n+++ b/{journal}\n@@ -1,1 +1,1 @@\n-x\n+y\n"
    return {
        "read_file": {"path": kept},
        "hash_file": {"path": journal},
        "list_dir": {"path": run},
        "write_file": {"path": f"{run}/run.json", "content": "{}", "mode": "append"},
        "edit_file": {"path": journal, "edits": [{"old": "a", "new": "b"}]},
        "apply_patch": {"patch": patch},
        "delete_path": {"path": str(runs.relative_to(work)), "recursive": True, "confirm": True},
        "move_path": {"source": journal, "target": "gone.jsonl"},
        "make_dir": {"path": f"{run}/more"},
    }


async def test_no_tool_reaches_the_runs_of_other_settings(runs: Path, work: Path, opens: Opens) -> None:
    """Each call is denied by name, and nothing of the run has changed."""
    before = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    async with opens(enable=WRITES, mode="headless") as runtime:
        found: dict[str, Outcome] = {name: await runtime.call(name, args) for name, args in calls(runs, work).items()}
    codes = {name: outcome.error.code if outcome.error else "ok" for name, outcome in found.items()}
    assert codes == dict.fromkeys(codes, "PATH_PROTECTED")
    assert {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()} == before


async def test_no_search_tells_of_the_runs_of_other_settings(runs: Path, opens: Opens) -> None:
    """Neither names nor lines; what was taken out of a file is not given back this way."""
    async with opens(mode="headless") as runtime:
        lines = await runtime.call("grep", {"pattern": "before", "glob": "**"})
        names = await runtime.call("find_files", {"pattern": "**/events.jsonl"})
        listed = await runtime.call("list_dir", {"path": ".", "depth": 5})
    assert (lines.data["matches"], names.data["paths"]) == ([], [])
    assert (listed.ok, "old" in listed.content) == (True, False)


async def test_a_programs_folder_of_the_same_name_stays_open(work: Path, opens: Opens) -> None:
    """`runs` without a journal in it belongs to the project."""
    (work / "runs" / "first").mkdir(parents=True)
    (work / "runs" / "first" / "run.json").write_text("{}")
    async with opens(enable=WRITES, mode="headless") as runtime:
        written = await runtime.call("write_file", {"path": "runs/first/result.txt", "content": "1"})
    assert written.ok


async def test_a_workspace_inside_a_run_is_no_less_a_workspace(work: Path) -> None:
    """Only what lies beneath a root is looked for: the run's own folder may be opened again as one."""
    settings: dict[str, Any] = {"runs_dir": "runs", "workspace": {"root": "run:workspace"}, "tools": {"enable": ["fs"]}}
    async with Runtime.open(work, config=settings, run_id="old") as runtime:
        assert (await runtime.call("write_file", {"path": "a.txt", "content": "1"})).ok
    async with Runtime.open(work / "runs" / "old" / "workspace", config={"tools": {"enable": ["fs"]}}) as runtime:
        assert (await runtime.call("read_file", {"path": "a.txt"})).ok


@pytest.mark.parametrize("target", [".", "src", ".."])
async def test_what_is_laid_out_like_a_run_takes_nothing_else_away(work: Path, opens: Opens, target: str) -> None:
    """Neither a link in a usual place, nor files that a tool can write itself, withhold a project from later runs."""
    (work / "src").mkdir()
    for folder in (work / "fake", work / "src" / "fake", work.parent / "fake", work / ".agent" / "runs" / "fake"):
        folder.mkdir(parents=True)
        (folder / "events.jsonl").write_text("")
        (folder / "run.json").write_text("{}")
    (work / "runs").symlink_to(target)
    for name in ("a.txt", "src/b.txt", ".agent/runs/c.txt"):
        (work / name).write_text("mine")
    async with opens(enable=WRITES, mode="headless") as runtime:
        read = [await runtime.call("read_file", {"path": name}) for name in ("a.txt", "src/b.txt", ".agent/runs/c.txt")]
    assert [outcome.content for outcome in read] == ["mine"] * 3


@pytest.mark.parametrize("inside", ["", "old"])
async def test_a_workspace_opened_in_a_folder_of_runs_has_nothing_to_reach(work: Path, inside: str) -> None:
    """Its journals are what runs were recorded in."""
    async with Runtime.open(work, config={"runs_dir": "kept"}, run_id="old"):
        pass
    async with Runtime.open(work / "kept" / inside, config={"tools": {"enable": ["fs"]}}, mode="headless") as runtime:
        journal = "events.jsonl" if inside else "old/events.jsonl"
        calls = [
            ("read_file", {"path": journal}),
            ("write_file", {"path": journal, "content": "", "mode": "overwrite"}),
        ]
        found = [await runtime.call(name, args) for name, args in calls]
    assert [outcome.error.code if outcome.error else "" for outcome in found] == ["PATH_PROTECTED"] * 2

"""Full or read-only disks, no descriptors, a jumping clock: told within a second, nothing unrecorded, gone on after."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faults._small_disk import fill, mount, small_disk_of
from handrail import Outcome, Runtime
from handrail.errors import RunFault
from handrail.store.reader import events, verify
from handrail.testing import FixedClock

ENABLE = {"tools": {"enable": ["fs"]}, "limits": {"breaker_failures": 10**6, "max_repeats": 10**6}}
TOLD = {"JOURNAL_UNAVAILABLE", "IO_ERROR"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes of its own."""
    with small_disk_of(4 << 20, tmp_path) as place:
        yield place


async def told(runtime: Runtime, name: str, args: dict[str, Any]) -> Outcome:
    """Make a call that must end within a second."""
    began = time.monotonic()
    outcome = await runtime.call(name, args)
    assert time.monotonic() - began < 1
    return outcome


async def test_a_full_state_disk_stops_changes_and_they_work_again_with_room(
    small_disk: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is written whose start is not on record."""
    monkeypatch.setenv("XDG_STATE_HOME", str(small_disk / "state"))
    async with Runtime.open(work, config=ENABLE, run_id="r") as runtime:
        folder = runtime.parts.folder.path
        first = await told(runtime, "write_file", {"path": "first.txt", "content": "x"})
        filler = fill(small_disk)
        refused = []
        for number in range(40):
            path = f"refused{number}.txt"
            outcome = await told(runtime, "write_file", {"path": path, "content": "y" * 3000})
            refused.append((path, outcome))
        recorded = {event["call_id"] for event in events(folder) if event["kind"] == "tool.started"}
        written = [path for path, outcome in refused if (work / path).exists() and outcome.call_id not in recorded]
        codes = {outcome.error.code for _, outcome in refused if outcome.error is not None}
        filler.unlink()
        again = await told(runtime, "write_file", {"path": "again.txt", "content": "x"})
        read = await told(runtime, "read_file", {"path": "again.txt"})
    assert first.ok, first.content
    assert written == []
    assert "JOURNAL_UNAVAILABLE" in codes
    assert codes <= TOLD
    assert (again.ok, read.ok) == (True, True), again.content
    assert verify(folder).ok


async def test_a_full_workspace_disk_leaves_files_as_they_were(small_disk: Path) -> None:
    """IO_ERROR with its number, the old content whole, no leftovers; with room it works."""
    work = small_disk / "work"
    work.mkdir()
    (work / "old.txt").write_text("old\n" * 1000)
    async with Runtime.open(work, config=ENABLE) as runtime:
        filler = fill(small_disk)
        names = {path.name for path in work.iterdir()}
        made = await told(runtime, "write_file", {"path": "new.txt", "content": "x" * 100_000})
        edit = {"path": "old.txt", "edits": [{"old": "old\n", "new": "new text\n" * 10, "match": "all"}]}
        edited = await told(runtime, "edit_file", edit)
        kept = {path.name for path in work.iterdir()}, (work / "old.txt").read_text()
        filler.unlink()
        again = await told(runtime, "edit_file", edit)
    assert made.error is not None
    assert edited.error is not None
    assert (made.error.code, edited.error.code) == ("IO_ERROR", "IO_ERROR")
    assert (made.error.details["errno"], edited.error.details["errno"]) == (28, 28)
    assert kept == (names, "old\n" * 1000)
    assert again.ok, again.content


async def test_a_state_disk_that_becomes_read_only_stops_everything_that_changes(
    small_disk: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening says so too, and after it is writable again the run goes on."""
    monkeypatch.setenv("XDG_STATE_HOME", str(small_disk / "state"))
    async with Runtime.open(work, config=ENABLE, run_id="r") as runtime:
        folder = runtime.parts.folder.path
        assert (await told(runtime, "write_file", {"path": "first.txt", "content": "x"})).ok
    mount(small_disk, "-o", "remount,ro")
    with pytest.raises(RunFault) as caught:
        async with Runtime.open(work, config=ENABLE, run_id="r"):
            pass
    assert caught.value.code == "JOURNAL_UNAVAILABLE"
    mount(small_disk, "-o", "remount,rw")
    async with Runtime.open(work, config=ENABLE, run_id="r") as runtime:
        assert (await told(runtime, "write_file", {"path": "again.txt", "content": "x"})).ok
    assert verify(folder).ok


# ── no descriptors left ──────────────────────────────────────────────────────────────────────


async def without_descriptors(work: str) -> dict[str, Any]:
    """Use all descriptors up, make calls, give some back, make them again."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    codes: list[str] = []
    async with Runtime.open(work, config=ENABLE, run_id="r") as runtime:
        calls: list[tuple[str, dict[str, Any]]] = [
            ("write_file", {"path": "new.txt", "content": "x"}),
            ("edit_file", {"path": "a.txt", "edits": [{"old": "a", "new": "b"}]}),
            ("read_file", {"path": "a.txt"}),
            ("list_dir", {}),
            ("grep", {"pattern": "a"}),
        ]
        await runtime.call("read_file", {"path": "a.txt"})
        taken = []
        while True:
            try:
                taken.append(os.open("/dev/null", os.O_RDONLY))
            except OSError:
                break
        began = time.monotonic()
        for name, args in calls:
            outcome = await runtime.call(name, args)
            codes.append("ok" if outcome.error is None else outcome.error.code)
        seconds = time.monotonic() - began
        for handle in taken:
            os.close(handle)
        untouched = Path(work, "a.txt").read_text() == "a" and not Path(work, "new.txt").exists()
        after = [(await runtime.call(name, args)).ok for name, args in calls]
        folder = str(runtime.parts.folder.path)
    return {"codes": codes, "seconds": seconds, "untouched": untouched, "after": after, "folder": folder}


def test_without_descriptors_calls_fail_clearly_and_work_again(work: Path) -> None:
    """IO_ERROR or JOURNAL_UNAVAILABLE each, nothing changed; with descriptors all of them work."""
    (work / "a.txt").write_text("a")
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, __file__, str(work)], capture_output=True, text=True, check=False, env=here)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert set(found["codes"]) <= TOLD
    assert found["untouched"]
    assert found["seconds"] < 5
    assert found["after"] == [True, True, True, True, True]
    assert verify(Path(found["folder"])).ok


# ── a clock that jumps ───────────────────────────────────────────────────────────────────────


async def test_a_jumping_clock_changes_only_timestamps(work: Path) -> None:
    """Days ahead and years back between calls: the same events in the same order, and undo works."""
    kinds: list[list[str]] = []
    for number, jumps in enumerate(((0.0, 0.0, 0.0, 0.0), (86_400.0, -(10.0**9), 10.0**9, -1.0))):
        clock, name = FixedClock(), f"f{number}.txt"
        async with Runtime.open(work, config=ENABLE, run_id=f"r{number}", clock=clock) as runtime:
            outcomes: list[Outcome] = []
            calls: list[tuple[str, dict[str, Any]]] = [
                ("write_file", {"path": name, "content": "one\n"}),
                ("edit_file", {"path": name, "edits": [{"old": "one", "new": "two"}]}),
                ("read_file", {"path": name}),
                ("write_file", {"path": name, "content": "three\n", "mode": "append"}),
            ]
            for jump, (tool, args) in zip(jumps, calls, strict=True):
                clock._now += jump  # the wall clock alone: the other one never goes back
                outcomes.append(await runtime.call(tool, args, idempotency_key=f"{tool}{len(outcomes)}"))
            undone = await runtime.undo(outcomes[-1].call_id)
            folder = runtime.parts.folder.path
        async with Runtime.open(work, config=ENABLE, run_id=f"r{number}", clock=clock) as runtime:
            clock._now -= 10.0**8
            replayed = await runtime.call("read_file", {"path": name}, idempotency_key="read_file2")
        found = list(events(folder))
        kinds.append([event["kind"] for event in found])
        assert [outcome.ok for outcome in (*outcomes, undone)] == [True] * 5
        assert replayed == outcomes[2]
        assert (work / name).read_text() == "two\n"
        assert [event["seq"] for event in found] == list(range(1, len(found) + 1))
        assert verify(folder).ok
    assert kinds[0] == kinds[1]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(without_descriptors(sys.argv[1]))))

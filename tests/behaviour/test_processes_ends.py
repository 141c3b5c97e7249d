"""Whatever goes wrong after a program's end: what it made is dealt with, told, and its place is free again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox, run, runtime, until
from handrail import Runtime
from handrail.errors import Code, Problem
from handrail.processes import scratch
from handrail.store.reader import events

MOST = 8 * 1024 * 1024
QUICK = "echo 1 > made; echo '[tools]' > handrail.toml; head -c 16777216 /dev/zero > $1/large"
DEEP = """import os, sys, time
open("made", "w").write("1")
os.chdir(sys.argv[1])
open("large", "wb").write(b"x" * 16777216)
for _ in range(1500):
    os.mkdir("d")
    os.chdir("d")
time.sleep(60)
"""


pytestmark = pytest.mark.usefixtures("removed")


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


def opened_with(work: Path, **exec_settings: Any) -> Runtime:
    """Open a runtime with little room in scratch."""
    rules = [{"effect": "allow", "touch": "proc.exec"}]
    settings = {"max_scratch_bytes": MOST, **exec_settings}
    return runtime(work, config={"exec": settings, "rules": rules}, mode="headless")


def scratch_of(opened: Runtime) -> str:
    """The scratch folder of a run."""
    return str(opened.parts.programs.made.host.scratch)


def quick(work: Path, opened: Runtime) -> str:
    """A line that fills scratch, and plants what no program may make."""
    (work / "quick.sh").write_text(QUICK)
    return f"bash quick.sh {scratch_of(opened)}"


def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what comes last after a program go wrong in a way that nobody foresaw."""

    def fails(folder: str) -> int:
        raise RecursionError(folder)

    monkeypatch.setattr(scratch, "emptied", fails)


async def test_a_tree_deeper_than_any_stack_in_scratch_is_no_trouble(work: Path) -> None:
    """The program is ended for it, all of it is gone, and what it changed is told."""
    (work / "deep.py").write_text(DEEP)
    async with opened_with(work) as opened:
        outcome = await run(opened, f"python3 deep.py {scratch_of(opened)}")
        left = list(Path(scratch_of(opened)).iterdir())
    assert outcome.error is not None
    assert (outcome.error.code, left) == (Code.EXIT_NONZERO, [])
    assert [change.path for change in outcome.changes] == ["made"]


async def test_an_unforeseen_failure_after_the_end_skips_no_step(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the program planted is taken away, and what it changed is on record."""
    failing(monkeypatch)
    async with opened_with(work) as opened:
        outcome = await run(opened, quick(work, opened))
    assert outcome.error is not None
    assert outcome.error.code == Code.INTERNAL
    assert "made" in [change.path for change in outcome.changes]
    assert not (work / "handrail.toml").exists()


async def test_a_cancel_after_the_end_skips_no_step(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller is told of it once all is seen to."""
    loop, empty = asyncio.get_running_loop(), scratch.emptied
    cancel: list[Callable[[], object]] = []

    def meanwhile(folder: str) -> int:
        loop.call_soon_threadsafe(cancel[0])
        return empty(folder)

    monkeypatch.setattr(scratch, "emptied", meanwhile)
    async with opened_with(work) as opened:
        calling = asyncio.ensure_future(run(opened, quick(work, opened)))
        cancel.append(calling.cancel)
        with pytest.raises(asyncio.CancelledError):
            await calling
        left = list(Path(scratch_of(opened)).iterdir())
        failed = [event for event in events(opened.parts.folder.path) if event["kind"] == "tool.failed"]
    assert [(event["code"], event["effect"]) for event in failed] == [("CANCELLED", "done")]
    assert '"made"' in json.dumps(failed[0]["files_changed"])
    assert (left, (work / "made").exists(), (work / "handrail.toml").exists()) == ([], True, False)


async def test_a_job_whose_end_cannot_be_seen_to_whole_has_ended(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, what it changed is told, and its slot is free."""
    failing(monkeypatch)
    async with opened_with(work, max_jobs=1) as opened:
        await run(opened, quick(work, opened), background=True)
        await until(lambda: not opened.parts.programs.made.jobs.all()[0].running)
        read = await opened.call("job_read", {"job": "job-1", "cursor": 0})
        another = await run(opened, "true", background=True)
    assert "made" in [change.path for change in read.changes]
    assert "[not all that it leaves behind could be seen to (RecursionError)]" in read.data["text"]
    assert (another.ok, (work / "handrail.toml").exists()) == (True, False)


async def test_no_more_jobs_than_may_are_started_at_once(work: Path) -> None:
    """Calls at the same time have no more slots together than one after the other."""
    async with opened_with(work, max_jobs=2) as opened:
        outcomes = await asyncio.gather(*(run(opened, f"sleep 6{number}", background=True) for number in range(8)))
        jobs = opened.parts.programs.made.jobs.all()
    refused = [outcome.error.code for outcome in outcomes if outcome.error is not None]
    assert (refused, len(jobs)) == ([Code.BUDGET_EXHAUSTED] * 6, 2)


async def test_a_job_that_could_not_be_started_takes_no_slot(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failing is not running."""

    async def fails(*_: Any) -> Any:
        raise Problem(Code.SANDBOX_UNAVAILABLE, "nothing was run")

    async with opened_with(work, max_jobs=1) as opened:
        with monkeypatch.context() as without:
            without.setattr(opened.parts.programs.made.host, "spawn", fails)
            first = await run(opened, "true", background=True)
        second = await run(opened, "true", background=True)
    assert first.error is not None
    assert (first.error.code, second.ok) == (Code.SANDBOX_UNAVAILABLE, True)

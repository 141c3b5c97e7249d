"""Programs in the background: read, fed, stopped, and gone with the runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from behaviour._commands import alive, gone_within, need_sandbox, run, runtime, until
from handrail import Outcome, Runtime
from handrail.errors import Code
from handrail.output.redact import MARK


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


async def read(opened: Runtime, job: str = "job-1", wait: float = 5.0, cursor: int | None = None) -> Outcome:
    """Read a job."""
    return await opened.call("job_read", {"job": job, "wait_seconds": wait, "cursor": cursor})


async def all_of(opened: Runtime, job: str = "job-1") -> list[str]:
    """Every text that reading a job to its end gives, in order."""
    texts = []
    while True:
        outcome = await read(opened, job)
        texts.append(outcome.data["text"])
        if not outcome.data["state"]["running"] and not outcome.data["text"]:
            return texts


async def test_reading_gives_each_byte_once(work: Path) -> None:
    """Both streams as they came; the end is told with its code."""
    async with runtime(work) as opened:
        started = await run(
            opened, "for i in 1 2 3 4 5; do echo $i; echo e$i >&2; sleep 0.05; done; exit 4", background=True
        )
        assert (started.data["job"], started.data["exit_code"]) == ("job-1", None)
        texts = await all_of(opened)
        last = await read(opened)
        again = await read(opened, cursor=0)
    assert "".join(texts) == "".join(f"{n}\ne{n}\n" for n in range(1, 6))
    assert last.data["text"] == ""
    assert last.data["state"]["exit_code"] == 4
    assert again.data["text"] == "".join(texts)


async def test_a_lot_of_output_is_read_in_parts_that_join(work: Path) -> None:
    """No part is larger than what may be shown, and none is missing."""
    async with runtime(work) as opened:
        await run(opened, "seq 1 60000", background=True)
        texts = await all_of(opened)
    assert "".join(texts) == "".join(f"{number}\n" for number in range(1, 60001))
    assert max(len(text) for text in texts) <= 51200


async def test_what_is_no_longer_kept_is_counted(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ring on disk is bounded; who reads late is told what was lost."""
    monkeypatch.setattr("handrail.processes.ring.Ring.__init__.__defaults__", (10_000,))
    async with runtime(work) as opened:
        await run(opened, "seq 100000 120000", background=True)
        await until(lambda: not opened.parts.programs.made.jobs.all()[0].running)
        outcome = await read(opened)
    total = 7 * 20001
    assert outcome.data["skipped"] >= total - 10_000 - 7
    assert outcome.data["cursor"] == total
    assert outcome.data["text"].endswith("120000\n")
    assert "no longer kept" in outcome.summary


async def test_input_reaches_a_prompt_and_its_end_is_told(work: Path) -> None:
    """A prompt without a line end is shown once nothing more comes."""
    async with runtime(work) as opened:
        await run(opened, "printf 'name? '; read name; echo hello $name; cat; echo over", background=True)
        prompt = await read(opened)
        sent = await opened.call("job_input", {"job": "job-1", "text": "ann\nmore\n", "close": True})
        rest = "".join(await all_of(opened))
        late = await opened.call("job_input", {"job": "job-1", "text": "x"})
    assert prompt.data["text"] == "name? "
    assert sent.ok
    assert rest == "hello ann\nmore\nover\n"
    assert late.error is not None
    assert late.error.code == Code.IO_ERROR


async def test_a_secret_in_two_writes_is_hidden(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output of jobs is redacted as a stream."""
    monkeypatch.setenv("SERVICE_PASSWORD", "hunter2-9f31-aaaa-zz")
    (work / "one").write_text("say hunter2-9f31")
    (work / "two").write_text("-aaaa-zz\n")
    async with runtime(work) as opened:
        await run(opened, "cat one; sleep 0.1; cat two", background=True)
        jobs = opened.parts.programs.made.jobs
        await until(lambda: not jobs.all()[0].running)
        kept = jobs._find("job-1").output.ring.read(0, 1000)[0]
        texts = await all_of(opened)
    assert kept == "".join(texts) == f"say {MARK}\n"


async def test_stopping_ends_the_tree(work: Path) -> None:
    """Also one that does not want to."""
    command = "trap '' TERM; (trap '' TERM; exec -a handrail-j1 sleep 60) & exec -a handrail-j1 sleep 60"
    async with runtime(work) as opened:
        await run(opened, command, background=True)
        await until(lambda: len(alive("handrail-j1")) >= 2)
        stopped = await opened.call("job_stop", {"job": "job-1"})
        assert gone_within("handrail-j1", 0)
        again = await opened.call("job_stop", {"job": "job-1"})
        listed = await opened.call("job_list", {})
    assert stopped.data["running"] is False
    assert stopped.data["signal"] in ("SIGKILL", "SIGTERM")
    assert again.ok
    assert [job["job"] for job in listed.data["jobs"]] == ["job-1"]


async def test_no_job_survives_the_runtime(work: Path) -> None:
    """Closing ends them all."""
    async with runtime(work) as opened:
        for _ in range(3):
            assert (await run(opened, "exec -a handrail-j2 sleep 60", background=True)).ok
        await until(lambda: len(alive("handrail-j2")) == 3)
    assert alive("handrail-j2") == []


async def test_no_more_jobs_run_than_may(work: Path) -> None:
    """The refusal names one to stop; an ended one makes room."""
    async with runtime(work, config={"exec": {"max_jobs": 1}}) as opened:
        await run(opened, "sleep 60", background=True)
        refused = await run(opened, "sleep 61", background=True)
        assert refused.error is not None
        assert refused.error.code == Code.BUDGET_EXHAUSTED
        assert refused.error.next_call == {"tool": "job_stop", "args": {"job": "job-1"}}
        await opened.call("job_stop", {"job": "job-1"})
        assert (await run(opened, "sleep 62", background=True)).data["job"] == "job-2"


async def test_an_unknown_job_is_named_with_those_there_are(work: Path) -> None:
    """For every tool that takes one."""
    async with runtime(work) as opened:
        await run(opened, "true", background=True)
        for tool in ("job_read", "job_input", "job_stop"):
            outcome = await opened.call(tool, {"job": "job-9"})
            assert outcome.error is not None
            assert outcome.error.code == Code.NOT_FOUND
            assert outcome.error.details["jobs"] == ["job-1"]


async def test_reading_and_stopping_ask_nobody_but_input_does(work: Path) -> None:
    """What a program is told may be a command to it."""
    from handrail.testing import ScriptedApprover

    approver = ScriptedApprover("once")
    async with runtime(work, approver=approver) as opened:
        await run(opened, "cat", background=True)
        asked = len(approver.asked)
        await read(opened, wait=0)
        await opened.call("job_list", {})
        assert len(approver.asked) == asked
        await opened.call("job_input", {"job": "job-1", "text": "x\n"})
        assert len(approver.asked) == asked + 1
        await opened.call("job_stop", {"job": "job-1"})
        assert len(approver.asked) == asked + 1


async def test_what_changed_while_a_job_ran_is_told_with_its_end(work: Path) -> None:
    """By the call that first sees it, and by no other."""
    (work / "old.txt").write_text("x\n")
    async with runtime(work) as opened:
        await run(opened, "echo new > new.txt; rm old.txt; echo done", background=True)
        seen = []
        while True:
            outcome = await read(opened)
            seen += [(change.path, change.op) for change in outcome.changes]
            if not outcome.data["state"]["running"] and not outcome.data["text"]:
                break
        stopped = await opened.call("job_stop", {"job": "job-1"})
    assert sorted(seen) == [("new.txt", "create"), ("old.txt", "delete")]
    assert stopped.changes == ()

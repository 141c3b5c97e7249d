"""Programs in the background: started by one call, read, fed and stopped by others, gone with the runtime."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from handrail.errors import Code, Problem
from handrail.ports import JobOutput, JobState, Program, Work
from handrail.processes.effects import Look
from handrail.processes.host import Host
from handrail.processes.pipes import Feeder, Reader, pipe
from handrail.processes.planted import Guard, guarded
from handrail.processes.ring import Ring
from handrail.processes.running import (
    DRAIN_SECONDS,
    GRACE_SECONDS,
    Tree,
    changed_since,
    look,
    to_its_end,
)
from handrail.processes.scratch import given_back, left_in_scratch, watch_scratch
from handrail.processes.sentry import Sentry
from handrail.processes.sink import Decoded, Hidden
from handrail.sandbox.launching import Child, Ended
from handrail.words import Change

IDLE_SECONDS = 0.2  # after this what has no line end yet is shown, too: a prompt waits for an answer
INPUT_SECONDS = 10.0  # that a job may take to read what it is sent
_ENDED_KEPT = 64  # ended jobs that can still be read


class Output:
    """What a job writes: redacted as a stream, kept in a ring on disk."""

    def __init__(self, host: Host) -> None:
        self._decoded, self._secrets = Decoded(), Hidden(host.redactor)
        self.ring = Ring(host.aside)
        self.raw = 0

    def feed(self, data: bytes) -> None:
        """Take more bytes."""
        self.raw += len(data)
        self.ring.write(self._secrets.feed(self._decoded.feed(data)))

    def flush(self) -> None:
        """Show what has no line end yet; what comes later is still redacted together with it."""
        self.ring.write(self._secrets.flush())

    def finish(self) -> None:
        """Take the end."""
        self.ring.write(self._secrets.feed(self._decoded.feed(b"", final=True)) + self._secrets.finish())

    def say(self, notices: Sequence[str]) -> None:
        """Add what the runtime has to say of the job."""
        self.ring.write("".join(f"\n[{notice}]\n" for notice in notices))


@dataclass(slots=True)
class Job:
    """One program in the background."""

    name: str
    argv: tuple[str, ...]
    started: float
    child: Child
    tree: Tree
    output: Output
    reader: Reader
    feeder: Feeder
    news: asyncio.Event = field(default_factory=asyncio.Event)  # set at each new byte, and at the end
    flooded: asyncio.Event = field(default_factory=asyncio.Event)
    ended: Ended | None = None
    overfull: bool = False  # ended for filling the scratch folder
    cursor: int = 0  # where reading without a cursor goes on
    changes: list[Change] = field(default_factory=list)  # found at its end; told by the call that first sees it
    task: asyncio.Task[None] | None = None

    def state(self) -> JobState:
        """How it stands."""
        ended = self.ended
        return JobState(
            self.name, self.child.pid, self.argv, self.started, ended is None,
            None if ended is None else ended.exit_code,
            None if ended is None else ended.signal,
            self.output.raw,
        )  # fmt: skip


class Jobs:
    """The background programs of a run."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._jobs: dict[str, Job] = {}
        self._count = 0
        self._starting = 0  # have a slot, and no job yet

    def all(self) -> tuple[JobState, ...]:
        """Every job, ended ones too."""
        return tuple(job.state() for job in self._jobs.values())

    async def start(self, work: Work, program: Program) -> JobState:
        """Start one; BUDGET_EXHAUSTED where as many run as may."""
        with self._slot():
            return await self._start(work, program)

    @contextlib.contextmanager
    def _slot(self) -> Iterator[None]:
        """Hold a slot from before the first wait until there is a job to be counted, or none after all."""
        running = [job.name for job in self._jobs.values() if job.ended is None]
        if len(running) + self._starting >= self._host.terms.max_jobs:
            stop = {"tool": "job_stop", "args": {"job": running[0]}} if running else {"tool": "job_list", "args": {}}
            raise Problem(
                Code.BUDGET_EXHAUSTED,
                f"{len(running) + self._starting} programs run in the background already (exec.max_jobs); "
                "stop one first.",
                next_call=stop,
                jobs=running,
            )
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1

    async def _start(self, work: Work, program: Program) -> JobState:
        if self._host.sentries:
            await self._host.judged()
        given_back(self._host.scratch)
        before = await look(self._host)
        guard = await guarded(self._host, work, before)
        try:
            job = await self._started(work, program)
        except BaseException:
            guard.dismiss()
            raise
        self._jobs[job.name] = job
        job.task = asyncio.ensure_future(self._attend(job, work, guard, before))
        self._forget()
        return job.state()

    async def read(self, work: Work, name: str, cursor: int | None, wait_seconds: float) -> JobOutput:
        """Give what a job wrote since a cursor, waiting a while for something new."""
        job = self._find(name)
        start = job.cursor if cursor is None else cursor
        await self._news(job, start, wait_seconds)
        _tell_changes(job, work)
        text, at, skipped = job.output.ring.read(start, self._host.terms.room.max_bytes)
        job.cursor = at
        return JobOutput(job.state(), text, at, skipped)

    async def write(self, name: str, data: bytes, close: bool) -> JobState:
        """Send input to a job."""
        job = self._find(name)
        sent = await job.feeder.send(data, INPUT_SECONDS)
        if sent < len(data):
            why = "it has ended" if job.ended is not None else "it does not read its input, or has closed it"
            raise Problem(Code.IO_ERROR, f"{name} took {sent} of {len(data)} bytes: {why}.", job=name, sent=sent)
        if close:
            job.feeder.close()
        return job.state()

    async def stop(self, work: Work, name: str) -> JobState:
        """End a job with its whole tree."""
        job = self._find(name)
        await to_its_end(self._end(job, GRACE_SECONDS), give_up=True)
        _tell_changes(job, work)
        return job.state()

    async def close(self) -> None:
        """End them all."""
        running = [self._end(job, 0.0) for job in self._jobs.values()]
        await asyncio.gather(*running, return_exceptions=True)
        for job in self._jobs.values():
            job.output.ring.close()
        self._jobs.clear()

    async def _started(self, work: Work, program: Program) -> Job:
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            (read, write), (to_read, to_write) = pipe(), pipe()
            for fd in (write, to_read):
                theirs.callback(os.close, fd)
            for fd in (read, to_write):
                ours.callback(os.close, fd)
            output = Output(self._host)
            ours.callback(output.ring.close)
            child = await self._host.spawn(work, program, (to_read, write, write))
            ours.pop_all()
        self._count += 1
        name, host = f"job-{self._count}", self._host
        news, flooded, most = asyncio.Event(), asyncio.Event(), host.terms.kill_output_bytes

        def count(_: int) -> None:
            news.set()
            if output.raw > most:
                flooded.set()

        reader = Reader(read, output, count)
        feeder = Feeder(to_write)
        if program.stdin:
            feeding = asyncio.ensure_future(feeder.send(program.stdin))
            feeding.add_done_callback(_looked_at)
        return Job(name, program.argv, host.clock.now(), child, Tree(child), output, reader, feeder, news, flooded)

    async def _attend(self, job: Job, work: Work, guard: Guard, before: Look) -> None:
        """See a job through, and to all that it leaves: whatever fails on the way, it is known to have ended."""
        try:
            async with contextlib.AsyncExitStack() as steps:  # the last one comes first, each whatever became of others
                steps.push_async_callback(self._over, job)
                steps.push_async_callback(self._scratch_seen, job)
                steps.push_async_callback(self._changes_seen, job, work, before)
                steps.callback(guard.dismiss)
                steps.push_async_callback(self._guard_seen, job, guard)
                steps.push_async_callback(self._drained, job)
                steps.push_async_callback(job.tree.end, 0.0)
                if job.child.listener is not None and self._host.serve is not None:
                    serving = self._host.serve(job.child.listener, work)
                    served = await steps.enter_async_context(serving)
                    steps.callback(lambda: _say(job, served.describe_refusals()))
                await self._watched(job, guard)
        except Exception as error:
            _say(job, [f"not all that it leaves behind could be seen to ({type(error).__name__})"])
            raise

    async def _watched(self, job: Job, guard: Guard) -> None:
        """Wait for the end of a job; a flood ends it."""
        scratch = watch_scratch(self._host, job.child, lambda _: self._overfull(job))
        flood = asyncio.ensure_future(self._flooded(job))
        sentry = Sentry(guard, lambda notices: _say(job, notices), self._host.sentries)
        try:
            await asyncio.shield(job.tree.ended)
        finally:
            scratch.stop()
            flood.cancel()
            await sentry.stop()

    async def _drained(self, job: Job) -> None:
        """Take in the last output."""
        if not job.reader.ended.done():
            await asyncio.wait((job.reader.ended,), timeout=DRAIN_SECONDS)
        job.feeder.close()
        await job.reader.stop()
        job.output.finish()
        if job.flooded.is_set():
            job.output.say(["ended: it wrote more than exec.kill_output_bytes"])

    async def _guard_seen(self, job: Job, guard: Guard) -> None:
        job.output.say(await guard.after())

    async def _changes_seen(self, job: Job, work: Work, before: Look) -> None:
        job.changes, notices = await changed_since(self._host, before)
        self._host.warn(work, notices)
        job.output.say(notices)

    async def _scratch_seen(self, job: Job) -> None:
        job.output.say(await left_in_scratch(self._host, full=job.overfull))

    async def _over(self, job: Job) -> None:
        job.ended = await job.tree.end(0.0)
        job.news.set()

    def _overfull(self, job: Job) -> None:
        """End a job that fills the scratch folder: it reads as killed, and its output says why."""
        job.overfull = True
        job.output.say(["ended: the scratch folder held more than exec.max_scratch_bytes"])
        job.child.kill()

    async def _flooded(self, job: Job) -> None:
        await job.flooded.wait()
        await job.tree.end(0.0)

    async def _end(self, job: Job, grace_seconds: float) -> None:
        if job.ended is None:
            await job.tree.end(grace_seconds)
        if job.task is not None:
            await asyncio.wait((job.task,))
            job.task.exception()

    async def _news(self, job: Job, start: int, wait_seconds: float) -> None:
        """Wait until there is something after a cursor, the job has ended, or the time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_seconds
        while job.output.ring.end <= start and job.ended is None:
            job.news.clear()
            left = until - loop.time()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(left, IDLE_SECONDS))):
                    await job.news.wait()
                    continue
            if job.output.ring.end <= start:
                job.output.flush()
            if left <= IDLE_SECONDS:
                return

    def _find(self, name: str) -> Job:
        job = self._jobs.get(name)
        if job is None:
            known = list(self._jobs)
            told = f"there are: {', '.join(known)}" if known else "none was started in this run"
            raise Problem(
                Code.NOT_FOUND,
                f"There is no job {name!r}; {told}.",
                next_call={"tool": "job_list", "args": {}},
                jobs=known,
            )
        return job

    def _forget(self) -> None:
        """Keep the last ended jobs only."""
        ended = [job for job in self._jobs.values() if job.ended is not None]
        for job in ended[:-_ENDED_KEPT]:
            job.output.ring.close()
            del self._jobs[job.name]


def _say(job: Job, notices: Sequence[str]) -> None:
    job.output.say(notices)
    job.news.set()


def _tell_changes(job: Job, work: Work) -> None:
    """Record what changed while a job ran with the first call that sees its end."""
    work.files.changes.extend(job.changes)
    job.changes = []


def _looked_at(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()

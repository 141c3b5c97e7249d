"""The programs of one call: what tools get."""

from __future__ import annotations

from collections.abc import Sequence

from handrail.errors import Code, Problem
from handrail.ports import Finished, JobOutput, JobState, Program, Work
from handrail.processes.host import Host
from handrail.processes.jobs import Jobs
from handrail.processes.running import Running


class RunPrograms:
    """All programs of a run; `bind` gives those of one call."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.jobs = Jobs(host)

    def bind(self, work: Work) -> BoundPrograms:
        """Give the programs of one call; its sandbox is begun with, if there is one to begin with."""
        self.host.prepare(work)
        return BoundPrograms(self, work)

    async def close(self) -> None:
        """End every job with its tree, then the sandbox itself."""
        await self.jobs.close()
        await self.host.tidied()
        self.host.close()


class BoundPrograms:
    """Starts programs for one call, and records what they change with it."""

    __slots__ = ("_host", "_jobs", "_work")

    def __init__(self, programs: RunPrograms, work: Work) -> None:
        self._host, self._jobs, self._work = programs.host, programs.jobs, work

    async def run(self, program: Program) -> Finished:
        """Run a program to its end, its time limit or cancelling; nothing of it is left afterwards."""
        return await Running(self._host, self._work, program).run()

    async def start(self, program: Program) -> JobState:
        """Start a program in the background; it lives at most as long as the runtime."""
        if self._host.reviews(self._work):
            raise Problem(
                Code.POLICY_DENIED,
                'exec.workspace is "review": what a program in the background changes cannot be reviewed. '
                "Run it in the foreground.",
                rule="exec.workspace",
            )
        return await self._jobs.start(self._work, program)

    def jobs(self) -> Sequence[JobState]:
        """The programs in the background, ended ones too."""
        return self._jobs.all()

    async def read_job(self, job: str, cursor: int | None, wait_seconds: float) -> JobOutput:
        """Give what a job wrote since a cursor, waiting for something new; NOT_FOUND names the jobs there are."""
        return await self._jobs.read(self._work, job, cursor, wait_seconds)

    async def write_job(self, job: str, data: bytes, *, close: bool = False) -> JobState:
        """Send input to a job, and end its input where asked."""
        return await self._jobs.write(job, data, close)

    async def stop_job(self, job: str) -> JobState:
        """End a job with its whole tree."""
        return await self._jobs.stop(self._work, job)

"""Programs that never run: a port that answers as told and keeps what it was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from handrail.ports import Captured, Finished, JobOutput, JobState, Program

STATE = JobState("job-1", 41, ("/bin/bash", "-c", "make"), 1_700_000_000.0, running=True, bytes=7)
DONE = Finished(0, None, False, Captured("out\n", 4, 1), Captured(), 0.25, confined="native A")


@dataclass
class ScriptedPrograms:
    """Answers every program with the same end."""

    finished: Finished = DONE
    state: JobState = STATE
    output: JobOutput = field(default_factory=lambda: JobOutput(STATE, "line\n", 5))
    asked: list[Any] = field(default_factory=list)

    async def run(self, program: Program) -> Finished:
        """Note what should run."""
        self.asked.append(program)
        return self.finished

    async def start(self, program: Program) -> JobState:
        """Note what should run in the background."""
        self.asked.append(program)
        return self.state

    def jobs(self) -> Sequence[JobState]:
        """The one job."""
        return (self.state,)

    async def read_job(self, job: str, cursor: int | None, wait_seconds: float) -> JobOutput:
        """Note what was read."""
        self.asked.append((job, cursor, wait_seconds))
        return self.output

    async def write_job(self, job: str, data: bytes, *, close: bool = False) -> JobState:
        """Note what was sent."""
        self.asked.append((job, data, close))
        return self.state

    async def stop_job(self, job: str) -> JobState:
        """Note what was stopped."""
        self.asked.append(job)
        return self.state

"""What is told of a program in the background. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field

from handrail.ports import JobState

JobName = Annotated[str, Field(min_length=1, max_length=64), "as run_command or job_list named it"]


@dataclass(frozen=True, slots=True)
class JobInfo:
    """A program in the background."""

    job: str
    pid: int
    argv: list[str]
    started: str  # UTC
    running: bool
    exit_code: int | None
    signal: str | None
    bytes: int


def info(state: JobState) -> JobInfo:
    """A job as outcomes tell it."""
    started = datetime.fromtimestamp(state.started, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return JobInfo(
        state.job, state.pid, list(state.argv), started, state.running, state.exit_code, state.signal, state.bytes
    )


def standing(state: JobState) -> str:
    """How a job stands, in a few words."""
    if state.running:
        return f"{state.job} is running"
    if state.exit_code is not None:
        return f"{state.job} ended with exit code {state.exit_code}"
    return f"{state.job} was ended by {state.signal}"

"""Programs that tools start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol

from handrail.words import Place, Ref, noun


@noun
class Program:
    """What to run, and where: always an argument list, never a line for a shell to read."""

    argv: tuple[str, ...]
    cwd: Place | None = None  # None: the run's own scratch folder
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)  # beyond what settings let through
    timeout_seconds: float = 120.0
    reads: tuple[Place, ...] = ()  # what it may read besides the roots


@noun
class Captured:
    """One stream of a program: what is shown of it, and where the whole is kept."""

    text: str = ""  # head and tail, redacted, progress lines collapsed
    bytes: int = 0
    lines: int = 0
    cut: bool = False
    ref: Ref | None = None
    hidden: bool = False  # whether anything in the whole was hidden, shown or not
    by_lines: bool = False  # cut, though its bytes alone would have been shown


@noun
class Finished:
    """How a program ended."""

    exit_code: int | None  # None when a signal ended it
    signal: str | None
    timed_out: bool
    stdout: Captured
    stderr: Captured
    seconds: float
    flooded: bool = False  # ended because it wrote too much
    overfull: bool = False  # ended because its scratch folder held too much
    changed: tuple[str, ...] = ()  # what it created, changed or removed, as shown
    diff: str = ""  # of a reviewed change that was kept
    confined: str = ""  # "native A"
    warnings: tuple[str, ...] = ()
    unanswered: str = ""  # which host it reached for that nobody allowed, and what to do; said first
    unkept: str = ""  # which of its changes were not kept, and what to do; said first
    reasons: tuple[str, ...] = ()  # those of the warnings that explain why it failed
    caches: int = 0  # how many of the changed are in caches that are made again; they stand last


@noun
class JobState:
    """A program in the background."""

    job: str
    pid: int
    argv: tuple[str, ...]
    started: float  # wall clock
    running: bool
    exit_code: int | None = None
    signal: str | None = None
    bytes: int = 0  # written so far, both streams


@noun
class JobOutput:
    """What a background program wrote since a cursor; reading never repeats bytes."""

    state: JobState
    text: str
    cursor: int
    skipped: int = 0  # bytes between the cursor asked for and the first shown


class Processes(Protocol):
    """The only way tools start programs: confined, captured, and gone with their whole tree.

    Bound to one call: what programs change in the workspace is recorded with the call. Raises Problem
    SANDBOX_UNAVAILABLE (nothing was run), NOT_FOUND (no such program), IO_ERROR.
    """

    async def run(self, program: Program) -> Finished:
        """Run a program to its end, its time limit or cancelling; nothing of it is left afterwards."""

    async def start(self, program: Program) -> JobState:
        """Start a program in the background; it lives at most as long as the runtime."""

    def jobs(self) -> Sequence[JobState]:
        """The programs in the background, ended ones too."""

    async def read_job(self, job: str, cursor: int | None, wait_seconds: float) -> JobOutput:
        """Give what a job wrote since a cursor, waiting for something new; NOT_FOUND names the jobs there are."""

    async def write_job(self, job: str, data: bytes, *, close: bool = False) -> JobState:
        """Send input to a job, and end its input where asked."""

    async def stop_job(self, job: str) -> JobState:
        """End a job with its whole tree."""

"""Programs and linters that start nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from handrail.errors import Code, Problem
from handrail.ports import Finished, JobOutput, JobState, Linter, LintLook
from handrail.testing.scripts import Script, finished_of

if TYPE_CHECKING:
    from handrail.ports import Program
    from handrail.words import Place


class ScriptedProcesses:
    """Starts nothing, and keeps what it was asked to run in `ran`.

    Each answer is what a program printed, its exit code, a Finished, a Problem to raise, or a function of the Program
    that gives one of these. A job has written its answer at once, runs until it is stopped, and keeps its input in
    `inputs`.
    """

    def __init__(self, *answers: str | int | Finished | Problem | Callable[[Program], str | int | Finished]) -> None:
        self._script = Script(answers or ("",))
        self.ran: list[Program] = []
        self.inputs: dict[str, bytes] = {}
        self._jobs: dict[str, JobState] = {}
        self._wrote: dict[str, bytes] = {}
        self._cursors: dict[str, int] = {}

    async def run(self, program: Program) -> Finished:
        """Give the next answer."""
        self.ran.append(program)
        return finished_of(self._script.next(program))

    async def start(self, program: Program) -> JobState:
        """Begin a job that has written the next answer."""
        finished = await self.run(program)
        job = f"job_{len(self._jobs) + 1}"
        self._wrote[job] = (finished.stdout.text + finished.stderr.text).encode()
        self.inputs[job] = b""
        state = JobState(job, 0, program.argv, started=0.0, running=True, bytes=len(self._wrote[job]))
        self._jobs[job] = state
        return state

    def jobs(self) -> Sequence[JobState]:
        """All that were started."""
        return tuple(self._jobs.values())

    async def read_job(self, job: str, cursor: int | None, wait_seconds: float) -> JobOutput:  # noqa: ARG002
        """Give what the job wrote since a cursor, or since the last read."""
        state, wrote = self._job(job), self._wrote[job]
        start = self._cursors.get(job, 0) if cursor is None else cursor
        self._cursors[job] = len(wrote)
        return JobOutput(state, wrote[start:].decode(), len(wrote))

    async def write_job(self, job: str, data: bytes, *, close: bool = False) -> JobState:  # noqa: ARG002
        """Keep the input."""
        state = self._job(job)
        self.inputs[job] += data
        return state

    async def stop_job(self, job: str) -> JobState:
        """End the job."""
        state = self._job(job)
        ended = JobState(job, 0, state.argv, state.started, running=False, signal="SIGTERM", bytes=state.bytes)
        self._jobs[job] = ended
        return ended

    def _job(self, job: str) -> JobState:
        if job not in self._jobs:
            raise Problem(Code.NOT_FOUND, f"There is no job {job}.", jobs=list(self._jobs))
        return self._jobs[job]


class ScriptedLinters:
    """A linter that starts nothing, for files with one of the endings; answers are those of ScriptedProcesses.

    `checked` keeps what it was given to check; `before` is what files held before the run changed them.
    """

    def __init__(
        self,
        *answers: str | int | Finished | Problem | Callable[[bytes], str | int | Finished],
        endings: Sequence[str] = (".py",),
        form: str = "gcc",
        before: Mapping[str, bytes] | None = None,
    ) -> None:
        self._script = Script(answers or ("",))
        self._endings, self._form, self._before = tuple(endings), form, dict(before or {})
        self.checked: list[tuple[str, bytes]] = []
        self._looks: dict[str, LintLook] = {}

    def find(self, path: str) -> Linter | None:
        """The linter, for a file with one of the endings."""
        if not path.endswith(self._endings):
            return None
        return Linter("fake", "fakelint", ("fakelint", "{path}"), self._form)

    async def run(self, linter: Linter, place: Place, data: bytes) -> Finished:  # noqa: ARG002
        """Give the next answer."""
        self.checked.append((place.shown, data))
        return finished_of(self._script.next(data))

    def last(self, place: Place) -> LintLook | None:
        """The last look at a file."""
        return self._looks.get(place.shown)

    def looked(self, place: Place, look: LintLook) -> None:
        """Remember a look."""
        self._looks[place.shown] = look

    async def former(self, place: Place) -> bytes | None:
        """What the file held before."""
        return self._before.get(place.shown)

"""Making calls for callers that are gone: once each, after the usual second look, when a person has granted them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.errors import Code, Fault, Problem
from handrail.ports import Recorded
from handrail.service.open_runs import OpenRuns, open_runtime
from handrail.store.executions import Execution, Executions
from handrail.store.lock import is_open
from handrail.store.parking import on_behalf
from handrail.store.recovery import key_of, recover
from handrail.words import ErrorInfo, Outcome, Status

if TYPE_CHECKING:
    from handrail.runtime import Runtime
    from handrail.store.ledger import SqliteLedger

log = logging.getLogger("handrail.service")
MOST_AT_ONCE = 4
_LOOK_SECONDS = 1.0  # between two looks whether a caller has died
_TRIES, _PAUSE_SECONDS = 3, 2.0  # where the run or the disk is in the way
_LATER = frozenset({Code.JOURNAL_UNAVAILABLE, Code.RUN_BUSY})


class ParkedRunner:
    """Looks for granted calls that nobody else will make, and makes them."""

    def __init__(self, ledger: SqliteLedger, executions: Executions, runs: OpenRuns) -> None:
        self._ledger, self._executions, self._runs = ledger, executions, runs
        self._making: dict[str, asyncio.Task[None]] = {}
        self._tried: dict[str, tuple[int, float]] = {}  # how often, and when next
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._looked = 0.0
        self.on_end: Callable[[str], None] | None = None

    def look(self) -> None:
        """Begin what is to be made now; called after every change of the ledger, and now and then."""
        now = time.monotonic()
        dead = now - self._looked > _LOOK_SECONDS
        if dead:
            self._looked = now
            self._recover()
        for found in self._executions.granted():
            if found.request not in self._making and self._is_due(found, now, looks_at_locks=dead):
                task = asyncio.ensure_future(self._make(found))
                self._making[found.request] = task
                task.add_done_callback(lambda _, request=found.request: self._making.pop(request, None))  # type: ignore[misc]

    async def close(self) -> None:
        """Wait for what is being made; whoever asks for it next finds its outcome."""
        if self._making:
            await asyncio.wait(list(self._making.values()), timeout=5)

    def _recover(self) -> None:
        for found in self._executions.in_state("running"):
            if found.died:
                state = recover(self._executions, found)
                log.warning(
                    "the process that made the call of request %s died; it is %s", found.request, state or "due"
                )

    def _is_due(self, found: Execution, now: float, *, looks_at_locks: bool) -> bool:
        if found.opening is None or self._tried.get(found.request, (0, 0.0))[1] > now:
            return False
        if not found.parked:
            folder = found.opening.get("folder")
            if not looks_at_locks or not isinstance(folder, str) or is_open(Path(folder)) is not False:
                return False
            self._executions.park(found.request)
        return _can_make(self._ledger.find(found.request), found.opening)

    async def _make(self, found: Execution) -> None:
        """Make one call; what cannot be made as it was approved is closed with its reason."""
        async with self._slots:
            try:
                outcome = await self._call(found)
            except (Problem, Fault) as error:
                problem = error if isinstance(error, Problem) else Problem(Code.INTERNAL, str(error))
                outcome = _refused(found, self._ledger.find(found.request), problem)
            except Exception as error:
                log.exception("request %s could not be made", found.request)
                problem = Problem(Code.INTERNAL, f"The call could not be made ({type(error).__name__}); see the log.")
                outcome = _refused(found, self._ledger.find(found.request), problem)
        if outcome.error is not None and outcome.error.code in _LATER and self._tries_again(found.request):
            return
        self._executions.refuse(found.request, outcome)  # nothing where it was claimed: then it is done
        if self.on_end is not None:
            self.on_end(found.request)

    def _tries_again(self, request_id: str) -> bool:
        times, _ = self._tried.pop(request_id, (0, 0.0))
        if times + 1 >= _TRIES:
            return False
        self._tried[request_id] = (times + 1, time.monotonic() + _PAUSE_SECONDS)
        return True

    async def _call(self, found: Execution) -> Outcome:
        request = self._ledger.find(found.request).request
        args = self._ledger.args(found.request)
        assert found.opening is not None
        async with self._opened(found.opening, request.run_id, request.workspace) as runtime:
            with on_behalf():
                return await runtime.call(
                    request.tool,
                    args,
                    version=request.version,
                    approval=request.id,
                    idempotency_key=key_of(request.id),
                )

    @asynccontextmanager
    async def _opened(self, opening: Mapping[str, Any], run_id: str, workspace: str) -> AsyncIterator[Runtime]:
        """Open the caller's run where it is free, else a run of its own that names it."""
        held = self._runs.held(run_id)
        if held is not None:
            yield held
            return
        how = {name: opening[name] for name in ("caller", "asked_by", "flags")}
        config = opening["config"]
        how["config"] = Path(config) if isinstance(config, str) else config
        try:
            runtime = await open_runtime(opening["workspace"], run_id=run_id, **how)
        except Problem as problem:
            if problem.code is not Code.RUN_BUSY:
                raise
            runtime = await open_runtime(opening["workspace"], parent_run=run_id, **how)
        try:
            if runtime.kernel.parts.workspace != workspace:
                text = f"The call was approved in {workspace}, and the settings now lead elsewhere."
                raise Problem(Code.APPROVAL_DENIED, text)
            yield runtime
        finally:
            await runtime.__aexit__(None, None, None)


def _can_make(record: Recorded, opening: Mapping[str, Any]) -> bool:
    """Whether this process has the tool; those of a program's own are made by that program."""
    from handrail.packages import entry_point_tools
    from handrail.tools import builtin

    tool = record.request.tool
    return tool not in opening.get("given", ()) and (tool in builtin() or tool in entry_point_tools())


def _refused(found: Execution, record: Recorded, problem: Problem) -> Outcome:
    """Write the outcome of a call that was not begun."""
    from handrail.errors import FACTS

    facts = FACTS[problem.code]
    error = ErrorInfo(problem.code.value, facts.error_class, problem.message, problem.details)
    return Outcome(
        call_id=found.request,
        tool=record.request.tool,
        version=record.request.version,
        status=Status.DENIED if facts.error_class == "policy" else Status.FAILED,
        summary=problem.message,
        content=f"{problem.code}: {problem.message}",
        data=None,
        error=error,
        evidence=(),
    )

"""A worker: takes one task after the other, and wakes all that wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from handrail.agent.engine import Engine
from handrail.agent.loop import LoopEnd
from handrail.agent.session import Session
from handrail.agent.tasks import AgentTask, TaskState
from handrail.errors import Fault, Problem

log = logging.getLogger("handrail")
TICK_SECONDS = 0.03  # between two looks whether anything changed in inbox or ledger
IDLE_SECONDS = 1.0  # between two looks for tasks whose worker died
GRACE_SECONDS = 30.0  # that a call has to end once the worker is asked to


class Worker:
    """One consumer of the inbox; any number of them work side by side, each on its own task."""

    def __init__(self, session: Session, *, once: bool = False) -> None:
        self._session = session
        self._engine: Engine = session.engine
        self._once = once  # end when nothing is left to do
        self._changed = asyncio.Event()
        self._ends = False
        self._task: AgentTask | None = None
        self._work: asyncio.Task[LoopEnd | None] | None = None
        self.done: Callable[[AgentTask, LoopEnd], None] = lambda *_: None
        session.stopping = lambda: self._ends

    def stop(self) -> None:
        """End between two steps; the task goes back to the queue. A call that runs may end first."""
        if self._ends and self._work is not None:
            self._work.cancel()
            return
        self._ends = True
        self._changed.set()
        if self._work is None:
            return
        if self._session.loop is not None and self._session.loop.asking:
            self._work.cancel()
        else:
            asyncio.get_running_loop().call_later(GRACE_SECONDS, self._work.cancel)

    async def run(self) -> None:
        """Work until stopped; with `once` until nothing is queued."""
        watch = asyncio.ensure_future(self._watch())
        try:
            while not self._ends:
                self._changed.clear()
                if await self._next():
                    continue
                if self._once:
                    self._engine.changed()
                    if not self._engine.signal():
                        return
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(IDLE_SECONDS):
                        await self._changed.wait()
        finally:
            watch.cancel()

    async def _next(self) -> bool:
        """Take the next task and work on it; False where there is none."""
        task = self._engine.next_task()
        if task is None:
            return False
        taken = self._engine.claim(task)
        if taken is None:  # another worker was quicker
            return True
        self._task = taken
        self._work = asyncio.ensure_future(self._session.work(taken))
        try:
            end = await self._work
            if end is not None:
                self.done(taken, end)
        except asyncio.CancelledError:
            if not self._ends:
                raise
            self._engine.release(taken)
        except (Fault, Problem, OSError) as error:
            self._fail(taken, "cannot_run", getattr(error, "message", None) or str(error))
        except Exception:
            log.exception("task %s failed", taken.id)
            self._fail(taken, "internal", "An error in Handrail itself stopped the task; the trace is in the log.")
        finally:
            self._task = None
            self._work = None
        return True

    def _fail(self, task: AgentTask, reason: str, message: str) -> None:
        end = LoopEnd(TaskState.FAILED, f"{message}\nTo go on: handrail tasks resume {task.id}", reason)
        self._engine.finish(task, end.state, end.answer, reason, {})
        self.done(task, end)

    def _cancel_task(self) -> None:
        """Cancel the task that runs here, once, where a person asked for that."""
        if self._task is not None and self._work is not None and self._engine.cancelled(self._task):
            self._task = None
            self._work.cancel()

    async def _watch(self) -> None:
        """Look for changes: wake those that wait, and cancel the task that a person cancelled."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                if not self._engine.changed():
                    continue
                self._engine.signal()
                self._changed.set()
                self._cancel_task()
            except Problem as problem:
                log.warning("%s", problem.message)

"""One task, worked on in its run: the same in the foreground, resumed and in a worker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from handrail.agent.control import AgentLimits
from handrail.agent.engine import Engine
from handrail.agent.loop import AgentLoop, LoopEnd, LoopPorts
from handrail.agent.patience import LaterApprover, TimedApprover
from handrail.agent.providers import ModelFailure, Provider, build_provider
from handrail.agent.providers.unset import UnsetModel
from handrail.agent.tasks import AgentTask, Lane, PersonQuestion, TaskState
from handrail.agent.turn_log import TurnLog
from handrail.compose import AGENT
from handrail.errors import Code, RunFault
from handrail.runtime import Runtime
from handrail.settings import Settings

PatientApprover = LaterApprover | TimedApprover
Opens = Callable[[AgentTask, PatientApprover], Runtime]
Answers = Callable[[PersonQuestion], Awaitable[PersonQuestion]]


def open_runtime(task: AgentTask, approver: PatientApprover, **how: Any) -> Runtime:
    """Open the run of a task under the settings of its workspace."""
    how.setdefault("screen", NoScreen())
    how.setdefault("dialect", str(task.options.get("dialect") or "native"))
    return Runtime.open(task.workspace, run_id=task.run_id, approver=approver, caller=AGENT, **how)


class NoScreen:
    """Shows nothing: what tools display is in the journal, for whoever follows it."""

    def show(self, fields: Mapping[str, Any]) -> None:
        """Do nothing."""


@dataclass(slots=True)
class Session:
    """How tasks are worked on here: which engine, who opens runs, whose defaults count."""

    engine: Engine
    opens: Opens = open_runtime
    defaults: Mapping[str, Any] = field(default_factory=dict)  # provider, model … of the command line
    approver: Callable[[], PatientApprover] = LaterApprover
    answers: Answers | None = None  # a person who is here; none: questions wait in the inbox
    stopping: Callable[[], bool] = lambda: False
    opened: Callable[[AgentTask, Runtime], None] = lambda *_: None
    loop: AgentLoop | None = None  # the one that works now
    ports: Mapping[str, Any] = field(default_factory=dict)  # further ports of the loop, for tests

    async def work(self, task: AgentTask) -> LoopEnd | None:
        """Work on a taken task and tell the engine how far it came; None where somebody else holds its run."""
        approver = self.approver()
        try:
            async with self.opens(task, approver) as runtime:
                end = await self._work_in(task, runtime, approver)
        except RunFault as fault:
            if fault.code is not Code.RUN_BUSY:
                raise
            self.engine.release(task, busy=True)
            return None
        self._report(task, end)
        return end

    async def _work_in(self, task: AgentTask, runtime: Runtime, approver: PatientApprover) -> LoopEnd:
        self.opened(task, runtime)
        settings = runtime.parts.loaded.settings
        with closing(TurnLog(runtime.parts.folder.path, task.id)) as log:
            if int(task.options.get("resumed") or 0) > log.history.resumes:
                log.add("resumed", durable=True)
            self.loop = AgentLoop(
                runtime, self._provider(task, settings), task.id, task.text, log, limits_of(settings, task.options),
                dialect=runtime.dialect, around=self._ports(task),
            )  # fmt: skip
            approver.waited = self.loop.control.wait
            if isinstance(approver, LaterApprover):
                approver.clock = runtime.parts.clock
            try:
                return await self.loop.run()
            finally:
                self.loop = None

    def _ports(self, task: AgentTask) -> LoopPorts:
        return LoopPorts(
            ask=self._ask,
            messages=lambda after: self.engine.messages(task, after),
            cancelled=lambda: self.engine.cancelled(task),
            stopping=self.stopping,
            go_on=how_to_resume(task),
            **self.ports,
        )

    async def _ask(self, question: PersonQuestion) -> PersonQuestion:
        found = self.engine.ask(question)
        if found.answer is None and self.answers is not None:
            return await self.answers(found)
        return found

    def _provider(self, task: AgentTask, settings: Settings) -> Provider:
        """Build the task's model; one that cannot be had fails when it is asked, so that the task is told why."""
        known = {"provider": settings.agent.provider, "model": settings.agent.model}
        named = {name: value for name, value in {**self.defaults, **task.options}.items() if value is not None}
        if "script" in named:
            named = {"provider": "scripted", **named}
        try:
            return build_provider({**known, **named})
        except ModelFailure as failure:
            return UnsetModel(failure)

    def _report(self, task: AgentTask, end: LoopEnd) -> None:
        if end.state is TaskState.WAITING:
            self.engine.wait(task, end.waits)
        elif end.state is TaskState.QUEUED:
            self.engine.release(task)
        else:
            self.engine.finish(task, end.state, end.answer, end.reason, end.summary)


def how_to_resume(task: AgentTask) -> str:
    """Return the command that goes on with a task which stopped."""
    if task.lane is Lane.FOREGROUND:
        return f"handrail agent --resume {task.run_id}"
    return f"handrail tasks resume {task.id}"


def limits_of(settings: Settings, options: Mapping[str, Any]) -> AgentLimits:
    """Return the bounds of a task: those of the settings, or of the task itself where it names its own."""
    agent = settings.agent

    def named(name: str, default: Any) -> Any:
        value = options.get(name)
        return default if value is None else value

    return AgentLimits(
        max_turns=named("max_turns", agent.max_turns),
        max_wall_seconds=named("max_wall_seconds", agent.max_wall_seconds),
        max_tokens=named("max_tokens", agent.max_tokens),
        max_tool_calls=named("max_tool_calls", agent.max_tool_calls),
        model_retries=agent.model_retries,
        breaker_failures=settings.limits.breaker_failures,
        max_repeats=settings.limits.max_repeats,
        context_bytes=agent.context_bytes,
    )

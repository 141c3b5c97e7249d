"""The loop between a model and the kernel: turns until an answer, or until something stops it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from handrail.agent.agent_events import AgentEvents
from handrail.agent.context import fit_context
from handrail.agent.control import AgentLimits, AgentStopped, Control, summarize
from handrail.agent.conversation import CallResult, Instructions, ToolOffer, Turn
from handrail.agent.instructions import offer_tools, write_instructions
from handrail.agent.providers import MalformedTurn, ModelFailure, Provider
from handrail.agent.recovery import Claims
from handrail.agent.tasks import PersonMessage, PersonQuestion, TaskState, TaskWaits
from handrail.agent.turn_calls import TurnCalls, WaitForPerson, Yielded
from handrail.agent.turn_log import MemoryLog, TurnLog
from handrail.runtime import Runtime
from handrail.words import Json

BACKOFF_SECONDS = 0.5  # before the first retry of a model; doubled each time, with jitter
MOST_BACKOFF = 60.0
MIN_TIMER = 0.05  # seconds between two looks at a time that is up while a call still runs
STRICT = frozenset({"autonous"})  # dialects in which a response that cannot be read fails the task


@dataclass(frozen=True, slots=True)
class LoopEnd:
    """How far a loop came: an end, or what it waits for."""

    state: TaskState  # done | failed | cancelled | waiting | queued (its worker ends)
    answer: str = ""
    reason: str = ""
    error_class: str = ""
    waits: TaskWaits = field(default_factory=TaskWaits)
    summary: Mapping[str, Json] = field(default_factory=dict)


async def _unanswered(question: PersonQuestion) -> PersonQuestion:
    return question


@dataclass(slots=True)
class LoopPorts:
    """What a loop needs from outside, besides runtime and model."""

    ask: Callable[[PersonQuestion], Awaitable[PersonQuestion]] = _unanswered
    messages: Callable[[int], Sequence[PersonMessage]] = lambda _: ()
    cancelled: Callable[[], bool] = lambda: False
    stopping: Callable[[], bool] = lambda: False  # the worker ends: stop between two steps
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    go_on: str = ""  # the command that continues a task which stopped


class TimeLimit:
    """One timer for a whole task, which ends a request to the model once the task's time is up."""

    def __init__(self, left: Callable[[], float | None]) -> None:
        self._left = left
        self._handle: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self.asking = False  # a model is asked just now
        self._passed = False

    def start(self) -> None:
        """Start the timer; people may have taken time that does not count, so it is set anew when it is early."""
        left = self._left()
        if left is not None:
            self._task = asyncio.current_task()
            self._handle = asyncio.get_running_loop().call_later(max(left, MIN_TIMER), self._pass)

    def _pass(self) -> None:
        left = self._left()
        if left or not self.asking:  # a call that runs may end; the next turn is not begun
            self._handle = asyncio.get_running_loop().call_later(max(left or 0.0, MIN_TIMER), self._pass)
        elif self._task is not None:
            self._passed = True
            self._task.cancel()

    def passed(self) -> bool:
        """Whether it was this timer that cancelled the task; the cancelling is taken back then."""
        return self._passed and self._task is not None and self._task.uncancel() == 0

    def end(self) -> None:
        """End the timer."""
        if self._handle is not None:
            self._handle.cancel()


class AgentLoop:
    """One task in one open run; a later loop on the same log goes on where this one stopped."""

    def __init__(
        self,
        runtime: Runtime,
        provider: Provider,
        task_id: str,
        text: str,
        log: TurnLog | MemoryLog,
        limits: AgentLimits,
        *,
        dialect: str = "native",
        around: LoopPorts | None = None,
    ) -> None:
        self._runtime = runtime
        self._provider = provider
        self._task = task_id
        self._text = text
        self._log = log
        self._limits = limits
        self._dialect = dialect
        self._around = around or LoopPorts()
        self._clock = runtime.parts.clock
        self.control = Control(limits, log.history, self._clock.monotonic())
        self._events = AgentEvents(runtime, task_id)
        self._calls = TurnCalls(
            runtime, task_id, dialect, log, self._events, self.control, Claims(runtime), self._around.ask,
            self._around.stopping,
        )  # fmt: skip
        self._instructions = ""
        self._tools: tuple[ToolOffer, ...] = ()
        self._gone: dict[str, str] = {}  # background programs of an earlier process, by the call that started them
        self.asking = False  # a model is asked, or waited for before it is asked again: cancelling loses nothing
        self._limit = TimeLimit(lambda: self.control.seconds_left(self._clock.monotonic()))

    async def run(self) -> LoopEnd:
        """Work until an answer, a stop or a wait; what was recorded as ended before only ends once more."""
        if self._log.history.ended is None:
            try:
                self._begin()
                self._limit.start()
                answer = await self._work()
                self._end(TaskState.DONE, answer)
            except WaitForPerson as wait:
                return LoopEnd(TaskState.WAITING, waits=wait.waits, summary=self._summary())
            except Yielded:
                return LoopEnd(TaskState.QUEUED, summary=self._summary())
            except AgentStopped as stop:
                self._end(TaskState.FAILED, self._last_message(stop.message), stop.reason, stop.error_class)
            except asyncio.CancelledError:
                if not self._around.cancelled():
                    if self.asking and self._around.stopping():
                        return LoopEnd(TaskState.QUEUED, summary=self._summary())
                    raise
                task = asyncio.current_task()
                assert task is not None
                task.uncancel()
                self._end(TaskState.CANCELLED, self._last_message("Cancelled by a person."), "cancelled", "unknown")
            finally:
                self._limit.end()
        return self._report()

    # ── beginning and end ────────────────────────────────────────────────────────────────────

    def prepare(self) -> None:
        """Write the instructions and describe the tools, once."""
        if not self._tools:
            self._instructions = write_instructions(self._runtime, self._dialect)
            self._tools = offer_tools(self._runtime, self._dialect)

    def _begin(self) -> None:
        self.prepare()
        if not self._log.history.said:
            self._log.add("said", text=self._text)
        if not self._events.count("agent.started"):
            self._events.write(
                "agent.started",
                task=self._text,
                provider=self._provider.name,
                model=self._provider.model,
                dialect=self._dialect,
                limits=self._limits.to_json(),
            )
        history = self._log.history
        started = {f"{n}:{i}": item.job for (n, i), item in history.results.items() if item.job}
        self._gone = {place: job for place, job in started.items() if place not in history.jobs_told}

    def _tell_of_jobs(self) -> None:
        """Tell the model which background programs ended with the process that had started them."""
        text = f"Background programs that ended because the worker stopped: {', '.join(self._gone.values())}."
        self._log.add("said", text=text, jobs=list(self._gone))
        self._gone = {}

    def _end(self, state: TaskState, answer: str, reason: str = "", error_class: str = "") -> None:
        """Keep how the task ended, whole; the event and the inbox follow, and are made good after a crash."""
        hidden = self._runtime.kernel.parts.finisher.hidden(answer)
        self._log.add(
            "ended", durable=True, state=state.value, answer=hidden, reason=reason, error_class=error_class,
            seconds=self._seconds(),
        )  # fmt: skip

    def _report(self) -> LoopEnd:
        history = self._log.history
        ended = history.ended
        assert ended is not None
        summary = self._summary()
        if self._events.count("agent.completed", "agent.failed") < history.ends:
            if ended["state"] == TaskState.DONE:
                self._events.write("agent.completed", answer=ended["answer"], **summary)
            else:
                self._events.write(
                    "agent.failed", reason=ended["reason"], message=ended["answer"],
                    error_class=ended["error_class"], **summary,
                )  # fmt: skip
        return LoopEnd(
            TaskState(ended["state"]), ended["answer"], ended["reason"], ended["error_class"], summary=summary
        )

    def _summary(self) -> Mapping[str, Json]:
        return summarize(self._log.history, self._seconds())

    def _seconds(self) -> float:
        return round(self.control.seconds(self._clock.monotonic()), 3)

    def _last_message(self, text: str) -> str:
        """Say why the task stopped, what was done until then, and how to go on."""
        history = self._log.history
        changed = dict.fromkeys(path for item in history.results.values() for path in item.details.get("changed", ()))
        parts = [text, f"Done until then: {history.last_turn} turns, {history.calls} calls."]
        if changed:
            more = f" and {len(changed) - 10} more" if len(changed) > 10 else ""
            parts.append(f"Changed: {', '.join(list(changed)[:10])}{more}.")
        last = history.turns[history.last_turn] if history.turns else Turn()
        if said := last.text or last.answer:
            parts.append(f"The model said last: {said[:500]}")
        if self._around.go_on:
            parts.append(f"To go on: {self._around.go_on}")
        return "\n".join(parts)

    # ── turns ────────────────────────────────────────────────────────────────────────────────

    async def _work(self) -> str:
        history = self._log.history
        while True:
            number = history.last_turn
            if not number or self._is_finished(number):
                number = await self._next_turn(number + 1)
            turn = history.turns[number]
            if turn.calls:
                self.control.check_tokens()
                results = await self._calls.make(number)
                self._finish_turn(number, results)
                self.control.note_results(results)
            else:
                self._finish_turn(number, ())
                return turn.answer

    def _is_finished(self, number: int) -> bool:
        turn = self._log.history.turns[number]
        return bool(turn.calls) and not self._log.history.open_calls() and self._events.has_turn_end(number)

    def _finish_turn(self, number: int, results: Sequence[CallResult]) -> None:
        usage = self._log.history.turns[number].usage.to_json()
        failures = sum(not result.ok for result in results)
        self._events.write_turn("turn.finished", number, usage=usage, calls=len(results), failures=failures)

    async def _next_turn(self, number: int) -> int:
        """Ask the model for its next step, with everything that was said meanwhile; it is durable then."""
        if self._around.stopping():
            raise Yielded("the worker ends")
        self.control.check_turn(self._clock.monotonic())
        if self._gone:
            self._tell_of_jobs()
        self._take_messages(number)
        fit_context(self._log, self._limits.context_bytes, len(self._instructions), self._spill)
        self._events.write_turn("turn.started", number)
        self.asking = True
        turn = await self._ask_model(number)
        self.asking = False
        # A turn that only reads may be lost with the power: the model is asked again, and nothing was done.
        durable = self._log.lasting and self._calls.may_change(turn)
        self._log.add_turn(number, turn, self._seconds(), durable=durable)
        if self._log.lasting:
            self._calls.leave_old_keys(number)
        return number

    def _take_messages(self, number: int) -> None:
        parent = self._events.turn_id(number)
        for message in self._around.messages(self._log.history.last_message):
            self._log.add("said", text=message.text, message=message.seq)
            self._events.write_once(
                "message.received", str(message.seq), parent=parent, text=message.text, by=message.by
            )

    def _spill(self, text: str, name: str) -> str:
        safe = "".join(letter if letter.isalnum() else "_" for letter in name)[:40]
        return str(self._runtime.kernel.parts.shared["Spill"].put(text, f"old_{safe}").ref)

    # ── the model ────────────────────────────────────────────────────────────────────────────

    async def _ask_model(self, number: int) -> Turn:
        """Ask until there is a turn; a failing model is tried again, a response that cannot be read is told once."""
        retries = 0
        rejected = False
        while True:
            try:
                turn = await self._ask_once()
            except MalformedTurn as bad:
                self._log.add("rejected", n=number, said=bad.said, problem=bad.problem, usage=bad.usage.to_json())
                if rejected or self._dialect in STRICT:
                    text = f"Stopped: the model's response could not be used. {bad.problem}"
                    raise AgentStopped("invalid_response", text, error_class="validation") from bad
                self.control.fail_model(bad.problem)
                rejected = True
            except ModelFailure as failure:
                if not failure.retryable or retries >= self._limits.model_retries:
                    raise self._model_failed(failure, retries) from failure
                self.control.fail_model(str(failure))
                await self._back_off(retries, failure.retry_after)
                retries += 1
            else:
                self.control.answer_model()
                return turn

    async def _ask_once(self) -> Turn:
        """Ask the model once, for as long as the task may still last."""
        history = self._log.history
        messages = [Instructions(self._instructions, history.responses), *history.messages()]
        self._limit.asking = True
        try:
            return await self._provider.next(messages, self._tools)
        except asyncio.CancelledError:
            if self._limit.passed():
                raise self.control.late() from None
            raise
        except TimeoutError as error:
            raise ModelFailure("The model did not answer in time.", retryable=True) from error
        finally:
            self._limit.asking = False

    def _model_failed(self, failure: ModelFailure, retries: int) -> AgentStopped:
        if failure.kind == "setup":
            return AgentStopped("no_model", str(failure), error_class="unknown")
        tried = f" after {retries + 1} tries" if retries else ""
        return AgentStopped("model_failed", f"Stopped: the model failed{tried}. {failure}", error_class="unknown")

    async def _back_off(self, retries: int, retry_after: float | None) -> None:
        """Wait before the model is asked again: longer each time, as long as it asks for, never past the time limit."""
        seconds = min(BACKOFF_SECONDS * 2.0**retries, MOST_BACKOFF) * (0.5 + self._around.chance() / 2)
        seconds = max(seconds, retry_after or 0.0)
        left = self.control.seconds_left(self._clock.monotonic())
        if left is not None and seconds >= left:
            raise self.control.late()
        await self._around.sleep(seconds)

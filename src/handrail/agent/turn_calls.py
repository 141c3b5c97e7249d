"""The calls of one turn: each made once, its claim on record before its effect, a person asked where that must be."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256

import orjson

from handrail import dialects
from handrail.agent.agent_events import AgentEvents
from handrail.agent.control import AgentStopped, Control
from handrail.agent.conversation import CallResult, ModelCall, Turn
from handrail.agent.inbox import question_id
from handrail.agent.instructions import ASK_PERSON
from handrail.agent.recovery import Claims, CutOff
from handrail.agent.tasks import PersonQuestion, TaskWaits
from handrail.agent.turn_log import MemoryLog, TurnLog
from handrail.arguments import read_text
from handrail.errors import Code, Fault, Problem
from handrail.runtime import Runtime
from handrail.words import Json, Outcome, Status

AGAIN = "run again"
DONE = "count as done"
STOP = "stop"
CHOICES = (AGAIN, DONE, STOP)
_DURATION = re.compile(r"\bin \d+(?:\.\d+)? (?:ms|s|min)\b")  # as results of programs tell it
MOST_NAMED = 20  # paths of a result that the last message may name
Asks = Callable[[PersonQuestion], Awaitable[PersonQuestion]]


class WaitForPerson(Fault):
    """A task that cannot go on before a person answers."""

    def __init__(self, waits: TaskWaits) -> None:
        super().__init__("the task waits for a person")
        self.waits = waits


class Yielded(Fault):
    """A task that stops between two steps because its worker ends; another one goes on with it."""


@dataclass(slots=True)
class TurnCalls:
    """Makes the calls of turns; what is known of them is in the log, so that a later process goes on."""

    runtime: Runtime
    task_id: str
    dialect: str
    log: TurnLog | MemoryLog
    events: AgentEvents
    control: Control
    claims: Claims
    ask: Asks
    stopping: Callable[[], bool]

    async def make(self, number: int) -> list[CallResult]:
        """Make the calls of a turn that have no result yet; return all results. Raises what stops the task."""
        history = self.log.history
        waiting = history.open_calls()
        if len(waiting) > 1 and self._side_by_side([call for _, call in waiting]):
            await self._make_together(number, waiting)
        else:
            for index, call in waiting:
                await self._one(number, index, call)
        return [history.results[number, index] for index in range(len(history.turns[number].calls))]

    def _side_by_side(self, calls: list[ModelCall]) -> bool:
        """Whether calls may run at the same time: only those of tools that never change anything."""
        if self.dialect != "native" or any(call.name == ASK_PERSON.name for call in calls):
            return False
        return all(self._never_changes(call.name) for call in calls)

    def may_change(self, turn: Turn) -> bool:
        """Whether a call of a turn may change something, or asks a person."""
        asks = self.dialect == "native" and any(call.name == ASK_PERSON.name for call in turn.calls)
        return asks or not all(self._never_changes(call.name) for call in turn.calls)

    def _never_changes(self, name: str) -> bool:
        try:
            ours = name if self.dialect == "native" else dialects.get(self.dialect).word(name).ours
            return not self.runtime.parts.catalog.get(ours).changing
        except Problem:  # there is no such tool: the call fails, and changes nothing
            return True

    def leave_old_keys(self, number: int) -> None:
        """Pass over keys of a turn that was lost with the power, and of which the journal still knows reads."""
        for index in range(len(self.log.history.turns[number].calls)):
            attempt = 0
            while self.claims.started(self._key(number, index, attempt)):
                attempt += 1
            if attempt:
                self.log.add("attempt", durable=True, n=number, i=index, attempt=attempt)

    async def _make_together(self, number: int, waiting: list[tuple[int, ModelCall]]) -> None:
        done = await asyncio.gather(
            *(self._one(number, index, call) for index, call in waiting), return_exceptions=True
        )
        problems = [item for item in done if isinstance(item, BaseException)]
        waits = [item.waits for item in problems if isinstance(item, WaitForPerson)]
        for problem in problems:
            if not isinstance(problem, WaitForPerson):
                raise problem
        if waits:
            requests = tuple(name for wait in waits for name in wait.requests)
            raise WaitForPerson(TaskWaits(requests, tuple(name for wait in waits for name in wait.questions)))

    async def _one(self, number: int, index: int, call: ModelCall) -> None:
        """Make one call, or find what became of it; its result is in the log then."""
        if self.stopping():
            raise Yielded("the worker ends")
        if call.name == ASK_PERSON.name and self.dialect == "native":
            result = await self._ask_person(number, index, call)
        else:
            result = await self._call(number, index, call)
        self.log.add_result(result, self._seconds())

    def _seconds(self) -> float:
        return round(self.control.seconds(self.runtime.parts.clock.monotonic()), 3)

    # ── tools ────────────────────────────────────────────────────────────────────────────────

    async def _call(self, number: int, index: int, call: ModelCall) -> CallResult:
        args = read_text(call.arguments)
        if self.log.lasting and (known := await self._recover(number, index, call, args)) is not None:
            return known
        approval = self._refused_request(number, index)
        attempt = self.log.history.attempts.get((number, index), 0)
        key = self._key(number, index, attempt)
        self.control.begin_call(self.runtime.parts.clock.monotonic())
        try:
            outcome = await self.runtime.call(
                call.name,
                args,
                dialect=self.dialect,
                idempotency_key=key if self.log.lasting else None,
                parent=self.events.turn_id(number),
                approval=approval,
            )
        finally:
            self.control.end_call()
        if outcome.status is Status.PENDING:
            # A review that waits for its approval has run, and kept nothing: it runs anew under another key.
            used = attempt + 1 if self.claims.started(key) else attempt
            raise self._wait_for(number, index, used, outcome)
        return self._result(number, index, call, outcome)

    def _key(self, number: int, index: int, attempt: int) -> str:
        key = f"{self.task_id}:{number}:{index}"
        return f"{key}:{attempt}" if attempt else key

    def _refused_request(self, number: int, index: int) -> str | None:
        """Return the request of a call that a person refused or nobody answered in time: it is not asked again."""
        request = self.log.history.asked.get((number, index))
        if request is None:
            return None
        try:
            state = self.runtime.parts.ledger.find(request).state
        except KeyError:
            return None
        if state == "pending":
            raise WaitForPerson(TaskWaits((request,)))
        return request if state in ("denied", "expired") else None

    def _wait_for(self, number: int, index: int, attempt: int, outcome: Outcome) -> WaitForPerson:
        assert outcome.error is not None
        request = str(outcome.error.details["approval"]["id"])
        self.log.add("asked", n=number, i=index, request=request, attempt=attempt)
        return WaitForPerson(TaskWaits((request,)))

    def _result(self, number: int, index: int, call: ModelCall, outcome: Outcome) -> CallResult:
        text = outcome.content
        if self.dialect != "native":
            text = orjson.dumps(outcome.to(self.dialect)).decode()
        elif outcome.warnings:
            text = "\n".join((text, *(f"warning: {item}" for item in outcome.warnings)))
        details: dict[str, Json] = {}
        if outcome.changes:
            details["changed"] = [change.path for change in outcome.changes[:MOST_NAMED]]
        if isinstance(outcome.data, dict) and outcome.data.get("job") and outcome.tool == "run_command":
            details["job"] = outcome.data["job"]
        return CallResult(
            number,
            index,
            call,
            text,
            outcome.ok,
            outcome.summary,
            outcome.refs[0].ref if outcome.refs and self.dialect == "native" else "",
            bool(outcome.changes),
            "" if outcome.error is None else str(outcome.error.code),
            _likeness(outcome) if outcome.commands or self.dialect != "native" else "",
            details,
        )

    # ── after a crash ────────────────────────────────────────────────────────────────────────

    async def _recover(self, number: int, index: int, call: ModelCall, args: Mapping[str, Json]) -> CallResult | None:
        """Find what became of a call that an earlier process may have made; None: it is still to be made."""
        history = self.log.history
        while True:
            attempt = history.attempts.get((number, index), 0)
            for older in range(attempt):
                if (left := self.claims.cut_off(self._key(number, index, older))) is not None:
                    self.claims.close(left, changes=(number, index, older) in history.settled)
            key = self._key(number, index, attempt)
            if (outcome := self.claims.outcome(key)) is not None and outcome.status is not Status.PENDING:
                return self._result(number, index, call, outcome)
            cut_off = self.claims.cut_off(key)
            if outcome is not None:  # it ran, kept nothing, and waits for its approval
                if (number, index) not in history.asked:
                    raise self._wait_for(number, index, attempt + 1, outcome)
                self.log.add("attempt", n=number, i=index, attempt=attempt + 1)
            elif cut_off is not None:
                if (known := await self._settle(number, index, call, args, cut_off)) is not None:
                    return known
            elif self.claims.started(key):
                choice = history.settled.get((number, index, attempt))
                return self._chosen(number, index, call, choice or "")
            else:
                return None

    async def _settle(
        self, number: int, index: int, call: ModelCall, args: Mapping[str, Json], cut_off: CutOff
    ) -> CallResult | None:
        """Deal with a call whose end is not known: a read runs again, anything else is for a person to say."""
        history = self.log.history
        attempt = history.attempts.get((number, index), 0)
        if self.claims.only_reads(cut_off, call.name, args, self.dialect):
            self.log.add("attempt", n=number, i=index, attempt=attempt + 1)
            return None
        choice = history.settled.get((number, index, attempt))
        if choice is None:
            choice = await self._ask_outcome(number, index, call, attempt, cut_off)
            self.log.add("settled", durable=True, n=number, i=index, attempt=attempt, choice=choice)
        if choice == AGAIN:
            self.log.add("attempt", durable=True, n=number, i=index, attempt=attempt + 1)
            return None
        self.claims.close(cut_off, changes=True)
        return self._chosen(number, index, call, choice)

    def _chosen(self, number: int, index: int, call: ModelCall, choice: str) -> CallResult:
        """Give the result of a call whose outcome is lost, by what a person said of it."""
        if choice == STOP:
            raise AgentStopped("stopped_by_person", f"Stopped by a person: how {call.name} ended is not known.")
        if choice == DONE:
            text = "A person says that the call did what was asked. Its output is lost."
            return self._lost(number, index, call, text, ok=True)
        return self._lost(number, index, call, "The call ended, but its outcome was not kept.")

    def _lost(self, number: int, index: int, call: ModelCall, text: str, *, ok: bool = False) -> CallResult:
        code = "" if ok else Code.OUTCOME_UNKNOWN.value
        return CallResult(number, index, call, text, ok, text, changed=True, code=code)

    async def _ask_outcome(self, number: int, index: int, call: ModelCall, attempt: int, cut_off: CutOff) -> str:
        shown = self.runtime.kernel.parts.finisher.hidden(call.arguments)
        text = (
            f"{call.name} {shown[:2000]}\nwas started, and its process ended before it reported back (call "
            f"{cut_off.call_id}). It may have happened: look at what it touches. Run again, count as done, or stop?"
        )
        question = PersonQuestion(
            question_id(self.task_id, number, index, attempt), self.task_id, "outcome", text, CHOICES, number, index
        )
        return await self._answered(question)

    # ── questions ────────────────────────────────────────────────────────────────────────────

    async def _ask_person(self, number: int, index: int, call: ModelCall) -> CallResult:
        args = read_text(call.arguments)
        text = args.get("question") if isinstance(args, dict) else None
        if not isinstance(text, str) or not text.strip() or len(args) != 1:
            wrong = "INVALID_ARGS: `ask_person` needs `question`, a text, and nothing else."
            return CallResult(number, index, call, wrong, ok=False, summary=wrong, code=Code.INVALID_ARGS.value)
        hidden = self.runtime.kernel.parts.finisher.hidden(text)
        question = PersonQuestion(
            question_id(self.task_id, number, index), self.task_id, "person", hidden, (), number, index
        )
        answer = await self._answered(question)
        return CallResult(number, index, call, answer, summary=f"The person answered: {answer[:100]}", changed=True)

    async def _answered(self, question: PersonQuestion) -> str:
        """Ask, and return the answer; WaitForPerson where there is none yet."""
        parent = self.events.turn_id(question.turn)
        self.events.write_once(
            "question.asked", question.id, parent=parent, about=question.kind, text=question.text,
            choices=list(question.choices),
        )  # fmt: skip
        clock = self.runtime.parts.clock
        began = clock.monotonic()
        found = await self.ask(question)
        self.control.wait(clock.monotonic() - began)
        if found.answer is None:
            raise WaitForPerson(TaskWaits(questions=(question.id,)))
        self.events.write_once("question.answered", question.id, parent=parent, answer=found.answer, by=found.by)
        return found.answer


def _likeness(outcome: Outcome) -> str:
    """Hash what a call gave, without how long it took: equal for a call that is repeated in vain."""
    text = _DURATION.sub("", outcome.content)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

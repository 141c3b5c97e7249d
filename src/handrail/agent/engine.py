"""What the loop and its workers need of whatever keeps tasks: next task, claim, wait, signal, finish.

`InboxEngine` is the one of this machine: the inbox file, and the lock of a task's run as its lease and fence. Nothing
else in the agent knows the inbox; another engine would keep tasks in a shared database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Protocol

from handrail.agent.inbox import Inbox
from handrail.agent.owners import is_alive, name_owner
from handrail.agent.tasks import AgentTask, Lane, PersonMessage, PersonQuestion, TaskState, TaskWaits
from handrail.ports import Clock, SharedLedger
from handrail.words import Json

MANY_EPOCHS = 10  # that a task was taken: after the queue, where its worker died
BUSY_SECONDS = 2.0  # before a task is tried again whose run another process holds


class Engine(Protocol):
    """Keeps tasks, hands them out once, and wakes those that wait."""

    def next_task(self) -> AgentTask | None:
        """Return a task that nobody works on and that this worker may take; None when there is none."""

    def claim(self, task: AgentTask) -> AgentTask | None:
        """Take a task; None where another worker was quicker."""

    def wait(self, task: AgentTask, waits: TaskWaits) -> None:
        """Have a task wait for a person: nothing of it stays in memory."""

    def changed(self) -> bool:
        """Whether anything changed since this was last asked; cheap enough to ask every 20 ms."""

    def signal(self) -> int:
        """Queue every waiting task whose answers are there; return how many."""

    def finish(self, task: AgentTask, state: TaskState, answer: str, reason: str, summary: Mapping[str, Json]) -> None:
        """End a task with its last message."""

    def release(self, task: AgentTask, *, busy: bool = False) -> None:
        """Give a task back unfinished, for another worker or a later one."""

    def ask(self, question: PersonQuestion) -> PersonQuestion:
        """Put a question on record; return it with its answer where somebody gave one already."""

    def messages(self, task: AgentTask, after: int) -> Sequence[PersonMessage]:
        """Return what people said to a task since a number."""

    def cancelled(self, task: AgentTask) -> bool:
        """Whether a person asked to cancel a running task."""


class InboxEngine:
    """The engine of one machine: inbox and ledger as files, run locks as leases."""

    def __init__(
        self,
        inbox: Inbox,
        ledger: SharedLedger,
        clock: Clock,
        *,
        queues: Sequence[str] = (),
    ) -> None:
        self._inbox = inbox
        self._ledger = ledger
        self._queues = frozenset(queues)
        self._owner = name_owner()
        self._clock = clock
        self._looked: set[tuple[str, int]] = set()  # waiting tasks whose requests were pending at the last look
        self._due = inf  # when the next request expires, by the wall clock
        self._busy: dict[str, float] = {}  # by task: when to try again, where somebody else held its run

    def next_task(self) -> AgentTask | None:
        """Return the oldest task that is queued, or whose worker died, for what this worker offers."""
        held = self._inbox.held()
        # A task that many workers died of must not keep the others from being worked on.
        often = [task for task in held if task.epoch >= MANY_EPOCHS]
        rest = [task for task in held if task.epoch < MANY_EPOCHS]
        for task in (*rest, *self._inbox.queued(), *often):
            if task.queue and task.queue not in self._queues:
                continue
            if self._busy.get(task.id, 0.0) > self._clock.monotonic():
                continue
            if task.state is TaskState.QUEUED or not is_alive(task.owner):
                return task
        return None

    def claim(self, task: AgentTask) -> AgentTask | None:
        """Take a task, by compare-and-set; the lock of its run is taken when that is opened."""
        return self._inbox.claim(task, self._owner)

    def wait(self, task: AgentTask, waits: TaskWaits) -> None:
        """Have a task wait."""
        self._inbox.wait(task, waits)

    def changed(self) -> bool:
        """Whether anything was written to inbox or ledger, or a request expired, since this was last asked."""
        written = self._inbox.changed()
        if self._ledger.changed() or self._clock.now() >= self._due:
            self._looked.clear()
            self._due = inf
            written = True
        return written

    def signal(self) -> int:
        """Queue the waiting tasks whose requests and questions are all settled.

        A look at a request costs more than one at a task, so it is taken once for each change of the ledger.
        """
        waiting = [task for task in self._inbox.list((TaskState.WAITING,)) if task.lane is Lane.WORKER]
        woken = 0
        for task in waiting:
            if self._are_answered(task.waits.questions) and self._are_decided(task):
                woken += self._inbox.signal(task.id)
        self._looked &= {(task.id, task.epoch) for task in waiting}
        return woken

    def _are_answered(self, questions: Sequence[str]) -> bool:
        return all(self._inbox.question(name).answer is not None for name in questions)

    def _are_decided(self, task: AgentTask) -> bool:
        if (task.id, task.epoch) in self._looked:
            return False
        pending = [found for name in task.waits.requests if (found := self._pending(name)) is not None]
        if pending:
            self._looked.add((task.id, task.epoch))
            self._due = min(self._due, *pending)
        return not pending

    def _pending(self, request_id: str) -> float | None:
        """Return when a request expires that nobody answered; None for any other."""
        try:
            found = self._ledger.find(request_id)
        except KeyError:
            return None
        return found.request.expires if found.state == "pending" else None

    def finish(self, task: AgentTask, state: TaskState, answer: str, reason: str, summary: Mapping[str, Json]) -> None:
        """End a task; where another worker has it by now, that one ends it."""
        self._inbox.finish(task, state, answer, reason, summary)

    def release(self, task: AgentTask, *, busy: bool = False) -> None:
        """Give a task back to the queue; one whose run is busy is left alone for a while."""
        if busy:
            self._busy[task.id] = self._clock.monotonic() + BUSY_SECONDS
        self._inbox.release(task)

    def ask(self, question: PersonQuestion) -> PersonQuestion:
        """Put a question into the inbox."""
        return self._inbox.ask(question)

    def messages(self, task: AgentTask, after: int) -> Sequence[PersonMessage]:
        """Read what people said to a task."""
        return self._inbox.messages(task.id, after)

    def cancelled(self, task: AgentTask) -> bool:
        """Look whether a person asked to cancel."""
        return task.id in self._inbox.cancelling()

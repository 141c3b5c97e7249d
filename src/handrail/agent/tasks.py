"""Tasks of the agent as the inbox keeps them: plain data, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from handrail.words import Json


class TaskState(StrEnum):
    """Where a task is: queued → running → waiting → done | failed | cancelled."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"  # for a person; its run is closed
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({TaskState.DONE, TaskState.FAILED, TaskState.CANCELLED})


class Lane(StrEnum):
    """Who works on a task: any worker, or the command that was given it."""

    WORKER = "worker"
    FOREGROUND = "foreground"


@dataclass(frozen=True, slots=True)
class TaskWaits:
    """What a waiting task waits for; it goes on once all of it is settled."""

    requests: tuple[str, ...] = ()  # ids of approval requests in the ledger
    questions: tuple[str, ...] = ()  # ids of questions in the inbox

    def to_json(self) -> dict[str, Json]:
        """Return plain JSON values."""
        return {"requests": list(self.requests), "questions": list(self.questions)}

    @classmethod
    def from_json(cls, value: Mapping[str, Json]) -> TaskWaits:
        """Read `to_json` back."""
        return cls(tuple(value.get("requests") or ()), tuple(value.get("questions") or ()))


@dataclass(frozen=True, slots=True)
class AgentTask:
    """One row of the inbox."""

    id: str
    state: TaskState
    text: str  # what a person asked for
    workspace: str  # absolute
    run_id: str  # the one run of the task
    queue: str = ""  # the capability that it asks for; empty: any worker takes it
    lane: Lane = Lane.WORKER
    options: Mapping[str, Json] = field(default_factory=dict)  # provider, model, script, dialect, limits …
    origin: Mapping[str, Json] = field(default_factory=dict)  # who asked, and where the answer goes
    created: float = 0.0
    updated: float = 0.0
    epoch: int = 0  # counts who took it; a write with an older one changes nothing
    owner: str = ""  # the process that took it last, as `agent.owners` names it
    waits: TaskWaits = TaskWaits()
    cancelling: bool = False  # a person asked to cancel it while it runs
    answer: str = ""  # the last message: the answer, or why it stopped
    reason: str = ""  # why it failed: max_turns, model_failed …
    summary: Mapping[str, Json] = field(default_factory=dict)  # turns, calls, usage

    @property
    def ended(self) -> bool:
        """Whether nobody works on it any more."""
        return self.state in ENDED

    def to_dict(self) -> dict[str, Json]:
        """Return the task as plain JSON values, as `tasks show --json` prints it."""
        return {
            "id": self.id,
            "state": self.state.value,
            "task": self.text,
            "workspace": self.workspace,
            "run_id": self.run_id,
            "queue": self.queue,
            "lane": self.lane.value,
            "origin": dict(self.origin),
            "created": self.created,
            "updated": self.updated,
            "waits": self.waits.to_json(),
            "answer": self.answer,
            "reason": self.reason,
            **dict(self.summary),
        }


@dataclass(frozen=True, slots=True)
class PersonQuestion:
    """A question that a task asks a person; an approval is none, those are in the ledger."""

    id: str
    task: str
    kind: str  # "person": the model asks; "outcome": whether a call happened before a crash
    text: str
    choices: tuple[str, ...] = ()  # empty: any text answers
    turn: int = 0
    index: int = 0  # of the call within the turn
    answer: str | None = None  # None: nobody answered yet
    by: str = ""
    created: float = 0.0

    def to_dict(self) -> dict[str, Json]:
        """Return the question as plain JSON values."""
        return {
            "id": self.id,
            "task": self.task,
            "kind": self.kind,
            "text": self.text,
            "choices": list(self.choices),
            "answer": self.answer,
            "by": self.by,
            "created": self.created,
        }


@dataclass(frozen=True, slots=True)
class PersonMessage:
    """What a person says to a task while it runs; it never counts as an approval."""

    seq: int
    task: str
    text: str
    by: str
    created: float


@dataclass(frozen=True, slots=True)
class Notice:
    """One change of the inbox, in order, for who follows it: commanders, the service, `send --wait`.

    `kind` is task.queued, task.running, task.waiting, task.done, task.failed, task.cancelled, question.asked,
    question.answered or message.received. What tools display is in the journal of the task's run.
    """

    seq: int
    task: str
    kind: str
    body: Mapping[str, Json]
    created: float

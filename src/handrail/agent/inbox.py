"""The inbox: tasks, questions and messages of one account, in one SQLite file that every process shares.

    queued ──► running ──► done | failed | cancelled
       ▲          │
       └─ waiting ◄┘

Every arrow is one compare-and-set inside a write transaction. A task's epoch counts who took it: a worker that lost
its task to another changes nothing any more. Every change leaves a notice, in the same transaction, for those who
follow the inbox. Approvals are not here: they are in the ledger.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from base64 import b32encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import orjson
from uuid_utils import uuid7

from handrail.agent import inbox_sql as sql
from handrail.agent.tasks import AgentTask, Lane, Notice, PersonMessage, PersonQuestion, TaskState, TaskWaits
from handrail.errors import Code, Fault, Misuse, Problem
from handrail.ports import Clock
from handrail.store import private_db
from handrail.store.ledger import new_id
from handrail.strict_json import is_text
from handrail.words import Json

T = TypeVar("T")
FILE = "inbox.sqlite"
MOST_NOTICES = 10_000  # older ones are forgotten
MOST_TEXT = 1_000_000  # characters of a task, a message or an answer
Row = Sequence[Any]


class QuestionAnswered(Fault):
    """An answer that came too late: somebody answered before."""

    def __init__(self, question: PersonQuestion) -> None:
        super().__init__(
            f"question {question.id} was answered already by {question.by or 'somebody'}: {question.answer}"
        )
        self.question = question


class Inbox:
    """The inbox in a file; nothing is opened or created before it is first needed. Safe for several threads."""

    def __init__(self, path: str | os.PathLike[str], clock: Clock) -> None:
        self.path = Path(os.path.abspath(path))
        self._clock = clock
        self._lock = threading.RLock()
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._version_seen = -1

    # ── what people and front ends do ────────────────────────────────────────────────────────

    def put(
        self,
        text: str,
        workspace: str,
        *,
        queue: str = "",
        lane: Lane = Lane.WORKER,
        options: Mapping[str, Json] | None = None,
        origin: Mapping[str, Json] | None = None,
        run_id: str | None = None,
        key: str | None = None,
    ) -> AgentTask:
        """Queue a task; the same `key` again returns the first task and queues nothing."""
        _check_text(text, "a task")
        values = {
            "id": new_id("tsk"),
            "text": text,
            "workspace": os.path.realpath(workspace),
            "run_id": run_id or str(uuid7()),
            "queue": queue,
            "lane": lane.value,
            "options": _dump(options or {}),
            "origin": _dump(origin or {}),
            "now": self._clock.now(),
            "key": key,
        }
        with self._writing() as db:
            known = None if key is None else db.execute(sql.TASK_BY_KEY, {"key": key}).fetchone()
            if known is not None:
                return task_of(known)
            db.execute(sql.ADD_TASK, values)
            self._notify(db, str(values["id"]), "task.queued", {"queue": queue})
            db.execute(sql.FORGET_NOTICES, {"most": MOST_NOTICES})
            return task_of(db.execute(sql.TASK, {"id": values["id"]}).fetchone())

    def find(self, task_id: str) -> AgentTask:
        """Return a task by its id or an unambiguous beginning of it; KeyError when there is none."""
        escaped = task_id.replace("!", "!!").replace("%", "!%").replace("_", "!_")
        found = self._read(sql.TASKS_BY_PREFIX, task_of, prefix=f"{escaped}%") if task_id else ()
        exact = [task for task in found if task.id == task_id]
        if len(exact or found) != 1:
            raise KeyError(task_id)
        return (exact or found)[0]

    def find_by_run(self, run_id: str) -> AgentTask:
        """Return the newest task of a run; KeyError when there is none."""
        found = self._read(sql.TASKS_BY_RUN, task_of, run_id=run_id)
        if not found:
            raise KeyError(run_id)
        return found[0]

    def list(self, states: Iterable[TaskState] = ()) -> tuple[AgentTask, ...]:
        """Return the tasks in these states (none given: in any), oldest first."""
        wanted = frozenset(states)
        if len(wanted) == 1:
            return self._read(sql.IN_STATE, task_of, state=next(iter(wanted)).value)
        return tuple(task for task in self._read(sql.ALL_TASKS, task_of) if not wanted or task.state in wanted)

    def cancel(self, task_id: str, by: str = "") -> AgentTask:
        """Cancel a task: at once where nobody works on it, otherwise its worker stops it at the next chance."""
        answer = f"Cancelled by {by}." if by else "Cancelled."
        now = self._clock.now()
        with self._writing() as db:
            if _changed(db, sql.CANCEL, id=task_id, answer=answer, now=now):
                self._notify(db, task_id, "task.cancelled", {"answer": answer, "reason": "cancelled"})
            else:
                db.execute(sql.ASK_TO_CANCEL, {"id": task_id, "now": now})
            return self._task(db, task_id)

    def resume(
        self, task_id: str, *, lane: Lane = Lane.WORKER, options: Mapping[str, Json] | None = None
    ) -> AgentTask | None:
        """Queue a failed or cancelled task again, or hand a waiting one over; None where there is nothing to resume."""
        with self._writing() as db:
            task = self._task(db, task_id)
            if not _changed(db, sql.RESUME, id=task_id, lane=lane.value, now=self._clock.now()):
                return None
            # Counted, so that a task which ended is told from one whose worker died before it could say so.
            resumed = int(task.options.get("resumed") or 0) + task.ended
            changed = {**task.options, **(options or {}), "resumed": resumed}
            db.execute(sql.SET_OPTIONS, {"id": task_id, "options": _dump(changed)})
            self._notify(db, task_id, "task.queued", {"queue": task.queue, "resumed": True})
            return self._task(db, task_id)

    def message(self, task_id: str, text: str, by: str = "", *, key: str | None = None) -> bool:
        """Leave a message for a task, which reads it before its next turn; False where `key` was used before."""
        _check_text(text, "a message")
        now = self._clock.now()
        with self._writing() as db:
            task = self._task(db, task_id)
            if task.ended:
                raise Misuse(f"task {task_id} is {task.state.value}: nobody reads messages to it any more")
            added = _changed(db, sql.ADD_MESSAGE, task=task_id, text=text, by=by, now=now, key=key)
            if added:
                self._notify(db, task_id, "message.received", {"text": text, "by": by})
            return added

    def answer(self, question_id: str, text: str, by: str = "") -> PersonQuestion:
        """Answer a question; the first answer counts, a later one raises QuestionAnswered, KeyError when unknown."""
        _check_text(text, "an answer")
        with self._writing() as db:
            row = db.execute(sql.QUESTION, {"id": question_id}).fetchone()
            if row is None:
                raise KeyError(question_id)
            question = question_of(row)
            if question.answer is not None:
                raise QuestionAnswered(question)
            chosen = _choose(question, text)
            db.execute(sql.ANSWER, {"id": question_id, "answer": chosen, "by": by})
            self._notify(db, question.task, "question.answered", {"question": question_id, "answer": chosen, "by": by})
            return question_of(db.execute(sql.QUESTION, {"id": question_id}).fetchone())

    def questions(self, task_id: str = "") -> tuple[PersonQuestion, ...]:
        """Return all questions of a task, oldest first; without a task those of all tasks that nobody answered."""
        if task_id:
            return self._read(sql.QUESTIONS_OF_TASK, question_of, task=task_id)
        return self._read(sql.OPEN_QUESTIONS, question_of)

    def question(self, question_id: str) -> PersonQuestion:
        """Return one question; KeyError when unknown."""
        found = self._read(sql.QUESTION, question_of, id=question_id)
        if not found:
            raise KeyError(question_id)
        return found[0]

    # ── what the loop and its workers do ─────────────────────────────────────────────────────

    def queued(self) -> tuple[AgentTask, ...]:
        """Return the tasks that wait for a worker, oldest first."""
        return self._read(sql.QUEUED, task_of)

    def held(self) -> tuple[AgentTask, ...]:
        """Return the tasks that workers have taken."""
        return self._read(sql.HELD, task_of)

    def claim(self, task: AgentTask, owner: str) -> AgentTask | None:
        """Take a task; None where somebody else took it, or it was cancelled."""
        with self._writing() as db:
            if not _changed(db, sql.CLAIM, id=task.id, epoch=task.epoch, owner=owner, now=self._clock.now()):
                return None
            self._notify(db, task.id, "task.running", {"run": task.run_id})
            return self._task(db, task.id)

    def wait(self, task: AgentTask, waits: TaskWaits) -> bool:
        """Have a task wait for a person; False where somebody else has it by now."""
        with self._writing() as db:
            body = waits.to_json()
            moved = _changed(
                db, sql.WAIT, id=task.id, epoch=task.epoch, waits=_dump(body), now=self._clock.now()
            )  # fmt: skip
            if moved:
                self._notify(db, task.id, "task.waiting", body)
            return moved

    def signal(self, task_id: str) -> bool:
        """Queue a waiting task again: what it waited for is settled."""
        with self._writing() as db:
            moved = _changed(db, sql.SIGNAL, id=task_id, now=self._clock.now())
            if moved:
                self._notify(db, task_id, "task.queued", {"woken": True})
            return moved

    def release(self, task: AgentTask) -> bool:
        """Give a taken task back to the queue, for another worker."""
        with self._writing() as db:
            return _changed(db, sql.REQUEUE, id=task.id, epoch=task.epoch, now=self._clock.now())

    def finish(
        self,
        task: AgentTask,
        state: TaskState,
        answer: str,
        reason: str = "",
        summary: Mapping[str, Json] | None = None,
    ) -> bool:
        """End a task; False where somebody else has it by now."""
        told = {"answer": answer, "reason": reason}
        with self._writing() as db:
            moved = _changed(
                db, sql.FINISH, id=task.id, epoch=task.epoch, state=state.value, summary=_dump(summary or {}),
                now=self._clock.now(), **told,
            )  # fmt: skip
            if moved:
                self._notify(db, task.id, f"task.{state.value}", told)
            return moved

    def ask(self, question: PersonQuestion) -> PersonQuestion:
        """Put a question on record, once by its id; return it as it is on record."""
        values = {
            "id": question.id, "task": question.task, "kind": question.kind, "text": question.text,
            "choices": _dump(list(question.choices)), "turn": question.turn, "place": question.index,
            "now": self._clock.now(),
        }  # fmt: skip
        with self._writing() as db:
            if db.execute(sql.ADD_QUESTION, values).rowcount == 1:
                self._notify(db, question.task, "question.asked", question.to_dict())
            return question_of(db.execute(sql.QUESTION, {"id": question.id}).fetchone())

    def messages(self, task_id: str, after: int = 0) -> tuple[PersonMessage, ...]:
        """Return the messages to a task behind a number, oldest first."""
        return self._read(sql.MESSAGES, lambda row: PersonMessage(*row), task=task_id, after=after)

    def cancelling(self) -> frozenset[str]:
        """Return the ids of running tasks that a person asked to cancel."""
        return frozenset(self._read(sql.CANCELLING, lambda row: str(row[0])))

    # ── following ────────────────────────────────────────────────────────────────────────────

    def notices(self, after: int = 0, limit: int = 1000) -> tuple[Notice, ...]:
        """Return the changes behind a number, oldest first; keep the last number with `set_mark` to go on later."""
        return self._read(sql.NOTICES, _notice_of, after=after, limit=limit)

    def last_notice(self) -> int:
        """Return the number of the newest change."""
        return self._read(sql.LAST_NOTICE, lambda row: int(row[0]))[0] if not self._absent() else 0

    def mark(self, name: str) -> str:
        """Return what a follower stored under a name, such as how far it got; empty when nothing."""
        found = self._read(sql.MARK, lambda row: str(row[0]), name=name)
        return found[0] if found else ""

    def set_mark(self, name: str, value: str) -> None:
        """Store a follower's own note durably."""
        with self._writing() as db:
            db.execute(sql.SET_MARK, {"name": name, "value": value})

    def changed(self) -> bool:
        """Whether anything was written since this was last asked; cheap enough to ask every 20 ms."""
        before = self._version_seen
        found = self._read(sql.DATA_VERSION, lambda row: int(row[0]))
        self._version_seen = found[0] if found else 0
        return before != self._version_seen

    # ── the file ─────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Close the file; a later use opens it again."""
        with self._lock:
            for db in (self._reader, self._writer):
                if db is not None:
                    db.close()
            self._reader = None
            self._writer = None

    def _task(self, db: sqlite3.Connection, task_id: str) -> AgentTask:
        row = db.execute(sql.TASK, {"id": task_id}).fetchone()
        if row is None:
            raise KeyError(task_id)
        return task_of(row)

    def _notify(self, db: sqlite3.Connection, task_id: str, kind: str, body: Mapping[str, Json]) -> None:
        values = {"task": task_id, "kind": kind, "body": _dump(body), "now": self._clock.now()}
        db.execute(sql.ADD_NOTICE, values)

    def _absent(self) -> bool:
        return self._reader is None and self._writer is None and not self.path.exists()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Hold the one write transaction of all processes; what it did is on the disk when this ends well."""
        with self._lock, _reporting(self.path):
            if self._writer is None:
                self._writer = private_db.connect(self.path, sql.TABLES, sql.VERSION)
            db = self._writer
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def _read(self, query: str, read: Callable[[Row], T], **values: Any) -> tuple[T, ...]:
        if self._absent():
            return ()
        with self._lock, _reporting(self.path):
            if self._reader is None:
                self._reader = private_db.connect(self.path, sql.TABLES, sql.VERSION)
                self._reader.execute("PRAGMA query_only = ON")
            return tuple(read(row) for row in self._reader.execute(query, values).fetchall())


def question_id(task_id: str, turn: int, index: int, attempt: int = 0) -> str:
    """Name the question of one call: asking again after a crash asks the same question."""
    digest = sha256(f"{task_id}:{turn}:{index}:{attempt}".encode()).digest()
    return f"qst_{b32encode(digest).decode().lower()[:10]}"


def task_of(row: Row) -> AgentTask:
    """Build a task from its row."""
    (task_id, state, text, workspace, run_id, queue, lane, options, origin, created, updated, epoch, owner, waits) = (
        row[:14]
    )
    return AgentTask(
        task_id, TaskState(state), text, workspace, run_id, queue, Lane(lane), orjson.loads(options),
        orjson.loads(origin), created, updated, epoch, owner, TaskWaits.from_json(orjson.loads(waits)),
        bool(row[14]), row[15], row[16], orjson.loads(row[17]),
    )  # fmt: skip


def question_of(row: Row) -> PersonQuestion:
    """Build a question from its row."""
    identity, task, kind, text, choices, turn, index, answer, by, created = row
    return PersonQuestion(identity, task, kind, text, tuple(orjson.loads(choices)), turn, index, answer, by, created)


def _notice_of(row: Row) -> Notice:
    return Notice(row[0], row[1], row[2], orjson.loads(row[3]), row[4])


def _choose(question: PersonQuestion, text: str) -> str:
    """Return the choice that an answer means; Misuse where the question has choices and it is none of them."""
    if not question.choices:
        return text
    wanted = text.strip().lower()
    fitting = [choice for choice in question.choices if choice == wanted]
    fitting = fitting or [choice for choice in question.choices if wanted and choice.startswith(wanted)]
    if len(fitting) != 1:
        raise Misuse(f"answer {question.id} with one of: {', '.join(question.choices)}")
    return fitting[0]


def _check_text(text: str, what: str) -> None:
    if not is_text(text) or not text.strip() or len(text) > MOST_TEXT:
        raise Misuse(f"{what} needs between 1 and {MOST_TEXT} characters")


def _dump(value: Any) -> str:
    return orjson.dumps(value).decode()


def _changed(db: sqlite3.Connection, statement: str, **values: Any) -> bool:
    return db.execute(statement, values).rowcount == 1


@contextmanager
def _reporting(path: Path) -> Iterator[None]:
    """Report what is wrong with the file in words for a person."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise Problem(
            Code.IO_ERROR,
            f"The inbox {path} cannot be used ({reason}). Check its permissions and the space on its disk.",
        ) from error

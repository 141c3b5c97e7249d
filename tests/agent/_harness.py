"""An agent in this process: inbox, ledger, worker and the real kernel; only the model is a script."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from handrail.agent.conversation import CallResult, Conversation, ToolOffer, Turn
from handrail.agent.engine import InboxEngine
from handrail.agent.inbox import FILE, Inbox
from handrail.agent.providers import Provider
from handrail.agent.session import Session, open_runtime
from handrail.agent.tasks import AgentTask
from handrail.agent.worker import Worker
from handrail.compose import SystemClock
from handrail.ports import Clock, Reply
from handrail.settings import paths
from handrail.store.ledger import SqliteLedger
from handrail.store.reader import events, verify

Script = Sequence[Mapping[str, Any]]
ENABLED = ("fs", "exec", "delete_path")


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """One call of a scripted turn."""
    return {"name": name, "arguments": arguments}


def calls(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A scripted turn of several calls."""
    return {"tool_calls": list(items), **more}


ANSWER = {"final_answer": "done"}


class Agent:
    """Sends tasks, runs them, answers them, and looks at what is on record."""

    def __init__(
        self, work: Path, config: Mapping[str, Any] | None = None, clock: Clock | None = None, **session: Any
    ) -> None:
        self.work = work
        self.clock = clock or SystemClock()
        self.inbox = Inbox(paths.state_dir() / FILE, self.clock)
        self.ledger = SqliteLedger(paths.state_dir() / "ledger.db", self.clock)
        self.config = {"tools": {"enable": list(ENABLED)}} if config is None else dict(config)
        self.engine = InboxEngine(self.inbox, self.ledger, self.clock, queues=session.pop("queues", ()))
        how = {"config": self.config, "clock": clock, **session.pop("how", {})}
        session.setdefault("opens", partial(open_runtime, **how))
        self.session = Session(self.engine, **session)

    def put(self, script: Script | None = None, text: str = "do it", **options: Any) -> AgentTask:
        """Queue a task for the scripted model."""
        queue = options.pop("queue", "")
        more = {} if script is None else {"script": list(script)}
        return self.inbox.put(text, str(self.work), queue=queue, options={**more, **options})

    async def work_off(self) -> None:
        """Run a worker until nothing is queued."""
        await Worker(self.session, once=True).run()

    async def run(self, script: Script, text: str = "do it", **options: Any) -> AgentTask:
        """Queue a task, work it off, and return it as it is then."""
        task = self.put(script, text, **options)
        await self.work_off()
        return self.inbox.find(task.id)

    async def finish(self, task: AgentTask, answer: str = "yes", most: int = 20) -> AgentTask:
        """Work on, approving and answering everything, until the task has ended."""
        for _ in range(most):
            await self.work_off()
            task = self.inbox.find(task.id)
            if task.ended:
                return task
            self.answer_all(task, answer)
        raise AssertionError(f"the task did not end: {task}")

    def answer_all(self, task: AgentTask, answer: str = "yes") -> None:
        """Say yes to every request of a task, and answer its questions."""
        for request in task.waits.requests:
            if self.ledger.find(request).state == "pending":
                self.ledger.answer(request, Reply("granted", by="tester"))
        for question in task.waits.questions:
            if self.inbox.question(question).answer is None:
                choices = self.inbox.question(question).choices
                self.inbox.answer(question, "count as done" if choices else answer, "tester")

    def folder(self, task: AgentTask) -> Path:
        """The run's folder."""
        return paths.runs_dir() / task.run_id

    def events(self, task: AgentTask, *kinds: str) -> list[dict[str, Any]]:
        """The events of a task's run, of these kinds or all; the journal must be whole."""
        assert verify(self.folder(task)).ok
        return [event for event in events(self.folder(task)) if not kinds or event["kind"] in kinds]

    def results(self, task: AgentTask) -> list[dict[str, Any]]:
        """What the model was given back, in the order of its calls."""
        lines = [line for line in self.lines(task) if line["kind"] == "result"]
        return [line["result"] for line in sorted(lines, key=lambda line: (line["n"], line["i"]))]

    def lines(self, task: AgentTask) -> list[dict[str, Any]]:
        """The lines of the turn log."""
        text = (self.folder(task) / "agent" / "turns.jsonl").read_bytes()
        return [orjson.loads(line) for line in text.splitlines()]


class Watching:
    """A model that keeps what it was asked with, and answers from a script."""

    name = "watching"
    model = "watched"

    def __init__(self, model: Provider) -> None:
        self._model = model
        self.asked: list[Conversation] = []
        self.tools: Sequence[ToolOffer] = ()

    async def next(self, messages: Conversation, tools: Sequence[ToolOffer]) -> Turn:
        """Note the question, and pass it on."""
        self.asked.append(tuple(messages))
        self.tools = tools
        return await self._model.next(messages, tools)


def results_in(messages: Conversation) -> Iterator[CallResult]:
    """The results of calls in what a model was asked with."""
    return (item for item in messages if isinstance(item, CallResult))


def watch(agent: Agent, monkeypatch: Any) -> Callable[[], Watching]:
    """Have the session build a watched model; returns a function that gives the last one."""
    from handrail.agent import session
    from handrail.agent.providers import build_provider

    made: list[Watching] = []

    def build(options: Mapping[str, Any]) -> Watching:
        made.append(Watching(build_provider(options)))
        return made[-1]

    monkeypatch.setattr(session, "build_provider", build)
    return lambda: made[-1]


def state_files() -> list[str]:
    """The files of the account's state folder."""
    return sorted(os.listdir(paths.state_dir()))

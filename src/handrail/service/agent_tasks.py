"""The agent's inbox as the service uses it: tasks that people give, watch and answer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from handrail.agent.inbox import FILE, Inbox, QuestionAnswered
from handrail.agent.owners import is_alive
from handrail.agent.tasks import AgentTask
from handrail.errors import Code
from handrail.ports import Clock
from handrail.service.identities import Identity
from handrail.service.inbox import Refusal

_MOST_LISTED = 200


class AgentTasks:
    """Tasks of one account; who gave each is in its origin."""

    def __init__(self, state: Path, clock: Clock) -> None:
        self.inbox = Inbox(state / FILE, clock)

    def give(self, identity: Identity, text: str, workspace: str, queue: str, key: str | None = None) -> AgentTask:
        """Queue a task for a worker."""
        origin = {"commander": "service", "by": identity.name}
        own_key = None if key is None else f"service:{identity.name}:{key}"
        return self.inbox.put(text, workspace, queue=queue, origin=origin, key=own_key)

    def newest(self, identity: Identity) -> list[AgentTask]:
        """List the tasks that somebody may see, newest first."""
        return [task for task in reversed(self.inbox.list()) if may_see(identity, task)][:_MOST_LISTED]

    def find(self, identity: Identity, task_id: str) -> AgentTask:
        """Give one task; Refusal 404 where there is none that this identity may see."""
        try:
            task = self.inbox.find(task_id)
        except KeyError:
            task = None
        if task is None or not may_see(identity, task):
            raise Refusal(404, Code.NOT_FOUND, f"There is no task {task_id[:100]!r}.")
        return task

    def cancel(self, identity: Identity, task_id: str) -> AgentTask:
        """Cancel a task; its worker stops it."""
        task = self.find(identity, task_id)
        if task.ended:
            raise Refusal(409, Code.INVALID_ARGS, f"The task is {task.state.value} already.", state=task.state.value)
        return self.inbox.cancel(task.id, identity.name)

    def message(self, identity: Identity, task_id: str, text: str) -> AgentTask:
        """Say something to a task that runs; it approves nothing."""
        task = self.find(identity, task_id)
        if task.ended:
            raise Refusal(409, Code.INVALID_ARGS, f"The task is {task.state.value}: nobody reads messages to it.")
        self.inbox.message(task.id, text, identity.name)
        return task

    def answer(self, identity: Identity, task_id: str, text: str, question_id: str = "") -> AgentTask:
        """Answer what a task asks; the first answer counts."""
        task = self.find(identity, task_id)
        waiting = [item for item in self.inbox.questions(task.id) if item.answer is None]
        chosen = [item for item in waiting if not question_id or item.id == question_id]
        if not chosen:
            if task.waits.requests:
                text = "The task waits for an approval, which a text does not give: answer the request in the inbox."
                raise Refusal(409, Code.APPROVAL_REQUIRED, text, requests=list(task.waits.requests))
            raise Refusal(409, Code.INVALID_ARGS, "The task asks nothing that is still open.")
        try:
            self.inbox.answer(chosen[-1].id, text, identity.name)
        except QuestionAnswered as late:
            by = late.question.by
            raise Refusal(409, Code.INVALID_ARGS, f"{by or 'Somebody'} has answered it already.", by=by) from None
        return self.inbox.find(task.id)

    def show(self, task: AgentTask) -> dict[str, Any]:
        """Tell a task with its questions and messages."""
        return {
            **task.to_dict(),
            "by": str(task.origin.get("by") or ""),
            "questions": [item.to_dict() for item in self.inbox.questions(task.id)],
            "messages": [{"text": item.text, "by": item.by} for item in self.inbox.messages(task.id)],
        }

    def open_questions(self, identity: Identity) -> list[dict[str, Any]]:
        """List what tasks ask people and nobody has answered."""
        found = []
        for question in self.inbox.questions():
            task = self.inbox.find(question.task)
            if may_see(identity, task) and not task.ended:
                found.append({**question.to_dict(), "workspace": task.workspace, "run_id": task.run_id})
        return found

    def giver_of(self, run_id: str) -> str:
        """Name who gave the task of a run; empty where it is none of a task."""
        try:
            return str(self.inbox.find_by_run(run_id).origin.get("by") or "")
        except KeyError:
            return ""

    def counts(self) -> dict[str, int]:
        """Count the tasks by state."""
        return dict(Counter(task.state.value for task in self.inbox.list()))

    def workers(self) -> list[dict[str, Any]]:
        """Tell which processes work on tasks now."""
        return [
            {"name": f"process {task.owner.partition(':')[0]}", "queues": task.queue or "any", "task": task.id}
            for task in self.inbox.held()
            if is_alive(task.owner)
        ]


def may_see(identity: Identity, task: AgentTask) -> bool:
    """Whether somebody may read a task: callers read their own."""
    return identity.has("approver", "auditor", "admin") or task.origin.get("by") == identity.name

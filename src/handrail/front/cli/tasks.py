"""handrail tasks: what the agent has to do, does and did; cancelling, resuming, answering."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from handrail.front.cli._agent import LIMITS, open_inbox, task_options, tell_waits
from handrail.front.cli._common import JSON, console, harmless, print_json

if TYPE_CHECKING:
    from handrail.agent.inbox import Inbox
    from handrail.agent.tasks import AgentTask, PersonQuestion

COLOUR = {"queued": "cyan", "running": "blue", "waiting": "yellow", "done": "green", "failed": "red"}
ID = click.argument("task_id", metavar="ID")
NONE = 'There are no tasks; `handrail send "TASK"` or `handrail agent "TASK"` makes one.\n'


@click.group("tasks")
def command() -> None:
    """List, show, cancel, resume and answer tasks of the agent."""


@command.command("list")
@click.option("--all", "every", is_flag=True, help="show those that have ended, too")
@JSON
def list_tasks(every: bool, as_json: bool) -> None:
    """List what is queued, running and waiting for a person."""
    found = [task for task in open_inbox().list() if every or not task.ended]
    if as_json:
        print_json([task.to_dict() for task in found])
        return
    if not found:
        sys.stderr.write(
            NONE if every else "No task is queued, running or waiting; --all shows those that have ended.\n"
        )
        return
    from handrail.front.cli._tables import coloured, from_home, plain, print_rows

    rows = [
        (
            plain(task.id),
            coloured(task.state.value, COLOUR),
            datetime.fromtimestamp(task.created).astimezone().strftime("%m-%d %H:%M"),
            plain(task.queue or "-"),
            plain(" ".join(task.text.split())),
            plain(from_home(task.workspace)),
        )
        for task in found
    ]
    print_rows(
        console(), ("id", "state", "since", "queue", "task", "workspace"), rows, ("workspace", "task"), fair=True
    )


@command.command("show")
@ID
@JSON
def show(task_id: str, as_json: bool) -> None:
    """Show one task: what was asked, how far it is, its answer."""
    inbox = open_inbox()
    task = find_task(inbox, task_id)
    if as_json:
        print_json({**task.to_dict(), "questions": [question.to_dict() for question in inbox.questions(task.id)]})
        return
    lines = [f"task   {task.id} ({task.state.value}{f', {task.reason}' if task.reason else ''})"]
    lines += [f"run    {task.run_id}", f"in     {task.workspace}", f"asked  {harmless(task.text)}"]
    if task.summary:
        lines.append(f"used   {task.summary.get('turns', 0)} turns, {task.summary.get('calls', 0)} calls")
    if task.answer:
        lines.append(f"answer {harmless(task.answer)}")
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    tell_waits(task, inbox)


@command.command("cancel")
@ID
def cancel(task_id: str) -> None:
    """Cancel a task; one that runs is stopped by its worker."""
    from handrail.approvals.account import account

    inbox = open_inbox()
    task = find_task(inbox, task_id)
    if task.ended:
        raise click.UsageError(f"Task {task.id} is {task.state.value} already.")
    now = inbox.cancel(task.id, account())
    sys.stderr.write(f"{task.id}: {'its worker stops it' if now.cancelling else now.state.value}\n")


@command.command("resume")
@ID
@LIMITS
def resume(task_id: str, **given: Any) -> None:
    """Queue a task again that failed or was cancelled, or hand one of `handrail agent` to the workers.

    It goes on where it stopped, and its limits count anew.
    """
    inbox = open_inbox()
    task = find_task(inbox, task_id)
    if inbox.resume(task.id, options=task_options(given)) is None:
        raise click.UsageError(f"Task {task.id} is {task.state.value}: there is nothing to resume.")
    sys.stderr.write(f"{task.id}: queued\n")


@command.command("answer")
@ID
@click.argument("text")
def answer(task_id: str, text: str) -> None:
    """Answer what a task asks; ID is the task's or the question's.

    An approval is not answered here: `handrail approvals grant` shows what would run first.
    """
    from handrail.approvals.account import account

    inbox = open_inbox()
    question = _question(inbox, task_id)
    given = inbox.answer(question.id, text, account())
    sys.stderr.write(f"{question.task}: answered: {harmless(str(given.answer))}\n")
    task = inbox.find(question.task)
    if task.lane.value == "foreground":
        sys.stderr.write(f"to go on: handrail agent --resume {task.run_id}\n")


@command.command("message")
@ID
@click.argument("text")
def message(task_id: str, text: str) -> None:
    """Say something to a task that runs; it reads it before its next turn. It approves nothing."""
    from handrail.approvals.account import account

    inbox = open_inbox()
    task = find_task(inbox, task_id)
    inbox.message(task.id, text, account())
    sys.stderr.write(f"{task.id}: it reads that before its next turn\n")


def _question(inbox: Inbox, name: str) -> PersonQuestion:
    """Find the question that is meant: by its own id, or the one that a task asks now."""
    if name.startswith("qst_"):
        try:
            return inbox.question(name)
        except KeyError:
            raise click.UsageError(f"There is no question {name!r}; `handrail tasks list` shows who asks.") from None
    task = find_task(inbox, name)
    waiting = [question for question in inbox.questions(task.id) if question.answer is None]
    if waiting:
        return waiting[-1]
    if task.waits.requests:
        names = ", ".join(f"handrail approvals grant {request}" for request in task.waits.requests)
        raise click.UsageError(f"Task {task.id} waits for an approval, which a text does not give: {names}")
    raise click.UsageError(f"Task {task.id} asks nothing; it is {task.state.value}.")


def find_task(inbox: Inbox, name: str) -> AgentTask:
    """Return a task by its id or the beginning of it."""
    try:
        return inbox.find(name)
    except KeyError:
        raise click.UsageError(f"There is no task {name!r}; `handrail tasks list --all` shows them.") from None

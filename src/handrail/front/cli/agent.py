"""handrail agent: one task in the foreground."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from handrail.front.cli._agent import LIMITS, MODEL, Follower, exit_code, open_inbox, opener, task_options, tell_waits
from handrail.front.cli._common import (
    CONFIG,
    DIALECT,
    JSON,
    WORKSPACE,
    Stderr,
    clock,
    harmless,
    ledger,
    print_json,
    run_async,
    workspace_of,
)

if TYPE_CHECKING:
    from handrail.agent.inbox import Inbox
    from handrail.agent.session import PatientApprover
    from handrail.agent.tasks import AgentTask, PersonQuestion


@click.command("agent")
@click.argument("task", required=False)
@MODEL
@LIMITS
@click.option("--run", "run_id", metavar="NAME", help="the run to work in: the name of a new one, or one to go on with")
@click.option("--resume", metavar="RUN", help="go on with the task of a run that waits, failed or was interrupted")
@click.option("--enable", multiple=True, metavar="TOOL", help="enable a tool or toolset for this task")
@click.option("--headless", is_flag=True, help="nobody is here: what must be asked waits, and this command ends")
@DIALECT
@WORKSPACE
@CONFIG
@JSON
def command(**given: Any) -> int:
    """Give an agent a task, and wait for its answer.

    \b
    handrail agent "why does the build fail?" --model openai:gpt-5
    handrail agent "mend it" --script steps.json     without a model
    handrail agent --resume RUN                      go on after a wait or a stop

    The answer goes to stdout, everything else to stderr. Every call passes the same gate as any other.
    """
    if bool(given["task"]) == bool(given["resume"]):
        raise click.UsageError("Give a task, or --resume RUN to go on with one.")
    inbox = open_inbox()
    task = _resumed(inbox, given) if given["resume"] else _put(inbox, given)
    task = run_async(_work(inbox, task, given))
    return _tell(inbox, task, as_json=given["as_json"])


def _put(inbox: Inbox, given: Mapping[str, Any]) -> AgentTask:
    from handrail.agent.tasks import Lane
    from handrail.approvals.account import account
    from handrail.store.folders import check_run_id

    if given["run_id"]:
        check_run_id(given["run_id"])
    return inbox.put(
        given["task"], workspace_of(given), lane=Lane.FOREGROUND, options=task_options(given), run_id=given["run_id"],
        origin={"commander": "terminal", "by": account()},
    )  # fmt: skip


def _resumed(inbox: Inbox, given: Mapping[str, Any]) -> AgentTask:
    """Find the task of a run by its name, the beginning of it, or the task's own id; take it back to be worked on."""
    from handrail.agent.owners import is_alive
    from handrail.agent.tasks import Lane, TaskState

    name = given["resume"]
    found = [task for task in inbox.list() if name in (task.id, task.run_id) or task.run_id.startswith(name)]
    if not found:
        raise click.UsageError(f"There is no task of a run {name!r}; `handrail tasks list --all` shows them.")
    task = found[-1]
    if task.state is TaskState.DONE:
        raise click.UsageError(f"The task of run {task.run_id} is done: {task.answer[:200]}")
    if task.state is TaskState.RUNNING and is_alive(task.owner):
        raise click.UsageError(
            f"The task of run {task.run_id} is being worked on (process {task.owner.split(':')[0]})."
        )
    if task.state in (TaskState.QUEUED, TaskState.RUNNING) and task.lane is Lane.WORKER:
        raise click.UsageError(f"The task of run {task.run_id} is queued for a worker: `handrail worker` runs it.")
    if task.state is TaskState.WAITING:
        inbox.signal(task.id)
    else:
        inbox.resume(task.id, lane=Lane.FOREGROUND, options=task_options(given))
    return inbox.find(task.id)


async def _work(inbox: Inbox, task: AgentTask, given: Mapping[str, Any]) -> AgentTask:
    from handrail.agent.engine import InboxEngine
    from handrail.agent.session import Session
    from handrail.front.cli._ask import ask_here

    engine = InboxEngine(inbox, ledger(), clock())
    here = sys.stdin.isatty() and sys.stderr.isatty() and not given["headless"]
    taken = engine.claim(task)
    if taken is None:
        raise click.UsageError(f"Task {task.id} was taken by another process.")
    follower = Follower(_show)

    async def ask(question: PersonQuestion) -> PersonQuestion:
        follower.flush()  # what happened before stands before the question
        return await ask_here(inbox, question)

    session = Session(
        engine,
        opens=opener(given, Stderr(live=False)),
        approver=partial(_approver, follower, here=here),
        answers=ask if here else None,
        opened=lambda task, runtime: None if given["as_json"] else follower.begin(task, runtime),
    )
    working = asyncio.ensure_future(session.work(taken))
    watching = asyncio.ensure_future(_watch(inbox, taken, working))
    try:
        end = await working
    except BaseException:
        engine.release(taken)
        raise
    finally:
        watching.cancel()
        follower.flush()
    if end is None:
        raise click.UsageError(f"Run {task.run_id} is open in another process.")
    return inbox.find(task.id)


async def _watch(inbox: Inbox, task: AgentTask, working: asyncio.Task[Any]) -> None:
    """Cancel the work once a person elsewhere cancels the task."""
    while task.id not in inbox.cancelling():  # noqa: ASYNC110  another process writes it
        await asyncio.sleep(0.1)
    working.cancel()


def _approver(follower: Follower, *, here: bool) -> PatientApprover:
    from handrail.agent.patience import LaterApprover, TimedApprover

    if not here:
        return LaterApprover()
    from handrail.approvals.terminal import TerminalApprover

    return TimedApprover(TerminalApprover(ledger(), clock()), clock(), follower.flush)


def _show(_: AgentTask, event: Mapping[str, Any]) -> None:
    from handrail.front.cli._live import Told

    Told(live=True, asked_here=True).all(iter([dict(event)]))


def _tell(inbox: Inbox, task: AgentTask, *, as_json: bool) -> int:
    """Print the answer, or why there is none."""
    from handrail.agent.tasks import TaskState

    if as_json:
        print_json(task.to_dict())
        return exit_code(task)
    if task.state is TaskState.DONE:
        text = harmless(task.answer) if sys.stdout.isatty() else task.answer
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    elif task.state is TaskState.WAITING:
        tell_waits(task, inbox)
        sys.stderr.write(f"then:     handrail agent --resume {task.run_id}\n")
    else:
        sys.stderr.write(f"{harmless(task.answer)}\n")
    return exit_code(task)

"""handrail send: a task into the inbox, for a worker."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from handrail.front.cli._agent import LIMITS, MODEL, exit_code, open_inbox, task_options, tell_waits
from handrail.front.cli._common import DIALECT, JSON, WORKSPACE, harmless, print_json, run_async, workspace_of

if TYPE_CHECKING:
    from handrail.agent.inbox import Inbox
    from handrail.agent.tasks import AgentTask

POLL_SECONDS = 0.05


@click.command("send")
@click.argument("task")
@click.option("--queue", default="", metavar="NAME", help="only for workers that offer this: `handrail worker --queue`")
@click.option("--wait", is_flag=True, help="wait until the task has ended, and print its answer")
@click.option("--key", metavar="KEY", help="the same key again sends nothing, and names the first task")
@MODEL
@LIMITS
@DIALECT
@WORKSPACE
@JSON
def command(**given: Any) -> int:
    """Put a task into the inbox; `handrail worker` works on it.

    Prints the task's id. `handrail tasks` shows how far it is, and answers what it asks.
    """
    from handrail.approvals.account import account

    inbox = open_inbox()
    task = inbox.put(
        given["task"], workspace_of(given), queue=given["queue"], options=task_options(given), key=given["key"],
        origin={"commander": "cli", "by": account()},
    )  # fmt: skip
    if given["wait"]:
        task = run_async(_wait(inbox, task))
    if given["as_json"]:
        print_json(task.to_dict())
    elif given["wait"]:
        out = sys.stdout if task.state.value == "done" else sys.stderr
        out.write(f"{harmless(task.answer)}\n")
    else:
        sys.stdout.write(f"{task.id}\n")
    return exit_code(task) if given["wait"] else 0


async def _wait(inbox: Inbox, task: AgentTask) -> AgentTask:
    """Wait for the end of a task; say once what it waits for."""
    sys.stderr.write(f"task {task.id}\n")
    told = None
    while not task.ended:
        if task.state.value == "waiting" and task.waits != told:
            told = task.waits
            tell_waits(task, inbox)
        await asyncio.sleep(POLL_SECONDS)
        if inbox.changed():
            task = inbox.find(task.id)
    return task

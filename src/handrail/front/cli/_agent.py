"""What the verbs of the agent share: inbox and engine, options of a task, its settings, showing its events."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from handrail.front.cli._common import clock, harmless, ledger

if TYPE_CHECKING:
    from handrail.agent.inbox import Inbox
    from handrail.agent.session import PatientApprover
    from handrail.agent.tasks import AgentTask
    from handrail.front.cli._live import Tail
    from handrail.runtime import Runtime

Command = TypeVar("Command", bound=Callable[..., Any])
POLL_SECONDS = 0.05
EXIT = {"done": 0, "failed": 1, "cancelled": 130, "waiting": 4, "queued": 4, "running": 4}
_REASONS = {"max_wall_seconds": 124, "stopped_by_person": 3}


def MODEL(command: Command) -> Command:  # noqa: N802  stands among decorators
    """Let a verb be told which model to use."""
    for option in (
        click.option("--script", metavar="FILE", help="a JSON file of steps in place of a model"),
        click.option("--provider", metavar="NAME", help="how the model is reached: pydantic-ai, json or scripted"),
        click.option("--model", metavar="NAME", help="the model, such as openai:gpt-5; its key is in the environment"),
    ):
        command = option(command)
    return command


def LIMITS(command: Command) -> Command:  # noqa: N802  stands among decorators
    """Let a verb be told what stops a task."""
    count = click.IntRange(1)
    for option in (
        click.option("--max-tokens", type=count, metavar="N", help="stop after so many tokens"),
        click.option("--max-seconds", type=click.FloatRange(0.001), metavar="S", help="stop after so long a time"),
        click.option("--max-turns", type=count, metavar="N", help="stop after so many turns"),
    ):
        command = option(command)
    return command


def open_inbox() -> Inbox:
    """Open the account's inbox of tasks."""
    from handrail.agent.inbox import FILE, Inbox
    from handrail.settings import paths

    return Inbox(paths.state_dir() / FILE, clock())


def task_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Read what flags say of a task: its model, script, dialect and limits."""
    from handrail.agent.providers import PROVIDERS
    from handrail.agent.providers.scripted import read_script
    from handrail.front.cli._common import dialect_of, unknown

    provider = given.get("provider")
    if provider is not None and provider not in PROVIDERS:
        raise unknown("model provider", provider, PROVIDERS)
    if given.get("dialect"):
        dialect_of(given["dialect"])
    options = {
        "provider": provider,
        "model": given.get("model"),
        "dialect": given.get("dialect"),
        "max_turns": given.get("max_turns"),
        "max_wall_seconds": given.get("max_seconds"),
        "max_tokens": given.get("max_tokens"),
    }
    if given.get("script"):
        options["script"] = read_script(_read(given["script"]))
    elif provider == "scripted":
        raise click.UsageError("--provider scripted needs --script FILE.")
    return {name: value for name, value in options.items() if value is not None}


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise click.UsageError(f"--script {path}: {error.strerror}.") from None


def opener(given: Mapping[str, Any], screen: Any = None) -> Callable[[AgentTask, PatientApprover], Runtime]:
    """Open runs of tasks under the settings that flags name, or those of each task's workspace."""
    from handrail.agent.session import NoScreen, open_runtime
    from handrail.front.cli._settings import config_of

    def opens(task: AgentTask, approver: PatientApprover) -> Runtime:
        dialect = str(task.options.get("dialect") or given.get("dialect") or "native")
        config = config_of({**given, "dialect": dialect}, task.workspace)
        flags = {"tools.enable": list(given["enable"])} if given.get("enable") else {}
        return open_runtime(
            task, approver, config=config, dialect=dialect, screen=screen or NoScreen(), flags=flags,
            mode="headless" if given.get("headless") else None,
        )  # fmt: skip

    return opens


def exit_code(task: AgentTask) -> int:
    """Say by a number how a task ended, or that it waits."""
    return _REASONS.get(task.reason, EXIT[task.state.value]) if task.ended else EXIT[task.state.value]


def tell_waits(task: AgentTask, inbox: Inbox) -> None:
    """Print what a waiting task waits for, and the command that answers it."""
    book = ledger()
    for name in task.waits.questions:
        question = inbox.question(name)
        choices = f" ({', '.join(question.choices)})" if question.choices else ""
        sys.stderr.write(f"asks: {harmless(question.text)}{choices}\n")
        sys.stderr.write(f"  answer: handrail tasks answer {task.id} TEXT\n")
    for name in task.waits.requests:
        try:
            reason = book.find(name).request.reason
        except KeyError:
            continue
        sys.stderr.write(f"waits for an approval: {harmless(reason)}\n")
        sys.stderr.write(f"  look at it and answer: handrail approvals grant {name}\n")


class Follower:
    """Shows the events of runs while tasks are worked on."""

    def __init__(self, show: Callable[[AgentTask, Mapping[str, Any]], None]) -> None:
        self._show = show
        self._task: AgentTask | None = None
        self._tail: Tail | None = None
        self._polling: asyncio.Task[None] | None = None

    def begin(self, task: AgentTask, runtime: Runtime) -> None:
        """Follow the run of a task from now on."""
        from handrail.front.cli._live import Tail

        self.flush()
        self._task = task
        self._tail = Tail(runtime.parts.folder.events)
        if self._polling is None:
            self._polling = asyncio.ensure_future(self._poll())

    def flush(self) -> None:
        """Show what came since the last look."""
        if self._tail is not None and self._task is not None:
            for event in self._tail.new():
                self._show(self._task, event)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            self.flush()

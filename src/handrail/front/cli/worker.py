"""handrail worker: a supervisor that keeps one worker, and the worker itself."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handrail.front.cli._agent import Follower, open_inbox, opener, task_options
from handrail.front.cli._common import CONFIG, DIALECT, WORKSPACE, clock, harmless, ledger, workspace_of

if TYPE_CHECKING:
    from handrail.agent.loop import LoopEnd
    from handrail.agent.tasks import AgentTask


@click.command("worker")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="what this worker offers; tasks may ask for it")
@click.option("--once", is_flag=True, help="end when nothing is queued any more")
@click.option("--json", "as_json", is_flag=True, help="print a line of JSON for each event")
@click.option("--provider", metavar="NAME", help="how the model is reached, for tasks that name none")
@click.option("--model", metavar="NAME", help="the model, for tasks that name none")
@click.option("--child", is_flag=True, hidden=True, help="be the worker, not its supervisor")
@DIALECT
@WORKSPACE
@CONFIG
def command(**given: Any) -> int:
    """Work on the tasks of the inbox, one after the other.

    A supervisor starts one worker process, starts it again when it dies, and ends with 2 where it cannot start: roots
    that are not there, programs that are missing, settings that cannot be read. Start it several times for several
    workers.
    """
    check_start(given)
    runner = asyncio.Runner()
    with runner:
        return runner.run(_work(given) if given["child"] else _supervise(given))


def check_start(given: Mapping[str, Any]) -> None:
    """Check what every task needs, and raise what would make each of them fail: roots, programs, settings."""
    from handrail.front.cli._settings import config_of
    from handrail.settings import load, programs

    task_options(given)
    workspace = workspace_of(given)
    config = config_of(given, workspace)
    path = Path(config) if isinstance(config, str) else config
    found = load(Path(workspace), config=path, environment=os.environ)
    programs.require(programs.which_in(found.settings.programs.named()))
    for root in found.settings.workspace.write:
        if not os.path.isdir(root):
            raise click.UsageError(f"workspace.write: {root} is not a folder.")


async def _supervise(given: Mapping[str, Any]) -> int:
    from handrail.agent.supervisor import Supervisor, worker_command

    supervisor = Supervisor(worker_command(_arguments(given)), tell=_say)
    _on_signals(supervisor.stop)
    return await supervisor.run()


def _arguments(given: Mapping[str, Any]) -> list[str]:
    """Write the command line of the worker as it was given to the supervisor."""
    words = [word for name in given["queues"] for word in ("--queue", name)]
    for name in ("provider", "model", "dialect", "workspace", "config", "preset"):
        if given.get(name):
            words += [f"--{name}", given[name]]
    words += ["--once"] if given["once"] else []
    return words + (["--json"] if given["as_json"] else [])


async def _work(given: Mapping[str, Any]) -> int:
    from handrail.agent.engine import InboxEngine
    from handrail.agent.session import Session
    from handrail.agent.worker import Worker

    engine = InboxEngine(open_inbox(), ledger(), clock(), queues=given["queues"])
    defaults = {name: given[name] for name in ("provider", "model") if given[name]}
    follower = Follower(_print_event if given["as_json"] else _print_nothing)
    session = Session(engine, opens=opener(given), defaults=defaults, opened=follower.begin)
    worker = Worker(session, once=given["once"])

    def done(task: AgentTask, end: LoopEnd) -> None:
        follower.flush()
        _say(f"task {task.id} is {end.state.value}{f' ({end.reason})' if end.reason else ''}")

    worker.done = done
    _on_signals(worker.stop)
    _end_with_supervisor(worker.stop)
    await worker.run()
    return 0


def _on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(name, stop)


def _end_with_supervisor(stop: Callable[[], None]) -> None:
    """Stop when the supervisor is gone: it holds the other end of standard input, and never writes."""
    loop = asyncio.get_running_loop()

    def ended() -> None:
        if not os.read(0, 1024):
            loop.remove_reader(0)
            stop()

    loop.add_reader(0, ended)


def _print_event(task: AgentTask, event: Mapping[str, Any]) -> None:
    import orjson

    sys.stdout.write(f"{orjson.dumps({'task': task.id, **event}).decode()}\n")
    sys.stdout.flush()


def _print_nothing(_: AgentTask, __: Mapping[str, Any]) -> None:
    pass


def _say(text: str) -> None:
    sys.stderr.write(f"{harmless(text)}\n")
    sys.stderr.flush()

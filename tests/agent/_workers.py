"""Worker processes that can be killed: forked from one process that has imported everything, so that starting is quick.

A fork is killed after so many steps of its own (each write to journal, turn log, stored outcomes, inbox or ledger is
one), or from outside at any moment.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

# What counts as a step; `before` is the moment between an effect and the first word of it.
STEPS: dict[str, tuple[str, ...]] = {
    "handrail.store.journal:FileJournal": ("_write",),
    "handrail.store.outcomes:Outcomes": ("put",),
    "handrail.agent.turn_log:TurnLog": ("add",),
    "handrail.agent.inbox:Inbox": ("claim", "wait", "signal", "finish", "ask", "release"),
    "handrail.store.ledger:SqliteLedger": ("request", "use"),
}
BEFORE = {"put"}


class Forks:
    """Forks workers; closed with `close`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def start(
        self, config: dict[str, Any] | str, log: Path, *, kill_at: int = 0, lose: str = "", once: bool = True
    ) -> int:
        """Start a worker with this environment; returns its number. `lose` has it die once this tool has acted."""
        spec = {"env": dict(os.environ), "config": config, "log": str(log), "kill_at": kill_at, "once": once}
        return int(self._say("fork", {**spec, "lose": lose}))

    def wait(self, process: int) -> int:
        """Wait for a worker; returns its exit code, negative where a signal ended it."""
        return int(self._say("wait", process))

    def kill(self, process: int) -> int:
        """Kill a worker, and wait for it."""
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        return self.wait(process)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _say(self, word: str, about: Any) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([word, about]), file=self._process.stdin, flush=True)
        return self._process.stdout.readline()


def _import_everything() -> None:
    import handrail

    skipped = ("handrail.front", "handrail.pydantic_ai", "handrail.langchain", "handrail.openai_agents")
    for found in pkgutil.walk_packages(handrail.__path__, "handrail."):
        if not found.name.startswith(skipped) and "__main__" not in found.name:
            with suppress(ImportError):
                importlib.import_module(found.name)


def _count_steps(kill_at: int, tell: Callable[[int], None]) -> None:
    """Kill this process at its n-th step; 0: only tell how many there are."""
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        tell(count)
        if count == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def run(self: Any, *given: Any, **how: Any) -> Any:
            if name == "_write" and not self._lines:
                return function(self, *given, **how)
            if name in BEFORE:
                step()
            result = function(self, *given, **how)
            step()
            return result

        return run

    for place, names in STEPS.items():
        module, _, kind = place.partition(":")
        owner = getattr(importlib.import_module(module), kind)
        for name in names:
            setattr(owner, name, counted(getattr(owner, name), name))


def _note(file: Path, count: int) -> None:
    file.write_text(str(count))


def _lose(tool: str) -> None:
    """Die between the effect of a tool and the first word of its outcome."""
    from handrail.store.outcomes import Outcomes

    put = Outcomes.put

    def lost(self: Outcomes, key: str, outcome: Any) -> None:
        if outcome["tool"] == tool:
            os.kill(os.getpid(), signal.SIGKILL)
        put(self, key, outcome)

    Outcomes.put = lost  # type: ignore[method-assign]


def _become(spec: dict[str, Any]) -> None:
    """Be a worker."""
    os.environ.clear()
    os.environ.update(spec["env"])
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(os.open(spec["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
    os.dup2(2, 1)
    from functools import partial

    from handrail.agent.engine import InboxEngine
    from handrail.agent.inbox import FILE, Inbox
    from handrail.agent.session import Session, open_runtime
    from handrail.agent.worker import Worker
    from handrail.compose import SystemClock
    from handrail.settings import paths
    from handrail.store.ledger import SqliteLedger

    steps = Path(f"{spec['log']}.steps")
    _count_steps(spec["kill_at"], lambda count: None if spec["kill_at"] else _note(steps, count))
    if spec["lose"]:
        _lose(spec["lose"])
    clock = SystemClock()
    config = Path(spec["config"]) if isinstance(spec["config"], str) else spec["config"]

    async def work() -> None:
        inbox = Inbox(paths.state_dir() / FILE, clock)
        engine = InboxEngine(inbox, SqliteLedger(paths.state_dir() / "ledger.db", clock), clock)
        await Worker(Session(engine, opens=partial(open_runtime, config=config)), once=spec["once"]).run()

    asyncio.run(work())


def _serve() -> None:
    _import_everything()
    for line in sys.stdin:
        word, about = json.loads(line)
        if word == "wait":
            _, status = os.waitpid(about, 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _become(about)
                code = 0
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(code)
        print(child, flush=True)


if __name__ == "__main__":
    _serve()

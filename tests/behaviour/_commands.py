"""A runtime whose programs run in the real sandbox, and a look at the machine's processes from outside."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Outcome, Runtime
from handrail.errors import Problem
from handrail.sandbox.choose import choose
from handrail.testing import ScriptedApprover

Ready = Callable[[], bool]


def need_sandbox(backend: str = "auto") -> None:
    """Skip where programs cannot be confined; a machine that builds for others must be able to."""
    try:
        choose(backend=backend, min_tier="A").close()
    except Problem as problem:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(problem.message)


def runtime(work: Path, *answers: Any, config: dict[str, Any] | None = None, **how: Any) -> Runtime:
    """Open a runtime with commands enabled; a person says yes unless told otherwise."""
    settings = {"tools": {"enable": ["exec", "fs"]}, **(config or {})}
    approver = how.pop("approver", ScriptedApprover(*(answers or ("once",))))
    return Runtime.open(work, config=settings, approver=approver, **how)


async def run(opened: Runtime, command: str, **args: Any) -> Outcome:
    """Run one command."""
    return await opened.call("run_command", {"command": command, **args})


async def run_while(opened: Runtime, command: str, act: Callable[[], object]) -> Outcome:
    """Run one command, and do something when it has been started and before it does anything itself."""
    token = f"{random.randrange(10**6, 10**7)}"
    running = asyncio.ensure_future(run(opened, f"sleep 0.7{token}; {command}"))
    await until(lambda: bool(alive(f"0.7{token}")) and not running.done())
    await asyncio.sleep(0.1)  # the time of its start is taken right after that
    act()
    return await running


def alive(token: str) -> list[int]:
    """Processes of this machine that carry a token in their arguments, this one's own excepted."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if token.encode() in line and state not in ("Z", "X"):
                found.append(int(entry.name))
    return found


def gone_within(token: str, seconds: float) -> bool:
    """Whether nothing with a token is left after at most so long."""
    end = time.monotonic() + seconds
    while alive(token):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


async def until(ready: Ready, seconds: float = 10.0) -> None:
    """Wait for something to come true."""
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "it did not come true"
        await asyncio.sleep(0.01)

"""Programs that do not want to end: gone within three seconds of the time limit, and when the runtime is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from behaviour._commands import alive, gone_within, need_sandbox, run, runtime
from handrail.errors import Code

GONE_SECONDS = 3.0
LIMIT_SECONDS = 0.4

# Each stays as long as it can; @ is the token by which it is found from outside. They run from a file, for the gate
# refuses a line that forks without end.
STUBBORN = {
    "ignores SIGTERM": "trap '' TERM INT HUP; while :; do bash -c 'exec -a @ sleep 30'; done",
    "double fork": "(( exec -a @ sleep 60 ) & ) & exec -a @ sleep 60",
    "setsid": "setsid -f bash -c 'trap \"\" TERM; exec -a @ sleep 60'; exec -a @ sleep 60",
    "holds the pipe": "nohup bash -c 'exec -a @ sleep 60' & disown; exec -a @ sleep 60",
    "forks all the time": "f() { while :; do (exec -a @ sleep 0.05) & done; }; f & f & trap '' TERM; exec -a @ sleep 9",
    "stops itself": "bash -c 'kill -STOP $$; exec -a @ sleep 60' @ & exec -a @ sleep 60",
}


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


@pytest.mark.parametrize("name", STUBBORN)
async def test_nothing_of_a_tree_outlives_its_time_limit(work: Path, name: str, scale: int) -> None:
    """Every time, within three seconds; the output pipe is not waited for."""
    times = 2 if scale == 1 else 20
    config = {"limits": {"max_repeats": 1000, "breaker_failures": 1000}, "exec": {"max_processes": 60}}
    async with runtime(work, config=config) as opened:
        for _ in range(times):
            token = f"hd-{uuid.uuid4().hex[:12]}"
            began = time.monotonic()
            (work / "stubborn").write_text(STUBBORN[name].replace("@", token))
            outcome = await run(opened, "bash stubborn", timeout_seconds=LIMIT_SECONDS)
            took = time.monotonic() - began - LIMIT_SECONDS
            assert outcome.error is not None, outcome.content
            assert outcome.error.code == Code.TIMEOUT, outcome.content
            assert alive(token) == []
            assert took < GONE_SECONDS


RUNTIME = """
import asyncio, sys
from handrail import Runtime
from handrail.testing import ScriptedApprover

async def main():
    config = {"tools": {"enable": ["exec"]}, "exec": {"max_processes": 60}}
    async with Runtime.open(sys.argv[1], config=config, approver=ScriptedApprover("once")) as runtime:
        await runtime.call("run_command", {"command": sys.argv[2], "background": True})
        await runtime.call("run_command", {"command": sys.argv[2], "timeout_seconds": 60})

asyncio.run(main())
"""


@pytest.mark.parametrize("name", STUBBORN)
def test_nothing_of_a_tree_outlives_a_killed_runtime(work: Path, name: str, scale: int) -> None:
    """Killed with -9, in the midst of a command and with a job in the background."""
    for _ in range(1 if scale == 1 else 20):
        token = f"hd-{uuid.uuid4().hex[:12]}"
        (work / "stubborn").write_text(STUBBORN[name].replace("@", token))
        process = subprocess.Popen([sys.executable, "-c", RUNTIME, str(work), "bash stubborn"], env=os.environ)
        try:
            end = time.monotonic() + 20
            while not alive(token):
                assert time.monotonic() < end, "it never started"
                assert process.poll() is None, "it ended"
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert gone_within(token, GONE_SECONDS), alive(token)
        finally:
            process.kill()
            process.wait()

"""The supervisor: keeps one worker running, with a pause that grows while it keeps dying."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
HEALTHY_SECONDS = 60.0  # a worker that ran so long starts with the first pause again
WRONG_START = 2  # exit code of a worker that cannot start here, and would not the next time
END_SECONDS = 40.0  # that a worker has to end when it is asked to


class Supervisor:
    """Starts a worker as a child process, restarts it when it dies, and runs what belongs beside it."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        beside: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._argv = tuple(argv)
        self._beside = tuple(beside)  # commanders
        self._sleep = sleep
        self._tell = tell
        self._ends = asyncio.Event()
        self._child: asyncio.subprocess.Process | None = None

    def stop(self) -> None:
        """Ask the worker to end, and end with it."""
        self._ends.set()
        if self._child is not None and self._child.returncode is None:
            with suppress(ProcessLookupError):
                self._child.terminate()

    async def run(self) -> int:
        """Keep a worker until stopped; return the exit code: 0, or 2 where it cannot start."""
        beside = [asyncio.ensure_future(start()) for start in self._beside]
        try:
            return await self._keep()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _keep(self) -> int:
        clock = asyncio.get_running_loop().time
        pause = FIRST_PAUSE
        while not self._ends.is_set():
            began = clock()
            code = await self._run_child()
            if code in (0, WRONG_START) or self._ends.is_set():
                return code if code == WRONG_START else 0
            pause = FIRST_PAUSE if clock() - began >= HEALTHY_SECONDS else pause
            how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
            self._tell(f"the worker {how}; it is started again in {pause:g} s")
            await self._pause(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        return 0

    async def _pause(self, seconds: float) -> None:
        stopped = asyncio.ensure_future(self._ends.wait())
        slept = asyncio.ensure_future(self._sleep(seconds))
        await asyncio.wait((stopped, slept), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        slept.cancel()

    async def _run_child(self) -> int:
        """Run one worker to its end; it ends by itself when its standard input, which we hold, is closed."""
        self._child = await asyncio.create_subprocess_exec(*self._argv, stdin=asyncio.subprocess.PIPE)
        ended = asyncio.ensure_future(self._child.wait())
        stopped = asyncio.ensure_future(self._ends.wait())
        try:
            await asyncio.wait((ended, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                await asyncio.wait((ended,), timeout=END_SECONDS)
            if not ended.done():
                self._child.kill()
            return await ended
        finally:
            stopped.cancel()
            if self._child.returncode is None:  # cancelled: the worker must not stay behind
                self._child.kill()
                await self._child.wait()


def worker_command(arguments: Sequence[str]) -> list[str]:
    """Return the command line of a worker process with this interpreter; the current folder is not on its path."""
    return [sys.executable, "-P", "-m", "handrail", "worker", "--child", *arguments]

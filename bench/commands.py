"""run_command("true") through every gate, against the bare spawn of the same program with the same plan."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from common import interleaved, report

ARGV = ("/bin/bash", "--noprofile", "--norc", "-c", "true")


async def main() -> None:
    """Measure in one run, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
        work = Path(folder, "work")
        work.mkdir()
        for number in range(20):
            (work / f"{number}.txt").write_text("x\n")
        from handrail import Runtime
        from handrail.sandbox.choose import choose
        from handrail.sandbox.plan import environment

        sandbox, plans = choose(), Plans(choose())
        config = {"tools": {"enable": ["exec"]}, "limits": {"max_repeats": 0}}
        null = os.open(os.devnull, os.O_RDWR)

        async def bare(_: int) -> None:
            def start() -> Any:
                env, plan = environment({}, {}), plans.last
                return sandbox.spawn(plan, ARGV, cwd=str(work), env=env, stdin=null, stdout=null, stderr=null)

            child = await asyncio.to_thread(start)
            assert (await child.wait()).exit_code == 0

        async with Runtime.open(work, config=config, mode="headless") as runtime:
            runtime.parts.programs.choose = lambda: plans

            async def governed(_: int) -> None:
                outcome = await runtime.call("run_command", {"command": "true"})
                assert outcome.ok, outcome.content

            await governed(0)
            rows = await interleaved(
                {"bare spawn in the sandbox": bare, "handrail run_command": governed}, rounds=20, batch=5
            )
        sandbox.close()
        report(rows, hold="at most 1.3 times")


class Plans:
    """The sandbox of the run; remembers with which plan it was asked to start a program."""

    def __init__(self, sandbox: Any) -> None:
        self._sandbox, self.confined = sandbox, sandbox.confined
        self.last: Any = None
        self.prepare, self.close = sandbox.prepare, sandbox.close

    def spawn(self, plan: Any, *args: Any, **more: Any) -> Any:
        """Start a program."""
        self.last = plan
        return self._sandbox.spawn(plan, *args, **more)


if __name__ == "__main__":
    asyncio.run(main())

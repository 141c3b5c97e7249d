"""run_command("true") through every gate, against the bare spawn of the same program in the same sandbox."""

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
        from handrail.sandbox.plan import Bounds, Plan, environment

        sandbox = choose()
        config = {"tools": {"enable": ["exec"]}, "limits": {"max_repeats": 0}}
        null = os.open(os.devnull, os.O_RDWR)
        plan = Plan(read=(), write=(str(work),), bounds=Bounds())

        async def bare(_: int) -> None:
            def start() -> Any:
                env = environment({}, {})
                return sandbox.spawn(plan, ARGV, cwd=str(work), env=env, stdin=null, stdout=null, stderr=null)

            child = await asyncio.to_thread(start)
            assert (await child.wait()).exit_code == 0

        async with Runtime.open(work, config=config, mode="headless") as runtime:

            async def governed(_: int) -> None:
                outcome = await runtime.call("run_command", {"command": "true"})
                assert outcome.ok, outcome.content

            rows = await interleaved(
                {"bare spawn in the sandbox": bare, "handrail run_command": governed}, rounds=20, batch=5
            )
        sandbox.close()
        report(rows, hold="at most 1.3 times")


if __name__ == "__main__":
    asyncio.run(main())

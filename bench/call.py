"""One governed read of 1 KB, against the bare function that opens the same file. Each call reads another file."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from common import interleaved, report

FILES = 5000
TEXT = "a line of ordinary text, sixty-three characters long in all..\n" * 16


def bare(paths: list[str]) -> Callable[[int], Awaitable[Any]]:
    """An `async def` under bare `pydantic.validate_call` that reads the same file as text."""
    import pydantic

    @pydantic.validate_call
    async def read_file(path: str, offset: int = 1, limit: int = 2000) -> str:  # noqa: ARG001
        with open(path) as file:
            return file.read()

    return lambda number: read_file(paths[number % FILES])


def governed(runtime: Any) -> Callable[[int], Awaitable[Any]]:
    """The same through the gate."""
    return lambda number: runtime.call("read_file", {"path": f"{number % FILES}.txt"})


async def main() -> None:
    """Measure in one run, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
        root = Path(folder, "work")
        root.mkdir()
        for number in range(FILES):
            (root / f"{number}.txt").write_text(f"{number}\n{TEXT}")
        from handrail import Runtime
        from handrail.settings.paths import cache_dir
        from handrail.store import databases

        fast = databases.prepare(cache_dir())
        async with Runtime.open(root, config={}) as first:
            os.environ["XDG_CACHE_HOME"] = f"{folder}/empty"
            async with Runtime.open(root, config={}) as second:
                rows = await interleaved(
                    {
                        "bare validate_call and open()": bare([str(root / f"{number}.txt") for number in range(FILES)]),
                        f"handrail{' [fast]' if fast else ''}": governed(first),
                        "handrail without [fast]": governed(second),
                    }
                )
                for runtime in (first, second):
                    outcome = await runtime.call("read_file", {"path": "0.txt"})
                    assert outcome.ok, outcome.content
                    assert runtime.parts.limits.usage.used["calls"] > 4000
        report(rows, hold="at most 6 times with [fast]")


if __name__ == "__main__":
    asyncio.run(main())

"""One governed read of 1 KB, against the bare function: with the fast redaction engine, and without it.

The same eight files are read in turn. Handrail opens, reads, judges and writes down each time; what is a pure function
of equal arguments, places and bytes it remembers. The last rows show what is left of that where every file is new.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from common import interleaved, report

FILES = 8
NEW = 4500  # files, each of them read once
TEXT = "a line of ordinary text, sixty-three characters long in all..\n" * 16


def bare(names: list[str]) -> Callable[[int], Awaitable[Any]]:
    """An `async def` under bare `pydantic.validate_call` that reads the same file as text."""
    import pydantic

    @pydantic.validate_call
    async def read_file(path: str, offset: int = 1, limit: int = 2000) -> str:  # noqa: ARG001
        with open(path) as file:
            return file.read()

    return lambda number: read_file(names[number % FILES])


async def main() -> None:
    """Measure in one run, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
        root = Path(folder, "work")
        root.mkdir()
        names = [f"file{number}.txt" for number in range(FILES)]
        new = [f"new{number}.txt" for number in range(NEW)]
        for name in (*names, *new):
            (root / name).write_text(f"{name}\n{TEXT}")
        from handrail import Runtime
        from handrail.settings.paths import cache_dir
        from handrail.store import databases

        fast = databases.prepare(cache_dir())
        async with Runtime.open(root, config={}) as first:
            os.environ["XDG_CACHE_HOME"] = f"{folder}/empty"
            async with Runtime.open(root, config={}) as second:
                plain = {"bare validate_call and open()": bare([str(root / name) for name in names])}
                again = {
                    f"handrail{' [fast]' if fast else ''}": _governed(first, names),
                    "handrail without [fast]": _governed(second, names),
                }
                rows = await interleaved(plain | again)
                anew = await interleaved(plain | {"handrail, each file for the first time": _governed(first, new)})
                for runtime in (first, second):
                    outcome = await runtime.call("read_file", {"path": names[0]})
                    assert outcome.ok, outcome.content
                    assert runtime.parts.limits.usage.used["calls"] > 4000
        report([*rows, anew[1]], hold="at most 3 times with [fast]")


def _governed(runtime: Any, names: list[str]) -> Callable[[int], Awaitable[Any]]:
    turn = itertools.cycle(names)
    return lambda _: runtime.call("read_file", {"path": next(turn)})


if __name__ == "__main__":
    asyncio.run(main())

"""One governed read of 1 KB, against the bare function and against peers that do less."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from common import Row, interleaved, report


def bare(files: list[str]) -> Callable[[int], Awaitable[Any]]:
    """An `async def` under bare `pydantic.validate_call` that reads the same file as text."""
    import pydantic

    @pydantic.validate_call
    async def read_file(path: str, offset: int = 1, limit: int = 2000) -> str:
        with open(path) as file:
            return file.read()

    return lambda number: read_file(files[number % len(files)])


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        root = Path(folder, "work")
        root.mkdir()
        names = []
        for number in range(8):
            (root / f"file{number}.txt").write_text(("a line of ordinary text, sixty-three characters long in all..\n") * 16)
            names.append(f"file{number}.txt")
        from handrail import Runtime
        from handrail.settings.paths import cache_dir
        from handrail.store import databases

        databases.prepare(cache_dir())
        async with Runtime.open(root, config={}) as runtime:
            async def governed(number: int) -> Any:
                outcome = await runtime.call("read_file", {"path": names[number % 8]})
                assert outcome.ok, outcome
                return outcome

            rows = await interleaved({
                "bare validate_call + open()": bare([str(root / name) for name in names]),
                "handrail read_file": governed,
            })
        report(rows)


if __name__ == "__main__":
    asyncio.run(main())

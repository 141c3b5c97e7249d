"""A durable write_file against a bare function that does the same syncs, alone and 128 at once."""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from common import interleaved, report

DATA = b"x" * 1024


class Bare:
    """The same syncs and the rename, straight: journal line, file, folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._journal = os.open(folder / "journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._handle = os.open(folder, os.O_RDONLY)
        self._numbers = itertools.count()

    async def write(self, _: int) -> None:
        """Write one new file durably."""
        os.write(self._journal, b"y" * 700 + b"\n")
        os.fdatasync(self._journal)
        name = f"{self._folder}/{next(self._numbers)}.txt"
        handle = os.open(f"{name}.tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(handle, DATA)
        os.fsync(handle)
        os.close(handle)
        os.rename(f"{name}.tmp", name)
        os.fsync(self._handle)


async def main() -> None:
    """Measure in one run, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
        from handrail import Runtime

        work, plain = Path(folder, "work"), Path(folder, "plain")
        work.mkdir()
        plain.mkdir()
        numbers = itertools.count()
        async with Runtime.open(work, config={"tools": {"enable": ["fs"]}}) as runtime:

            async def governed(_: int = 0) -> Any:
                outcome = await runtime.call("write_file", {"path": f"{next(numbers)}.txt", "content": DATA.decode()})
                assert outcome.ok, outcome.content

            rows = await interleaved(
                {"bare: journal, file, rename, folder": Bare(plain).write, "handrail write_file": governed},
                rounds=20,
                batch=15,
            )
            report(rows, hold="at most 1.3 times")
            print(
                f"\n128 at once: {await _at_once(governed):.1f} times the throughput of one after another (to hold: 5)"
            )


async def _at_once(write: Any) -> float:
    ratios = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(128):
            await write()
        alone = time.perf_counter() - start
        start = time.perf_counter()
        await asyncio.gather(*(write() for _ in range(128)))
        ratios.append(alone / (time.perf_counter() - start))
    return statistics.median(ratios)


if __name__ == "__main__":
    asyncio.run(main())

"""A durable write_file against a bare function that does the same syncs, alone and 128 at once.

Measured on the disk as it is, and again as if each sync took two milliseconds more, as on disks that empty a cache for
it: what is shared among many who wait shows only where there is something to wait for.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from common import interleaved, report

DATA = b"x" * 1024
SLOWER = 0.002
MOST, LEAST_AT_ONCE = 1.3, 5


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
        await _measure(Path(folder, "quick"), rounds=20)
        print(f"\n### As if each sync took {SLOWER * 1000:.0f} ms more\n")
        with _slower():
            await _measure(Path(folder, "slow"), rounds=5)


async def _measure(folder: Path, rounds: int) -> None:
    from handrail import Runtime

    work, plain = folder / "work", folder / "plain"
    work.mkdir(parents=True)
    plain.mkdir()
    numbers = itertools.count()
    async with Runtime.open(work, config={"tools": {"enable": ["fs"]}}) as runtime:

        async def governed(_: int = 0) -> Any:
            outcome = await runtime.call("write_file", {"path": f"{next(numbers)}.txt", "content": DATA.decode()})
            assert outcome.ok, outcome.content

        rows = await interleaved(
            {"bare: journal, file, rename, folder": Bare(plain).write, "handrail write_file": governed},
            rounds=rounds,
            batch=15,
        )
        report(rows, hold=f"at most {MOST} times")
        times = await _at_once(governed, rounds=max(2, rounds // 4))
        print(f"\n128 at once: {times:.1f} times the throughput of one after another (to hold: {LEAST_AT_ONCE})")
        if rows[1].ratio > MOST or times < LEAST_AT_ONCE:
            print("\nMISSED: on this disk, see above")


@contextlib.contextmanager
def _slower() -> Iterator[None]:
    """Let every sync of this process take longer, whoever asks for it."""
    from handrail.workspace import group

    def late(sync: Callable[[int], Any]) -> Callable[[int], Any]:
        def synced(fd: int) -> Any:
            time.sleep(SLOWER)
            return sync(fd)

        return synced

    before = os.fsync, os.fdatasync, group._libc
    os.fsync, os.fdatasync = late(os.fsync), late(os.fdatasync)  # type: ignore[assignment]
    group._libc = SimpleNamespace(syncfs=late(group._libc.syncfs))  # type: ignore[assignment]
    try:
        yield
    finally:
        os.fsync, os.fdatasync, group._libc = before


async def _at_once(write: Any, rounds: int) -> float:
    ratios = []
    for _ in range(rounds):
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

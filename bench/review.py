"""Commands whose changes are reviewed: ten changed files against direct, keeping 10,000 against writing them."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from common import Row, interleaved, report

TEN = "for n in 0 1 2 3 4 5 6 7 8 9; do echo $RANDOM > $n.txt; done"
MANY = 10_000
WRITE = f"mkdir many; python3 -c \"for i in range({MANY}): open(f'many/{{i}}', 'w').write(f'file {{i}}\\n')\""
ROUNDS = 5
_libc = ctypes.CDLL(None)
RULES = [{"effect": "allow", "touch": name} for name in ("proc.exec", "fs.write", "fs.delete")]


def opened(work: Path, workspace: str, ask: str = "unless-allowed") -> Any:
    """A runtime that asks nobody."""
    from handrail import Runtime

    work.mkdir()
    for number in range(10):
        (work / f"{number}.txt").write_text("x\n")
    exec_ = {"workspace": workspace, "ask": ask}
    config = {"tools": {"enable": ["exec"]}, "exec": exec_, "rules": RULES, "limits": {"max_repeats": 0}}
    return Runtime.open(work, config=config, mode="headless")


async def ten_files(folder: Path) -> None:
    """One command that changes ten files."""
    async with (
        opened(folder / "direct", "direct") as direct,
        opened(folder / "review", "review") as review,
        opened(folder / "border", "review", "border") as border,
    ):

        async def change(runtime: Any) -> None:
            outcome = await runtime.call("run_command", {"command": TEN})
            assert outcome.ok, outcome.content

        calls = {
            "direct": lambda _: change(direct),
            "review": lambda _: change(review),
            "review, asked at the border": lambda _: change(border),
        }
        report(await interleaved(calls, rounds=15, batch=3), hold="at most 1.5 times")


def written(folder: Path) -> float:
    """Write the files without Handrail, and make them durable."""
    folder.mkdir()
    began = time.perf_counter()
    for number in range(MANY):
        (folder / str(number)).write_text(f"file {number}\n")
    handle = os.open(folder, os.O_RDONLY)
    _libc.syncfs(handle)
    os.close(handle)
    taken = time.perf_counter() - began
    shutil.rmtree(folder)
    return taken


async def many_files(folder: Path) -> None:
    """Keeping alone: from the end of the program to the last sync."""
    from handrail.processes.review import Review

    plain, kept = [], []
    keep = Review.keep

    async def timed(review: Review) -> Any:
        began = time.perf_counter()
        try:
            return await keep(review)
        finally:
            kept.append(time.perf_counter() - began)

    setattr(Review, "keep", timed)  # noqa: B010
    for number in range(ROUNDS):
        plain.append(written(folder / "plain"))
        async with opened(folder / f"many{number}", "review") as runtime:
            outcome = await runtime.call("run_command", {"command": WRITE})
            assert outcome.ok, outcome.content
        shutil.rmtree(folder / f"many{number}")
    ratio = statistics.median(mine / theirs for mine, theirs in zip(kept, plain, strict=True))
    rows = [
        Row("writing 10,000 files", statistics.median(plain) * 1e6, 1.0),
        Row("keeping 10,000 files of a review", statistics.median(kept) * 1e6, ratio),
    ]
    report(rows, hold="at most 2 times")


async def main() -> None:
    """Measure in one run, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
        await ten_files(Path(folder))
        await many_files(Path(folder))


if __name__ == "__main__":
    asyncio.run(main())

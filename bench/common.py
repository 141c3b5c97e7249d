"""Measuring in one run: the contestants take turns, medians are compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure, and its ratio to the first row."""

    name: str
    microseconds: float
    ratio: float


async def interleaved(
    contestants: Mapping[str, Callable[[int], Awaitable[Any]]], *, rounds: int = 40, batch: int = 100
) -> list[Row]:
    """Run all in turns and give the median time of a call of each."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    number = 0
    for warm in range(rounds + 3):
        for name, call in contestants.items():
            taken = []
            for _ in range(batch):
                number += 1
                start = time.perf_counter_ns()
                await call(number)
                taken.append(time.perf_counter_ns() - start)
            if warm >= 3:
                times[name].append(statistics.median(taken) / 1000)
    first = statistics.median(next(iter(times.values())))
    return [Row(name, (value := statistics.median(taken)), value / first) for name, taken in times.items()]


def report(rows: Sequence[Row], hold: str = "") -> None:
    """Print rows as a table of Markdown."""
    print(f"| | µs | ratio |{f' to hold: {hold}' if hold else ''}")
    print("|---|---|---|")
    for row in rows:
        print(f"| {row.name} | {row.microseconds:.1f} | {row.ratio:.2f} |")

"""Measuring in one run: the contestants take turns, medians are compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure, and its ratio to the first row."""

    name: str
    microseconds: float
    ratio: float


async def interleaved(
    contestants: Mapping[str, Callable[[int], Awaitable[Any]]], *, rounds: int = 30, batch: int = 200
) -> list[Row]:
    """Run all in turns and give the median time of a call of each."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    number = 0
    for _ in range(rounds):
        for name, call in contestants.items():
            taken = []
            for _ in range(batch):
                number += 1
                start = time.perf_counter_ns()
                await call(number)
                taken.append(time.perf_counter_ns() - start)
            times[name].append(statistics.median(taken) / 1000)
    first = statistics.median(next(iter(times.values())))
    return [Row(name, (value := statistics.median(taken)), value / first) for name, taken in times.items()]


def report(rows: list[Row]) -> None:
    """Print rows as a table."""
    for row in rows:
        print(f"{row.name:40} {row.microseconds:10.2f} µs  {row.ratio:6.2f}×")

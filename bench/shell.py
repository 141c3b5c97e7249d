"""Deciding a shell line: reading it with both readers and judging each command, without the cache."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable
from typing import Any

from common import interleaved, report

from handrail.policy.shell import forbidden_line, harmless, reading

HOLD = 200  # microseconds in the median
LINES = [
    "ls -la",
    "npm test",
    "git status && git diff --stat",
    "cat README.md | head -20",
    "rg -n 'class .*Error' src | sort | uniq -c | head",
    "find . -name '*.py' -type f | xargs wc -l",
    "sed -n '1,40p' src/main.py",
    "cd src && grep -rn TODO . --include='*.py' | head -20",
    'for f in src/*.py; do echo "$f"; head -3 "$f"; done',
    "python3 -m pytest -x -q tests 2>&1 | tail -30",
    "cat <<'E' > notes.txt\none\ntwo\nE",
    "bash -c 'ls | head -3'",
]


def decide(line: str) -> bool:
    """What happens to a line before a rule is looked at."""
    found = reading.read_anew(line)
    denied = forbidden_line(line, found)
    return denied is None and all(not part.doubt and harmless(part.words) for part in found.parts)


def _deciding(line: str) -> Callable[[int], Awaitable[Any]]:
    async def call(number: int) -> Any:  # noqa: ARG001
        return decide(line)

    return call


async def main() -> None:
    """Measure each line in turns, and the median over all."""
    rows = await interleaved({line.splitlines()[0]: _deciding(line) for line in LINES}, rounds=15, batch=40)
    report(rows, hold=f"under {HOLD} µs in the median")
    print(f"\nmedian over {len(rows)} lines: {statistics.median(row.microseconds for row in rows):.1f} µs")


if __name__ == "__main__":
    asyncio.run(main())

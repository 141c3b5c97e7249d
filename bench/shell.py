"""Deciding a shell line as the kernel does: read anew by both readers, its touches stated and resolved, judged.

The world is the one that the runtime keeps for run_command. Reading alone is shown beside it.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from common import interleaved

from handrail.policy import decide
from handrail.policy.shell import reading
from handrail.words import Call, Verdict

HOLD = 200  # microseconds in the median, for the whole decision
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
ASKED = ("npm", "git", "python3")  # the first word of what is not plainly harmless


class Decisions:
    """What the kernel does with a line between its arguments and the question whether to ask."""

    def __init__(self, runtime: Any) -> None:
        from handrail.gates.step import Step

        self._kernel = runtime.kernel
        self._step = Step(Call("run_command", {"command": "true"}, caller=runtime.parts.caller), "", 0.0)
        self._tool = self._kernel.prepare(self._step)

    def whole(self, line: str) -> Verdict:
        """Decide a line that was never seen."""
        reading._cached.cache_clear()
        stated = self._tool.touches({"command": line, "cwd": "."})
        return decide(self._kernel._resolved(self._step, stated), self._kernel.world(self._step))


def _timed(act: Callable[[str], Any], line: str) -> Callable[[int], Awaitable[Any]]:
    async def call(number: int) -> Any:  # noqa: ARG001
        return act(line)

    return call


async def main() -> None:
    """Measure each line in turns, and the median over all."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_STATE_HOME": f"{folder}/state", "XDG_CONFIG_HOME": f"{folder}/config"}
        work = Path(folder, "work")
        work.mkdir()
        from handrail import Runtime

        async with Runtime.open(work, config={"tools": {"enable": ["exec", "fs"]}}, mode="headless") as runtime:
            decisions = Decisions(runtime)
            for line in LINES:
                assert decisions.whole(line).decision.word == ("ask" if line.startswith(ASKED) else "allow"), line
            sides = {"whole": decisions.whole, "reading": reading.read_anew}
            contestants = {f"{side}: {line}": _timed(act, line) for line in LINES for side, act in sides.items()}
            rows = await interleaved(contestants, rounds=15, batch=40)
    times = {row.name: row.microseconds for row in rows}
    show({line: (times[f"whole: {line}"], times[f"reading: {line}"]) for line in LINES})


def show(times: dict[str, tuple[float, float]]) -> None:
    """Print the table; the exit code tells whether the figure holds."""
    print(f"| deciding a line never seen | µs | of it reading alone | to hold: under {HOLD} µs in the median")
    print("|---|---|---|")
    for line, (whole, alone) in times.items():
        first = line.splitlines()[0].replace("|", "\\|")
        print(f"| {first} | {whole:.1f} | {alone:.1f} |")
    median, alone = (statistics.median(column) for column in zip(*times.values(), strict=True))
    print(f"| median over {len(times)} lines | {median:.1f} | {alone:.1f} |")
    if median >= HOLD:
        sys.exit(f"deciding a line takes {median:.1f} µs in the median")


if __name__ == "__main__":
    asyncio.run(main())

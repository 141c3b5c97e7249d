"""The supervisor: one worker, started again with growing pauses, and not at all where it cannot start."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from handrail.agent import supervisor as module
from handrail.agent.supervisor import Supervisor


def child(code: str) -> list[str]:
    """A worker that does this."""
    return [sys.executable, "-S", "-E", "-c", code]


class Pauses:
    """Keeps how long the supervisor would have waited, and does not wait."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        """Note a pause."""
        self.seconds.append(seconds)


async def test_a_worker_that_dies_is_started_again_with_growing_pauses(tmp_path: Path) -> None:
    """Whatever ended it; the pause doubles up to a bound."""
    count = tmp_path / "count"
    code = (
        f"import os; p = {str(count)!r}; open(p, 'a').write('x'); n = os.path.getsize(p)\n"
        "os._exit(0) if n == 5 else os.kill(os.getpid(), 9) if n == 2 else os._exit(1)"
    )
    told: list[str] = []
    pauses = Pauses()
    assert await Supervisor(child(code), sleep=pauses, tell=told.append).run() == 0
    assert count.read_text() == "xxxxx"
    assert pauses.seconds == [0.5, 1.0, 2.0, 4.0]
    assert "ended with 1" in told[0]
    assert "signal 9" in told[1]


async def test_the_pause_is_bounded_and_starts_anew_after_a_healthy_worker(tmp_path: Path, monkeypatch: Any) -> None:
    """Thirty seconds at most; a worker that ran for a minute is no crash loop."""
    monkeypatch.setattr(module, "LONGEST_PAUSE", 1.0)
    count = tmp_path / "count"
    code = f"import os; p = {str(count)!r}; open(p, 'a').write('x'); os._exit(0 if os.path.getsize(p) == 5 else 1)"
    pauses = Pauses()
    await Supervisor(child(code), sleep=pauses).run()
    assert pauses.seconds == [0.5, 1.0, 1.0, 1.0]
    monkeypatch.setattr(module, "HEALTHY_SECONDS", 0.0)
    count.unlink()
    pauses = Pauses()
    await Supervisor(child(code), sleep=pauses).run()
    assert pauses.seconds == [0.5] * 4


async def test_a_worker_that_cannot_start_is_not_tried_again(tmp_path: Path) -> None:
    """Exit code 2 is handed on."""
    count = tmp_path / "count"
    code = f"import os; open({str(count)!r}, 'a').write('x'); os._exit(2)"
    assert await Supervisor(child(code), sleep=Pauses()).run() == 2
    assert count.read_text() == "x"


async def test_it_is_stopped_while_it_waits_and_while_a_worker_runs() -> None:
    """At once in a pause; with the worker otherwise."""

    async def never(_: float) -> None:
        await asyncio.sleep(3600)

    for code in ("import os; os._exit(1)", "import time; time.sleep(3600)"):
        kept = Supervisor(child(code), sleep=never)
        running = asyncio.ensure_future(kept.run())
        await asyncio.sleep(0.3)
        kept.stop()
        async with asyncio.timeout(10):
            assert await running == 0


async def test_what_belongs_beside_a_worker_runs_with_it_and_ends_with_it() -> None:
    """Commanders: one task each, cancelled at the end."""
    seen: list[str] = []

    async def beside() -> None:
        seen.append("began")
        try:
            await asyncio.sleep(3600)
        finally:
            seen.append("ended")

    assert await Supervisor(child("import os; os._exit(0)"), beside=[beside]).run() == 0
    assert seen == ["began", "ended"]

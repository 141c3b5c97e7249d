"""The service as one object: what its front ends share, and what goes on in the background. No HTTP here."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from handrail.errors import Problem
from handrail.output.redact import Redactor
from handrail.ports import Clock, Request
from handrail.service.agent_tasks import AgentTasks
from handrail.service.identities import DATABASE, Identities
from handrail.service.inbox import Inbox
from handrail.service.metrics import Metrics, resident_bytes
from handrail.service.open_runs import OpenRuns
from handrail.service.parked import ParkedRunner
from handrail.service.run_index import RunIndex
from handrail.service.telling import Telling
from handrail.settings import Loaded, paths
from handrail.store import elsewhere
from handrail.store.executions import Executions
from handrail.store.ledger import SqliteLedger
from handrail.store.serving import ServiceLock
from handrail.store.syncer import Syncer

log = logging.getLogger("handrail.service")
LOOK_SECONDS = 0.02  # between two looks at the ledger
TIDY_SECONDS = 15.0
INDEX = "runs-index.db"


class Service:
    """Identities, inbox, index, open runs and parked calls of one account."""

    def __init__(self, loaded: Loaded, clock: Clock, state: Path | None = None, cache: Path | None = None) -> None:
        self.loaded, self.settings, self.clock = loaded, loaded.settings, clock
        self.state, self.cache = state or paths.state_dir(), cache or paths.cache_dir()
        self.lock = ServiceLock(self.state)
        self.ledger = SqliteLedger(self.state / "ledger.db", clock)
        self.executions = Executions(self.ledger, clock)
        self.identities = Identities(self.state / DATABASE, clock)
        self.tasks = AgentTasks(self.state, clock)
        self.inbox = Inbox(self.ledger, self.executions, self.identities, self._asker_of, self.hide)
        self.runs = OpenRuns(self.settings)
        self.metrics = Metrics()
        self.index = RunIndex(self.cache / INDEX, self.run_folders, self.metrics.take)
        self.parked = ParkedRunner(self.ledger, self.executions, self.runs)
        self.started = time.time()
        self.url = ""  # that people open
        self.telling = Telling(self.settings, lambda: self.url, list(self.runs.paths().values()))
        self.listeners = 0  # connections that are sent events
        self.changes = 0  # of the ledger, as often as a look found one
        self._change = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.tidies: list[Callable[[float], Awaitable[None]]] = []  # called now and then, with the idle time
        self.watchers: list[Callable[[], None]] = []  # told of each change of the ledger

    def _asker_of(self, request: Request) -> tuple[str, bool]:
        """Name whose call a request is, and whether somebody else must answer it by the service's own settings."""
        return request.asked_by or self.tasks.giver_of(request.run_id), self.settings.approvals.four_eyes

    def run_folders(self) -> list[Path]:
        """Name the folders where runs of this account lie."""
        base = Path(self.settings.runs_dir) if self.settings.runs_dir else self.state / "runs"
        noted = [Path(place) for place in elsewhere.read_noted(self.state)]
        return list(dict.fromkeys([base, self.state / "runs", *noted]))

    async def start(self) -> None:
        """Begin what goes on in the background."""
        from handrail.tools import builtin

        self.metrics.tools = frozenset(builtin())
        self.index.start()
        self._tasks = [asyncio.create_task(self._watch()), asyncio.create_task(self._tidy())]

    async def stop(self) -> None:
        """End everything; what is being made ends first."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.poke()
        await self.parked.close()
        await self.runs.close()
        await asyncio.to_thread(self.index.stop)
        self.identities.close()
        self.tasks.inbox.close()
        self.ledger.close()
        self.lock.release()

    # ── the ledger ───────────────────────────────────────────────────────────────────────────

    def poke(self) -> None:
        """Tell whoever waits that the ledger has changed."""
        self.changes += 1
        change, self._change = self._change, asyncio.Event()
        change.set()

    async def changed(self, seconds: float) -> None:
        """Wait until the ledger has changed."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._change.wait(), seconds)

    async def _watch(self) -> None:
        """Look whether the ledger has changed; begin what was granted meanwhile."""
        last = 0.0
        while True:
            try:
                changed = self.ledger.changed()
                if changed or self.tasks.inbox.changed():
                    self.poke()
                    for watcher in self.watchers:
                        watcher()
                if changed or time.monotonic() - last > 1.0:
                    last = time.monotonic()
                    self.parked.look()
                    if self.telling.is_set:
                        now = self.clock.now()
                        self.telling.look(self.ledger.pending(now), now)
            except Problem as problem:
                log.warning("the ledger cannot be read: %s", problem.message)
                await asyncio.sleep(1.0)
            await asyncio.sleep(LOOK_SECONDS)

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(TIDY_SECONDS)
            with suppress(Problem):
                await asyncio.to_thread(self.ledger.expire, self.clock.now())
            await self.runs.close_idle()
            for tidy in self.tidies:
                await tidy(self.settings.serve.idle_seconds)

    # ── what is told ─────────────────────────────────────────────────────────────────────────

    def hide(self, value: Any) -> Any:
        """Hide secrets in what is shown."""
        return self._redactor.value(value)

    def hide_bytes(self, data: bytes) -> bytes:
        """Hide secrets in a file that is text; others stay as they are."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return data
        return self._redactor.text(text).encode()

    @cached_property
    def _redactor(self) -> Redactor:
        from handrail.compose import redactor_of

        return redactor_of(self.settings)

    async def metrics_text(self, dialect: str = "native") -> str:
        """Write the numbers of this process for Prometheus."""
        from handrail import dialects

        speaker = dialects.get(dialect if dialect in dialects.names() else "native")
        names = {name: str(speaker.tool_name(name)) for name in self.metrics.tools}
        counted = await asyncio.to_thread(self.index.numbers)
        self.metrics.counts["journal_syncs"] = Syncer.syncs
        gauges = {
            "handrail_approvals_pending": float(self.inbox.count_open(self.clock.now())),
            "handrail_runs_held": float(len(self.runs)),
            "handrail_index_events": float(counted["events"]),
            "handrail_listeners": float(self.listeners),
            "process_resident_memory_bytes": float(resident_bytes()),
            "process_start_time_seconds": self.started,
        }
        gauges["handrail_workers"] = float(len(self.tasks.workers()))
        return self.metrics.text(gauges, self.tasks.counts(), names)

    def notified(self) -> list[dict[str, Any]]:
        """Tell which notifications were tried last, and how that ended."""
        return list(self.telling.tried)

    def workers(self) -> list[dict[str, Any]]:
        """Tell which workers of the agent run."""
        return self.tasks.workers()

    def disk(self) -> dict[str, Any]:
        """Say how much room is left where runs are kept."""
        import shutil

        self.state.mkdir(parents=True, exist_ok=True)
        usage = shutil.disk_usage(self.state)
        return {"path": str(self.state), "free_bytes": usage.free, "total_bytes": usage.total}

"""The run's way to start programs, put together from settings; made when a call first needs it."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from handrail import ports
from handrail.errors import Code, Problem
from handrail.limits import Limits
from handrail.outside import Outside
from handrail.settings import Settings, paths
from handrail.words import Change, Json, Touch, Verdict
from handrail.workspace.files import WorkspaceFiles
from handrail.worlds import Ground

if TYPE_CHECKING:
    from socket import socket

    from handrail.processes.bound import RunPrograms
    from handrail.processes.host import Followed, Terms
    from handrail.processes.sink import Written
    from handrail.sandbox.launching import Sandbox

log = logging.getLogger("handrail")


class Programs:
    """Holds what starts the programs of a run, once there is one."""

    def __init__(
        self, ground: Ground, files: WorkspaceFiles, spill: ports.Spill, limits: Limits, outside: Outside
    ) -> None:
        self._ground, self._files, self._spill, self._limits = ground, files, spill, limits
        self._outside = outside
        self._made: RunPrograms | None = None
        self.choose: Callable[[], Sandbox] | None = None  # tests set their own before the first program
        self.followed: Followed | None = None  # a front end sets its own, to show how far programs are

    @property
    def made(self) -> RunPrograms:
        """What starts them, made now if it was not yet."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def bind(self, work: ports.Work) -> ports.Processes:
        """Give the programs of one call."""
        return self.made.bind(work)

    def told(self, verdict: Verdict) -> Mapping[str, Json]:
        """How the programs of a call would be confined; SANDBOX_UNAVAILABLE where they cannot be."""
        return self.made.host.told(verdict)

    def mend(self) -> None:
        """Do what runtimes that were killed in this workspace could not do any more."""
        if self._ground.journal.read_only:
            return
        try:
            kinds = {os.path.splitext(name)[1] for name in os.listdir(self._unfinished)}
        except OSError:
            return
        if ".note" in kinds:  # modules are loaded only where there is something to do
            self._drop_reviews()
        if ".watch" in kinds:
            self._look_for_plants()

    def _drop_reviews(self) -> None:
        """Put back what a runtime was keeping of a review when it ended: such changes are kept whole, or not at all."""
        from handrail.processes.unfinished import abandoned

        journal, hide = self._ground.journal, self._ground.redactor.value
        for note in abandoned(self._unfinished, {root.path for root in self._ground.roots if root.writable}):
            put_back: list[Change] = []
            left = note.roll_back(put_back.append)
            told: dict[str, Json] = {
                "run": note.run_id,
                "call": note.call_id,
                "paths": [change.path for change in put_back],
                "left": left,
                "aside": str(note.set_aside()) if left else None,
            }
            note.remove()
            log.warning("a review was being kept when its runtime ended: %d changes put back", len(put_back))
            journal.append("review.dropped", None, {name: hide(value) for name, value in told.items()})
            journal.flush()

    def _look_for_plants(self) -> None:
        """Set aside what programs planted whose runtime was killed before it could look."""
        from handrail.processes.watched import left_behind

        journal, hide = self._ground.journal, self._ground.redactor.value
        writable = [root for root in self._ground.roots if root.writable]
        for found in left_behind(self._unfinished, writable, self._files.access):
            told: dict[str, Json] = {
                "run": found.run_id,
                "paths": [*found.paths],
                "aside": [*found.aside],
                "left": [*found.left],
            }
            log.warning("a killed run's programs had made what none may: %s", ", ".join((*found.paths, *found.left)))
            journal.append("planted.found", None, {name: hide(value) for name, value in told.items()})
            journal.flush()

    @property
    def _unfinished(self) -> Path:
        return paths.state_dir() / "unfinished"

    async def close(self) -> None:
        """End every program that still runs."""
        made, self._made = self._made, None
        if made is not None:
            await made.close()

    def _make(self) -> RunPrograms:
        from handrail.processes.bound import RunPrograms
        from handrail.processes.effects import Watch
        from handrail.processes.host import Host

        ground, folder = self._ground, self._ground.folder
        own = [os.path.realpath(path) for path in (folder.path.parent, paths.state_dir(), paths.cache_dir())]
        host = Host(
            self.choose or (lambda: chosen(ground.settings)),
            terms_of(ground.settings),
            ground.roots,
            Watch(ground.roots, self._files.access, own),
            redactor=ground.redactor,
            spill=self._spill,
            clock=ground.clock,
            scratch=str(folder.sandbox.resolve()),
            aside=str(folder.sandbox),
            count=self._limits.usage.count_process,
            serve=self._served,
            run_id=ground.journal.run_id,
            unfinished=str(self._unfinished),
        )
        host.followed = self._follow
        return RunPrograms(host)

    def _follow(self, call_id: str, written: Callable[[], Written]) -> Callable[[], None] | None:
        return None if self.followed is None else self.followed(call_id, written)

    @asynccontextmanager
    async def _served(self, listener: socket, work: ports.Work) -> AsyncIterator[None]:
        """Answer what a program asks of the network, by the same rules and the same vetting as the http tools."""
        from handrail.net.proxy import Proxy

        record = partial(self._connected, work.call_id)
        proxy = Proxy(self._outside.network.gate, work.judge or _nowhere, record)
        await proxy.serve(listener)
        try:
            yield
        finally:
            await proxy.close()

    def _connected(self, call_id: str, fields: Mapping[str, Json]) -> None:
        """Put a connection on record; a journal that cannot be written has told the call itself."""
        hidden = {name: self._ground.redactor.value(value) for name, value in fields.items()}
        with suppress(Problem):
            self._ground.journal.append("net.connected", call_id, hidden)
            self._ground.journal.flush()


def _nowhere(touch: Touch) -> None:
    raise Problem(Code.HOST_NOT_ALLOWED, f"{touch.target} cannot be judged here.")


def terms_of(settings: Settings) -> Terms:
    """What settings say of programs."""
    from handrail.processes.host import Terms
    from handrail.sandbox.plan import Bounds

    told, limits = settings.exec, settings.limits
    return Terms(
        bounds=Bounds(
            told.max_memory_bytes,
            told.max_processes,
            told.max_file_bytes,
            told.max_open_files,
            told.max_cpu_seconds,
            told.max_scratch_bytes,
        ),
        hosts=told.allowed_hosts,
        review=told.workspace == "review",
        timeout_seconds=told.timeout_seconds,
        pass_env=told.pass_env,
        max_jobs=told.max_jobs,
        kill_output_bytes=told.kill_output_bytes,
        limits=ports.Limits(limits.max_output_lines, limits.max_output_bytes, max_read_bytes=limits.max_read_bytes),
    )


def chosen(settings: Settings) -> Sandbox:
    """The sandbox that fits here and holds what settings demand; SANDBOX_UNAVAILABLE."""
    from handrail.sandbox.choose import choose

    told = settings.exec
    return choose(
        backend=told.sandbox,
        min_tier=told.min_tier,
        allow_unconfined=told.allow_unconfined,
        cache_dir=paths.cache_dir(),
    )

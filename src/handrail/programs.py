"""The run's way to start programs, put together from settings; made when a call first needs it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from handrail import ports
from handrail.errors import Code, Problem
from handrail.limits import Limits
from handrail.outside import Outside
from handrail.sandbox.plan import layers_beside
from handrail.settings import Settings, paths
from handrail.words import Change, Json, Touch, Verdict
from handrail.workspace.files import WorkspaceFiles
from handrail.workspace.repositories import RepositoryFinder
from handrail.worlds import Ground, own_paths

if TYPE_CHECKING:
    from socket import socket

    from handrail.processes.bound import RunPrograms
    from handrail.processes.host import Followed, Served, Terms
    from handrail.processes.sink import Written
    from handrail.sandbox.launching import Sandbox
    from handrail.sandbox.search_path import SearchPath

log = logging.getLogger("handrail")
_LOOPBACK = "127.0.0.1"


class Programs:
    """Holds what starts the programs of a run, once there is one."""

    def __init__(
        self, ground: Ground, files: WorkspaceFiles, spill: ports.Spill, limits: Limits, outside: Outside
    ) -> None:
        self._ground, self._files, self._spill, self._limits = ground, files, spill, limits
        self._outside = outside
        self.repositories = RepositoryFinder(ground.roots, os.environ, self._ran)
        self._search: SearchPath | None = None
        self._made: RunPrograms | None = None
        self.warned: list[str] = []  # what programs left that a person must look at
        self.choose: Callable[[], Sandbox] | None = None  # tests set their own before the first program
        self.followed: Followed | None = None  # a front end sets its own, to show how far programs are

    @property
    def made(self) -> RunPrograms:
        """What starts them, made now if it was not yet."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def shadowed(self) -> tuple[str, ...]:
        """List the harmless commands that would run what lies beneath a write root."""
        return self.search.shadowed()

    def why_no_border(self) -> str:
        """Explain why programs cannot run without a question here; empty where they can."""
        if self._ground.settings.exec.workspace != "review":
            return 'it needs exec.workspace = "review"'
        try:
            held = self.made.host.sandbox.confined
        except Problem as problem:
            return problem.message.rstrip(".")
        if held.tier != "A":
            return f"it needs tier A, and programs are confined by {held.backend} in tier {held.tier}"
        return "" if held.backend == "native" else f"{held.backend} cannot keep changes apart"

    @property
    def search(self) -> SearchPath:
        """Where programs look for commands."""
        if self._search is None:
            from handrail.sandbox.search_path import SearchPath

            self._search = SearchPath(self._ground.roots, os.environ)
        return self._search

    def _ran(self) -> object:
        """Give a value that changes when a program was started, and each time while one runs."""
        if self._made is not None and self._made.host.sentries:
            return object()
        return self._limits.usage.used["processes"]

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
        kinds = {os.path.splitext(name)[1] for name in _names(self._unfinished)}
        if kinds & {".note", ".done"}:  # modules are loaded only where there is something to do
            self._drop_reviews()
        if ".watch" in kinds:
            self._look_for_plants()
        self._sweep_layers()

    def _sweep_layers(self) -> None:
        """Remove the layers of runtimes that were killed."""
        beside = [layers_beside(root.path) for root in self._ground.roots if root.writable]
        for home in dict.fromkeys((self._layers, *beside)):
            if not _names(home):
                continue
            from handrail.processes.layer_home import sweep
            from handrail.processes.unfinished import used_layers

            sweep(home, used_layers(self._unfinished))

    def _drop_reviews(self) -> None:
        """Put back what a runtime was keeping of a review when it ended: such changes are kept whole, or not at all."""
        from handrail.processes.unfinished import abandoned

        journal, hide = self._ground.journal, self._ground.redactor.value
        for note in abandoned(self._unfinished, {root.path for root in self._ground.roots if root.writable}):
            if note.is_done:
                note.clean_up()
                note.remove()
                continue
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
    def _layers(self) -> str:
        return os.path.realpath(paths.state_dir() / "layers")

    @property
    def _unfinished(self) -> Path:
        return paths.state_dir() / "unfinished"

    async def close(self) -> None:
        """End every program that still runs."""
        made, self._made = self._made, None
        if made is None:
            return
        await made.close()
        if cache := made.host.around.cache:
            await asyncio.to_thread(self._bound_cache, cache)

    @property
    def _cache(self) -> Path | None:
        """The folder of this workspace's package caches; none where settings want none."""
        if not self._ground.settings.exec.max_cache_bytes:
            return None
        return paths.packages_dir(self._ground.roots[0].path)

    def _bound_cache(self, cache: str) -> None:
        """Empty a cache that has grown too large."""
        from handrail.processes.scratch import emptied, measured

        most = self._ground.settings.exec.max_cache_bytes
        if measured([cache], most) > most:
            emptied(cache)
            log.warning("the package cache of this workspace held more than exec.max_cache_bytes, and was emptied")

    def _make(self) -> RunPrograms:
        from handrail.processes.bound import RunPrograms
        from handrail.processes.effects import Watch
        from handrail.processes.host import Host
        from handrail.processes.layer_home import LayerHomes
        from handrail.processes.surroundings import look_around
        from handrail.sandbox.callers_path import find_callers_path

        ground, folder = self._ground, self._ground.folder
        around = look_around(ground.roots, self.search, os.environ, self._cache)
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
            own=own_paths(ground),
            repositories=self.repositories,
            around=around,
            layers=LayerHomes(self._layers, [root.path for root in ground.roots if root.writable]),
            keeping=self._files.hold_keeping,
        )
        host.callers_path = find_callers_path(ground.roots, os.environ.get("PATH", os.defpath))
        host.notify = self._warned
        host.followed = self._follow
        return RunPrograms(host)

    def _follow(self, call_id: str, written: Callable[[], Written]) -> Callable[[], None] | None:
        return None if self.followed is None else self.followed(call_id, written)

    @asynccontextmanager
    async def _served(self, listener: socket, work: ports.Work) -> AsyncIterator[Served]:
        """Answer what a program asks of the network, by the same rules and the same vetting as the http tools."""
        from handrail.net.proxy import Proxy

        record = partial(self._connected, work.call_id)
        asks = self._ground.settings.exec.hosts == "ask"
        reach = work.reach if asks else None
        proxy = Proxy(self._outside.network.gate, work.judge or _nowhere, record, reach)
        await proxy.serve(listener)
        try:
            yield proxy
        finally:
            await proxy.close()

    def _warned(self, call_id: str, warnings: Sequence[str]) -> None:
        """Tell the person what a program left: in the log of the process, and on record."""
        hidden = [self._ground.redactor.text(warning) for warning in warnings]
        self.warned += hidden
        for warning in hidden:
            log.warning("%s", warning)
        with suppress(Problem):
            self._ground.journal.append("program.warned", call_id, {"warnings": hidden})
            self._ground.journal.flush()

    def _connected(self, call_id: str, kind: str, fields: Mapping[str, Json]) -> None:
        """Put a connection on record; a journal that cannot be written has told the call itself."""
        hidden = {name: self._ground.redactor.value(value) for name, value in fields.items()}
        with suppress(Problem):
            self._ground.journal.append(kind, call_id, hidden)
            self._ground.journal.flush()


def _names(folder: str | Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


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
        asks_hosts=told.hosts == "ask",
        review=told.workspace == "review",
        layer_bytes=told.max_layer_bytes,
        timeout_seconds=told.timeout_seconds,
        pass_env=told.pass_env,
        sockets=told.allowed_sockets,
        reaches_machine=_reaches_machine(settings),
        max_jobs=told.max_jobs,
        kill_output_bytes=told.kill_output_bytes,
        limits=ports.Limits(limits.max_output_lines, limits.max_output_bytes, max_read_bytes=limits.max_read_bytes),
    )


def _reaches_machine(settings: Settings) -> bool:
    """Say whether programs may reach services of this machine: its network is allowed, and its host named or asked."""
    from handrail.policy.patterns import host_and_port

    if not any(_holds_loopback(network) for network in settings.http.allowed_networks):
        return False
    named = [host_and_port(pattern)[0] for pattern in settings.exec.allowed_hosts]
    return settings.exec.hosts == "ask" or _LOOPBACK in named


def _holds_loopback(network: str) -> bool:
    import ipaddress

    return ipaddress.ip_address(_LOOPBACK) in ipaddress.ip_network(network, strict=False)


def chosen(settings: Settings) -> Sandbox:
    """The sandbox that fits here and holds what settings demand; SANDBOX_UNAVAILABLE."""
    from handrail.sandbox.choose import choose

    told = settings.exec
    return choose(
        backend=told.sandbox,
        min_tier=told.min_tier,
        allow_unconfined=told.allow_unconfined,
        cache_dir=paths.cache_dir(),
        bwrap=settings.programs.bwrap,
    )

"""What a run remembers, knows of its code, and checks it with: made when a tool first asks for it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail import ports
from handrail.errors import Problem, SettingsFault
from handrail.limits import Limits
from handrail.settings import Settings, paths
from handrail.words import Place, PlaceKind, Root, Touch, TouchKind
from handrail.worlds import Ground

if TYPE_CHECKING:
    from handrail.index.shelf import Shelf
    from handrail.memory.sqlite import SqliteMemory
    from handrail.processes.bound import RunPrograms
    from handrail.quality.desk import Bench
    from handrail.sandbox.launching import Sandbox
    from handrail.workspace.files import WorkspaceFiles

Makes = Mapping[str, Callable[[ports.Work], Any]]


class Faculties:
    """Ports that few calls need, and what has to be closed of them."""

    def __init__(self, ground: Ground, files: WorkspaceFiles, spill: ports.Spill, limits: Limits, lent: Makes) -> None:
        """Take what the run stands on, and the ports that these are built on; checks the `memory` section."""
        self._ground, self._files, self._spill, self._limits, self._lent = ground, files, spill, limits, lent
        self._service = _service(ground.settings)
        self._notes: SqliteMemory | None = None
        self._shelf: Shelf | None = None
        self._bench: Bench | None = None
        self._programs: RunPrograms | None = None
        self.choose: Callable[[], Sandbox] | None = None  # tests set their own before the first linter

    def lend(self) -> Makes:
        """What a tool's parameters of these types are given."""
        return {"Memory": self._memory, "Index": self._index, "Linters": self._linters}

    async def close(self) -> None:
        """Let go of files and connections, and end what still runs."""
        if self._programs is not None:
            await self._programs.close()
        if self._notes is not None:
            await self._notes.close()
        if self._shelf is not None:
            self._shelf.close()

    # ── memory ──

    def provider(self, work: ports.Work) -> ports.MemoryProvider:
        """Where notes live, as settings name it."""
        settings = self._ground.settings.memory
        if self._service is not None:
            from handrail.memory.http import HttpMemory

            # The operator named this host, so that no call has to be judged for it; it may lead to no other.
            touch = Touch(TouchKind.NET_CONNECT, self._service, unsafe=True)
            net = self._lent["Net"](replace(work, touches=(touch,), judge=None))
            return HttpMemory(net, settings.url or "", settings.timeout_seconds)
        if self._notes is None:
            from handrail.memory.sqlite import SqliteMemory

            self._notes = SqliteMemory(memory_files(self._ground.roots[0].path))
        return self._notes

    def _memory(self, work: ports.Work) -> ports.Memory:
        from handrail.memory.desk import MemoryDesk, Office

        ground = self._ground
        mode, archive = ground.settings.memory.write_mode, ground.folder.archive
        office = Office(self.provider(work), mode, archive, ground.roots[0].path, ground.journal, ground.clock)
        return MemoryDesk(office, work.call_id)

    # ── index ──

    def _index(self, work: ports.Work) -> ports.Index:
        from handrail.index.desk import IndexDesk
        from handrail.index.shelf import Bounds, Shelf

        if self._shelf is None:
            ground, asked = self._ground, self._ground.settings.search
            bounds = Bounds(asked.max_file_bytes, asked.max_files, enabled=asked.index, vectors=asked.vectors)
            self._shelf = Shelf(paths.cache_dir() / "index", ground.redactor, ground.clock, bounds)
        return IndexDesk(self._shelf, work.files, self._lent["Searcher"](work))

    # ── linters ──

    def _linters(self, work: ports.Work) -> ports.Linters:
        from handrail.quality.desk import Bench, LintDesk

        if self._bench is None:
            ground = self._ground
            home = Place(ground.roots[0], "", PlaceKind.DIRECTORY)
            self._bench = Bench(ground.settings.lints, home, ground.folder.path, ground.settings.programs.ruff)
        return LintDesk(self._bench, lambda: self._lint_programs().bind(work))

    def _lint_programs(self) -> RunPrograms:
        """Programs for which every root is there to be read only, so that nothing has to be watched."""
        if self._programs is None:
            from handrail.processes.bound import RunPrograms
            from handrail.processes.effects import Watch
            from handrail.processes.host import Host
            from handrail.programs import chosen, terms_of

            ground, folder = self._ground, self._ground.folder
            roots = tuple(Root(root.name, root.path, writable=False) for root in ground.roots)
            terms = replace(terms_of(ground.settings), hosts=(), review=False)
            host = Host(
                self.choose or (lambda: chosen(ground.settings)), terms, roots, Watch((), self._files.access),
                redactor=ground.redactor, spill=self._spill, clock=ground.clock,
                scratch=str(folder.sandbox.resolve()), aside=str(folder.sandbox),
                count=self._limits.usage.count_process,
            )  # fmt: skip
            self._programs = RunPrograms(host)
        return self._programs


def _service(settings: Settings) -> str | None:
    """The host and port of the service that keeps notes; None where none does. SettingsFault where it is not named."""
    if settings.memory.provider != "http":
        return None
    from handrail import urls

    try:
        return urls.parse(settings.memory.url or "").authority
    except Problem as problem:
        raise SettingsFault(f'memory.url: memory.provider is "http" and needs an address: {problem.message}') from None


def memory_files(workspace: str) -> dict[str, Path]:
    """Where the notes of each scope lie."""
    folder = paths.state_dir() / "memory"
    name = hashlib.sha256(os.fsencode(os.path.realpath(workspace))).hexdigest()[:32]
    return {"workspace": folder / f"{name}.db", "user": folder / "user.db"}

"""Puts a runtime together from settings: every object is made here, once, in the order it is needed."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import orjson
from uuid_utils import uuid7

from handrail import ports
from handrail.asking import canonical, digest_of
from handrail.errors import Code, Misuse, Problem
from handrail.finish import Finisher
from handrail.kernel import Kernel, Parts
from handrail.limits import Bounds as LimitBounds
from handrail.limits import Limits
from handrail.output.bound import Bounds
from handrail.output.redact import KINDS, Redactor, SecretKind, known_values
from handrail.policy import ToolFacts, World
from handrail.settings import Loaded, Settings, load, paths
from handrail.store import databases
from handrail.store.folders import RunFolder, check_run_id, create
from handrail.store.images import Images
from handrail.store.journal import FileJournal
from handrail.store.keys import RunKeys
from handrail.store.ledger import SqliteLedger
from handrail.store.outcomes import Outcomes
from handrail.store.spill import FileSpill
from handrail.store.state import RunState
from handrail.tool import Catalog, Tool
from handrail.tools import builtin
from handrail.words import Mode, Risk, Root, Touch
from handrail.workspace.files import WorkspaceFiles


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked of `Runtime.open`."""

    workspace: Path
    config: Path | Mapping[str, Any] | None = None
    run_id: str | None = None
    mode: str | None = None
    approver: ports.Approver | None = None
    tools: tuple[Tool, ...] = ()
    clock: ports.Clock | None = None
    screen: ports.Screen | None = None
    caller: str = "python"
    parent_run: str | None = None
    progress: ports.Progress | None = None
    flags: Mapping[str, Any] = field(default_factory=dict)


class SystemClock:
    """The machine's own time."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


class JournaledScreen:
    """Every display is an event first; then whoever looks is shown it."""

    def __init__(self, journal: FileJournal, redactor: Redactor, screen: ports.Screen | None) -> None:
        self._journal, self._redactor = journal, redactor
        self.sinks: list[Callable[[Mapping[str, Any]], None]] = [screen.show] if screen is not None else []

    def bind(self, call_id: str) -> CallScreen:
        """Give the screen of one call."""
        return CallScreen(self, call_id)

    def show(self, call_id: str, fields: Mapping[str, Any]) -> None:
        """Record and show one display."""
        hidden: Any = self._redactor.value(dict(fields))
        self._journal.append("display", call_id, hidden)
        self._journal.flush()
        for sink in self.sinks:
            sink(hidden)
        if not self.sinks:
            preview = str(hidden.get("content", ""))[:200]
            print(f"[{hidden.get('level', 'info')}] {preview}", file=sys.stderr)  # noqa: T201


@dataclass(frozen=True, slots=True)
class CallScreen:
    """Satisfies `ports.Screen` for one call."""

    screen: JournaledScreen
    call_id: str

    def show(self, fields: Mapping[str, Any]) -> None:
        """Show one display event."""
        self.screen.show(self.call_id, fields)


@dataclass(slots=True)
class Composed:
    """A runtime's parts while it is open."""

    loaded: Loaded
    catalog: Catalog
    kernel: Kernel
    journal: FileJournal
    ledger: SqliteLedger
    files: WorkspaceFiles
    folder: RunFolder
    images: Images
    redactor: Redactor
    screen: JournaledScreen
    limits: Limits
    clock: ports.Clock
    caller: str
    policy_digest: str
    world: Callable[[Tool], World]

    def checkpoint(self) -> None:
        """Keep what opening needs, so that it never reads the whole journal."""
        self.journal.checkpoint(self._state())

    async def close(self) -> None:
        """Finish the run: projections, checkpoint, lock."""
        from handrail.store.projections import project

        try:
            if not self.journal.read_only:
                self.journal.append("run.finished", None, {"usage": self.limits.usage.used})
        finally:
            await self.journal.close(self._state())
            await self.files.close()
            self.ledger.close()
        project(self.folder.path)

    def _state(self) -> RunState:
        state = self.journal.state
        state.usage = dict(self.limits.usage.used)
        state.seen = self.files.seen
        return state


@dataclass(frozen=True, slots=True)
class Ground:
    """What a run stands on: settings, folder, journal, roots."""

    options: Options
    clock: ports.Clock
    loaded: Loaded
    folder: RunFolder
    journal: FileJournal
    redactor: Redactor
    roots: tuple[Root, ...]

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.loaded.settings


def compose(options: Options) -> Composed:
    """Open a run: settings, folder, journal, then all that works on them."""
    ground = _ground(options)
    try:
        return _composed(ground)
    except BaseException:
        ground.journal.abandon()
        raise


def _ground(options: Options) -> Ground:
    clock = options.clock or SystemClock()
    loaded = _settings(options)
    run_id = options.run_id or str(uuid7())
    runs = Path(loaded.settings.runs_dir) if loaded.settings.runs_dir else paths.runs_dir()
    folder = create(runs, run_id)
    journal = FileJournal.open(folder.path, run_id, clock, progress=options.progress)
    try:
        redactor = _redactor(loaded.settings)
        roots = _roots(loaded.settings, options.workspace, folder)
    except BaseException:
        journal.abandon()
        raise
    return Ground(options, clock, loaded, folder, journal, redactor, roots)


def _composed(ground: Ground) -> Composed:
    options, settings, journal, clock = ground.options, ground.settings, ground.journal, ground.clock
    images = Images(ground.folder.archive, settings.undo.max_bytes)
    spill = FileSpill(ground.folder.observations)
    files = WorkspaceFiles(
        ground.roots,
        allow_absolute=settings.workspace.allow_absolute,
        images=images,
        locks_dir=paths.state_dir() / "locks",
        seen=journal.state.seen,
    )
    ledger = SqliteLedger(paths.state_dir() / "ledger.db", clock)
    catalog = Catalog(options.tools, lazy=builtin(), more=entry_point_tools)
    limits = Limits(_limit_bounds(settings), journal.state.usage)
    screen = JournaledScreen(journal, ground.redactor, options.screen)
    world = Worlds(ground)
    bounds = Bounds(settings.limits.max_output_lines, settings.limits.max_output_bytes)
    parts = Parts(
        catalog=catalog,
        files=files,
        journal=journal,
        ledger=ledger,
        approver=_approver(ground, ledger),
        finisher=Finisher(ground.redactor, bounds, spill),
        limits=limits,
        keys=RunKeys(journal.state, Outcomes(ground.folder.outcomes)),
        clock=clock,
        world=world.of,
        shared=_shared(ground, spill),
        ports=_ports(files, screen),
        policy_digest=world.digest,
        workspace=ground.roots[0].path,
        trace_id=journal.run_id,
        caller=options.caller,
        timeout_seconds=settings.limits.timeout_seconds,
        repair=settings.tools.repair,
        expiry_seconds=settings.approvals.expiry_seconds,
        concurrency=settings.limits.concurrency,
    )
    _record_start(ground, world)
    return Composed(
        ground.loaded, catalog, Kernel(parts), journal, ledger, files, ground.folder, images, ground.redactor, screen,
        limits, clock, options.caller, world.digest, world.of,
    )  # fmt: skip


class Worlds:
    """The world of each tool, without what belongs to one call."""

    def __init__(self, ground: Ground) -> None:
        settings, loaded = ground.settings, ground.loaded
        self._given = frozenset(item.name for item in ground.options.tools)
        self._known: dict[str, World] = {}
        self.base = World(
            tool=ToolFacts("", "", Risk.HIGH),
            roots=ground.roots,
            rules=tuple(entry.rule() for entry in settings.rules),
            enable=frozenset(settings.tools.enable),
            disable=frozenset(settings.tools.disable),
            protected=settings.workspace.protected,
            own_paths=_own_paths(ground),
            allowed_hosts=settings.http.allowed_hosts,
            mode=settings.mode,
            caller=ground.options.caller,
            run_id=ground.journal.run_id,
            max_scope=settings.approvals.widest,
            max_undo_bytes=settings.undo.max_file_bytes,
            bulk_files=settings.limits.bulk_files,
            origins={name: origin.where for name, origin in loaded.origins.items() if origin.layer != "default"},
        )
        policy = replace(self.base, roots=(), run_id="", own_paths=(), caller="", origins={})
        self.digest = digest_of("handrail-policy-1", policy)

    def of(self, tool: Tool) -> World:
        """The world in which calls of a tool are judged."""
        found = self._known.get(tool.name)
        if found is None:
            facts = ToolFacts(
                tool.name,
                tool.toolset,
                tool.risk,
                ask_first=tool.ask_first,
                given=tool.name in self._given,
                internal=not tool.offered,
                states=_states(tool),
            )
            found = self._known[tool.name] = replace(self.base, tool=facts)
        return found


def _states(tool: Tool) -> tuple[Touch, ...]:
    """What calls of a tool may touch, without targets."""
    marked = [Touch(mark.kind, "", mark.deep, mark.how, mark.follow) for _, mark in tool.targets]
    kinds = {touch.kind for touch in marked}
    return (*marked, *(Touch(kind, "") for kind in tool.permissions if kind not in kinds))


def _settings(options: Options) -> Loaded:
    flags = {name: value for name, value in {"mode": options.mode, **options.flags}.items() if value is not None}
    return load(options.workspace, config=options.config, flags=flags, environment=os.environ)


def _redactor(settings: Settings) -> Redactor:
    extra = [os.environ[name] for name in settings.redaction.known if os.environ.get(name)]
    kinds = (*KINDS, *(SecretKind(name, text, (), "") for name, text in settings.redaction.patterns.items()))
    known = known_values(os.environ, extra)
    if len(kinds) > len(KINDS):
        return Redactor(known, kinds=kinds, engine="plain")
    return Redactor(known, database=databases.cached(paths.cache_dir()))


def _roots(settings: Settings, workspace: Path, folder: RunFolder) -> tuple[Root, ...]:
    """The workspace first, then further folders, then the run's own."""
    scratch = settings.workspace.root == "run:workspace"
    home = folder.workspace if scratch else Path(settings.workspace.root)
    if not home.is_dir():
        raise Misuse(f"the workspace {home} is not a folder")
    further = [
        *(Root(path, path, writable=True) for path in settings.workspace.write),
        *(Root(path, path, writable=False) for path in settings.workspace.read),
    ]
    own = [
        Root("run:observations", str(folder.observations.resolve()), writable=False),
        Root("run:artifacts", str(folder.artifacts.resolve()), writable=False),
        Root("run:deliverables", str(folder.deliverables.resolve()), writable=True),
        *([] if scratch else [Root("run:workspace", str(folder.workspace.resolve()), writable=True)]),
    ]
    return (Root("workspace", str(home.resolve()), writable=True), *further, *own)


def _own_paths(ground: Ground) -> tuple[str, ...]:
    """Handrail's own folders and settings files: out of every tool's reach."""
    folders = [paths.state_dir(), paths.config_dir(), paths.cache_dir(), ground.folder.path.parent]
    folders += [Path(file.path) for file in ground.loaded.files if file.layer != "project"]
    return tuple(dict.fromkeys(os.path.realpath(folder) for folder in folders))


def _limit_bounds(settings: Settings) -> LimitBounds:
    limits = settings.limits
    return LimitBounds(
        budgets={
            "calls": limits.max_calls,
            "wall_ms": limits.max_wall_seconds * 1000,
            "bytes_read": limits.max_bytes_read,
            "bytes_written": limits.max_bytes_written,
            "files_changed": limits.max_files_changed,
            "processes": limits.max_processes,
            "prompts": limits.max_prompts,
        },
        rate_per_minute=limits.rate,
        breaker_failures=limits.breaker_failures,
        breaker_seconds=limits.breaker_seconds,
        max_repeats=limits.max_repeats,
    )


def _approver(ground: Ground, ledger: SqliteLedger) -> ports.Approver:
    """The way to ask: the one given; nobody when headless; the terminal where there is one; else another process."""
    given, clock = ground.options.approver, ground.clock
    if given is not None:
        if getattr(given, "ledger", ledger) is None:
            given.ledger = ledger  # type: ignore[attr-defined]  # shipped fakes answer on record, as people do
        return given
    if ground.settings.mode is Mode.HEADLESS:
        from handrail.approvals.none import NoApprover

        return NoApprover()
    if sys.stdin.isatty() and sys.stderr.isatty():
        from handrail.approvals.terminal import TerminalApprover

        return TerminalApprover(ledger, clock)
    from handrail.approvals.elsewhere import LedgerApprover

    return LedgerApprover(ledger, clock, ground.settings.approvals.wait_seconds)


def _shared(ground: Ground, spill: FileSpill) -> Mapping[type, Any]:
    """What a tool's parameters are given, by their type, where it is the same for every call."""
    settings = ground.settings.limits
    return {
        ports.Secrets: ground.redactor,
        ports.Clock: ground.clock,
        ports.Spill: spill,
        ports.Archive: RunArchive(ground.folder.path.parent),
        ports.Limits: ports.Limits(
            settings.max_output_lines, settings.max_output_bytes, max_read_bytes=settings.max_read_bytes
        ),
    }


def _ports(files: WorkspaceFiles, screen: JournaledScreen) -> Mapping[type, Callable[[ports.Work], Any]]:
    """What a tool's parameters are given, by their type, where it belongs to one call."""

    def searcher(work: ports.Work) -> ports.Searcher:
        from handrail.workspace.ripgrep import Ripgrep

        return Ripgrep(files).bind(work.excluded)

    return {
        ports.Workspace: attrgetter("files"),
        ports.Searcher: searcher,
        ports.Screen: lambda work: screen.bind(work.call_id),
        ports.Places: lambda work: ports.Places(work.touches),
    }


@dataclass(frozen=True, slots=True)
class RunArchive:
    """Satisfies `ports.Archive` over the folders of all runs."""

    runs: Path

    async def load(self, run: str, sha256: str) -> bytes:
        """Give a former content; NOT_FOUND when it was not kept."""
        check_run_id(run)
        try:
            return await asyncio.to_thread(Images(self.runs / run / "archive", 0).load, sha256)
        except FileNotFoundError:
            raise Problem(Code.NOT_FOUND, f"run {run} keeps no content with sha256 {sha256}") from None


def _record_start(ground: Ground, world: Worlds) -> None:
    """Write down who opened the run, where, and under which policy."""
    about = {
        "workspace": ground.roots[0].path,
        "caller": ground.options.caller,
        "user": _user(),
        "pid": os.getpid(),
        "settings_digest": ground.loaded.digest,
        "policy_digest": world.digest,
        "files": [[file.path, file.layer, file.sha256, file.trusted] for file in ground.loaded.files],
        "warnings": list(ground.loaded.warnings),
        "parent_run": ground.options.parent_run,
    }
    if ground.journal.read_only:
        return
    fresh = ground.journal.seq == 0
    ground.journal.append("run.started", None, {**about, "reopened": not fresh})
    ground.journal.flush()
    if fresh:
        ground.folder.describe(
            {"run_id": ground.journal.run_id, **about} | {"policy": orjson.loads(canonical(world.base))}
        )


def _user() -> str:
    return os.environ.get("USER") or os.environ.get("LOGNAME") or str(os.getuid())


def entry_point_tools() -> dict[str, Callable[[], Tool]]:
    """Tools that installed packages offer under the entry point group `handrail.tools`; not yet imported."""
    from importlib.metadata import entry_points

    return {entry.name: entry.load for entry in entry_points(group="handrail.tools")}

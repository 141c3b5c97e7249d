"""Puts a runtime together from settings: every object is made here, once, in the order it is needed."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, closing
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from uuid_utils import uuid7

from handrail import ports
from handrail.approvals.account import account
from handrail.asking import build_parking, choose_approver, find_expiry_seconds, find_notifier, open_ledger
from handrail.catalog import Catalog, Tool
from handrail.errors import Misuse, Problem
from handrail.faculties import Faculties
from handrail.gates.asking import canonical
from handrail.gates.finish import Finisher
from handrail.kernel import Kernel, Parts
from handrail.limits import Bounds as LimitBounds
from handrail.limits import Limits
from handrail.output.bound import Bounds
from handrail.output.redact import KINDS, Redactor, SecretKind, known_values
from handrail.outside import Outside, secrets_of
from handrail.own_code import guard_imports
from handrail.own_imports import OWN_IMPORTS
from handrail.packages import entry_point_tools
from handrail.policy import World
from handrail.programs import Programs
from handrail.settings import Loaded, Settings, fix, load, paths
from handrail.settings.programs import check_named
from handrail.settings.starting import at_start
from handrail.skills.run import RunSkills, Terms
from handrail.skills.sources import Source, project_sources, user_sources
from handrail.store import databases, elsewhere
from handrail.store.archive import RunArchive
from handrail.store.folders import RunFolder, create, moment
from handrail.store.images import Images
from handrail.store.journal import FileJournal
from handrail.store.keys import RunKeys
from handrail.store.ledger import SqliteLedger
from handrail.store.order import RunOrder
from handrail.store.outcomes import Outcomes
from handrail.store.screen import JournaledScreen
from handrail.store.serving import is_serving
from handrail.store.spill import FileSpill
from handrail.strict_json import is_text
from handrail.tools import builtin
from handrail.words import Root
from handrail.workspace.births import folder_mark
from handrail.workspace.files import WorkspaceFiles
from handrail.worlds import Ground, Options, Worlds, disabled

log = logging.getLogger("handrail")
AGENT = "agent"  # the caller of an agent's tasks, which wait as long as people take
RUN_ID = "{run_id}"  # in workspace.root: a folder of its own for each run

if TYPE_CHECKING:
    from handrail.skills.finding import Library


class SystemClock:
    """The machine's own time."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


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
    given: set[str]  # names of tools that the program handed in
    outside: Outside
    faculties: Faculties
    programs: Programs

    @property
    def by_request(self) -> bool:
        """Tell whether settings give each run a folder of its own."""
        return RUN_ID in self.loaded.settings.workspace.root

    def checkpoint(self) -> None:
        """Keep what opening needs, so that it never reads the whole journal."""
        self.journal.checkpoint()

    async def close(self) -> None:
        """Finish the run: programs, projections, checkpoint, lock; to its end, also when the caller is cancelled."""
        ending = asyncio.ensure_future(self._close())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await asyncio.wait([ending])
            raise

    async def _close(self) -> None:
        from handrail.store.projections import project

        async with AsyncExitStack() as last_first:  # what fails keeps nothing else from being let go
            last_first.callback(self.ledger.close)
            last_first.callback(self._end_requests)
            last_first.push_async_callback(self.files.close)
            last_first.push_async_callback(self.faculties.close)
            last_first.push_async_callback(self.outside.close)
            last_first.push_async_callback(self.journal.close)
            last_first.callback(self._record_end)
            last_first.push_async_callback(self.programs.close)
        project(self.folder.path)

    def _end_requests(self) -> None:
        """Close the requests that nobody answered, unless they were asked to stay; see decision 57."""
        # The command line prints how to grant and replay a call, and ends: its requests stay. A task waits for them.
        approvals = self.loaded.settings.approvals
        if self.caller in ("cli", AGENT) or approvals.keep_after_run:
            return
        said = bool(self.loaded.where("approvals.park"))
        keep_parked = approvals.park and (said or is_serving(paths.state_dir()))
        try:
            self.ledger.end_run(self.journal.run_id, keep_parked=keep_parked)
        except Problem as problem:
            log.warning("requests of run %s wait until they expire: %s", self.journal.run_id, problem.message)

    def _record_end(self) -> None:
        if not self.journal.read_only:
            usage = self.limits.used(self.clock.monotonic())
            order = RunOrder(self.folder.path.parent).take()
            about = {"trace_id": self.journal.run_id, "usage": usage, "order": order}
            self.journal.append("run.finished", None, about)


def compose(options: Options) -> Composed:
    """Open a run: settings, folder, journal, then all that works on them."""
    ground = _ground(options)
    with ExitStack() as undo:
        undo.callback(ground.journal.abandon)
        composed = _composed(ground, undo)
        composed.programs.mend()
        undo.pop_all()
        return composed


def _ground(options: Options) -> Ground:
    clock = options.clock or SystemClock()
    OWN_IMPORTS.doubt_path()
    loaded = _settings(options)
    run_id = options.run_id or str(uuid7())
    runs = options.aside or Path(loaded.settings.runs_dir or paths.runs_dir())
    folder = create(runs, run_id)
    if loaded.settings.runs_dir and options.aside is None:
        elsewhere.note(paths.state_dir(), runs)
    journal = FileJournal.open(folder.path, run_id, clock, progress=options.progress)
    try:
        redactor = redactor_of(loaded.settings)
        roots = _roots(loaded, folder)
        check_named(loaded, (root.path for root in roots if root.writable))
    except BaseException:
        journal.abandon()
        raise
    return Ground(options, clock, loaded, folder, journal, redactor, roots, guard_imports(roots))


def _composed(ground: Ground, undo: ExitStack) -> Composed:
    options, settings, journal, clock = ground.options, ground.settings, ground.journal, ground.clock
    images, spill = Images(ground.folder.archive, settings.undo.max_bytes), FileSpill(ground.folder.observations)
    files = _workspace_files(ground, images)
    undo.callback(files.let_go)
    ledger = undo.enter_context(closing(open_ledger(ground)))
    catalog, ground = _catalog(ground)
    limits = Limits(_limit_bounds(settings), journal.state.usage, clock.monotonic() - ground.folder.age(clock.now()))
    screen = JournaledScreen(journal, ground.redactor, options.screen)
    skills, outside = _skills(ground, catalog), Outside(ground)
    programs = Programs(ground, files, spill, limits, outside)
    world = Worlds(ground, lambda: images.left, programs.repositories.found, programs.shadowed, programs.why_no_border)
    lent = {**_ports(ground, files, screen, skills), "Net": outside.bind, "Processes": programs.bind}
    faculties = Faculties(ground, files, spill, limits, lent)
    parts = Parts(
        catalog=catalog,
        files=files,
        journal=journal,
        ledger=ledger,
        approver=choose_approver(ground, ledger),
        finisher=Finisher(ground.redactor, _bounds(settings), spill),
        limits=limits,
        keys=RunKeys(journal.state, Outcomes(ground.folder.outcomes)),
        clock=clock,
        world=world.now,
        shared=_shared(ground, spill),
        ports={**lent, **faculties.lend()},
        confinement=programs.told,
        skills=skills,
        policy_digest=world.digest,
        workspace=ground.roots[0].path,
        folder=folder_mark(ground.roots[0].path),
        **_from_settings(ground),
        ready=programs.repositories.first_look,
        order=RunOrder(ground.folder.path.parent).take,
        notify=find_notifier(ground),
        parking=build_parking(ground, ledger),
    )
    _record_start(ground, world)
    return Composed(
        ground.loaded, catalog, Kernel(parts), journal, ledger, files, ground.folder, images, ground.redactor, screen,
        limits, clock, options.caller, world.digest, world.of, world.given, outside, faculties, programs,
    )  # fmt: skip


def _from_settings(ground: Ground) -> dict[str, Any]:
    """Give the parts of the kernel that settings and the caller decide alone."""
    settings, options = ground.settings, ground.options
    return {
        "trace_id": ground.journal.run_id,
        "caller": options.caller,
        "asked_by": options.asked_by,
        "timeout_seconds": settings.limits.timeout_seconds,
        "repair": settings.tools.repair,
        "expiry_seconds": find_expiry_seconds(ground),
        "asks_hosts": settings.exec.hosts == "ask",
        "hold_seconds": settings.approvals.wait_seconds,
        "concurrency": settings.limits.concurrency,
    }


def _workspace_files(ground: Ground, images: Images) -> WorkspaceFiles:
    return WorkspaceFiles(
        ground.roots,
        allow_absolute=ground.settings.workspace.allow_absolute,
        images=images,
        locks_dir=paths.state_dir() / "locks",
        seen=ground.journal.state.seen,
    )


def _catalog(ground: Ground) -> tuple[Catalog, Ground]:
    """All tools, and the ground with a warning of each thing that its settings say and hardly mean."""
    given = {item.name for item in ground.options.tools if isinstance(item, Tool)}
    own = builtin(without=given, where=disabled(ground.settings))
    catalog = Catalog(ground.options.tools, lazy=own, more=entry_point_tools)
    found = at_start(ground.loaded, catalog)
    if ground.own.warning:
        found = (*found, ground.own.warning)
    for warning in (*ground.loaded.warnings, *found):
        if warning != ground.loaded.fault:  # which whoever opened the run anew tells
            log.warning("%s", warning)
    loaded = replace(ground.loaded, warnings=(*ground.loaded.warnings, *found))
    return catalog, replace(ground, loaded=loaded)


def _bounds(settings: Settings) -> Bounds:
    return Bounds(settings.limits.max_output_lines, settings.limits.max_output_bytes)


def _settings(options: Options) -> Loaded:
    flags = {name: value for name, value in {"mode": options.mode, **options.flags}.items() if value is not None}
    if not is_text(os.path.realpath(options.workspace)):
        raise Misuse(paths.unreadable(os.path.realpath(options.workspace)))
    loaded = load(
        options.workspace, config=options.config, flags=flags, environment=os.environ, former=options.former,
        trust=options.trust,
    )  # fmt: skip
    return fix(loaded, options.fixed) if options.fixed else loaded


def redactor_of(settings: Settings) -> Redactor:
    """Make what hides secrets: known values of the environment and settings, and what looks like one."""
    extra = [os.environ[name] for name in settings.redaction.known if os.environ.get(name)]
    extra += secrets_of(settings, os.environ)
    kinds = (*KINDS, *(SecretKind(name, text, (), "") for name, text in settings.redaction.patterns.items()))
    known = known_values(os.environ, extra)
    if len(kinds) > len(KINDS):
        return Redactor(known, kinds=kinds, engine="plain")
    return Redactor(known, database=databases.cached(paths.cache_dir()))


def _roots(loaded: Loaded, folder: RunFolder) -> tuple[Root, ...]:
    """The workspace first, then further folders, then the run's own."""
    settings = loaded.settings
    scratch = settings.workspace.root == "run:workspace"
    home = folder.workspace if scratch else Path(settings.workspace.root.replace(RUN_ID, folder.path.name))
    if RUN_ID in settings.workspace.root:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        # What was vetted is the folder above; a link planted under the run's name would lead out of it.
        if home.resolve() != home:
            raise Misuse(f"the workspace {home} is a link, or lies below one; name another run")
    if not home.is_dir():
        raise Misuse(f"the workspace {home} is not a folder")
    further = [
        *(Root(path, path, writable=True) for path in settings.workspace.write),
        *(Root(path, path, writable=False) for path in settings.workspace.read),
    ]
    further += [source.root for source in _skills_aside(loaded)]
    if settings.skills.user:
        further += [source.root for source in user_sources(paths.home_dir())]
    own = [
        Root("run:observations", str(folder.observations.resolve()), writable=False),
        Root("run:artifacts", str(folder.artifacts.resolve()), writable=False),
        Root("run:deliverables", str(folder.deliverables.resolve()), writable=True),
        *([] if scratch else [Root("run:workspace", str(folder.workspace.resolve()), writable=True)]),
    ]
    return (Root("workspace", str(home.resolve()), writable=True), *further, *own)


def _skills_aside(loaded: Loaded) -> list[Source]:
    """The project's folders of skills where the project itself is no root: each is one of its own, only to read."""
    settings = loaded.settings
    if settings.workspace.root != "run:workspace" and RUN_ID not in settings.workspace.root:
        return []
    project = Root(loaded.workspace, loaded.workspace, writable=False)
    found = [source for source in project_sources(project, settings.skills.folders) if not source.problem]
    return [replace(source, root=Root(source.folder, source.folder, writable=False)) for source in found]


def _skills(ground: Ground, catalog: Catalog) -> RunSkills:
    """The skills of the run: the workspace's, looked for whenever they are asked for, and the user's."""
    settings, home = ground.settings.skills, ground.roots[0]
    own = tuple(user_sources(paths.home_dir())) if settings.user else ()
    known = [source for source in (*_skills_aside(ground.loaded), *own) if source.root in ground.roots]

    def library() -> Library:
        from handrail.skills.finding import Library

        return Library(lambda: [*project_sources(home, settings.folders), *known], catalog.names)

    terms = Terms(settings.narrow, settings.script_folders)
    return RunSkills(library, ground.journal.state, ground.journal, ground.redactor, terms)


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


def _shared(ground: Ground, spill: FileSpill) -> Mapping[str, Any]:
    """What a tool's parameters are given, by their type, where it is the same for every call."""
    settings = ground.settings.limits
    return {
        "Secrets": ground.redactor,
        "Clock": ground.clock,
        "Spill": spill,
        "Archive": RunArchive(ground.folder.path.parent),
        "Roots": ports.Roots(ground.roots),
        "Limits": ports.Limits(
            settings.max_output_lines, settings.max_output_bytes, max_read_bytes=settings.max_read_bytes
        ),
    }


def _ports(
    ground: Ground, files: WorkspaceFiles, screen: JournaledScreen, skills: RunSkills
) -> Mapping[str, Callable[[ports.Work], Any]]:
    """What a tool's parameters are given, by their type, where it belongs to one call."""

    def searcher(work: ports.Work) -> ports.Searcher:
        from handrail.workspace.ripgrep import Ripgrep

        return Ripgrep(files, program=ground.settings.programs.rg).bind(work.excluded)

    return {
        "Workspace": attrgetter("files"),
        "Searcher": searcher,
        "Screen": lambda work: screen.bind(work.call_id),
        "Skills": skills.bind,
        "Places": lambda work: ports.Places(work.touches),
    }


def _record_start(ground: Ground, world: Worlds) -> None:
    """Write down who opened the run, where, and under which policy."""
    about = {
        "workspace": ground.roots[0].path,
        "caller": ground.options.caller,
        "user": account(),
        "pid": os.getpid(),
        "settings_digest": ground.loaded.digest,
        "policy_digest": world.digest,
        "files": [[file.path, file.layer, file.sha256, file.trusted] for file in ground.loaded.files],
        "warnings": list(ground.loaded.warnings),
        "parent_run": ground.options.parent_run,
    }
    if ground.options.asked_by:
        about["identity"] = ground.options.asked_by
    if ground.journal.read_only:
        return
    fresh = ground.journal.seq == 0
    order = RunOrder(ground.folder.path.parent).take()
    opened = {"trace_id": ground.journal.run_id, **about, "reopened": not fresh, "order": order}
    ground.journal.append("run.started", None, opened)
    ground.journal.flush()
    if fresh:
        ground.folder.describe(
            {"run_id": ground.journal.run_id, "started": moment(ground.clock.now()), **about}
            | {"project": ground.loaded.workspace}
            | {"policy": orjson.loads(canonical(world.base))}
        )

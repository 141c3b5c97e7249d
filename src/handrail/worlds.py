"""What a run stands on, and the worlds in which its calls are judged."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from handrail import ports
from handrail.catalog import Tool
from handrail.gates.asking import policy_digest
from handrail.hook_files import find_hook_files
from handrail.output.redact import Redactor
from handrail.own_code import OwnCode, loaded_files
from handrail.policy import ToolFacts, World
from handrail.policy.rules import Rule
from handrail.policy.world import Repositories
from handrail.sandbox.callers_path import find_callers_path
from handrail.sandbox.plan import layers_beside
from handrail.settings import Loaded, Settings, TrustStore, paths
from handrail.store import elsewhere
from handrail.store.folders import RunFolder
from handrail.store.journal import FileJournal
from handrail.tools import builtin
from handrail.words import Decision, Risk, Root, Touch, TouchKind, noun


@noun
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
    fixed: Mapping[str, Any] = field(default_factory=dict)  # settings of a front end's own, whatever others say
    former: Loaded | None = None  # what a project's file said before; see `settings.load`
    trust: TrustStore | None = None  # none: the user's own
    asked_by: str = ""  # the identity that makes the calls, where the front end knows one
    ledger: Path | None = None  # the folder of the ledger, where it is not the user's
    aside: Path | None = None  # where a run that only judges is kept, and what it needs of the ledger


@noun
class Ground:
    """What a run stands on: settings, folder, journal, roots."""

    options: Options
    clock: ports.Clock
    loaded: Loaded
    folder: RunFolder
    journal: FileJournal
    redactor: Redactor
    roots: tuple[Root, ...]
    own: OwnCode = OwnCode()

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.loaded.settings


class Worlds:
    """The world of each tool, without what belongs to one call."""

    def __init__(
        self,
        ground: Ground,
        room: Callable[[], int] | None = None,
        repositories: Callable[[], Repositories] | None = None,
        shadowed: Callable[[], tuple[str, ...]] | None = None,
        no_border: Callable[[], str] | None = None,
    ) -> None:
        self._repositories = repositories  # as they are on disk now
        self._shadowed = shadowed  # harmless commands that stand for programs of the workspace now
        self._no_border = no_border  # why programs cannot run without a question here; empty: they can
        self._room = room  # how many bytes may still be kept for undo
        self.given = {item.name for item in ground.options.tools}  # handed in by the program: enabled by that
        self._known: dict[str, World] = {}
        self._program_hosts = ground.settings.exec.allowed_hosts
        self.base = _base(ground)
        self.digest = policy_digest(self.base)
        self._ground = ground
        self._modules = -1  # how many were loaded at the last look

    def of(self, tool: Tool) -> World:
        """The world in which calls of a tool are judged; what there is no more room for cannot be undone."""
        if tool.changing and len(sys.modules) != self._modules:
            self._look_at_modules()
        found = self._known.get(tool.name) or self._made(tool)
        if self._room is not None and tool.changing and (left := self._room()) < found.max_undo_bytes:
            return replace(found, max_undo_bytes=left)
        return found

    def _look_at_modules(self) -> None:
        """Learn which files beneath write roots this program has loaded by now."""
        self._modules = len(sys.modules)
        loaded = loaded_files(self._ground.roots, self._ground.own)
        if loaded != self.base.loaded_code:
            self.base = replace(self.base, loaded_code=loaded)
            self._known.clear()

    def now(self, tool: Tool) -> World:
        """The world of a tool with the repositories as they are on disk now."""
        if self._repositories is not None and tool.changing:
            self._learn(self._repositories())
        if self._shadowed is not None and TouchKind.PROC_EXEC in tool.permissions:
            self._learn_names(self._shadowed())
        return self.of(tool)

    def _learn_names(self, found: tuple[str, ...]) -> None:
        """Take in the harmless commands that stand for programs of the workspace now."""
        if found != self.base.shadowed:
            self.base = replace(self.base, shadowed=found)
            self._known.clear()

    def _learn(self, found: Repositories) -> None:
        """Take in the repositories as they are now."""
        if found is not self.base.repositories:
            self.base = replace(self.base, repositories=found)
            self._known.clear()

    def _made(self, tool: Tool) -> World:
        facts = ToolFacts(
            tool.name,
            tool.toolset,
            tool.risk,
            ask_first=tool.ask_first,
            given=tool.name in self.given,
            internal=not tool.offered,
            states=_states(tool),
        )
        found = replace(self.base, tool=facts)
        if facts.given and tool.name in found.disable and tool.name in builtin():
            # Settings disabled the built-in tool of this name; the program's own took the name over.
            found = replace(found, disable=found.disable - {tool.name})
        if TouchKind.PROC_EXEC in tool.permissions:
            found = replace(
                found,
                allowed_hosts=self._program_hosts,
                hosts_setting="exec.allowed_hosts",
                asks_hosts=self._ground.settings.exec.hosts == "ask",
            )
            if found.border:
                why = self._no_border() if self._no_border is not None else "nothing here can review changes"
                found = replace(found, border=not why, no_border=why)
        self._known[tool.name] = found
        return found


def _base(ground: Ground) -> World:
    """Make the world that all tools share, from settings."""
    settings, loaded = ground.settings, ground.loaded
    callers_path = find_callers_path(ground.roots, os.environ.get("PATH", os.defpath))
    return World(
        tool=ToolFacts("", "", Risk.HIGH),
        roots=ground.roots,
        rules=(
            *(entry.rule() for entry in settings.rules),
            *command_rules(settings, loaded),
            *_note_rules(settings),
        ),
        enable=settings.enabled,
        disable=disabled(settings),
        protected=loaded.protected[0],
        further_protected=loaded.protected[1:],
        environment=settings.environment,
        own_paths=own_paths(ground),
        settings_files=tuple(dict.fromkeys(name for file in loaded.files for name in file.way)),
        own_code=ground.own.locked,
        hook_files=find_hook_files((ground.roots[0].path, str(paths.home_dir())), ground.options.caller),
        skill_folders=_skill_folders(ground),
        search_path=callers_path.folders,
        search_spots=callers_path.spots,
        allowed_hosts=settings.http.allowed_hosts,
        mode=settings.mode,
        caller=ground.options.caller,
        run_id=ground.journal.run_id,
        max_scope=settings.approvals.widest,
        run_covers=settings.approvals.run_covers,
        max_undo_bytes=settings.undo.max_file_bytes,
        bulk_files=settings.limits.bulk_files,
        confined=settings.exec.sandbox != "none",
        reviewed=settings.exec.workspace == "review",
        border=settings.exec.ask == "border",
        origins=dict(_origins(loaded)),
    )


def _origins(loaded: Loaded) -> Iterator[tuple[str, str]]:
    """List where settings were written; for a protected name that is there by default, nowhere."""
    for name, origin in loaded.origins.items():
        if origin.layer != "default":
            yield name, origin.where
        elif name.startswith("workspace.protected."):
            yield name, ""


def command_rules(settings: Settings, loaded: Loaded) -> Iterator[Rule]:
    """`exec.allow` and `exec.deny` as the rules they stand for."""
    for effect, words in ((Decision.ALLOW, settings.exec.allow), (Decision.DENY, settings.exec.deny)):
        name = f"exec.{effect.word}"
        for number, target in enumerate(words, 1):
            origin = loaded.origins.get(f"{name}.{target}") or loaded.origins.get(name)
            why = f"{name} lists `{target}`"
            where = origin.where if origin is not None else ""
            yield Rule(effect, f"{name}.{number}", touch="proc.exec", target=target, why=why, where=where)


def disabled(settings: Settings) -> frozenset[str]:
    """The tools and toolsets that settings take away: not even listed."""
    return frozenset({*settings.tools.disable, *_hidden(settings)})


def _hidden(settings: Settings) -> tuple[str, ...]:
    """The tools that other settings than `tools.disable` take away."""
    if not settings.memory.enabled:
        return ("recall_memory", "write_memory", "update_memory")
    return ("write_memory", "update_memory") if settings.memory.write_mode == "disabled" else ()


def _note_rules(settings: Settings) -> Iterator[Rule]:
    """A candidate waits for a person anyway, so that writing one does not ask as well."""
    offered = {"memory", "write_memory", "update_memory"} & set(settings.tools.enable)
    if offered and settings.memory.enabled and settings.memory.write_mode == "candidate":
        why = "a note waits until a person accepts it"
        yield Rule(Decision.ALLOW, "memory.candidate", touch="memory.write", why=why)


def _states(tool: Tool) -> tuple[Touch, ...]:
    """What calls of a tool may touch, without targets."""
    marked = [Touch(mark.kind, "", mark.deep, mark.how, mark.follow) for _, mark in tool.targets]
    kinds = {touch.kind for touch in marked}
    return (*marked, *(Touch(kind, "") for kind in tool.permissions if kind not in kinds))


def _skill_folders(ground: Ground) -> tuple[str, ...]:
    """The folders of the project's skills, as they are named and where links lead; made later, they count, too."""
    home = ground.roots[0].path
    named = [os.path.normpath(os.path.join(home, name)) for name in ground.settings.skills.folders]
    return tuple(dict.fromkeys([*named, *map(os.path.realpath, named)]))


def own_paths(ground: Ground) -> tuple[str, ...]:
    """List Handrail's own folders and settings files: out of every tool's reach."""
    folders = [paths.state_dir(), paths.config_dir(), paths.cache_dir(), ground.folder.path.parent]
    folders += [Path(ground.settings.runs_dir)] if ground.settings.runs_dir else []
    folders += [Path(file.path) for file in ground.loaded.files if file.layer != "project"]
    if ground.settings.exec.workspace == "review":
        folders += [Path(layers_beside(root.path)) for root in ground.roots if root.writable]
    # Runs of other settings in the same project: their journals and archives are no more this run's than its own.
    others = elsewhere.within(paths.state_dir(), (root.path for root in ground.roots))
    return tuple(dict.fromkeys([*(os.path.realpath(folder) for folder in folders), *map(os.path.realpath, others)]))

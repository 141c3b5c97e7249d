"""What a run stands on, and the worlds in which its calls are judged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from handrail import ports
from handrail.catalog import Tool
from handrail.gates.asking import digest_of
from handrail.output.redact import Redactor
from handrail.policy import ToolFacts, World
from handrail.policy.rules import Rule
from handrail.settings import Loaded, Settings, TrustStore, paths
from handrail.store import elsewhere
from handrail.store.folders import RunFolder
from handrail.store.journal import FileJournal
from handrail.words import Decision, Mode, Risk, Root, Touch, TouchKind, noun


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
    former: Loaded | None = None  # what a project's file said before; see `settings.load`
    trust: TrustStore | None = None  # none: the user's own
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

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.loaded.settings


class Worlds:
    """The world of each tool, without what belongs to one call."""

    def __init__(self, ground: Ground, room: Callable[[], int] | None = None) -> None:
        settings, loaded = ground.settings, ground.loaded
        self._room = room  # how many bytes may still be kept for undo
        self.given = {item.name for item in ground.options.tools}  # handed in by the program: enabled by that
        self._known: dict[str, World] = {}
        self._program_hosts = settings.exec.allowed_hosts
        self.base = World(
            tool=ToolFacts("", "", Risk.HIGH),
            roots=ground.roots,
            rules=(
                *(entry.rule() for entry in settings.rules),
                *_command_rules(settings, loaded),
                *_note_rules(settings),
            ),
            enable=settings.enabled,
            disable=disabled(settings),
            protected=settings.workspace.protected,
            own_paths=_own_paths(ground),
            settings_files=tuple(dict.fromkeys(name for file in loaded.files for name in file.way)),
            skill_folders=_skill_folders(ground),
            allowed_hosts=settings.http.allowed_hosts,
            mode=settings.mode,
            caller=ground.options.caller,
            run_id=ground.journal.run_id,
            max_scope=settings.approvals.widest,
            max_undo_bytes=settings.undo.max_file_bytes,
            bulk_files=settings.limits.bulk_files,
            confined=settings.exec.sandbox != "none",
            reviewed=settings.exec.workspace == "review",
            origins={name: origin.where for name, origin in loaded.origins.items() if origin.layer != "default"},
        )
        # Both modes judge alike: what was asked for in one may be replayed in the other.
        mode = Mode.INTERACTIVE
        policy = replace(
            self.base,
            roots=(),
            run_id="",
            own_paths=(),
            settings_files=(),
            caller="",
            origins={},
            mode=mode,
            skill_folders=(),
        )
        self.digest = digest_of("handrail-policy-1", policy)

    def of(self, tool: Tool) -> World:
        """The world in which calls of a tool are judged; what there is no more room for cannot be undone."""
        found = self._known.get(tool.name) or self._made(tool)
        if self._room is not None and tool.changing and (left := self._room()) < found.max_undo_bytes:
            return replace(found, max_undo_bytes=left)
        return found

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
        if TouchKind.PROC_EXEC in tool.permissions:
            found = replace(found, allowed_hosts=self._program_hosts, hosts_setting="exec.allowed_hosts")
        self._known[tool.name] = found
        return found


def _command_rules(settings: Settings, loaded: Loaded) -> Iterator[Rule]:
    """`exec.allow` and `exec.deny` as the rules they stand for."""
    for effect, words in ((Decision.ALLOW, settings.exec.allow), (Decision.DENY, settings.exec.deny)):
        name = f"exec.{effect.word}"
        origin = loaded.origins.get(name)
        for number, target in enumerate(words, 1):
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


def _own_paths(ground: Ground) -> tuple[str, ...]:
    """Handrail's own folders and settings files: out of every tool's reach."""
    folders = [paths.state_dir(), paths.config_dir(), paths.cache_dir(), ground.folder.path.parent]
    folders += [Path(ground.settings.runs_dir)] if ground.settings.runs_dir else []
    folders += [Path(file.path) for file in ground.loaded.files if file.layer != "project"]
    # Runs of other settings in the same project: their journals and archives are no more this run's than its own.
    others = elsewhere.within(paths.state_dir(), (root.path for root in ground.roots))
    return tuple(dict.fromkeys([*(os.path.realpath(folder) for folder in folders), *map(os.path.realpath, others)]))

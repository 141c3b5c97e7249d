"""Everything a decision depends on, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from handrail.words import Decision, Exclusion, Grant, How, Mode, Risk, Root, Scope, Touch, TouchKind, noun

if TYPE_CHECKING:
    from handrail.policy.rules import Rule

# Bound once: in every decision, looking a member up in its class costs more than comparing it.
ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY
READ, WRITE, DELETE = TouchKind.FS_READ, TouchKind.FS_WRITE, TouchKind.FS_DELETE
RUN, REACH, USE = TouchKind.PROC_EXEC, TouchKind.NET_CONNECT, TouchKind.TOOL_USE
GIT = TouchKind.GIT_WRITE
MOVE, UNDO, MAKE = How.MOVE, How.UNDO, How.MAKE

Withheld = tuple[tuple[Exclusion, ...], tuple[Exclusion, ...]]  # what programs are not to see, and not to change


@noun
class ToolFacts:
    """What policy needs to know of a tool."""

    name: str
    toolset: str
    risk: Risk
    ask_first: bool = False  # enabled only by its own name
    given: bool = False  # handed in by the program that opened the runtime
    internal: bool = False  # serves people (undo); no model is offered it
    states: tuple[Touch, ...] = ()  # what its calls may touch, without targets; for showing policy


@noun
class Repositories:
    """Paths that git reads or runs, besides those below a folder called `.git`. All are absolute."""

    folders: tuple[str, ...] = ()  # repositories by another name: bare ones, and where a `.git` file points
    named: tuple[str, ...] = ()  # what existing configs name: folders of hooks, further config files, scripts
    heads: tuple[str, ...] = ()  # folders that are no repository yet and hold a file `HEAD`
    unread: tuple[str, ...] = ()  # working trees whose config could not be read
    programs: tuple[str, ...] = ()  # keys of their configs, and hooks, that make git run a program while it reads
    whole: bool = True  # every folder beneath the roots was looked at
    trees: tuple[str, ...] = ()  # working trees that lie in one of the folders: ordinary files


@noun
class World:
    """The settings' rules, the roots, the mode, the active skill, the grants: all that a verdict is made from."""

    tool: ToolFacts
    roots: tuple[Root, ...] = ()
    rules: tuple[Rule, ...] = ()
    enable: frozenset[str] = frozenset()
    disable: frozenset[str] = frozenset()
    protected: tuple[str, ...] = (".env*", "!.env.example")
    own_paths: tuple[str, ...] = ()  # absolute folders of Handrail's own state, settings and ledger
    settings_files: tuple[
        str, ...
    ] = ()  # absolute files that settings were read from: tools may read them, never write
    own_code: tuple[str, ...] = ()  # absolute paths that this process's code is loaded from: never written
    loaded_code: tuple[str, ...] = ()  # absolute files of the program that embeds Handrail: writing them asks
    skill_folders: tuple[str, ...] = ()  # absolute folders where the project's skills are looked for
    repositories: Repositories = field(default_factory=Repositories)
    search_path: tuple[str, ...] = ()  # absolute folders beneath roots where the person's shell looks for commands
    search_spots: tuple[str, ...] = ()  # absolute names on the way to such folders, these included
    shadowed: tuple[str, ...] = ()  # harmless commands that a program beneath a write root would run instead of
    allowed_hosts: tuple[str, ...] = ()
    hosts_setting: str = "http.allowed_hosts"  # where they are set
    asks_hosts: bool = False  # a public host that is not allowed is asked for; of programs
    mode: Mode = Mode.INTERACTIVE
    skill_name: str | None = None
    skill_tools: frozenset[str] | None = None  # None: no skill is active
    permissions: frozenset[str] | None = None  # None: the call does not narrow itself
    caller: str = "python"
    grants: tuple[Grant, ...] = ()
    digest: str = ""  # of the exact call, for grants
    exact: str = ""  # of the arguments, targets and run files of a call that runs programs: neither policy nor sandbox
    commands: tuple[str, ...] = ()  # patterns of the commands whose program reaches for a host; none: the exact line
    ordinary: bool = True  # all arguments of a call that runs programs are judged by its touches, or have their default
    now: float = 0.0
    run_id: str = ""
    max_scope: Scope = Scope.RUN
    run_covers: str = "target"  # of a grant for the run: the targets of its call, or any target of its "tool"
    max_undo_bytes: int = 32 * 1024 * 1024
    bulk_files: int = 20
    confined: bool = True  # programs run in a sandbox
    reviewed: bool = False  # and what they change is judged before it is kept
    origins: Mapping[str, str] = field(default_factory=dict)  # setting -> "handrail.toml:3"
    # Later fields are no part of the policy's digest while they have their defaults: see `worlds.policy_digest`.
    further_protected: tuple[tuple[str, ...], ...] = ()  # names of further layers: a `!name` counts within its own
    environment: str = ""  # the name that was given at start, such as `ci`
    border: bool = False  # programs run without a question: the changes that they made are judged, each by itself
    no_border: str = ""  # why that is not so, though settings say it
    changes: bool = False  # what is judged are changes that a program made
    hook_files: tuple[str, ...] = ()  # absolute files that say whether an agent asks Handrail: never written
    # No part of what a world is: neither compared nor written down, and not taken over by `replace`.
    _withheld: Withheld | None = field(default=None, init=False)

    @property
    def protected_groups(self) -> tuple[tuple[str, ...], ...]:
        """The protected names of all layers, each with its own `!name`."""
        return (self.protected, *self.further_protected) if self.further_protected else (self.protected,)

    def withheld(self, find: Callable[[World], Withheld]) -> Withheld:
        """What programs are not to see and not to change; it follows from the rest, and is found once."""
        if self._withheld is None:
            object.__setattr__(self, "_withheld", find(self))
        assert self._withheld is not None
        return self._withheld

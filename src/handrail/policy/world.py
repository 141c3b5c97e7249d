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
    skill_folders: tuple[str, ...] = ()  # absolute folders where the project's skills are looked for
    allowed_hosts: tuple[str, ...] = ()
    hosts_setting: str = "http.allowed_hosts"  # where they are set
    mode: Mode = Mode.INTERACTIVE
    skill_name: str | None = None
    skill_tools: frozenset[str] | None = None  # None: no skill is active
    permissions: frozenset[str] | None = None  # None: the call does not narrow itself
    caller: str = "python"
    grants: tuple[Grant, ...] = ()
    digest: str = ""  # of the exact call, for grants
    now: float = 0.0
    run_id: str = ""
    max_scope: Scope = Scope.RUN
    max_undo_bytes: int = 32 * 1024 * 1024
    bulk_files: int = 20
    confined: bool = True  # programs run in a sandbox
    reviewed: bool = False  # and what they change is judged before it is kept
    origins: Mapping[str, str] = field(default_factory=dict)  # setting -> "handrail.toml:3"
    # No part of what a world is: neither compared nor written down, and not taken over by `replace`.
    _withheld: Withheld | None = field(default=None, init=False)

    def withheld(self, find: Callable[[World], Withheld]) -> Withheld:
        """What programs are not to see and not to change; it follows from the rest, and is found once."""
        if self._withheld is None:
            object.__setattr__(self, "_withheld", find(self))
        assert self._withheld is not None
        return self._withheld

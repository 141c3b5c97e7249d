"""The real gate for a line: what run_command states of it, judged by policy."""

from __future__ import annotations

from dataclasses import replace
from posixpath import normpath

from handrail.policy import ToolFacts, World, decide
from handrail.policy.rules import Rule
from handrail.policy.world import Repositories
from handrail.tools.exec._line import touches_of_line
from handrail.words import Decision, Grant, Place, PlaceKind, Risk, Root, Touch, Verdict

WORK = Root("workspace", "/ws", writable=True)
BASE = World(
    ToolFacts("run_command", "exec", Risk.MEDIUM),
    (WORK,),
    enable=frozenset({"exec"}),
    repositories=Repositories(programs=("diff.external",)),  # as the one has that the lines are run in
    digest="digest",
)


def judged(line: str, *rules: Rule, grants: tuple[Grant, ...] = ()) -> Verdict:
    """The verdict on a call of run_command with this line, in a sandbox."""
    touches = [resolved(touch) for touch in touches_of_line({"command": line, "cwd": "."})]
    return decide(touches, replace(BASE, rules=rules, grants=grants))


def unasked(line: str, *rules: Rule) -> bool:
    """Whether a line would run without a question."""
    return judged(line, *rules).decision is Decision.ALLOW


def resolved(touch: Touch) -> Touch:
    """A touch of a file with its place; one outside the workspace has none."""
    path = normpath(touch.target)
    if not touch.kind.startswith("fs.") or path.startswith(("/", "..")):
        return touch
    kind = PlaceKind.DIRECTORY if path == "." else PlaceKind.FILE
    return replace(touch, place=Place(WORK, "" if path == "." else path, kind))

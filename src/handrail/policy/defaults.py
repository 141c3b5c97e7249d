"""What holds where no rule of the operator matches."""

from __future__ import annotations

from collections.abc import Sequence

from handrail.policy import skills
from handrail.policy.patterns import protects
from handrail.policy.world import ALLOW, ASK, DELETE, DENY, REACH, READ, RUN, USE, WRITE, World
from handrail.words import Decision, Finding, How, PlaceKind, Risk, Touch

# Files that make programs run outside any sandbox: editors, forges, shells, agents.
RUNS_PROGRAMS = (
    ".mcp.json",
    ".claude",
    ".cursor",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".github/workflows",
    ".github/actions",
    ".gitlab-ci.yml",
    ".circleci",
    ".husky",
    ".pre-commit-config.yaml",
    ".envrc",
    ".gitattributes",
    ".gitmodules",
    ".npmrc",
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zprofile",
    ".agents/skills",
)

OWN_JOBS = frozenset({"job_list", "job_read", "job_stop"})


def finding(touch: Touch, world: World, *, bulk: bool) -> Finding:
    """The default for one touch: the strictest that applies."""
    if touch.place is not None:
        if pattern := _protected(touch, world):
            why, where = f"{touch.shown} is protected ({pattern})", world.origins.get("workspace.protected", "")
            return Finding("defaults", "defaults.protected", DENY, why, where, code="PATH_PROTECTED")
        return _file(touch, world, bulk=bulk)
    if touch.kind is RUN:
        from handrail.policy import programs

        return programs.default(touch, world)
    if touch.kind is REACH and not touch.unsafe:
        return _says("allowed-host", ALLOW, "reading from an allowed host")
    if touch.how is How.LOAD and (more := skills.opened(touch, world)):
        return _says("opens-tools", ASK, more)
    if touch.kind is USE and world.tool.risk is Risk.LOW:
        return _says("low-risk", ALLOW, "a low-risk tool")
    if touch.kind is USE and world.tool.name in OWN_JOBS:
        return _says("own-jobs", ALLOW, "reading or ending what this run started")
    return _says("asks", ASK, f"{touch.kind} asks unless a rule allows it")


def files_changed(touches: Sequence[Touch]) -> int:
    """How many files and folders a call would write, delete or move."""
    count = 0
    for touch in touches:
        if touch.kind is WRITE or touch.kind is DELETE:
            count += 1 + len(touch.below or ())
    return count


def _file(touch: Touch, world: World, *, bulk: bool) -> Finding:
    assert touch.place is not None
    if touch.kind is READ:
        return _says("workspace-read", ALLOW, "reading beneath a root")
    if touch.how is How.UNDO and world.tool.internal:
        return _says("undo", ALLOW, "putting back what a recorded call changed")
    if [path for path in (touch.place.path, *(touch.below or ())) if protects(RUNS_PROGRAMS, path)]:
        return _says("runs-programs", ASK, f"{touch.shown} makes programs run outside the sandbox")
    if bulk:
        return _says("bulk", ASK, f"the call changes more than {world.bulk_files} files")
    if touch.place.size > world.max_undo_bytes and touch.place.kind is PlaceKind.FILE:
        return _says("too-large-to-undo", ASK, f"{touch.shown} is too large to be put back")
    if touch.kind is DELETE and touch.how is not How.MOVE:
        return _says("delete", ASK, "deleting is for people to confirm")
    if touch.how is How.REPLACE and touch.place.kind is not PlaceKind.MISSING:
        return _says("overwrite", ASK, f"{touch.shown} exists and would be replaced")
    return _says("workspace-write", ALLOW, "writing beneath a write root, undoable")


def _protected(touch: Touch, world: World) -> str | None:
    assert touch.place is not None
    if touch.below is None:
        return protects(world.protected, touch.place.path)
    found = (protects(world.protected, path) for path in (touch.place.path, *touch.below))
    return next((pattern for pattern in found if pattern), None)


def _says(rule: str, decision: Decision, why: str) -> Finding:
    return Finding("defaults", f"defaults.{rule}", decision, why)

"""What holds where no rule of the operator matches."""

from __future__ import annotations

from handrail.policy.patterns import protects
from handrail.policy.world import World
from handrail.words import Decision, Finding, How, PlaceKind, Risk, Touch, TouchKind

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


def finding(touch: Touch, world: World, *, bulk: bool) -> Finding:
    """The default for one touch: the strictest that applies."""
    if touch.place is not None:
        if pattern := _protected(touch, world):
            return _says("protected", Decision.DENY, f"{touch.shown} is protected ({pattern})", world, "PATH_PROTECTED")
        return _file(touch, world, bulk=bulk)
    if touch.kind is TouchKind.NET_CONNECT and not touch.unsafe:
        return _says("allowed-host", Decision.ALLOW, "reading from an allowed host", world)
    if touch.kind is TouchKind.TOOL_USE and world.tool.risk is Risk.LOW:
        return _says("low-risk", Decision.ALLOW, "a low-risk tool", world)
    return _says("asks", Decision.ASK, f"{touch.kind} asks unless a rule allows it", world)


def _file(touch: Touch, world: World, *, bulk: bool) -> Finding:
    assert touch.place is not None
    if touch.kind is TouchKind.FS_READ:
        return _says("workspace-read", Decision.ALLOW, "reading beneath a root", world)
    if touch.how is How.UNDO and world.tool.internal:
        return _says("undo", Decision.ALLOW, "putting back what a recorded call changed", world)
    if any(protects(RUNS_PROGRAMS, path) for path in (touch.place.path, *(touch.below or ()))):
        return _says("runs-programs", Decision.ASK, f"{touch.shown} makes programs run outside the sandbox", world)
    if bulk:
        return _says("bulk", Decision.ASK, f"the call changes more than {world.bulk_files} files", world)
    if touch.place.size > world.max_undo_bytes and touch.place.kind is PlaceKind.FILE:
        return _says("too-large-to-undo", Decision.ASK, f"{touch.shown} is too large to be put back", world)
    if touch.kind is TouchKind.FS_DELETE and touch.how is not How.MOVE:
        return _says("delete", Decision.ASK, "deleting is for people to confirm", world)
    if touch.how is How.REPLACE and touch.place.kind is not PlaceKind.MISSING:
        return _says("overwrite", Decision.ASK, f"{touch.shown} exists and would be replaced", world)
    return _says("workspace-write", Decision.ALLOW, "writing beneath a write root, undoable", world)


def _protected(touch: Touch, world: World) -> str | None:
    assert touch.place is not None
    for path in (touch.place.path, *(touch.below or ())):
        if pattern := protects(world.protected, path):
            return pattern
    return None


def _says(rule: str, decision: Decision, why: str, world: World, code: str = "POLICY_DENIED") -> Finding:
    where = world.origins.get("workspace.protected", "") if rule == "protected" else ""
    return Finding("defaults", f"defaults.{rule}", decision, why, where, code=code)

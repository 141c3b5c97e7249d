"""What holds where no rule of the operator matches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from handrail.policy import rules, skills
from handrail.policy.builtin import folded
from handrail.policy.patterns import could_protect, protects
from handrail.policy.world import ALLOW, ASK, DELETE, DENY, REACH, READ, USE, WRITE, World
from handrail.words import Decision, Exclusion, Finding, How, PlaceKind, Risk, Touch

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
    """The default for one touch that runs no program: the strictest that applies."""
    if touch.place is not None:
        if pattern := _covered(world.protected, touch):
            why, where = f"{touch.shown} is protected ({pattern})", world.origins.get("workspace.protected", "")
            return Finding("defaults", "defaults.protected", DENY, why, where, code="PATH_PROTECTED")
        return _file(touch, world, bulk=bulk)
    if touch.kind is REACH and not touch.unsafe:
        return _says("allowed-host", ALLOW, "reading from an allowed host")
    if touch.how is How.LOAD and (more := skills.opened(touch, world)):
        return _says("opens-tools", ASK, more)
    if touch.kind is USE and world.tool.risk is Risk.LOW:
        return _says("low-risk", ALLOW, "a low-risk tool")
    if touch.kind is USE and world.tool.name in OWN_JOBS:
        return _says("own-jobs", ALLOW, "reading or ending what this run started")
    what = f"sending to {touch.shown}" if touch.kind is REACH else touch.kind.value
    return _says("asks", ASK, f"{what} asks unless a rule allows it")


def exclusions(touch: Touch, world: World) -> Iterator[Exclusion]:
    """Protected names that a deep read must leave out, unless a rule has taken the default's place.

    A name is read all the same where `!name` or a rule that allows says so.
    """
    if any(replaces_default for _, replaces_default in rules.findings(touch, world)):
        return
    lifted = rules.allowed_patterns(touch, world)
    for index, pattern in enumerate(world.protected):
        if not pattern.startswith("!"):
            later = tuple(item[1:] for item in world.protected[index + 1 :] if item.startswith("!"))
            yield Exclusion(pattern, "defaults.protected", except_for=(*later, *lifted))


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
    if _covered(RUNS_PROGRAMS, touch):
        return _says("runs-programs", ASK, f"{touch.shown} makes programs run outside the sandbox")
    if world.skill_folders and _in_skills(touch, world.skill_folders):
        return _says("skills", ASK, f"{touch.shown} belongs to skills, which say what an agent does and runs")
    if bulk:
        return _says("bulk", ASK, f"the call changes more than {world.bulk_files} files")
    if touch.place.size > world.max_undo_bytes and touch.place.kind is PlaceKind.FILE:
        return _says("too-large-to-undo", ASK, f"{touch.shown} is too large to be put back")
    if touch.kind is DELETE and touch.how is not How.MOVE:
        return _says("delete", ASK, "deleting is for people to confirm")
    if touch.how is How.REPLACE and touch.place.kind is not PlaceKind.MISSING:
        return _says("overwrite", ASK, f"{touch.shown} exists and would be replaced")
    return _says("workspace-write", ALLOW, "writing beneath a write root, undoable")


def _covered(patterns: tuple[str, ...], touch: Touch) -> str | None:
    """The first of some names that covers what is touched, or something that lies below it."""
    assert touch.place is not None
    found = protects(patterns, touch.place.path)
    if found or not touch.below:
        return found
    inner = filter(could_protect(patterns), touch.below)
    return next((found for path in inner if (found := protects(patterns, path))), None)


def _in_skills(touch: Touch, folders: tuple[str, ...]) -> bool:
    """Whether a change lies in a folder of skills, or takes one along."""
    assert touch.place is not None
    path = f"{touch.place.absolute.casefold()}/"
    known = folded(folders)
    return path.startswith(known) or (touch.deep and any(folder.startswith(path) for folder in known))


def _says(rule: str, decision: Decision, why: str) -> Finding:
    return Finding("defaults", f"defaults.{rule}", decision, why)

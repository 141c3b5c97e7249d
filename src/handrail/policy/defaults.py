"""What holds where no rule of the operator matches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from handrail.policy import repositories, rules, runs_elsewhere, skills
from handrail.policy.builtin import reaches
from handrail.policy.patterns import could_protect, folded, machine_path, protects
from handrail.policy.world import ALLOW, ASK, DELETE, DENY, REACH, READ, RUN, USE, WRITE, World
from handrail.words import Decision, Effect, Exclusion, Finding, How, PlaceKind, Risk, Touch

RUNS_PROGRAMS = runs_elsewhere.NAMES

_PROTECTED = "workspace.protected"
OWN_JOBS = frozenset({"job_list", "job_read", "job_stop"})


def finding(touch: Touch, world: World, *, bulk: bool) -> Finding:
    """The default for one touch that runs no program: the strictest that applies."""
    if touch.place is not None:
        if pattern := next(filter(None, (_covered(group, touch) for group in world.protected_groups)), None):
            why = f"{touch.shown} is protected ({pattern})"
            where = world.origins.get(f"{_PROTECTED}.{pattern}", world.origins.get(_PROTECTED, ""))
            return Finding("defaults", "defaults.protected", DENY, why, where, code="PATH_PROTECTED")
        return _file(touch, world, bulk=bulk)
    if touch.kind is REACH and not touch.unsafe:
        return _says("allowed-host", ALLOW, "reading from an allowed host")
    if touch.how is How.LOAD and (more := skills.opened(touch, world)):
        return _says("opens-tools", ASK, more)
    if touch.kind is USE and world.tool.risk is Risk.LOW and not touch.unsafe:
        return _says("low-risk", ALLOW, "a low-risk tool")
    if touch.kind is USE and world.tool.name in OWN_JOBS and not world.tool.given:
        return _says("own-jobs", ALLOW, "reading or ending what this run started")
    what = f"sending to {touch.shown}" if touch.kind is REACH else touch.kind.value
    return _says("asks", ASK, f"{what} asks unless a rule allows it")


def mind_mark(touch: Touch, found: Finding, world: World) -> Finding:
    """Ask for files and programs where a tool marks its touch as unsafe; other kinds have rows of their own.

    Of a tool of ours the mark of a command says that an agent runs it itself, which is judged with the command.
    """
    if not touch.unsafe or found.decision is not ALLOW or touch.kind in (USE, REACH):
        return found
    if touch.kind is RUN and not world.tool.given:
        return found
    return _says("unsafe", ASK, f"the tool marks its {touch.kind.value} of {touch.shown} as unsafe")


def exclusions(touch: Touch, world: World) -> Iterator[Exclusion]:
    """Protected names that a deep read must leave out, unless a rule has taken the default's place.

    A name is read all the same where `!name` or a rule that allows says so.
    """
    if any(replaces_default for _, replaces_default in rules.findings(touch, world)):
        return
    lifted = rules.allowed_patterns(touch, world)
    for group in world.protected_groups:
        for index, pattern in enumerate(group):
            if not pattern.startswith("!"):
                later = tuple(item[1:] for item in group[index + 1 :] if item.startswith("!"))
                yield Exclusion(pattern, "defaults.protected", except_for=(*later, *lifted))


def is_bulk(touches: Sequence[Touch], world: World) -> bool:
    """Say whether a call changes, or a program has deleted, more files than a person is not asked for."""
    if world.changes and world.border:
        return sum(touch.kind is DELETE and touch.effect is not Effect.CACHE for touch in touches) > world.bulk_files
    return files_changed(touches) > world.bulk_files


def files_changed(touches: Sequence[Touch]) -> int:
    """How many files and folders a call would write, delete or move."""
    count = 0
    for touch in touches:
        if touch.kind is WRITE or touch.kind is DELETE:
            count += 1 + len(touch.below or ())
    return count


def is_sensitive(touch: Touch, world: World) -> bool:
    """Say whether a change makes programs run outside the sandbox, or changes skills or a repository."""
    if touch.kind is READ or touch.place is None:
        return False
    return (
        bool(_covered(RUNS_PROGRAMS, touch))
        or reaches(touch.place.absolute, touch, world.loaded_code)
        or _in_skills(touch, world.skill_folders)
        or bool(repositories.question(touch, world.repositories))
    )


def _file(touch: Touch, world: World, *, bulk: bool) -> Finding:
    assert touch.place is not None
    if touch.kind is READ:
        return _says("workspace-read", ALLOW, "reading beneath a root")
    if touch.how is How.UNDO and world.tool.internal:
        return _says("undo", ALLOW, "putting back what a recorded call changed")
    if name := _covered(_runs_elsewhere(touch), touch):
        why = f"{touch.shown} makes programs run outside the sandbox: {runs_elsewhere.REASONS[name]}"
        return _says("runs-programs", ASK, why)
    if reaches(touch.place.absolute, touch, world.loaded_code):
        why = f"{touch.shown} is code of the program that runs Handrail; it runs outside the sandbox"
        return _says("loaded-code", ASK, why)
    if world.skill_folders and _in_skills(touch, world.skill_folders):
        return _says("skills", ASK, f"{touch.shown} belongs to skills, which say what an agent does and runs")
    if touch.effect is Effect.HIDES:
        return _says("hides-changes", ASK, f"{touch.shown} would no longer show changes of {touch.doubt}")
    if touch.effect is not Effect.GIT_RECORD and (why := repositories.question(touch, world.repositories)):
        return _says("repository", ASK, why)
    if world.changes and world.border:
        return _change(touch, world, bulk=bulk)
    if world.search_spots and touch.kind is WRITE and _is_on_path(touch, world):
        return _says("on-path", ASK, _on_path(touch))
    if bulk:
        return _says("bulk", ASK, f"the call changes more than {world.bulk_files} files")
    if touch.place.size > world.max_undo_bytes and touch.place.kind is PlaceKind.FILE:
        return _says("too-large-to-undo", ASK, f"{touch.shown} is too large to be put back")
    if touch.kind is DELETE and touch.how is not How.MOVE:
        return _says("delete", ASK, "deleting is for people to confirm")
    if touch.how is How.REPLACE and touch.place.kind is not PlaceKind.MISSING and not (world.border and touch.known):
        unread = ", and this run has not read it" if world.border else ""
        return _says("overwrite", ASK, f"{touch.shown} exists and would be replaced{unread}")
    return _says("workspace-write", ALLOW, "writing beneath a write root, undoable")


def _change(touch: Touch, world: World, *, bulk: bool) -> Finding:
    """Judge a change that a program made, where no stricter row has spoken."""
    assert touch.place is not None
    if touch.effect is Effect.ON_PATH:
        return _says("on-path", ASK, _on_path(touch))
    if touch.effect is Effect.CACHE:
        return _says("cache", ALLOW, "a cache that is made again")
    if bulk and touch.kind is DELETE:
        return _says("bulk", ASK, f"the command deletes more than {world.bulk_files} files")
    large = touch.place.size > world.max_undo_bytes and touch.place.kind is PlaceKind.FILE
    if large or touch.effect is Effect.LOST:
        return _says("too-large-to-undo", ASK, f"{touch.shown} is too large to be put back")
    if touch.effect is Effect.GIT_RECORD:
        return _says("git-record", ALLOW, "what git writes when it commits; undoable")
    return _says("kept", ALLOW, "changed beneath a write root, undoable")


def _on_path(touch: Touch) -> str:
    return f"{touch.shown} is where your shell looks for commands"


def _is_on_path(touch: Touch, world: World) -> bool:
    """Whether a tool writes to a folder where the person's shell looks for commands, or to a name on the way there."""
    assert touch.place is not None
    written = [touch.place.absolute, *(machine_path(touch.place.root, path) for path in touch.below or ())]
    return any(path in world.search_spots or path.rpartition("/")[0] in world.search_path for path in written)


def _runs_elsewhere(touch: Touch) -> tuple[str, ...]:
    """Choose the names that count: what forges read counts nowhere in an installed package."""
    return runs_elsewhere.NAMES_IN_CACHES if touch.effect is Effect.CACHE else runs_elsewhere.NAMES


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

"""What is said of programs: commands nobody may allow, harmless ones, and what a program may see and change.

Command rules save prompts; the sandbox is the wall. So the files that rules keep from other tools are handed to the
sandbox here: hidden where reading is restricted, locked where writing is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from handrail.policy import builtin, defaults, repositories, rules
from handrail.policy.patterns import literal, protects
from handrail.policy.world import ALLOW, ASK, DELETE, DENY, GIT, READ, RUN, WRITE, Withheld, World
from handrail.words import Exclusion, Finding, How, Place, PlaceKind, Root, Touch, TouchKind

OUTSIDE = "the agent runs its commands itself, outside the sandbox"
IN_BACKGROUND = "a program in the background works on the workspace itself; its changes are neither reviewed nor undone"
_PUSH = "git push needs credentials that no program in the sandbox has: run `git push` yourself"
_PUSH_OUTSIDE = "git push hands commits to others: run `git push` yourself, or allow it with exec.allow"


class Read:
    """The words that a call states, and those that were found within its commands, with whether they are in doubt."""

    __slots__ = ("_stated", "_touches", "found", "runs")

    def __init__(self, touches: Sequence[Touch]) -> None:
        self._touches = touches
        self._stated: frozenset[tuple[str, ...]] = frozenset()
        self.found: set[tuple[tuple[str, ...], bool]] = set()
        self.runs = any(touch.kind is RUN for touch in touches)

    def stated(self) -> frozenset[tuple[str, ...]]:
        """Gather them once, however many commands ask."""
        self._stated = self._stated or frozenset([touch.words for touch in self._touches])
        return self._stated

    def git_commands(self, name: str) -> list[Touch]:
        """List the commands of the call that are git with a subcommand that writes."""
        from handrail.policy.shell import git

        return [touch for touch in self._touches if touch.kind is RUN and name in git.writes(touch.words)]


def is_in_background(touches: Sequence[Touch]) -> bool:
    """Say whether a call starts a program that goes on without it."""
    return any(touch.how is How.BACKGROUND for touch in touches)


def is_outside(touches: Sequence[Touch]) -> bool:
    """Say whether an agent runs the programs of a call itself."""
    return any(touch.kind is RUN and touch.unsafe for touch in touches)


def leave_to_changes(touch: Touch, found: list[Finding]) -> list[Finding]:
    """Ask nothing now for what a line would change: each change is judged when the program has made it.

    What is denied stays denied.
    """
    if touch.kind not in (WRITE, DELETE, GIT) or max(item.decision for item in found) is not ASK:
        return found
    why = "what the command changes is judged when it has ended"
    return [Finding("defaults", "defaults.border", ALLOW, why)]


def findings(touch: Touch, world: World, read: Read) -> Iterator[Finding]:
    """Deny commands that destroy a machine, and ask for what cannot be looked at, whatever rules say."""
    from handrail.policy import shell

    why = shell.forbidden(touch.words, touch.target)
    unseen = ""
    if why is None and touch.unsafe:
        writable = tuple(root.path for root in world.roots if root.writable)
        guarded = shell.outside.Guarded(world.own_paths, writable, partial(_protecting, world))
        why = shell.outside.why_denied(touch.words, touch.target, guarded) or None
    if why is None and (line := _line(touch, read)):
        reading = shell.read_line(line)
        why, unseen = shell.forbidden_line(line, reading), reading.unseen
    if why is not None:
        yield Finding("builtin", "builtin.command", DENY, why, code="COMMAND_NOT_ALLOWED")
    elif unseen and not _is_free(world):
        yield Finding("builtin", "builtin.command", ASK, f"`{_short(touch.target)}` asks in any case: {unseen}")


def _protecting(world: World, path: str) -> str | None:
    """Give the protected name that covers a file which an agent's command names, unless a rule allows reading it."""
    pattern = next(filter(None, (protects(group, path) for group in world.protected_groups)), None)
    if pattern is None or not world.roots:
        return pattern
    read = Touch(READ, path, place=Place(world.roots[0], path.removeprefix("./"), PlaceKind.FILE))
    said = [finding.decision for finding, _ in rules.findings(read, world)]
    return None if said and max(said) is ALLOW else pattern


def wrapped(touch: Touch, read: Read) -> Iterator[Touch]:
    """What a command runs besides itself, and what is in doubt with it, where the call does not state that itself."""
    from handrail.policy import shell

    if not touch.words or not (line := _line(touch, read)):
        return
    reading, stated = shell.read_line(line), read.stated()
    parts = reading.parts
    read.found.update((part.words, part.doubt != "") for part in parts if part.words in reading.taken)
    for part in parts:
        doubted = part.words == touch.words and part.doubt and not touch.doubt
        if part.words not in stated or doubted:
            yield Touch(touch.kind, part.text, words=part.words, doubt=part.doubt, unsafe=touch.unsafe)


def _line(touch: Touch, read: Read) -> str:
    """The line that is to be read: of one that was stated as a whole, or of words that run other words."""
    from handrail.policy import shell

    if not touch.words:
        return touch.target
    if touch.skill is not None or not shell.wraps(touch.words) or (touch.words, touch.doubt != "") in read.found:
        return ""
    import shlex

    return shlex.join(touch.words)


def default(touch: Touch, world: World) -> Finding:
    """What holds for a command that no rule speaks of."""
    from handrail.policy import shell
    from handrail.policy.shell import git

    plain = world.confined and touch.words and touch.skill is None
    if plain and git.pushes(touch.words) and (world.border or not touch.doubt):
        why = _PUSH_OUTSIDE if touch.unsafe else _PUSH
        return Finding("defaults", "defaults.git-push", DENY, why, code="COMMAND_NOT_ALLOWED")
    if touch.doubt and not _is_free(world):
        why = f"`{_short(touch.target)}` is not fully understood: {touch.doubt}{_why_no_border(world)}"
        return Finding("defaults", "defaults.not-understood", ASK, why)
    if world.border and touch.skill is None:
        why = "inside the sandbox; what it changes is judged when it has ended"
        return Finding("defaults", "defaults.border", ALLOW, why)
    if plain and shell.harmless(touch.words):
        if why := _runs_another(touch, world) or _why_outside(touch):
            return Finding("defaults", "defaults.command", ASK, why)
        why = f"{touch.words[0]} only reads{'' if touch.unsafe else ', inside the sandbox'}"
        return Finding("defaults", "defaults.harmless-command", ALLOW, why)
    why = f"`{_short(touch.target)}` asks unless a rule allows it{_why_no_border(world)}"
    if world.no_border == IN_BACKGROUND:
        why = IN_BACKGROUND
    return Finding("defaults", "defaults.command", ASK, why)


def _why_outside(touch: Touch) -> str:
    """Explain why a harmless command asks where an agent runs it outside the sandbox."""
    from handrail.policy import shell

    if not touch.unsafe or not (why := shell.outside.why_shown(touch.words)):
        return ""
    return f"`{_short(touch.target)}` runs outside the sandbox: {why}"


def _is_free(world: World) -> bool:
    """Say whether a line that is not understood may run: the sandbox holds it, and no rule restricts commands."""
    return world.border and not any(_restricts_commands(rule, world) for rule in world.rules)


def _restricts_commands(rule: rules.Rule, world: World) -> bool:
    if rule.effect is ALLOW or rule.target is None or rule.tool not in (None, world.tool.name):
        return False
    return rules.is_about(rule, RUN)


def _why_no_border(world: World) -> str:
    return f' (exec.ask = "border" does not hold here: {world.no_border})' if world.no_border else ""


def git_allowed(touch: Touch, world: World, read: Read) -> Finding | None:
    """Allow what git changes where rules name each git command of the call that does it, such as `git commit *`."""
    commands = read.git_commands(touch.target)
    found = [_naming_git(command, touch.target, world) for command in commands]
    if not found or None in found:
        return None
    rule = found[0]
    assert rule is not None
    return Finding("rules", rule.id, ALLOW, rule.why or f"the rule at {rule.where or rule.id} says allow", rule.where)


def _naming_git(command: Touch, name: str, world: World) -> rules.Rule | None:
    """Find the rule that allows a git command and names its subcommand."""
    from handrail.policy.shell import git

    trusted = [rule for rule in world.rules if not rule.narrows]
    allowing = [rule for rule in trusted if rule.effect is ALLOW and rule.touch == RUN and rule.target]
    naming = [rule for rule in allowing if name in git.writes((rule.target or "").split())]
    fits = (rule for rule in naming if rules.applies(rule, command, world) and rules.reaches(rule, command))
    return next(fits, None)


def _runs_another(touch: Touch, world: World) -> str:
    """Explain which program a harmless command would run that is not known to be harmless; empty where it does not."""
    from handrail.policy.shell import git
    from handrail.policy.shell.harmless import shadowed_name

    if name := shadowed_name(touch.words, world.shadowed):
        return f"`{_short(touch.target)}` would run a program of the workspace called {name}, not the system's"
    if not git.reads(touch.words):
        return ""
    known = world.repositories
    if known.programs:
        return f"`{_short(touch.target)}` may run a program: the repository sets {known.programs[0]}"
    if known.unread or not known.whole:
        return f"`{_short(touch.target)}` may run a program: not every git config in the workspace could be read"
    if not all(root.writable or root.name.startswith("run:") for root in world.roots):
        return f"`{_short(touch.target)}` may run a program: git configs in folders that are only read are not known"
    return ""


def withheld(world: World) -> Withheld:
    """What programs are not to see, and what they are not to change, beneath every root."""
    return tuple(dict.fromkeys(_hidden(world))), tuple(dict.fromkeys(_locked(world)))


def _hidden(world: World) -> Iterator[Exclusion]:
    whole = [_whole(READ, root) for root in world.roots]
    for touch in whole:
        yield from builtin.exclusions(touch, world)
        yield from _restricted(touch, world)
    for touch in whole:
        yield from defaults.exclusions(touch, world)


def _locked(world: World) -> Iterator[Exclusion]:
    """What a program may see and not change: what no tool may write, and what would have to be asked for.

    Where its changes are reviewed before they are kept, what would be asked for is asked then.
    """
    yield from (Exclusion(pattern, "builtin.repository") for pattern in builtin.REPOSITORY)
    yield from repositories.locks(world.repositories)
    yield from (Exclusion(pattern, "builtin.settings") for pattern in builtin.SETTINGS_FILES)
    if not world.reviewed:
        yield from (Exclusion(pattern, "defaults.runs-programs") for pattern in defaults.RUNS_PROGRAMS)
        yield from (Exclusion(f"/{literal(path)}", "defaults.skills") for path in world.skill_folders)
        yield from (Exclusion(f"/{literal(path)}", "defaults.loaded-code") for path in world.loaded_code)
    yield from _own_code(world)
    for path in world.settings_files:
        yield Exclusion(f"/{literal(path)}", "builtin.settings", any_case=False)
    for root in world.roots:
        if root.writable:
            yield from _restricted(_whole(WRITE, root), world)
            yield from _restricted(_whole(DELETE, root), world)


def _own_code(world: World) -> Iterator[Exclusion]:
    for path in world.own_code:
        yield Exclusion(f"/{literal(path)}", "builtin.own-code", any_case=False)
        for root in world.roots:
            if f"{root.path}/".startswith(f"{path}/"):
                yield Exclusion("/**", "builtin.own-code", root=root.name)


def _restricted(touch: Touch, world: World) -> Iterator[Exclusion]:
    least = DENY if world.reviewed and touch.kind is not READ else ASK
    for rule in world.rules:
        about_all = rule.touch is None and rule.target is None  # then it has judged the command itself
        if rule.effect >= least and not about_all and rules.applies(rule, touch, world):
            yield Exclusion(f"/{rule.target or '**'}", rule.id, any_case=False)


def _whole(kind: TouchKind, root: Root) -> Touch:
    return Touch(kind, root.shown(""), deep=True, place=Place(root, "", PlaceKind.DIRECTORY))


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"

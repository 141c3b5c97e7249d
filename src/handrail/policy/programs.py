"""What is said of programs: commands nobody may allow, harmless ones, and what a program may see and change.

Command rules save prompts; the sandbox is the wall. So the files that rules keep from other tools are handed to the
sandbox here: hidden where reading is restricted, locked where writing is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from handrail.policy import builtin, defaults, rules
from handrail.policy.patterns import literal
from handrail.policy.world import ALLOW, ASK, DELETE, DENY, READ, WRITE, Withheld, World
from handrail.words import Exclusion, Finding, Place, PlaceKind, Root, Touch, TouchKind


class Read:
    """The words that a call states, and those that were found within its commands, with whether they are in doubt."""

    __slots__ = ("_stated", "_touches", "found")

    def __init__(self, touches: Sequence[Touch]) -> None:
        self._touches = touches
        self._stated: frozenset[tuple[str, ...]] = frozenset()
        self.found: set[tuple[tuple[str, ...], bool]] = set()

    def stated(self) -> frozenset[tuple[str, ...]]:
        """Gather them once, however many commands ask."""
        self._stated = self._stated or frozenset([touch.words for touch in self._touches])
        return self._stated


def findings(touch: Touch, read: Read) -> Iterator[Finding]:
    """Deny commands that destroy a machine, and ask for what cannot be looked at, whatever rules say."""
    from handrail.policy import shell

    why = shell.forbidden(touch.words, touch.target)
    unseen = ""
    if why is None and (line := _line(touch, read)):
        reading = shell.read_line(line)
        why, unseen = shell.forbidden_line(line, reading), reading.unseen
    if why is not None:
        yield Finding("builtin", "builtin.command", DENY, why, code="COMMAND_NOT_ALLOWED")
    elif unseen:
        yield Finding("builtin", "builtin.command", ASK, f"`{_short(touch.target)}` asks in any case: {unseen}")


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
            yield Touch(touch.kind, part.text, words=part.words, doubt=part.doubt)


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

    if touch.doubt:
        why = f"`{_short(touch.target)}` is not fully understood: {touch.doubt}"
        return Finding("defaults", "defaults.not-understood", ASK, why)
    if world.confined and touch.words and touch.skill is None and shell.harmless(touch.words):
        why = f"{touch.words[0]} only reads, inside the sandbox"
        return Finding("defaults", "defaults.harmless-command", ALLOW, why)
    return Finding("defaults", "defaults.command", ASK, f"`{_short(touch.target)}` asks unless a rule allows it")


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
    yield from (Exclusion(pattern, "builtin.settings") for pattern in builtin.SETTINGS_FILES)
    if not world.reviewed:
        yield from (Exclusion(pattern, "defaults.runs-programs") for pattern in defaults.RUNS_PROGRAMS)
        yield from (Exclusion(f"/{literal(path)}", "defaults.skills") for path in world.skill_folders)
    for path in world.settings_files:
        yield Exclusion(f"/{literal(path)}", "builtin.settings", any_case=False)
    for root in world.roots:
        if root.writable:
            yield from _restricted(_whole(WRITE, root), world)
            yield from _restricted(_whole(DELETE, root), world)


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

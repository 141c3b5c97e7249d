"""The operator's rules: allow, ask, deny, with examples that are checked when they are loaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from handrail.errors import SettingsFault
from handrail.policy.patterns import could_match_below, host_matches, path_matches, words_match
from handrail.policy.world import World
from handrail.words import Decision, Exclusion, Finding, Touch, TouchKind

FILE_KINDS = frozenset({TouchKind.FS_READ, TouchKind.FS_WRITE, TouchKind.FS_DELETE})
_CODES = {
    TouchKind.NET_CONNECT: "HOST_NOT_ALLOWED",
    TouchKind.PROC_EXEC: "COMMAND_NOT_ALLOWED",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the operator: all given fields must match."""

    effect: Decision
    id: str
    touch: str | None = None
    target: str | None = None
    tool: str | None = None
    skill: str | None = None
    caller: str | None = None
    why: str = ""
    where: str = ""
    matches: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    narrows: bool = False  # from a project nobody trusted: it may add strictness, never stand in for a default


def matching(touch: Touch, world: World) -> Iterator[Rule]:
    """The rules that speak of one touch."""
    for rule in world.rules:
        if _applies(rule, touch, world) and (reaches(rule, touch) or _matters_below(rule, touch, world)):
            yield rule


def finding(rule: Rule, touch: Touch) -> Finding:
    """What a matching rule says of a touch."""
    why = rule.why or f"the rule at {rule.where or rule.id} says {rule.effect.word}"
    code = _CODES.get(touch.kind, "POLICY_DENIED")
    return Finding("rules", rule.id, rule.effect, why, rule.where, code=code)


def exclusions(touch: Touch, world: World) -> Iterator[Exclusion]:
    """What a deep read must leave out because a rule asks or denies for it."""
    for rule in world.rules:
        if _denies_below(rule, touch, world) and rule.target is not None:
            yield Exclusion(f"/{rule.target}", rule.id, any_case=False)


def allowed_patterns(world: World) -> tuple[str, ...]:
    """Path patterns of rules that allow reading, which lift the default protection of what they match."""
    return tuple(
        f"/{rule.target}" if rule.target else "/**"
        for rule in world.rules
        if rule.effect is Decision.ALLOW and rule.touch in (None, "fs.read", "fs.*") and _meant(rule, world)
    )


def reaches(rule: Rule, touch: Touch) -> bool:
    """Whether a rule's target covers a touch's; rules that restrict cover what lies below, too."""
    if rule.target is None:
        return True
    restricts = rule.effect is not Decision.ALLOW
    if touch.kind in FILE_KINDS:
        return touch.place is not None and _path_reached(rule.target, touch, restricts)
    if touch.kind is TouchKind.NET_CONNECT:
        return host_matches(rule.target, touch.target)
    if touch.kind is TouchKind.PROC_EXEC:
        return words_match(rule.target, touch.words, prefix=restricts)
    return path_matches(rule.target, touch.target)


def check_examples(rule: Rule) -> None:
    """Refuse a rule whose own examples show that it means something else."""
    for example in rule.matches:
        if not _example_matches(rule, example):
            raise SettingsFault(f"{rule.where}: rule {rule.id} should match {example!r} and does not")
    for example in rule.misses:
        if _example_matches(rule, example):
            raise SettingsFault(f"{rule.where}: rule {rule.id} should not match {example!r} and does")


def _example_matches(rule: Rule, example: str) -> bool:
    restricts = rule.effect is not Decision.ALLOW
    target = rule.target or "**"
    if rule.touch == "net.connect":
        return host_matches(target, example if ":" in example else f"{example}:443")
    if rule.touch == "proc.exec":
        return words_match(target, example.split(), prefix=restricts)
    return path_matches(target, example, covers_below=restricts)


def _path_reached(target: str, touch: Touch, restricts: bool) -> bool:
    assert touch.place is not None
    if target.startswith("/"):
        path = touch.place.absolute
    elif target.startswith("run:"):
        path = touch.place.shown
    else:
        path = touch.place.path
    if touch.deep and not restricts:  # an allow must cover everything below, not the folder alone
        return path_matches(target, path) and path_matches(target, f"{path}/\0below/\0deeper".lstrip("/"))
    return path_matches(target, path, covers_below=restricts)


def _matters_below(rule: Rule, touch: Touch, world: World) -> bool:
    """A rule that restricts something below a folder restricts deleting or moving the folder."""
    return touch.deep and touch.kind is not TouchKind.FS_READ and _denies_below(rule, touch, world)


def _denies_below(rule: Rule, touch: Touch, world: World) -> bool:
    if rule.effect is Decision.ALLOW or touch.place is None or not _applies(rule, touch, world):
        return False
    if rule.target is None:
        return True
    if rule.target.startswith("/"):
        return could_match_below(rule.target, touch.place.absolute)
    return could_match_below(rule.target, touch.place.path)


def _applies(rule: Rule, touch: Touch, world: World) -> bool:
    if rule.touch is not None and rule.touch != touch.kind and not _family(rule.touch, touch.kind):
        return False
    return _meant(rule, world)


def _meant(rule: Rule, world: World) -> bool:
    return (
        rule.tool in (None, world.tool.name)
        and rule.skill in (None, world.skill_name)
        and rule.caller in (None, world.caller)
    )


def _family(wanted: str, kind: TouchKind) -> bool:
    return wanted.endswith(".*") and kind.value.startswith(wanted[:-1])

"""The operator's rules: allow, ask, deny, with examples that are checked when they are loaded."""

from __future__ import annotations

from collections.abc import Iterator

from handrail.errors import SettingsFault
from handrail.policy.patterns import (
    could_match_below,
    first_covered,
    host_and_port,
    host_matches,
    path_matches,
    rule_path,
    takes_all_below,
    words_match,
)
from handrail.policy.world import ALLOW, ASK, DELETE, DENY, MOVE, REACH, READ, RUN, UNDO, WRITE, World
from handrail.words import Decision, Exclusion, Finding, Touch, TouchKind, noun

FILE_KINDS = (READ, WRITE, DELETE)
# What a rule's `touch` stands for. Tuples, because members are found in them by identity, without hashing.
_KINDS: dict[str | None, tuple[TouchKind, ...]] = {
    None: tuple(TouchKind),
    **{kind.value: (kind,) for kind in TouchKind},
    **{
        f"{family}.*": tuple(kind for kind in TouchKind if kind.value.startswith(f"{family}."))
        for family in {kind.value.partition(".")[0] for kind in TouchKind}
    },
}
_CODES = {
    REACH: "HOST_NOT_ALLOWED",
    RUN: "COMMAND_NOT_ALLOWED",
}


@noun
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
    # Later fields are no part of the policy's digest while they have their defaults.
    risk: str | None = None  # of the tool
    environment: str | None = None  # the name that was given at start


def findings(touch: Touch, world: World) -> Iterator[tuple[Finding, bool]]:
    """What rules say of one touch, each with whether it is said of the whole and so replaces the default."""
    for rule in world.rules:
        if not applies(rule, touch, world):
            continue
        if reaches(rule, touch):
            yield _finding(rule, touch, world), not rule.narrows
        elif touch.deep and touch.kind is not READ and (met := _met_below(rule, touch)):
            # What must not happen to something below a folder must not happen to the folder.
            yield _finding(rule, touch, world, met), False


def _finding(rule: Rule, touch: Touch, world: World, met: str = "") -> Finding:
    effect, why = rule.effect, rule.why or f"the rule at {rule.where or rule.id} says {rule.effect.word}"
    limits = (("risk", rule.risk), ("environment", rule.environment))
    if about := ", ".join([f"{name} {value}" for name, value in limits if value]):
        why = f"{why} ({about})"
    if effect is ASK and touch.how is UNDO and _spares_undo(rule, world):
        effect, why = ALLOW, f"{why}; who undoes need not be asked"
    code = _CODES.get(touch.kind, "POLICY_DENIED")
    return Finding("rules", rule.id, effect, f"{why} ({met})" if met else why, rule.where, code=code)


def exclusions(touch: Touch, world: World) -> Iterator[Exclusion]:
    """What a deep read must leave out because a rule asks or denies for it.

    A rule that covers the whole folder is not among them: it has denied the call, or a person has been asked.
    """
    for rule in world.rules:
        if not applies(rule, touch, world) or reaches(rule, touch):
            continue
        if rule.target is not None and _restricts_below(rule, touch):
            yield Exclusion(f"/{rule.target}", rule.id, any_case=False)


def allowed_patterns(touch: Touch, world: World) -> tuple[str, ...]:
    """Path patterns of rules that allow such a touch, which lift the default protection of what they match."""
    return tuple(
        f"/{rule.target}" if rule.target else "/**"
        for rule in world.rules
        if rule.effect is ALLOW and not rule.narrows and applies(rule, touch, world)
    )


def applies(rule: Rule, touch: Touch, world: World) -> bool:
    """Whether a rule is about this kind of touch, tool, risk, skill, caller and environment, whatever the target."""
    return (
        (touch.kind in _KINDS.get(rule.touch, ()) or (touch.how is MOVE and _forbids_reading(rule)))
        and (rule.tool is None or rule.tool == world.tool.name)
        and (rule.skill is None or rule.skill == world.skill_name)
        and (rule.caller is None or rule.caller == world.caller)
        and (rule.risk is None or rule.risk == world.tool.risk)
        and (rule.environment is None or rule.environment == world.environment)
        and not (rule.effect is DENY and touch.how is UNDO and _spares_undo(rule, world))
    )


def is_about(rule: Rule, kind: TouchKind) -> bool:
    """Say whether a rule speaks of a kind of touch, whatever the tool and the target."""
    return kind in _KINDS.get(rule.touch, ())


def _spares_undo(rule: Rule, world: World) -> bool:
    """A person's undo puts back what is on record: only rules that name the tool for it restrict that."""
    return world.tool.internal and rule.tool is None


def _forbids_reading(rule: Rule) -> bool:
    """Moving takes a file out of the reach of rules for reading it, so those that restrict hold for moving, too."""
    return rule.effect is not ALLOW and READ in _KINDS.get(rule.touch, ())


def reaches(rule: Rule, touch: Touch) -> bool:
    """Whether a rule's target covers a touch's whole; rules that restrict cover what lies below, too."""
    target = rule.target
    if target is None:
        return True
    restricts = rule.effect is not ALLOW
    if touch.kind in FILE_KINDS:
        if touch.place is None or (touch.deep and not restricts and not takes_all_below(target)):
            return False
        return path_matches(target, rule_path(target, touch.place.root, touch.place.path), covers_below=restricts)
    if touch.kind is REACH:
        return host_matches(target, touch.target, any_port=restricts)
    if touch.kind is RUN:
        if touch.doubt and not restricts:  # the words are not all that would run
            return names_script(touch) and target.split() == [*touch.words]
        return words_match(target, touch.words or (touch.target.split() if restricts else ()), prefix=restricts)
    return path_matches(target, touch.target, covers_below=restricts)


def names_script(touch: Touch) -> bool:
    """Whether the one doubt of a command is the file that it names: a rule with the same words allows that file."""
    if not touch.doubt:
        return False
    from handrail.policy.shell.scripts import file_doubt

    return touch.doubt == file_doubt(touch.words) and "*" not in touch.words


def check_examples(rule: Rule) -> None:
    """Refuse a rule whose own examples show that it means something else."""
    for example in rule.matches:
        if not _example_matches(rule, example):
            raise SettingsFault(f"{rule.where}: rule {rule.id} should match {example!r} and does not")
    for example in rule.misses:
        if _example_matches(rule, example):
            raise SettingsFault(f"{rule.where}: rule {rule.id} should not match {example!r} and does")


def _example_matches(rule: Rule, example: str) -> bool:
    if rule.target is None:
        return True
    restricts = rule.effect is not ALLOW
    if rule.touch in ("net.connect", "net.*"):
        full = example if host_and_port(example)[1] else f"{example}:443"
        return host_matches(rule.target, full, any_port=restricts)
    if rule.touch in ("proc.exec", "proc.*"):
        fits = words_match(rule.target, example.split(), prefix=restricts)
        return fits and (restricts or not _runs_more(example))
    return path_matches(rule.target, example, covers_below=restricts)


def _runs_more(example: str) -> bool:
    """Whether an argument has the program run another: no rule that allows words covers that."""
    import shlex

    from handrail.policy.shell.arguments import hidden_program

    try:
        return hidden_program(shlex.split(example)) != ""
    except ValueError:  # a quote that does not end
        return False


def _met_below(rule: Rule, touch: Touch) -> str:
    """Say what below a folder a rule that restricts speaks of; empty where it speaks of nothing there.

    Judged is what lies there; where that is not known, all that could.
    """
    place, target = touch.place, rule.target
    if rule.effect is ALLOW or place is None or target is None:
        return ""
    if touch.below is None:
        return f"it could match below {touch.shown}" if _restricts_below(rule, touch) else ""
    path = first_covered(target, place.root, touch.below)
    return f"{place.root.shown(path)} lies below" if path is not None else ""


def _restricts_below(rule: Rule, touch: Touch) -> bool:
    if rule.effect is ALLOW or touch.place is None:
        return False
    if rule.target is None:
        return True
    folder = rule_path(rule.target, touch.place.root, touch.place.path)
    return could_match_below(rule.target, "" if folder == "." else folder.rstrip("/"))

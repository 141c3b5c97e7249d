"""The single changes of settings, or of the call, that could lift what stands in a call's way. Pure.

What belongs here: which changes there are, and what the call and its world are after each. Which of them is the
smallest that helps is for `explain` to find.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from handrail.policy import as_judged
from handrail.policy.defaults import files_changed
from handrail.policy.patterns import host_and_port, literal, machine_path
from handrail.policy.rules import FILE_KINDS, Rule, names_script
from handrail.policy.world import World
from handrail.words import Decision, Finding, Place, PlaceKind, Root, Touch, TouchKind

Case = tuple[tuple[Touch, ...], World]


@dataclass(frozen=True, slots=True)
class Edit:
    """One change: what to do, the setting it is about, as TOML, and how to carry it out."""

    text: str
    setting: str  # "call" where the call itself would change
    toml: str
    apply: Callable[[Case], Case]


def edits(case: Case, against: Sequence[Finding]) -> list[Edit]:
    """All single changes that could lift one of these findings, the least far-reaching first."""
    sources = (_call, _enablement, _skill, _hosts, _roots, _bulk, _allow_rules, _rules)
    found = [edit for source in sources for edit in source(case, against)]
    return list({(edit.setting, edit.text): edit for edit in found}.values())


def _call(case: Case, against: Sequence[Finding]) -> Iterator[Edit]:
    touches, world = case
    if any(finding.rule == "builtin.confirm" for finding in against):
        yield Edit("name `confirm: true` in the call", "call", "", _confirmed)
    if world.permissions is not None and any(finding.rule == "permissions.call" for finding in against):
        kinds = {touch.kind.value for touch in touches if touch.kind is not TouchKind.TOOL_USE}
        wider = frozenset(world.permissions | kinds)
        text = f"name {', '.join(sorted(kinds - world.permissions))} in the call's permissions"
        yield Edit(text, "call", "", lambda case: _world(case, permissions=wider))


def _enablement(case: Case, against: Sequence[Finding]) -> Iterator[Edit]:
    world = case[1]
    tool = world.tool
    if any(finding.rule == "enablement.not-enabled" for finding in against):
        enable = world.enable | {tool.name}
        toml = f"tools.enable = {_list(sorted(enable))}"
        yield Edit(f"enable {tool.name}", "tools.enable", toml, lambda case: _world(case, enable=enable))
    if any(finding.rule == "enablement.disabled" for finding in against):
        disable = world.disable - {tool.name, tool.toolset}
        toml = f"tools.disable = {_list(sorted(disable))}"
        text = f"take {tool.name} out of what is disabled"
        yield Edit(text, "tools.disable", toml, lambda case: _world(case, disable=disable))


def _skill(case: Case, against: Sequence[Finding]) -> Iterator[Edit]:
    world = case[1]
    if world.skill_tools is not None and any(finding.rule == "skills.allowed-tools" for finding in against):
        tools = world.skill_tools | {world.tool.name}
        text = (
            f"add {world.tool.name} to the allowed-tools of the skill {world.skill_name}, or call it without the skill"
        )
        yield Edit(text, "allowed-tools", "", lambda case: _world(case, skill_tools=tools))


def _hosts(case: Case, against: Sequence[Finding]) -> Iterator[Edit]:
    touches, world = case
    more = [_exact_host(touches[finding.touch].target) for finding in against if finding.rule == "confine.hosts"]
    if more:
        hosts = tuple(dict.fromkeys([*world.allowed_hosts, *more]))
        text = f"allow to reach {', '.join(dict.fromkeys(more))}"
        toml = f"{world.hosts_setting} = {_list(hosts)}"
        # Naming a host enables the tools that reach it.
        enable = world.enable | ({"http"} if world.tool.toolset == "http" else set())
        yield Edit(text, world.hosts_setting, toml, lambda case: _world(case, allowed_hosts=hosts, enable=enable))


def _roots(case: Case, against: Sequence[Finding]) -> Iterator[Edit]:
    touches, world = case
    for finding in against:
        touch = touches[finding.touch]
        if finding.rule == "confine.roots":
            yield from _known_root(finding.touch, touch, world)
            yield from _further_root(finding.touch, touch, world)
        elif finding.rule == "confine.read-only-root" and touch.place is not None:
            yield from _writable(touch.place.root, world)


def _bulk(case: Case, against: Sequence[Finding]) -> Iterator[Edit]:
    if any(finding.rule == "defaults.bulk" for finding in against):
        count = files_changed(case[0])
        text, toml = f"let one call change {count} files", f"limits.bulk_files = {count}"
        yield Edit(text, "limits.bulk_files", toml, lambda case: _world(case, bulk_files=count))


def _allow_rules(case: Case, against: Sequence[Finding]) -> Iterator[Edit]:
    touches = as_judged(case[0])
    for index in dict.fromkeys(finding.touch for finding in against if finding.source == "defaults"):
        touch = touches[index]
        target = exact_target(touch)
        if touch.doubt and not (names_script(touch) and target == " ".join(touch.words)):
            # No words cover what is not understood.
            rule = Rule(Decision.ALLOW, "rules.new", touch.kind.value)
            toml = f'[[rules]]\neffect = "allow"\ntouch = {_text(touch.kind.value)}'
            yield Edit(f"add a rule that allows every {touch.kind}, understood or not", "rules", toml, _with_rule(rule))
        elif target is not None:
            rule = Rule(Decision.ALLOW, "rules.new", touch.kind.value, target)
            toml = f'[[rules]]\neffect = "allow"\ntouch = {_text(touch.kind.value)}\ntarget = {_text(target)}'
            yield Edit(f"add a rule that allows {touch.kind} of {target}", "rules", toml, _with_rule(rule))


def _rules(case: Case, against: Sequence[Finding]) -> Iterator[Edit]:
    spoken = {finding.rule for finding in against if finding.source == "rules"}
    rules = [rule for rule in case[1].rules if rule.id in spoken]
    for rule in rules:
        where = rule.where or rule.id
        if rule.id.startswith("exec.deny."):
            text = f"take `{rule.target}` out of exec.deny at {where}"
            yield Edit(
                text, "exec.deny", f"# without `{rule.target}` in exec.deny at {where}", _with_effect(rule, None)
            )
        else:
            text = f"take out the rule at {where}"
            yield Edit(text, "rules", f"# without the rule at {where}", _with_effect(rule, None))
    for effect in (Decision.ASK, Decision.ALLOW):
        for rule in rules:
            if effect < rule.effect and not (rule.narrows and effect is Decision.ALLOW):
                where = rule.where or rule.id
                toml = f'# in the rule at {where}: effect = "{effect.word}"'
                yield Edit(f"let the rule at {where} say {effect.word}", "rules", toml, _with_effect(rule, effect))


# ── targets and roots ────────────────────────────────────────────────────────────────────────


def exact_target(touch: Touch) -> str | None:
    """The target of a rule that speaks of this touch and as little else as can be; None where no rule can."""
    if touch.kind in FILE_KINDS:
        return _exact_path(touch)
    if touch.kind is TouchKind.NET_CONNECT:
        return _exact_host(touch.target)
    if touch.kind is TouchKind.PROC_EXEC:
        words = [word if word.split() == [word] else "*" for word in touch.words]
        return " ".join(words) if words and words[0] != "*" else None
    return literal(touch.target) or None


def _exact_path(touch: Touch) -> str | None:
    if touch.place is None:
        return None
    root, path = touch.place.root, touch.place.path
    if root.name == "workspace":
        exact = literal(path)
    else:
        shown = root.shown(path) if root.name.startswith("run:") else machine_path(root, path)
        exact = literal(shown).rstrip("/")
    if touch.deep:
        return f"{exact}/**" if exact else "**"
    return exact or literal(machine_path(root, path)) or None


def _exact_host(target: str) -> str:
    host, port = host_and_port(target)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _known_root(index: int, touch: Touch, world: World) -> Iterator[Edit]:
    """An absolute path beneath a root: name it otherwise, or let absolute paths be taken."""
    if touch.place is not None or not touch.target.startswith("/"):
        return
    path = _normal(touch.target)
    root = next((root for root in world.roots if _beneath(path, root.path)), None)
    if root is None:
        return
    place = _place(touch, root, path[len(root.path) :].strip("/"))
    if root.name == root.path:
        setting = "workspace.allow_absolute"
        yield Edit("take absolute paths", setting, f"{setting} = true", _placed(index, place))
    else:
        yield Edit(f"ask for {place.shown} instead", "call", "", _placed(index, place))


def _further_root(index: int, touch: Touch, world: World) -> Iterator[Edit]:
    """The folder of a path that lies outside, as a root; where a link leads cannot be told from here."""
    path = _outside(touch, world)
    if path is None:
        return
    reads = touch.kind is TouchKind.FS_READ
    folder, name = (path, "") if touch.deep and reads else posixpath.split(path)
    if folder == "/":
        return  # the whole machine is no small change
    root, setting = Root(folder, folder, not reads), f"workspace.{'read' if reads else 'write'}"
    folders = [item.path for item in world.roots if item.name == item.path and item.writable is not reads]
    toml = f"{setting} = {_list([*folders, folder])}"
    if touch.target.startswith("/"):
        toml += "\nworkspace.allow_absolute = true"
    placed = _placed(index, _place(touch, root, name))

    def apply(case: Case) -> Case:
        return placed(_world(case, roots=(*case[1].roots, root)))

    yield Edit(f"make {folder} a root to {'read' if reads else 'write'}", setting, toml, apply)


def _writable(root: Root, world: World) -> Iterator[Edit]:
    """A further root that is read-only, as one to write; the run's own folders stay as they are."""
    if root.name != root.path:
        return
    further = [item for item in world.roots if item.name == item.path]
    write = [item.path for item in further if item.writable or item == root]
    read = [item.path for item in further if not item.writable and item != root]
    wider = replace(root, writable=True)

    def apply(case: Case) -> Case:
        touches = tuple(
            _moved_to(wider, touch) if touch.place and touch.place.root == root else touch for touch in case[0]
        )
        return touches, replace(case[1], roots=tuple(wider if item == root else item for item in case[1].roots))

    toml = f"workspace.write = {_list(write)}\nworkspace.read = {_list(read)}"
    yield Edit(f"make {root.path} a root to write", "workspace.write", toml, apply)


def _outside(touch: Touch, world: World) -> str | None:
    """The absolute path of a target that lies beneath no root, read from the text alone."""
    home = next((root.path for root in world.roots if root.name == "workspace"), None)
    if touch.place is not None or touch.target.startswith("run:") or home is None:
        return None
    path = _normal(posixpath.join(home, touch.target))
    return None if any(_beneath(path, root.path) for root in world.roots) else path


def _place(touch: Touch, root: Root, path: str) -> Place:
    return Place(root, path, PlaceKind.DIRECTORY if touch.deep else PlaceKind.FILE, touch.target)


def _normal(path: str) -> str:
    return f"/{posixpath.normpath(path).lstrip('/')}"


def _beneath(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


# ── carrying a change out ────────────────────────────────────────────────────────────────────


def _world(case: Case, **changes: object) -> Case:
    return case[0], replace(case[1], **changes)  # type: ignore[arg-type]


def _confirmed(case: Case) -> Case:
    return tuple(replace(touch, confirmed=True) for touch in case[0]), case[1]


def _placed(index: int, place: Place) -> Callable[[Case], Case]:
    def apply(case: Case) -> Case:
        touches, world = case
        below = () if touches[index].deep else None
        placed = replace(touches[index], target=place.shown, place=place, below=below)
        return (*touches[:index], placed, *touches[index + 1 :]), world

    return apply


def _moved_to(root: Root, touch: Touch) -> Touch:
    assert touch.place is not None
    return replace(touch, place=replace(touch.place, root=root))


def _with_rule(rule: Rule) -> Callable[[Case], Case]:
    return lambda case: _world(case, rules=(*case[1].rules, rule))


def _with_effect(rule: Rule, effect: Decision | None) -> Callable[[Case], Case]:
    """Give the rule another effect; with none, take it out."""

    def apply(case: Case) -> Case:
        others = case[1].rules
        if effect is None:
            return _world(case, rules=tuple(item for item in others if item != rule))
        return _world(case, rules=tuple(replace(item, effect=effect) if item == rule else item for item in others))

    return apply


def _list(items: Iterable[str]) -> str:
    return f"[{', '.join(_text(item) for item in items)}]"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

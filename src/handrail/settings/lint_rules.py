"""Rules that can never match, or that another rule always beats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from handrail.policy.patterns import could_match_below, host_matches, path_matches, words_match
from handrail.settings.layers import SCRATCH
from handrail.settings.lint import Lint
from handrail.settings.lint_broad import BROAD
from handrail.settings.loading import Loaded
from handrail.settings.model import RuleEntry
from handrail.settings.telling import nearest

if TYPE_CHECKING:
    from handrail.catalog import Catalog

_COMMON = frozenset({"fs.*", "fs.read", "fs.write", "fs.delete", "tool.*", "tool.use"})  # known without loading tools
_EFFECTS = ("allow", "ask", "deny")
_WILD = frozenset("*?[")


def rules_lint(loaded: Loaded, catalog: Catalog) -> Iterator[Lint]:
    """Look over the rules in force."""
    rules = loaded.settings.rules
    for rule in rules:
        yield from _misspelt(rule)
        yield from _outside(rule, loaded)
        yield from _unknown(rule, catalog)
        yield from _other_environment(rule, loaded)
    yield from _beaten(rules)


def _misspelt(rule: RuleEntry) -> Iterator[Lint]:
    """Targets are matched against canonical paths, which none of these spellings can be."""
    target = rule.target or ""
    if not _about_files(rule):
        return
    if target.startswith("~"):
        yield _never(rule, "`~` is not a folder here", "write the path in full, or relative to the workspace")
    elif target.startswith("./"):
        yield _never(rule, "paths have no `./` in front", f'target = "{target[2:]}"')
    elif ".." in target.split("/"):
        yield _never(rule, "paths have no `..` in them", "write where it leads")


def _outside(rule: RuleEntry, loaded: Loaded) -> Iterator[Lint]:
    target = rule.target or ""
    if not target.startswith("/") or not _about_files(rule) or rule.target in BROAD:
        return
    workspace = loaded.settings.workspace
    roots = [root for root in (workspace.root, *workspace.read, *workspace.write) if root != SCRATCH]
    if not any(could_match_below(target, root) or _beneath(root, target.rstrip("/*")) for root in roots):
        yield _never(rule, "its target lies outside every root", f"the roots are {', '.join(roots) or 'none'}")


def _unknown(rule: RuleEntry, catalog: Catalog) -> Iterator[Lint]:
    if rule.tool is not None and rule.tool not in catalog:
        tools = list(catalog)
        of_set = [tool.name for tool in tools if tool.toolset == rule.tool]
        near = nearest(rule.tool, catalog.names())
        fix = f"a rule takes one tool: {', '.join(of_set)}" if of_set else f"did you mean {near!r}?" if near else ""
        yield _never(rule, f"there is no tool {rule.tool!r}", fix)
        return
    if rule.tool is not None and rule.risk not in (None, catalog.get(rule.tool).risk.value):
        risk = catalog.get(rule.tool).risk.value
        yield _never(rule, f"the risk of {rule.tool} is {risk}, not {rule.risk}", f'risk = "{risk}", or leave it out')
        return
    if rule.touch is None or (rule.tool is None and rule.touch in _COMMON):
        return
    tools = [catalog.get(rule.tool)] if rule.tool is not None else list(catalog)
    kinds = {"tool.use", *(kind.value for tool in tools for kind in tool.permissions)}
    if not any(_touch_covers(rule.touch, kind) for kind in kinds):
        who = f"{rule.tool} touches" if rule.tool is not None else "any tool touches"
        yield _never(rule, f"{rule.touch} is nothing that {who}", f"there are {', '.join(sorted(kinds))}")


def _other_environment(rule: RuleEntry, loaded: Loaded) -> Iterator[Lint]:
    """Name a rule that does not count where this runs."""
    here = loaded.settings.environment
    if rule.environment not in (None, here):
        current = f"the environment is {here!r}" if here else "no environment is set"
        text = f"{rule.id} applies only in the environment {rule.environment!r}; {current}, so it does not apply now"
        fix = f"set HANDRAIL_ENVIRONMENT={rule.environment} to apply it"
        yield Lint("note", rule.where, text, fix)


def _beaten(rules: Sequence[RuleEntry]) -> Iterator[Lint]:
    """Rules that never decide anything, because another covers all they say and is at least as strict."""
    for number, rule in enumerate(rules):
        for other_number, other in enumerate(rules):
            if number == other_number or _EFFECTS.index(other.effect) < _EFFECTS.index(rule.effect):
                continue
            if not _covers(other, rule):
                continue
            if other.effect != rule.effect:
                text = f"{rule.id} ({rule.effect}) never decides: {other.id} at {other.where} says {other.effect}"
                yield Lint("warning", rule.where, text, "take one of the two out, or narrow the stricter one")
                break
            if other_number < number or not _covers(rule, other):
                yield Lint("note", rule.where, f"{rule.id} says nothing that {other.id} at {other.where} does not say")
                break


def _covers(wide: RuleEntry, narrow: RuleEntry) -> bool:
    """Whether one rule matches whatever the other does; a wrong no is possible, a wrong yes is not."""
    for name in ("tool", "skill", "caller", "risk", "environment"):
        if getattr(wide, name) not in (None, getattr(narrow, name)):
            return False
    if wide.touch is not None and (narrow.touch is None or not _touch_covers(wide.touch, narrow.touch)):
        return False
    return wide.target in (None, narrow.target) or _target_covers(wide, narrow)


def _touch_covers(wide: str, narrow: str) -> bool:
    return wide == narrow or (wide.endswith(".*") and narrow.startswith(wide[:-1]))


def _target_covers(wide: RuleEntry, narrow: RuleEntry) -> bool:
    if wide.target is None or narrow.target is None or narrow.touch is None:
        return False
    restricts, plain = wide.effect != "allow", not _WILD & set(narrow.target)
    if narrow.touch == "net.connect":
        return plain and ":" in narrow.target and host_matches(wide.target, narrow.target)
    if narrow.touch == "proc.exec":
        if not restricts and _says_more(wide.target.split(), narrow.target.split()):
            return False
        return plain and words_match(wide.target, narrow.target.split(), prefix=restricts)
    return _about_files(narrow) and _paths_cover(wide.target, narrow.target, restricts)


def _says_more(wide: Sequence[str], narrow: Sequence[str]) -> bool:
    """Whether the words of an allow rule open what fewer words do not: a script, or what a git command writes."""
    from handrail.policy.shell import git
    from handrail.policy.shell.scripts import file_of

    return bool(file_of(narrow)) or bool(set(git.writes(narrow)) - set(git.writes(wide)))


def _paths_cover(wide: str, narrow: str, restricts: bool) -> bool:
    wide, narrow = (f"{target}**" if target.endswith("/") else target for target in (wide, narrow))
    if wide.startswith("/") != narrow.startswith("/"):
        return False
    if not _WILD & set(narrow):
        return path_matches(wide, narrow, covers_below=restricts)
    # Every path that fits `src/x/*.py` begins with `src/x/`, so it lies below whatever covers `src`.
    fixed = wide.removesuffix("/**")
    below = wide.endswith("/**") or restricts
    return wide == "**" or (below and not _WILD & set(fixed) and narrow.startswith(f"{fixed}/"))


def _about_files(rule: RuleEntry) -> bool:
    return rule.touch is None or rule.touch.startswith("fs.")


def _never(rule: RuleEntry, why: str, fix: str = "") -> Lint:
    return Lint("warning", rule.where, f"{rule.id} can never match: {why}", fix)


def _beneath(path: str, folder: str) -> bool:
    """Whether a canonical path is a folder or lies in it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")

"""Paths that a sandbox hides, locks or pins, found by one bounded walk that follows no link."""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache

from handrail.policy.patterns import path_matches, rule_path
from handrail.sandbox.launching import SetupFailed
from handrail.sandbox.looks import FOLDER, Look, Looks
from handrail.sandbox.looks import LINK as A_LINK
from handrail.sandbox.plan import SCRATCH, Plan
from handrail.sandbox.shown import find_hidden
from handrail.words import Exclusion, Root, noun
from handrail.workspace.exclude import Leaves, last_names, leaves_out

MAX_ENTRIES = 400_000
MAX_MASKS = 4096
_ADVICE = "Narrow the roots of the run to the folders that are worked on."
_WILD = frozenset("*?[")
HIDE, LOCK, PIN, LINK = "hide", "lock", "pin", "link"
_STRENGTH = {PIN: 0, LINK: 1, LOCK: 2, HIDE: 3}


@noun
class Masks:
    """What a plan's patterns mean on this disk, now."""

    paths: tuple[tuple[str, str], ...]  # path, and hide | lock | pin; the shorter first
    links: tuple[str, ...]  # links that are to be locked and cannot be
    looked_at: int = 0  # entries


@noun
class Rules:
    """What to look for below one root."""

    hidden: Leaves
    locked: Leaves
    heads: frozenset[str]  # names such as `.git`, which must stay where they are for what is locked below them
    looks: Looks


def masks(plan: Plan) -> Masks:
    """Find what must be masked. Raises SetupFailed where not everything could be looked at."""
    found: dict[str, str] = {}
    room = MAX_ENTRIES
    for root, rules in rules_of(plan):
        room = _look_below(root, rules, plan.sockets, found, room)
    found |= dict.fromkeys(find_hidden(plan.own, (*plan.read, *plan.write), plan.sockets), HIDE)
    _pin_roots(plan, found)
    ordered = sorted(found.items(), key=lambda item: (item[0].count("/"), item[0]))
    return Masks(
        tuple((path, how) for path, how in ordered if how != LINK),
        tuple(path for path, how in ordered if how == LINK),
        MAX_ENTRIES - room,
    )


def roots_of(plan: Plan) -> list[Root]:
    """The roots of a plan by the names that its exclusions use."""
    named = {root.path: root for root in plan.roots}
    paths = dict.fromkeys((*plan.read, *plan.write))
    return [named.get(path) or Root(path, path, path in plan.write) for path in paths]


def _look_below(root: Root, rules: Rules, sockets: tuple[str, ...], found: dict[str, str], room: int) -> int:
    above = root.path.rstrip("/")
    waiting = [("", False)]  # a folder, and whether it is locked as a whole
    while waiting:
        folder, held = waiting.pop()
        look = _looked(above, folder, rules, found)
        if look is None:
            continue
        room -= look.count
        if room < 0:
            raise SetupFailed("masks", 0, _ADVICE, f"more than {MAX_ENTRIES:,} entries lie below the roots")
        start = f"{folder}/" if folder else ""
        judged = {name: judged_as(name, kind, start + name, rules, held) for name, kind in look.suspects}
        for name, how in judged.items():
            if how is not None:
                _add(above, start + name, how, found)
        for name in look.endpoints:
            if not _is_reachable(root, start + name, sockets):
                _add(above, start + name, HIDE, found)
        waiting += [
            (start + name, held or judged.get(name) == LOCK) for name in look.folders if judged.get(name) != HIDE
        ]
    return room


def _is_reachable(root: Root, path: str, sockets: tuple[str, ...]) -> bool:
    """Whether a program may use a socket or FIFO: settings name it, or only programs of this run can have made it."""
    if root.name == SCRATCH:
        return True
    return any(path_matches(pattern, rule_path(pattern, root, path)) for pattern in sockets)


def _looked(above: str, folder: str, rules: Rules, found: dict[str, str]) -> Look | None:
    try:
        return rules.looks.at(f"{above}/{folder}" if folder else above or "/")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        if not folder:
            raise SetupFailed("masks", 0, _ADVICE, f"{above} cannot be listed") from None
        found[f"{above}/{folder}"] = HIDE  # what cannot be looked at is not shown
        return None


def _add(above: str, path: str, how: str, found: dict[str, str]) -> None:
    whole = f"{above}/{path}"
    if how in (LOCK, HIDE):
        _pin_above(above, path, found)
    if _STRENGTH[how] >= _STRENGTH.get(found.get(whole, PIN), 0):
        found[whole] = how
    if len(found) > MAX_MASKS:
        raise _too_many(above, found)


def _too_many(above: str, found: dict[str, str]) -> SetupFailed:
    """Say where most of them lie, and how that folder can be kept from programs as one."""
    start = f"{above}/"
    counts: Counter[str] = Counter()
    for path in (path[len(start) :] for path, how in found.items() if how != PIN and path.startswith(start)):
        parts = path.split("/")[:-1]
        counts.update("/".join(parts[: end + 1]) for end in range(len(parts)))
    most = max(counts.values(), default=0)
    folder = max((name for name, count in counts.items() if 2 * count > most), key=_depth, default="")
    said, advice = f"more than {MAX_MASKS:,} protected paths lie below the roots", _ADVICE
    if folder:
        shown, target = json.dumps(folder, ensure_ascii=False), json.dumps(f"{folder}/**", ensure_ascii=False)
        said += f", most of them in {shown}"
        rule = f'{{effect = "deny", touch = "fs.read", target = {target}}}'
        advice = f"{_ADVICE[:-1]}; or, if programs need nothing of {shown}, hide it as a whole by a rule: {rule}."
    return SetupFailed("masks", 0, advice, said)


def _depth(path: str) -> int:
    return path.count("/")


def judged_as(name: str, kind: str, path: str, rules: Rules, held: bool) -> str | None:
    """How one entry is masked; what a link leads to is judged where it lies."""
    if rules.hidden(name, path):
        return None if kind == A_LINK else HIDE
    if held:
        return None
    if rules.locked(name, path):
        return LINK if kind == A_LINK else LOCK
    if name.casefold() in rules.heads:
        return LINK if kind == A_LINK else PIN if kind == FOLDER else LOCK
    return None


class _LastRules:
    """The tests of every root of the last plan: its patterns are long to hash, and mostly the very same ones."""

    def __init__(self) -> None:
        self._known: tuple[Plan, tuple[tuple[Root, Rules], ...]] = (Plan((), ()), ())

    def of(self, plan: Plan) -> tuple[tuple[Root, Rules], ...]:
        """Give a plan's roots with their tests."""
        last, rules = self._known
        same = last.excluded is plan.excluded and last.locked is plan.locked and last.roots == plan.roots
        if not same or (last.read, last.write) != (plan.read, plan.write):
            rules = tuple((root, _rules(plan.excluded, plan.locked, root)) for root in roots_of(plan))
            self._known = (plan, rules)
        return rules


rules_of = _LastRules().of


@lru_cache(maxsize=64)
def _rules(excluded: tuple[Exclusion, ...], locked: tuple[Exclusion, ...], root: Root) -> Rules:
    """The tests of one root; kept, so that what was seen is remembered from one program to the next."""
    heads = _heads(locked, root)
    names = [last_names(items).fullmatch for items in (excluded, locked) if items]
    looks = Looks(lambda name: any(fits(name) for fits in names) or name.casefold() in heads)
    return Rules(leaves_out(excluded, root), leaves_out(locked, root), heads, looks)


def _pin_above(above: str, path: str, found: dict[str, str]) -> None:
    """A folder above what is protected must not be renamed: neither to replace it, nor to read it by another name.

    Nor to keep it from being found: a program that moves folders while another one is started would hide from the walk
    what must be masked for that one.
    """
    parts = path.split("/")
    for count in range(1, len(parts)):
        found.setdefault(f"{above}/{'/'.join(parts[:count])}", PIN)


def _pin_roots(plan: Plan, found: dict[str, str]) -> None:
    """Moved with a folder above it, a root that is only read would be written by another name."""
    for outer in plan.write:
        for inner in (*plan.read, *plan.write):
            if inner.startswith(f"{outer}/") and not any(_is_hidden(inner, path) for path in _hides(found)):
                _pin_above(outer, inner[len(outer) + 1 :], found)


def _hides(found: dict[str, str]) -> list[str]:
    return [path for path, how in found.items() if how == HIDE]


def _is_hidden(path: str, by: str) -> bool:
    return f"{path}/".startswith(f"{by}/")


def _heads(locked: tuple[Exclusion, ...], root: Root) -> frozenset[str]:
    first = (item.pattern.partition("/") for item in locked if not item.root or item.root == root.name)
    return frozenset(name.casefold() for name, slash, _ in first if slash and name and not _WILD & set(name))

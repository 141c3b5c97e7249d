"""Looks for protected paths to tell of them, not to mask them: what cannot be looked at is named, and stops nothing."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from handrail.processes.taking import open_up, reach
from handrail.sandbox.looks import Look
from handrail.sandbox.masks import HIDE, LINK, LOCK, MAX_ENTRIES, Rules, judged_as, roots_of, rules_of
from handrail.sandbox.plan import Plan
from handrail.words import Root, noun
from handrail.workspace.access import Access

_SHOWN = (LOCK, HIDE, LINK)
Found = tuple[Root, str]


@noun
class Seen:
    """What a walk of the roots came by."""

    paths: tuple[Found, ...]  # that are protected
    folders: tuple[Found, ...]  # that were looked into
    unseen: tuple[str, ...]  # that could not be listed and are this user's own
    whole: bool  # whether there was no more than is looked at


def walked(plan: Plan, roots: Sequence[Root]) -> Seen:
    """Look below some roots of a plan, from the top; another root inside one is left to itself."""
    apart = frozenset(root.path for root in roots_of(plan))
    paths: list[Found] = []
    folders: list[Found] = []
    unseen: list[str] = []
    room = MAX_ENTRIES
    for root, rules in rules_of(plan):
        waiting = deque([("", False)]) if root in roots else deque()
        while waiting and room >= 0:
            folder, held = waiting.popleft()
            look = _listed(root, folder, rules, unseen)
            if look is None:
                continue
            room -= look.count
            folders.append((root, folder))
            kinds = dict(_judged(look, folder, rules, held))
            paths += [(root, path) for path, how in kinds.items() if how in _SHOWN]
            start = f"{folder}/" if folder else ""
            waiting += [
                (path, held or kinds.get(path) == LOCK)
                for path in (start + name for name in look.folders)
                if kinds.get(path) != HIDE and _absolute(root, path) not in apart
            ]
    return Seen(tuple(paths), tuple(folders), tuple(unseen), room >= 0)


def at(plan: Plan, folders: Sequence[Found], access: Access) -> tuple[list[Found], list[str]]:
    """Look into some folders alone, also into such as were closed; gives what is protected, and what stayed closed."""
    known = {root.path: rules for root, rules in rules_of(plan)}
    paths: list[Found] = []
    unseen: list[str] = []
    for root, folder in folders:
        rules = known.get(root.path)
        if rules is None:
            continue
        try:
            look = _opened(root, folder, rules, access)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            unseen.append(_absolute(root, folder))
            continue
        paths += [(root, path) for path, how in _judged(look, folder, rules, False) if how in _SHOWN]
    return paths, unseen


def _listed(root: Root, folder: str, rules: Rules, unseen: list[str]) -> Look | None:
    absolute = _absolute(root, folder)
    try:
        return rules.looks.at(absolute)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        if _may_be_ours(absolute):
            unseen.append(absolute)
        return None


def _opened(root: Root, folder: str, rules: Rules, access: Access) -> Look:
    absolute = _absolute(root, folder)
    try:
        return rules.looks.at(absolute)
    except PermissionError:
        with ExitStack() as held:
            open_up(reach(access, root, folder, held), held)
            return rules.looks.at(absolute)


def _judged(look: Look, folder: str, rules: Rules, held: bool) -> Iterator[tuple[str, str | None]]:
    start = f"{folder}/" if folder else ""
    for name, kind in look.suspects:
        yield start + name, judged_as(name, kind, start + name, rules, held)


def _absolute(root: Root, folder: str) -> str:
    return f"{root.path.rstrip('/')}/{folder}" if folder else root.path


def _may_be_ours(absolute: str) -> bool:
    """What another user owns, no program of ours has made."""
    try:
        return os.lstat(absolute).st_uid == os.geteuid()
    except OSError:
        return True

"""What a program made that policy keeps from tools. A lock holds what is there; a new one shows only afterwards."""

from __future__ import annotations

import asyncio
import posixpath
from stat import S_ISDIR

from handrail.errors import Problem
from handrail.policy.patterns import excluded
from handrail.ports import Work
from handrail.processes.effects import Look
from handrail.processes.host import Host
from handrail.processes.text import legible
from handrail.sandbox.masks import HIDE, LOCK, masks, roots_of
from handrail.sandbox.plan import Plan
from handrail.words import Decision, Place, PlaceKind, Root, Verdict, noun

# What makes other programs run, or decides what tools may do, is taken away again where it stands ready to be used.
_NEVER = frozenset({"builtin.repository", "builtin.settings"})
_OWN = "builtin.own-files"
_ELSEWHERE = "builtin.repository-elsewhere"  # a `.git` that is a file or link, as worktrees and submodules have it
_MOST_TOLD = 20


@noun
class Planted:
    """Something protected that was not there before."""

    root: Root
    path: str
    rule: str
    ready: bool  # the folder it stands in was there before: a repository, a workspace

    @property
    def shown(self) -> str:
        """The path for people."""
        return legible(self.root.shown(self.path))


class Guard:
    """What of the protected is there before a program runs; afterwards, what is new is told or taken away."""

    def __init__(self, host: Host, work: Work, before: Look) -> None:
        """Remember what is there; a look that saw too much is made up for by a walk of its own."""
        self._work, self._before = work, before
        self._plan = host.plan(Verdict(Decision.ALLOW, (), tuple(work.excluded), tuple(work.locked)))
        self._watched = [root for root in host.roots if root.writable]
        self._known = frozenset(_paths(self._plan, every=True)) if before.trees is None else frozenset()
        self._told: set[Planted] = set()  # and left where it is
        self._alone = asyncio.Lock()

    def folders(self) -> list[str]:
        """Where something that is made would take effect at once: in a root, and in a repository's own folders."""
        found = [root.path for root in self._watched]
        for root, tree in zip(self._watched, self._before.trees or (), strict=False):
            found += [f"{root.path}/{path}" for path, seen in tree.items() if S_ISDIR(seen[0]) and _in_git(path)]
        return found

    async def after(self) -> list[str]:
        """Take away what nobody may make, and tell, once, all else that would have been asked for or denied."""
        async with self._alone:
            return await self._after()

    async def _after(self) -> list[str]:
        try:
            found = await asyncio.to_thread(self._new)
        except Problem as problem:
            return [f"whether the program made protected files could not be told: {problem.message}"]
        told = [await self._dealt_with(planted) for planted in found]
        more = len(told) - _MOST_TOLD
        return [*told[:_MOST_TOLD], f"and {more} more of the kind"] if more > 0 else told

    def _new(self) -> list[Planted]:
        roots = {root.path: root for root in roots_of(self._plan)}
        found = []
        for absolute in _paths(self._plan):
            root = max((root for path, root in roots.items() if absolute.startswith(f"{path}/")), key=_length)
            path = absolute[len(root.path) + 1 :]
            if not root.writable or ".git/objects/" in path or self._was_there(root, path):
                continue
            rule = self._rule(root, path)
            planted = Planted(root, path, rule, self._was_there(root, posixpath.dirname(path)))
            if rule != _OWN and planted not in self._told:
                found.append(planted)
        return found

    def _rule(self, root: Root, path: str) -> str:
        """The rule that protects a path; a file or link in the stead of a folder such as `.git` is covered by none."""
        found = excluded((*self._plan.locked, *self._plan.excluded), root, path)
        if found is not None:
            return found.rule
        return _ELSEWHERE if posixpath.basename(path).casefold() == ".git" else "defaults.runs-programs"

    def _was_there(self, root: Root, path: str) -> bool:
        if not path:
            return True
        if self._before.trees is None:
            return f"{root.path}/{path}" in self._known
        return any(path in tree for seen, tree in zip(self._watched, self._before.trees, strict=False) if seen == root)

    async def _dealt_with(self, planted: Planted) -> str:
        made = f"the program made {planted.shown}, which no tool may do unasked ({planted.rule})"
        if planted.rule not in _NEVER or not planted.ready:
            self._told.add(planted)
            return f"{made}; look at it before you use it"
        try:
            await self._work.files.delete(Place(planted.root, planted.path, PlaceKind.OTHER), recursive=True)
        except Problem as problem:
            return f"{made}; it could not be taken away: {problem.message}"
        return f"{made}; it was taken away again"


async def guarded(host: Host, work: Work, before: Look) -> Guard:
    """Remember what is protected before a program runs; a walk, where one is needed, is made in a thread."""
    if before.trees is None:
        return await asyncio.to_thread(Guard, host, work, before)
    return Guard(host, work, before)


def _paths(plan: Plan, *, every: bool = False) -> list[str]:
    """The protected paths there are; every one: also folders such as `.git` that only must stay where they are."""
    found = masks(plan)
    return [*(path for path, how in found.paths if every or how in (LOCK, HIDE)), *found.links]


def _in_git(path: str) -> bool:
    return "/.git/" in f"/{path.casefold()}/"


def _length(root: Root) -> int:
    return len(root.path)

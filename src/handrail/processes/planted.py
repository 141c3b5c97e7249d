"""What a program made that policy keeps from tools. A lock holds what is there; a new one shows only afterwards."""

from __future__ import annotations

import asyncio
import os
import posixpath
from collections.abc import Sequence
from stat import S_ISDIR

from handrail.errors import Problem
from handrail.policy.patterns import excluded
from handrail.policy.repositories import DECIDING, NAMED
from handrail.ports import Work
from handrail.processes.effects import Look
from handrail.processes.host import Host
from handrail.processes.new_repositories import why_not_plain
from handrail.processes.protected import Found, at, walked
from handrail.processes.repositories import Traces
from handrail.processes.taking import Left, take_away
from handrail.processes.text import legible
from handrail.processes.watched import Standing, standing
from handrail.sandbox.launching import SetupFailed
from handrail.sandbox.masks import MAX_ENTRIES
from handrail.words import Change, Root, noun

# What makes other programs run, or decides what tools may do, is taken away again where it stands ready to be used.
_NEVER = frozenset({"builtin.repository", "builtin.settings", "defaults.loaded-code", NAMED})
_ANYWHERE = (NAMED, "builtin.own-code")  # these also where the folder they lie in is new
_BARE = "defaults.repository"  # a folder that git takes for a repository though it is not called `.git`
_MAKE_BARE = ("HEAD", "commondir", "refs", "objects")  # the first of these that is new is taken away
_OWN = "builtin.own-files"
_ELSEWHERE = "builtin.repository-elsewhere"  # a `.git` that is a file or link, as worktrees and submodules have it
_MOST_TOLD, _MOST_NAMED = 20, 5
_IN_EFFECT = "it could not be taken away and is IN EFFECT"


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


_Look = tuple[list[Planted], Sequence[str]]  # what is new, and what could not be looked at


class Guard:
    """What of the protected is there before a program runs; afterwards, what is new is told or taken away."""

    def __init__(self, host: Host, work: Work, before: Look) -> None:
        """Remember what is there; a look that saw too much is made up for by a walk of its own."""
        self._work, self._access = work, host.watch.access
        self._aside = posixpath.dirname(host.scratch)  # the run's own folder: no program reaches it
        self._plan = host.plan_for(work)
        self._watched = [root for root in host.roots if root.writable]
        self._before = before
        self._known = self._walked() if before.trees is None else frozenset()
        self._places: list[Found] | None = None
        self._told: set[Planted | str] = set()  # and left where it is
        self._host = host
        self._repositories = Traces(host.repositories)
        self._alone = asyncio.Lock()
        self._note = None if host.reviews(work) else host.watched
        if self._note is not None:
            self._note.begin(before.trees, self._standing, self._repositories.before)

    def dismiss(self) -> None:
        """The program has ended and was looked after, or never began."""
        note, self._note = self._note, None
        if note is not None:
            note.end()

    def folders(self) -> list[str]:
        """Where something that is made would take effect at once: in a root, and in a repository's own folders."""
        return [f"{root.path}/{path}" if path else root.path for root, path in self._matter()]

    async def after(self) -> list[str]:
        """Take away what nobody may make, and tell, once, all else that would have been asked for or denied."""
        async with self._alone:
            told = await self._after()
            self._host.warn(self._work, told)
            return told

    async def _after(self) -> list[str]:
        """Look first where it matters: no program can put so much elsewhere that this look comes late or never."""
        if self._note is not None:
            self._note.seen()
        first, closed, rest = await asyncio.to_thread(self._look)
        told = [await self._dealt_with(planted) for planted in first]
        found, unseen = await asyncio.to_thread(self._anywhere) if rest is None else rest
        stuck = {planted for planted, text in zip(first, told, strict=True) if _IN_EFFECT in text}
        found = [*found, *await asyncio.to_thread(self._made_repositories)]
        # Whatever else there is to tell, what is taken away is told: it comes first.
        found = sorted((planted for planted in found if planted not in stuck), key=_is_left)
        dealt_with = [await self._dealt_with(planted) for planted in found]
        told += [*self._gaps(closed), *(text for text in dealt_with if text)]
        more = len(told) - _MOST_TOLD
        kept = [*told[:_MOST_TOLD], f"and {more} more of the kind"] if more > 0 else told
        return [*kept, *self._gaps(unseen), *self._new_texts(await asyncio.to_thread(self._repositories.warnings))]

    def _look(self) -> tuple[list[Planted], Sequence[str], _Look | None]:
        """What is to be taken away at once; only where there is nothing, all else as well."""
        first, closed = self._at_once()
        return first, closed, None if first else self._anywhere()

    def _at_once(self) -> _Look:
        paths, closed = at(self._plan, self._matter(), self._access)
        return [planted for planted in self._new(paths) if not _is_left(planted)], closed

    def _anywhere(self) -> _Look:
        seen = walked(self._plan, self._watched)
        cut = () if seen.whole else (f"all beyond the first {MAX_ENTRIES:,} entries of the roots",)
        return self._new(seen.paths), (*seen.unseen, *cut)

    def _made_repositories(self) -> list[Planted]:
        """Find folders that became repositories; where one held something before, what made it one is taken away."""
        found = []
        for folder in self._repositories.made():
            for root in self._watched:
                inner = folder[len(root.path) :].strip("/")
                if not f"{folder}/".startswith(f"{root.path.rstrip('/')}/"):
                    continue
                paths = (f"{inner}/{name}".lstrip("/") for name in _MAKE_BARE if os.path.lexists(f"{folder}/{name}"))
                path = next((path for path in paths if not self._was_there(root, path)), "")
                if path:
                    planted = Planted(root, path, _BARE, self._was_used(root, inner))
                    found += [planted] if planted not in self._told else []
                    break
        return found

    def _was_used(self, root: Root, folder: str) -> bool:
        """Whether a folder was there before and held something."""
        if not folder or self._before.trees is None:
            return self._was_there(root, folder)
        trees = zip(self._watched, self._before.trees, strict=False)
        return any(path.startswith(f"{folder}/") for seen, tree in trees if seen == root for path in tree)

    def _new_texts(self, texts: Sequence[str]) -> list[str]:
        new = [text for text in texts if text not in self._told]
        self._told.update(new)
        return new

    def _gaps(self, unseen: Sequence[str]) -> list[str]:
        """Say once what could not be looked at."""
        new = [path for path in unseen if path not in self._told]
        self._told.update(new)
        if not new:
            return []
        names = ", ".join(legible(path) for path in new[:_MOST_NAMED])
        more = f" and {len(new) - _MOST_NAMED} more" if len(new) > _MOST_NAMED else ""
        return [f"whether the program made protected files could not be told of {names}{more}: they cannot be listed"]

    def _new(self, paths: Sequence[Found]) -> list[Planted]:
        found = []
        for root, path in paths:
            if ".git/objects/" in path or self._was_there(root, path):
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

    def _matter(self) -> list[Found]:
        """Each root, and each folder of a repository that was there before."""
        if self._places is None:
            others = frozenset(self._repositories.before.folders)
            inside = [
                (root, path)
                for root, tree in zip(self._watched, self._before.trees or (), strict=False)
                for path, seen in tree.items()
                if S_ISDIR(seen[0]) and (_in_git(path) or f"{root.path}/{path}" in others)
            ]
            more = [(root, path) for root, path in self._known if _in_git(path) or f"{root.path}/{path}" in others]
            self._places = [*((root, "") for root in self._watched), *inside, *more]
        return self._places

    def _standing(self) -> Standing:
        """What stands where something new would be taken away, for whoever has to look in our stead."""
        trees = self._before.trees
        if trees is None:
            return standing(self._matter(), [*self._known])
        roots = zip(self._watched, trees, strict=False)
        return standing(self._matter(), [(root, path) for root, tree in roots for path in tree])

    def _walked(self) -> frozenset[Found]:
        seen = walked(self._plan, self._watched)
        if not seen.whole:
            advice = "Narrow the roots of the run to the folders that are worked on."
            raise SetupFailed("masks", 0, advice, f"more than {MAX_ENTRIES:,} entries lie below the roots")
        return frozenset((*seen.folders, *seen.paths))

    def _was_there(self, root: Root, path: str) -> bool:
        if not path:
            return True
        if self._before.trees is None:
            return (root, path) in self._known
        return any(path in tree for seen, tree in zip(self._watched, self._before.trees, strict=False) if seen == root)

    async def _dealt_with(self, planted: Planted) -> str:
        """Take something away or leave it; gives what to say of it, empty: that was said already."""
        made = f"the program made {planted.shown}, which no tool may do unasked ({planted.rule})"
        folder = _new_repository(planted)
        if folder:
            runs = await asyncio.to_thread(why_not_plain, planted.root.path, folder, posixpath.basename(planted.path))
            if not runs:
                return await asyncio.to_thread(self._new_plain, planted.root, folder)
            made = f"{made}: {runs}"
        elif _is_left(planted):
            self._told.add(planted)
            return f"{made}; look at it before you use it"
        try:
            self._work.files.changes.extend(await asyncio.to_thread(self._take_away, planted))
        except FileNotFoundError:
            return f"{made}; it is gone again"
        except OSError as error:
            return f"{made}; {_IN_EFFECT}: {error.strerror}. Remove it by hand"
        except Problem as problem:
            return f"{made}; {_IN_EFFECT}: {problem.message} Remove it by hand"
        except Left as left:
            return f"{made}; it was taken away again, but {left}"
        return f"{made}; it was taken away again"

    def _new_plain(self, root: Root, folder: str) -> str:
        """Say once that there is a new repository. It is looked at with every look: it may still be given hooks."""
        if why_not_plain(root.path, folder):
            return ""
        shown = legible(root.shown(folder))
        return "".join(self._new_texts([f"the program made the git repository {shown}; it runs no programs"]))

    def _take_away(self, planted: Planted) -> list[Change]:
        removed = take_away(self._access, planted.root, planted.path, self._aside)
        if planted.rule == _BARE:
            self._repositories.forget(posixpath.dirname(f"{planted.root.path.rstrip('/')}/{planted.path}"))
        return removed


async def guarded(host: Host, work: Work, before: Look) -> Guard:
    """Remember what is protected before a program runs; a walk, where one is needed, is made in a thread."""
    if before.trees is not None:
        return Guard(host, work, before)
    made = asyncio.ensure_future(asyncio.to_thread(Guard, host, work, before))
    try:
        return await asyncio.shield(made)
    except asyncio.CancelledError:  # the thread goes on: what it will have noted is not to stand
        made.add_done_callback(_dismiss)
        raise


def _dismiss(made: asyncio.Future[Guard]) -> None:
    if not made.cancelled() and made.exception() is None:
        made.result().dismiss()


def _is_left(planted: Planted) -> bool:
    """Whether a planted thing stays: what takes effect at once does not."""
    if planted.rule in _ANYWHERE:
        return False
    return planted.rule not in (*_NEVER, _BARE) or not planted.ready


def _new_repository(planted: Planted) -> str:
    """Name the new folder `.git` that a config or hooks lie in; empty where it is something else."""
    folder, _, name = planted.path.rpartition("/")
    in_git = posixpath.basename(folder).casefold() == ".git"
    is_new = planted.rule == "builtin.repository" and not planted.ready
    return folder if in_git and is_new and name.casefold() in DECIDING else ""


def _in_git(path: str) -> bool:
    return "/.git/" in f"/{path.casefold()}/"

"""Judging what a program changed after it ran: by policy, by a person who sees the diff; then kept or dropped."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from handrail.errors import Code, Problem
from handrail.output.bound import Bounds, bound
from handrail.output.patterns import MARK
from handrail.policy.links import judge_link
from handrail.ports import Captured, Finished, Work
from handrail.ports.files import CONTESTED, LINKS_OUT, REPOSITORIES, UNSHOWN, Sort
from handrail.processes.classify import Classifier, repository_of
from handrail.processes.git_changes import read_with_git
from handrail.processes.host import Host
from handrail.processes.keeping import Keeper
from handrail.processes.layer import LayerChange, cannot, fingerprint
from handrail.processes.links import leads_out
from handrail.processes.new_repositories import NewRepositories, find_new
from handrail.processes.running import to_its_end
from handrail.processes.sorting import Sorted, sort_changes, state_of
from handrail.processes.text import legible
from handrail.sandbox.launching import Child, Upper
from handrail.sandbox.system import system
from handrail.tools.fs._diff import diff_texts
from handrail.words import Decision, Effect, Finding, How, PlaceKind, Root, Touch, TouchKind, noun
from handrail.workspace.access import READ, Access

_TAIL_LINES, _TAIL_CHARS = 10, 300  # of each stream, with the question whether to keep what the program did
_NAMED = 3  # changes and reasons in one sentence
_MOST_TOLD = 20  # changes that are left out, by name
_BY_PATH = 2000  # changes whose diff is made; a diff of more is cut anyway
_ATTEMPTS = 3  # at keeping, while others change the same files
_RUNS_PROGRAMS = tuple(
    f"defaults.{name}" for name in ("runs-programs", "loaded-code", "skills", "repository", "on-path")
)
# Problems of one path: others can be kept without it.
_OF_ONE_PLACE = (
    Code.PATH_OUTSIDE_ROOTS, Code.NOT_FOUND, Code.NOT_A_DIRECTORY, Code.NOT_A_FILE, Code.ALREADY_EXISTS,
)  # fmt: skip


@noun
class Reviewed:
    """What was kept, its diff, and what a person should know."""

    changed: tuple[str, ...] = ()
    diff: str = ""
    warnings: tuple[str, ...] = ()
    unkept: str = ""  # which changes were not kept, and what to do; said first
    caches: int = 0  # how many of the changed are in caches; they stand last


class Review:
    """One program's changes, looked at before they reach the workspace."""

    def __init__(self, host: Host, work: Work, child: Child, done: Finished) -> None:
        self._host = host
        self._work = work
        self._child = child
        self._done = done
        self._access: Access = host.watch.access
        self._warnings: list[str] = []
        self._unkept: list[str] = []
        self._touches: dict[int, Touch] = {}  # by change, once it is known of what kind each is
        self._new = NewRepositories()

    async def keep(self) -> Reviewed:
        """Keep what may be kept. A Problem says why all of it was dropped."""
        sort = self._work.sort
        if sort is None:
            return await self._keep_together(await self._read())
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._keep_each(await self._read(), sort)
            except Problem as problem:
                # Somebody changed a file while the others were being kept: looked at anew, that one is asked for.
                if problem.code is not Code.STALE_FILE or problem.details.get("left"):
                    raise
        return await self._keep_each(await self._read(), sort, last=True)

    async def _read(self) -> list[LayerChange]:
        """Read what the program changed, without what is never kept."""
        changes = await asyncio.to_thread(read_with_git, self._access, self._child, self._uppers())
        left_out = [change for change in changes if change.left_out]
        self._warnings = [*map(legible, self._child.unprepared)]
        self._unkept = []
        if self._work.sort is None:
            self._warnings += _describe_left_out(left_out)
        for why in dict.fromkeys(change.left_out for change in left_out):
            if self._work.sort is not None:
                await self._set_apart([change for change in left_out if change.left_out == why], f"The reason: {why}.")
        fit = [change for change in changes if not change.left_out]
        self._new = await asyncio.to_thread(find_new, fit)
        return fit

    async def _keep_together(self, fit: list[LayerChange]) -> Reviewed:
        """Have all changes judged together: they are kept, or dropped with a Problem."""
        ours = [change for change in fit if not change.contested]
        contested = [change for change in fit if change.contested]
        kept, diff = await self._settle(ours, self._must_ask(ours)) if ours else ([], "")
        if contested:
            theirs, more = await self._settle_contested(contested)
            kept += theirs
            diff += more
        shown = tuple(dict.fromkeys(change.shown for change in kept))
        return Reviewed(shown, diff, tuple(self._warnings))

    async def _keep_each(self, changes: Sequence[LayerChange], sort: Sort, *, last: bool = False) -> Reviewed:
        """Keep what policy allows, ask once for what it asks for, and leave out what it denies.

        `last`: what cannot be kept now is left out; before that, a Problem says that somebody changed it meanwhile.
        """
        self._contest_repositories(changes)
        ours = [change for change in changes if not change.contested]
        contested = [change for change in changes if change.contested]
        found = await asyncio.to_thread(self._sort, ours, sort)
        kept = await self._keep_allowed(found.kept, last=last)
        diff = ""
        if found.asked:
            more, diff = await self._settle_asked([change for change, _ in found.asked])
            kept += more
        if found.refused:
            await self._leave(found.refused)
        if contested:
            theirs, more_diff = await self._settle_contested(contested)
            kept += theirs
            diff += more_diff
        caches = [change for change in kept if self._is_in_cache(change)]
        cached = dict.fromkeys(change.shown for change in caches)
        shown = [name for name in dict.fromkeys(change.shown for change in kept) if name not in cached]
        return Reviewed((*shown, *cached), diff, tuple(self._warnings), " ".join(self._unkept), len(cached))

    def _is_in_cache(self, change: LayerChange) -> bool:
        touch = self._touches.get(id(change))
        return touch is not None and touch.effect is Effect.CACHE

    def _contest_repositories(self, changes: Sequence[LayerChange]) -> None:
        """Keep the records of a repository together where somebody else has changed one of them meanwhile."""
        folders = self._host.repositories.found().folders
        states = {id(change): state_of(change, partial(repository_of, folders)) for change in changes}
        shared = {states[id(change)] for change in changes if change.contested} - {""}
        for change in changes:
            if states[id(change)] in shared and not change.contested:
                change.contested = "belongs to git's records, which somebody else changed while the program ran"

    def _sort(self, changes: Sequence[LayerChange], sort: Sort) -> Sorted:
        """Find out of what kind each change is, and have it judged."""
        host = self._host
        images = self._access.images
        room = 0 if images is None else images.left
        classifier = Classifier(self._access, changes, host.repositories.found(), host.callers_path, room)
        touches = classifier.classify([self._touch(change) for change in changes])
        for change, touch in zip(changes, touches, strict=True):
            change.expendable = touch.effect is Effect.CACHE
        placed, findings = sort(touches)
        self._touches = {id(change): touch for change, touch in zip(changes, touches, strict=True)}
        judged = [
            self._ask_anyway(change, _as_placed(change, touch, finding))
            for change, touch, finding in zip(changes, placed, findings, strict=True)
        ]
        folders = host.repositories.found().folders
        return sort_changes(changes, judged, partial(repository_of, folders))

    def _ask_anyway(self, change: LayerChange, finding: Finding) -> Finding:
        """Ask for an allowed change that is a link out of all that programs see, or part of a new repository.

        Nobody can say yes to a part that is hidden: what runs programs elsewhere is refused then.
        """
        if finding.decision is Decision.ASK and finding.rule in _RUNS_PROGRAMS and self._is_hidden(change):
            why = f"{change.shown} decides which programs run, and a part of it looks like a secret, which is not shown"
            return Finding("builtin", "builtin.review", Decision.DENY, why)
        if change.kind == "link" and (led := self._judge_link(change)) and led.decision > finding.decision:
            return led
        if finding.decision is not Decision.ALLOW:
            return finding
        if change.kind == "link" and self._leads_out(change):
            why = f"{change.shown} is a link that leads out of the roots"
        elif change.shown in self._new.shown or (change.root, change.path) in self._new.parts:
            why = f"{change.shown} is part of a new git repository"
        else:
            return finding
        return Finding("builtin", "builtin.review", Decision.ASK, why)

    async def _keep_allowed(self, changes: Sequence[LayerChange], *, last: bool) -> list[LayerChange]:
        """Keep changes; what its place does not take is left out, and the rest is tried again."""
        tries = 0
        while changes:
            tries += 1
            try:
                await self._apply(changes)
                return list(changes)
            except Problem as problem:
                stays = problem.code is Code.STALE_FILE and last
                if problem.details.get("left") or not (stays or _is_of_one_place(problem)):
                    raise
                place = str(problem.details.get("path", ""))
                stuck = _at_or_below(changes, place) if tries < _ATTEMPTS else []
                await self._set_apart(stuck or changes, problem.message)
                out = {id(change) for change in stuck or changes}
                changes = [change for change in changes if id(change) not in out]
        return []

    async def _settle_asked(self, changes: list[LayerChange]) -> tuple[list[LayerChange], str]:
        """Ask for changes, all in one question; without a yes they are set aside."""
        try:
            return await self._settle(changes, self._must_ask(changes))
        except Problem as problem:
            await self._set_apart(changes, problem.message)
            return [], ""

    async def _leave(self, refused: Sequence[tuple[LayerChange, Finding]]) -> None:
        """Leave changes out that nobody may make."""
        why = dict.fromkeys(finding.why for _, finding in refused)
        more = f" (and {len(why) - _NAMED} further reasons)" if len(why) > _NAMED else ""
        await self._set_apart([change for change, _ in refused], f"{'; '.join([*why][:_NAMED])}{more}.")

    async def _set_apart(self, changes: Sequence[LayerChange], why: str) -> None:
        """Put changes that are not kept into the run's archive, and say so."""
        paths = list(dict.fromkeys(change.shown for change in changes))
        aside = await asyncio.to_thread(self._set_aside, changes)
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        self._unkept.append(f"Not kept: {', '.join(map(legible, paths[:_NAMED]))}{more}. {why.rstrip('.')}.{aside}")

    def _uppers(self) -> dict[Root, Upper]:
        upper = self._child.upper or {}
        return {root: upper[root.path] for root in self._host.roots if root.path in upper}

    async def _settle(
        self, changes: list[LayerChange], more: dict[str, tuple[str, ...]]
    ) -> tuple[list[LayerChange], str]:
        """Have changes judged together, and keep them."""
        diff, prints = await asyncio.to_thread(lambda: (self._diff(changes), fingerprint(changes)))
        try:
            await self._judge(changes, diff, prints, more)
        except Problem as problem:
            problem.details.setdefault("diff", diff)
            raise
        await self._apply(changes)
        return changes, diff

    async def _settle_contested(self, changes: list[LayerChange]) -> tuple[list[LayerChange], str]:
        """Ask for what would replace somebody else's change; without a yes, only that is not kept."""
        paths = tuple(dict.fromkeys(change.shown for change in changes))
        try:
            return await self._settle(changes, {CONTESTED: paths})
        except Problem as problem:
            why = changes[0].contested
            named = f"{', '.join(paths[:3])}{f' and {len(paths) - 3} more' if len(paths) > 3 else ''}"
            aside = await asyncio.to_thread(self._set_aside, changes)
            self._warnings.append(f"not kept: {named} {why}; the rest is kept. {problem.message}{aside}")
            return [], ""

    def _set_aside(self, changes: Sequence[LayerChange]) -> str:
        """Keep the program's versions of files with the former contents of the run; says where they are."""
        images = self._access.images
        kept = []
        for change in changes:
            if images is None or change.after is None or not change.sha256_after:
                continue
            fd = os.open(change.source, READ)
            try:
                if self._access.keep(fd, change.sha256_after, change.after.size):
                    kept.append(f"{legible(change.shown)} as images/{change.sha256_after}")
            finally:
                os.close(fd)
        more = f" and {len(kept) - _NAMED} more" if len(kept) > _NAMED else ""
        return f" The program's version is in the run's archive: {', '.join(kept[:_NAMED])}{more}." if kept else ""

    async def _judge(
        self, changes: Sequence[LayerChange], diff: str, prints: Any, more: dict[str, tuple[str, ...]]
    ) -> None:
        if self._work.review is None:
            raise Problem(Code.POLICY_DENIED, "Nothing was kept: nobody here can judge what programs changed.")
        touches = tuple(self._touches.get(id(change)) or self._touch(change) for change in changes)
        # Who keeps what a program did must know how it ended: a yes to one that failed is none to one that did not.
        bound_to = [prints, self._done.exit_code, self._done.signal]
        if self._done.timed_out or self._done.flooded or self._done.overfull:
            bound_to.append("cut off")
        if MARK in diff:
            unshown = [change.shown for change in changes[:_BY_PATH] if self._is_hidden(change)]
            more = {**more, UNSHOWN: tuple(unshown)}
        placed = await self._work.review(touches, diff, bound_to, _ending(self._done) | more)
        _check_places(changes, placed)

    def _touch(self, change: LayerChange) -> Touch:
        if change.kind in ("delete", "rmdir"):
            return Touch(TouchKind.FS_DELETE, change.shown, follow=False)
        how = How.REPLACE if change.kind == "replace" else How.PLAIN
        if (change.root, change.path) in self._new.parts:
            how = How.REPOSITORY
        return Touch(TouchKind.FS_WRITE, change.shown, how=how, follow=False)

    def _is_hidden(self, change: LayerChange) -> bool:
        """Whether the diff of a change hides a part of what is new."""
        if change.after is None or change.kind not in ("create", "replace"):
            return False
        return any(line.startswith("+") and MARK in line for line in self._one(change).splitlines())

    def _must_ask(self, changes: Sequence[LayerChange]) -> dict[str, tuple[str, ...]]:
        """Name what is asked for whatever rules allow: new links that lead out of the roots, new repositories."""
        made = [change for change in changes if change.kind == "link"]
        links = [change.shown for change in made if self._leads_out(change) or self._judge_link(change)]
        named = {LINKS_OUT: tuple(links), REPOSITORIES: self._new.shown}
        return {kind: paths for kind, paths in named.items() if paths}

    def _judge_link(self, change: LayerChange) -> Finding | None:
        path = f"{change.root.path.rstrip('/')}/{change.path}"
        return judge_link(path, change.shown, self._host.repositories.found())

    def _leads_out(self, change: LayerChange) -> bool:
        assert change.after is not None
        shown = system().folders if self._work.sort is not None else ()
        inside = [*(root.path for root in self._host.roots), *shown]
        path = f"{change.root.path.rstrip('/')}/{change.path}"
        return leads_out(path, change.after.target or "", inside, self._uppers())

    # ── the diff ──

    def _diff(self, changes: Sequence[LayerChange]) -> str:
        limits = self._host.terms.limits
        text = "".join(self._one(change) for change in changes[:_BY_PATH])
        more = len(changes) - _BY_PATH
        text += f"[and {more} more changes]\n" if more > 0 else ""
        cut = bound(text, Bounds(limits.max_output_lines - 40, limits.max_output_bytes // 2, limits.max_line_chars))
        return text if cut is None else f"{cut.text.rstrip()}\n[the diff is cut: {cut.shown} of {cut.total} {cut.by}]\n"

    def _one(self, change: LayerChange) -> str:
        """Describe one change: by its diff where both contents are text."""
        if change.kind in ("mkdir", "rmdir"):
            return f"{'new' if change.kind == 'mkdir' else 'removed'} folder {change.shown}\n"
        if change.path.endswith(".sample") and (change.root, change.path) in self._new.parts:
            return f"new {change.shown}, a sample that git does not run\n"
        theirs = f"{change.shown} {change.contested}; a yes replaces their version, which is shown as removed\n"
        return (theirs if change.contested else "") + self._content(change)

    def _content(self, change: LayerChange) -> str:
        limits = self._host.terms.limits
        seen = change.before if change.after is None else change.after
        assert seen is not None
        if seen.kind is PlaceKind.LINK:
            return (
                f"{'removed' if change.after is None else 'new'} link {change.shown} -> {legible(seen.target or '')}\n"
            )
        before = _text(change.read_before(limits.max_read_bytes) if change.kind != "create" else None)
        after = _text(change.read_after(limits.max_read_bytes))
        had = change.before is not None
        if (had and before is None) or (change.after is not None and after is None):
            sizes = f"{change.before.size if change.before else 0} to {change.after.size if change.after else 0} bytes"
            hashed = f"sha256 {change.sha256_after}"
            return f"{change.kind} {change.shown}: no text or too large to show, {sizes}, {hashed}\n"
        mode = "" if change.after is None else f", mode {change.after.mode & 0o777:o}"
        if before == after:
            return f"{change.kind} {change.shown}{mode}\n"
        head = f"{change.kind} {change.shown}{mode}\n" if change.remode else ""
        text = diff_texts(before, after, change.shown, self._host.redactor, limits)
        return f"{head}{text}" or f"{change.kind} {change.shown}, empty\n"

    # ── keeping ──

    async def _apply(self, changes: Sequence[LayerChange]) -> None:
        """Make every change, or none; one program's at a time."""
        keeper = Keeper(self._access, self._host.unfinished, self._host.run_id, self._work.call_id)
        roots = tuple(dict.fromkeys(change.root for change in changes))
        async with AsyncExitStack() as held:
            if self._host.keeping is not None:
                await held.enter_async_context(self._host.keeping(roots))
            try:
                made = await to_its_end(asyncio.to_thread(keeper.keep, changes))
            except OSError as error:
                raise cannot(f"it could not be noted or synced ({error.strerror})") from error
            except Problem as problem:
                if keeper.left:
                    problem.details["left"] = keeper.left
                raise
            finally:
                self._host.repositories.expire()
                if keeper.left:
                    self._child.leave_layers()
        self._work.files.record(made)
        self._warnings += _split(changes)
        self._warnings += keeper.warnings


def _is_of_one_place(problem: Problem) -> bool:
    """Whether other changes can be kept without the one that failed."""
    return problem.code in _OF_ONE_PLACE or problem.details.get("errno") in (errno.EACCES, errno.EPERM, errno.EROFS)


def _at_or_below(changes: Sequence[LayerChange], shown: str) -> list[LayerChange]:
    """Choose the changes at a path and below it."""
    return [change for change in changes if shown and f"{change.shown}/".startswith(f"{shown}/")]


def _describe_left_out(out: Sequence[LayerChange]) -> Iterator[str]:
    """Say what is not kept by itself."""
    for change in out[:_MOST_TOLD]:
        yield f"{legible(change.shown)} was not kept: {change.left_out}"
    if len(out) > _MOST_TOLD:
        yield f"{len(out) - _MOST_TOLD} more changes like these were not kept"


def _split(changes: Sequence[LayerChange]) -> Iterator[str]:
    """Say which names of files with several are no longer names of the same file."""
    split = [change for change in changes if change.kind == "replace" and change.before and change.before.links > 1]
    for change in split[:_MOST_TOLD]:
        yield f"{change.shown} had other names (hard links): those keep the former content"
    if len(split) > _MOST_TOLD:
        yield f"{len(split) - _MOST_TOLD} more files like these"


def _as_placed(change: LayerChange, touch: Touch, finding: Finding) -> Finding:
    """Refuse a change whose place is not the one that was shown, for a link is on the way."""
    place = touch.place
    if place is not None and (place.root, place.path) == (change.root, change.path):
        return finding
    return Finding("builtin", "builtin.review", Decision.DENY, f"{change.shown} leads elsewhere by a link")


def _check_places(changes: Sequence[LayerChange], placed: Sequence[Touch]) -> None:
    """Refuse where the place of a change is not the one that was shown, for a link is on the way."""
    places = {touch.target: touch.place for touch in placed if touch.place is not None}
    for change in changes:
        place = places.get(change.shown)
        if place is None or (place.root, place.path) != (change.root, change.path):
            raise cannot(f"{change.shown} leads elsewhere by a link")


def _ending(done: Finished) -> dict[str, tuple[str, ...]]:
    """Say how the program ended and the last it wrote, as a person is told it; both streams are redacted by now."""
    failed = bool(done.signal or done.exit_code)
    how = f"signal {done.signal}" if done.signal else f"exit code {done.exit_code}"
    if done.timed_out or done.flooded or done.overfull:
        failed = True
        how = f"{_cut_off(done)}, {how}"
    told = {"failed" if failed else "ended": (how,)}
    streams = (("stdout", done.stdout), ("stderr", done.stderr))
    return told | {f"end of {name}": shown for name, stream in streams if (shown := _tail(stream))}


def _cut_off(done: Finished) -> str:
    if done.timed_out:
        return "its time limit ended it"
    return "it wrote too much output" if done.flooded else "it used too much disk space"


def _tail(stream: Captured) -> tuple[str, ...]:
    lines = stream.text.rstrip().splitlines()[-_TAIL_LINES:]
    return tuple(line if len(line) <= _TAIL_CHARS else f"{line[:_TAIL_CHARS]}…" for line in lines)


def _text(data: bytes | None) -> str | None:
    """Give a content as text; None where there is none, or it is none."""
    if data is None or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None

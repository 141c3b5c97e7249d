"""The Searcher that runs ripgrep.

Its walk is fast and can be raced, so it is trusted with nothing: Landlock keeps it inside the root, exclusions are
applied again to every path it names, and what is shown comes from handles that follow no link.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import TypeVar

from handrail.queries import FileQuery, FilesFound, TextFound, TextQuery
from handrail.sandbox import landlock
from handrail.sandbox.domain import Doing, Domain
from handrail.sandbox.spawning import Started
from handrail.words import Exclusion, Place, PlaceKind, Root
from handrail.workspace.access import READ, not_a_file, problem_of
from handrail.workspace.beneath import FOLDER
from handrail.workspace.files import WorkspaceFiles
from handrail.workspace.rg_arguments import Walk, of_given, of_text, walk_of
from handrail.workspace.rg_files import Folders, Names, empty_below, folders_of, ranked, really_there, sorted_names
from handrail.workspace.rg_output import Keeper, Lines, OneFile, order, sorted_lines
from handrail.workspace.rg_pieces import Pieces, has_overlong_line
from handrail.workspace.rg_process import Child, Ground, domain_of, find_program, not_started, reap, start_here
from handrail.workspace.rg_runs import LITTLE_AHEAD, Flood, Runs, unreadable
from handrail.workspace.threads import Brake, Ticket, tell

HEAD_START_SECONDS = 0.005
COUNT_SECONDS = 0.025  # what counting the ignored may take, and what the search itself may have taken before it
MAX_MEMORY_BYTES = 192 << 20  # of ripgrep, which holds a whole line of each file it is at
MAX_LISTED = 200_000  # names taken up where all of them are needed
_FLOOD_BYTES = 1 << 20  # of unsorted lines that are kept before a sorted run is the better way
_BATCH = 128  # files handed to one run as descriptors
_FEW_FOUND = 20  # so few that what ignore rules keep back is worth counting

T = TypeVar("T")


class Ripgrep:
    """Makes searchers, each bound to one call's exclusions; lives as long as the workspace it searches."""

    def __init__(
        self,
        files: WorkspaceFiles,
        *,
        confined: bool | None = None,
        head_start_seconds: float = HEAD_START_SECONDS,
        count_seconds: float = COUNT_SECONDS,
        program: str | None = None,
        max_memory_bytes: int = MAX_MEMORY_BYTES,
    ) -> None:
        """Confine with Landlock where the kernel has it, and run the `rg` installed with us, unless told otherwise."""
        self.access = files.access
        self.threads = files.threads
        self.confined = landlock.abi() > 0 if confined is None else confined
        self.head_start_seconds = head_start_seconds
        self.count_seconds = count_seconds
        self.program = program
        self.max_memory_bytes = max_memory_bytes

    def bind(self, excluded: Sequence[Exclusion]) -> BoundSearcher:
        """Give the searcher of one call."""
        return BoundSearcher(self, tuple(excluded))

    def find_program(self) -> str:
        """Give the `rg` of this run, found at the first search."""
        self.program = self.program or find_program(root.path for root in self.access.roots.all if root.writable)
        return self.program

    def domain(self, root: Root, program: str) -> Domain | None:
        """Give the domain that searches of a root are run in, which stays as long as the workspace's threads do."""
        if not self.confined:
            return None
        try:
            status = os.stat(program)
        except OSError as error:
            raise not_started(error, program) from None
        key = (domain_of, root.path, status.st_dev, status.st_ino)  # a program that was replaced is another one
        return self.threads.keep(key, lambda: domain_of(self.access.roots.handle(root), program))


class BoundSearcher:
    """A `Searcher` of one call: all its work is done in threads."""

    __slots__ = ("_excluded", "_ripgrep")

    def __init__(self, ripgrep: Ripgrep, excluded: tuple[Exclusion, ...]) -> None:
        self._ripgrep = ripgrep
        self._excluded = excluded

    async def files(self, place: Place, query: FileQuery) -> FilesFound:
        """List files below a place."""
        return await self._search(place, query, lambda search: search.files(query))

    async def text(self, place: Place, query: TextQuery) -> TextFound:
        """Search in a file, or in the files below a place."""
        return await self._search(place, query, lambda search: search.text(query))

    async def _search(self, place: Place, query: FileQuery | TextQuery, work: Callable[[Search], T]) -> T:
        brake = Brake()
        ticket: Ticket[T] = Ticket()
        search = Search(self._ripgrep, place, self._excluded, query, brake)
        search.begin()
        try:
            self._ripgrep.threads.start(_carry, ticket, search, work)
        except BaseException:
            search.give_up()
            raise
        return await ticket.result(brake)


def _carry(ticket: Ticket[T], search: Search, work: Callable[[Search], T]) -> None:
    """Search and tell; a result is told before what was killed for it is taken apart, a failure after."""
    try:
        result = search.do(work)
    except BaseException as error:  # noqa: BLE001  # handed to whoever awaits
        reap(search.killed)
        tell([(ticket, None, error)])
    else:
        tell([(ticket, result, None)])
        reap(search.killed)


class Search:
    """One search, in its thread; its first run is started by the domain's, so that the two get ready at once."""

    _runs: Runs
    _ground: Ground
    _folders: Folders

    def __init__(
        self,
        ripgrep: Ripgrep,
        place: Place,
        excluded: tuple[Exclusion, ...],
        query: FileQuery | TextQuery,
        brake: Brake,
    ) -> None:
        self._ripgrep = ripgrep
        self._place = place
        self._excluded = excluded
        self._query = query
        self._deadline = time.monotonic() + query.timeout_seconds
        self._brake = brake
        self._folder = -1  # the place, or for a file its root
        self._program = ripgrep.find_program()
        self._domain = ripgrep.domain(place.root, self._program)
        self._ahead: Doing[Child] | None = None
        self.killed: list[Started] = []  # what was started, stopped and not yet reaped

    def begin(self) -> None:
        """Have the first run started, where there is a domain for that; what begins so is to be done or given up."""
        in_order = isinstance(self._query, TextQuery) or (self._query.sort == "path" and not self._query.folders)
        if self._domain is not None and in_order and self._place.kind is not PlaceKind.FILE:
            self._ahead = self._domain.do(self._start)

    def do(self, work: Callable[[Search], T]) -> T:
        """Open the place, work, and let it go."""
        ripgrep, first = self._ripgrep, None
        try:
            ahead, self._ahead = self._ahead, None
            if ahead is None:
                self._open()
            else:
                first = ahead.result()
            self._runs = Runs(self._ground, self._deadline, ripgrep.head_start_seconds, self._brake, self.killed, first)
            try:
                self._brake.check()
                return work(self)
            finally:
                self._runs.close()
        finally:
            if self._folder >= 0:
                self._folders.close()
                os.close(self._folder)
                self._folder = -1

    def give_up(self) -> None:
        """Stop what has begun."""
        self._brake.pulled = True
        with suppress(BaseException):
            self.do(lambda _search: None)
        reap(self.killed)

    def _start(self) -> Child:
        self._open()
        return start_here(self._ground, self._walk.in_order, LITTLE_AHEAD)

    def _open(self) -> None:
        access, place = self._ripgrep.access, self._place
        try:
            is_file = place.kind is PlaceKind.FILE
            self._folder = os.dup(access.roots.handle(place.root)) if is_file else access.open(place, FOLDER)
        except OSError as error:
            raise problem_of(error, place, "searched") from None
        self._folders = Folders(self._folder)
        self._ground = Ground(self._program, self._folder, self._domain, self._ripgrep.max_memory_bytes)

    @cached_property
    def _walk(self) -> Walk:
        return walk_of(self._place, self._query, self._excluded)

    # ── names ────────────────────────────────────────────────────────────────────────────────

    def files(self, query: FileQuery) -> FilesFound:
        """List, in the order asked for."""
        began = time.monotonic()
        if query.sort != "path" or query.folders:
            return self._all_files(query)
        keeper = self._keeper(query)
        fresh = partial(Names, keeper, limit=query.limit, after=query.after, folders=self._folders)
        names, _ = self._runs.in_order(self._walk, fresh, sorted_names, MAX_LISTED * 64)
        found = names.found
        quick = time.monotonic() - began < self._ripgrep.count_seconds
        count = query.respect_ignore and not names.more and not query.after and len(found) <= _FEW_FOUND and quick
        return FilesFound(
            found,
            more=names.more,
            total=None if names.more or query.after else len(found),
            ignored=self._ignored(query, len(found)) if count else None,
        )

    def _all_files(self, query: FileQuery) -> FilesFound:
        everything = Keeper(self._place, self._excluded, None, query.hidden)
        keeper = everything if query.folders else self._keeper(query)
        names = Names(keeper, limit=MAX_LISTED)
        self._runs.checked(self._runs.run(self._walk.in_any_order, names.feed))
        paths = names.found
        if query.folders:
            paths = self._with_folders(query, paths)
        if query.sort != "path":
            paths = ranked(paths, query.sort, self._folders)
        elif query.after:
            paths = [path for path in paths if _follows(path, query.after)]
        page = paths[query.skip : query.skip + query.limit]
        total = None if names.more or query.after else len(paths)
        return FilesFound(page, more=names.more or len(paths) > query.skip + len(page), total=total)

    def _with_folders(self, query: FileQuery, files: list[str]) -> list[str]:
        """Give the folders that hold files, or all paths where both are asked for, as deep as asked."""
        found = folders_of(files)
        if query.both:
            git = frozenset({".git"} if query.respect_ignore else ())
            found += empty_below(found, self._folders, hidden=query.hidden, skipped=git)
            found = sorted([*found, *files], key=lambda path: order(os.fsencode(path)))
        if query.depth is not None:
            found = [path for path in found if path.count("/") < query.depth]
        return self._keeper(query).keeps(really_there(found, self._folders))

    def _ignored(self, query: FileQuery, shown: int) -> int | None:
        """Count what ignore rules keep back, if that is quickly done."""
        from dataclasses import replace

        freely = replace(query, respect_ignore=False)
        argv = [*walk_of(self._place, freely, self._excluded).argv, *(["--glob=!.git"] * freely.hidden)]
        names = Names(self._keeper(query), limit=MAX_LISTED)
        until = time.monotonic() + self._ripgrep.count_seconds
        end = self._runs.run(argv, names.feed, until=lambda: until)
        return max(0, len(names.found) - shown) if end.finished else None

    # ── text ─────────────────────────────────────────────────────────────────────────────────

    def text(self, query: TextQuery) -> TextFound:
        """Search the way the mode asks for."""
        if self._place.kind is PlaceKind.FILE:
            return self._in_one_file(query)
        if query.mode != "content":
            return self._matching_files(query)
        keeper = self._keeper(query)
        fresh = partial(Lines, query, keeper, self._open_file)
        lines, end = self._runs.in_order(self._walk, fresh, sorted_lines, _FLOOD_BYTES)
        return lines.result(unreadable=unreadable(end), left_out=self._runs.left_out)

    def _in_one_file(self, query: TextQuery) -> TextFound:
        fd = self._opened_place()
        try:
            pieces = Pieces(fd) if has_overlong_line(fd) else None
            argv = [*of_text(query, query.mode), *of_given(query, [fd] if pieces is None else [])]
            if query.mode != "content":
                return TextFound([], [("", count) for _, count in self._counted(argv, [fd], pieces)])
            lines = OneFile(query, lambda _path: os.dup(fd), pieces)
            try:
                end = self._runs.checked(self._runs.run(argv, lines.feed, [fd], pieces=pieces))
            finally:
                lines.close()
            return lines.result(unreadable=unreadable(end))
        finally:
            os.close(fd)

    def _opened_place(self) -> int:
        try:
            fd = self._ripgrep.access.open(self._place, READ)
        except OSError as error:
            raise problem_of(error, self._place, "searched") from None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise not_a_file(self._place)
        return fd

    def _matching_files(self, query: TextQuery) -> TextFound:
        """Find files by a walk, then let only what a handle leads to decide and be counted."""
        keeper = self._keeper(query)
        limit = min(query.limit, query.max_files or query.limit)
        after = "" if query.after is None else query.after[0]
        fresh = partial(Names, keeper, limit=limit, after=after)
        names, _ = self._runs.in_order(self._walk, fresh, sorted_names, _FLOOD_BYTES)
        counts: list[tuple[str, int]] = []
        for start in range(0, len(names.found), _BATCH):
            counts += self._judged(query, names.found[start : start + _BATCH])
        return TextFound([], counts, more=names.more, changed=len(names.found) - len(counts))

    def _judged(self, query: TextQuery, paths: list[str]) -> list[tuple[str, int]]:
        with _all_open(paths, self._open_file) as opened:
            if not opened:
                return []
            argv = [*of_text(query, query.mode), *of_given(query, list(opened))]
            counts = dict(self._counted(argv, list(opened)))
        return [(path, counts[fd]) for fd, path in opened.items() if fd in counts]

    def _counted(self, argv: list[str], fds: list[int], pieces: Pieces | None = None) -> list[tuple[int, int]]:
        """Give descriptor (-1 for pieces) and number of matching lines (1 where only files are asked for)."""
        flood = Flood(_FLOOD_BYTES)
        self._runs.checked(self._runs.run(argv, flood.feed, fds, pieces=pieces))
        found = re.findall(rb"(?:/proc/self/fd/(\d+)|<stdin>)\0(?:(\d+)\n)?", flood.data)
        return [(int(fd or -1), int(count or 1)) for fd, count in found]

    # ── handles ──────────────────────────────────────────────────────────────────────────────

    def _keeper(self, query: FileQuery | TextQuery) -> Keeper:
        return Keeper(self._place, self._excluded, query.fits, query.hidden)

    def _open_file(self, path: str) -> int:
        return self._ripgrep.access.open_beneath(self._folder, path, READ, 0)


@contextmanager
def _all_open(paths: list[str], open_file: Callable[[str], int]) -> Iterator[dict[int, str]]:
    """Open what can be opened; closed again at the end."""
    opened: dict[int, str] = {}
    try:
        for path in paths:
            with suppress(OSError):
                opened[open_file(path)] = path
        yield opened
    finally:
        for fd in opened:
            os.close(fd)


def _follows(path: str, after: str) -> bool:
    return order(os.fsencode(path)) > order(os.fsencode(after))

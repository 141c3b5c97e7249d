"""The workspace of one call: what tools get. Opens only what was judged, records what it changes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from stat import S_IFREG

from handrail.errors import Code, Problem
from handrail.policy.patterns import excluded as find_excluded
from handrail.ports import Content, Entry, Listing, Stat
from handrail.ports.files import Former
from handrail.words import Change, Exclusion, Place, PlaceKind, Root, Touch, TouchKind
from handrail.workspace import folders, listing, reading, streaming, writing
from handrail.workspace.access import READ, Access, not_a_file, problem_of, refuse_read_only
from handrail.workspace.exclude import leaves_out
from handrail.workspace.group import Group
from handrail.workspace.near import near
from handrail.workspace.resolve import kind_of
from handrail.workspace.threads import Brake, Threads

_INLINE = reading.INLINE_BYTES
_IN_PLACE = 4  # changes of one call that the loop may wait for; then others have their turn
_IFMT = 0o170000
_CHANGING = (TouchKind.FS_WRITE, TouchKind.FS_DELETE)
Changes = list[Change]  # `list` is a method below
Names = list[str]
Shared = tuple[Access, Threads, Group]  # what all calls of a run have in common


class BoundFiles:
    """One call's workspace, with what it did; what most calls do not do stands in the class."""

    alone = False
    bytes_read = 0
    bytes_written = 0
    saw_whole: dict[str, str | None] | None = None  # shown path -> sha256, for the journal

    def __init__(self, shared: Shared, seen: dict[str, str], call_id: str, excluded: Sequence[Exclusion]) -> None:
        self._access, self._threads, self._group = shared
        self._seen = seen
        self._excluded = excluded
        self.call_id = call_id
        self.changes: Changes = []

    # ── reading ──

    async def read(self, place: Place, max_bytes: int) -> Content:
        """Read a regular file whole; FILE_TOO_LARGE over `max_bytes`, NOT_FOUND (with near names), NOT_A_FILE."""
        try:
            fd = self._access.open(place, READ)
        except OSError as error:
            raise self._problem(error, place, "read") from None
        try:
            status = os.fstat(fd)
            size = status.st_size
            if status.st_mode & _IFMT != S_IFREG:
                raise not_a_file(place, kind_of(status.st_mode))
            if size > max_bytes:
                raise reading.too_large(place, size, max_bytes)
            if size > _INLINE:
                data = await self._threads.run(Brake(), reading.read_on, fd, b"", max_bytes)
            else:
                data = os.read(fd, size + 1)
                if len(data) != size or not size:  # it grows, it shrinks, or its size says nothing as in /proc
                    data = reading.read_on(fd, data, max_bytes)
            if len(data) != size:
                status = os.fstat(fd)
                if len(data) > max_bytes:
                    raise reading.too_large(place, max(len(data), status.st_size), max_bytes)
        except OSError as error:
            raise self._problem(error, place, "read") from None
        finally:
            os.close(fd)
        self.bytes_read += len(data)
        return Content(data, status.st_mtime_ns)

    def open(self, place: Place) -> reading.FileStream:
        """Open a regular file to stream it, whatever its size; use it as `async with`."""
        return reading.FileStream(self._access, self._threads, place, self._count_read)

    def _count_read(self, size: int) -> None:
        self.bytes_read += size

    async def stat(self, place: Place) -> Stat:
        """Look at a thing itself; a link is not followed."""
        try:
            return reading.look(self._access, place)
        except OSError as error:
            raise self._problem(error, place, "read") from None

    async def list(
        self, place: Place, *, depth: int, hidden: bool, ignore: Sequence[str] = (), limit: int = 100_000
    ) -> Listing:
        """List what lies below, each folder followed by what lies in it; exclusions are counted as protected."""
        brake = Brake()
        base = f"{place.path}/" if place.path else ""
        leaves = leaves_out(self._excluded, place.root)
        walk = listing.Walk(base, hidden, listing.ignoring(ignore), limit, leaves, brake)
        try:
            folder = listing.open_folder(self._access, place)
            try:
                if not listing.walked_quickly(folder, walk, depth):
                    await self._threads.run(brake, listing.walked, folder, walk, depth)
            finally:
                os.close(folder)
            return Listing(tuple([Entry(*row) for row in walk.rows]), *walk.counts)
        except OSError as error:
            raise self._problem(error, place, "listed") from None
        except Problem as problem:
            raise self._with_near(problem, place) from None

    # ── changing ──

    async def write(
        self, place: Place, data: bytes, *, expected_sha256: str | None, mkdirs: bool = True, exclusive: bool = False
    ) -> Change:
        """Put `data` there atomically and durably, keeping mode bits and a pre-image; STALE_FILE and no change
        where something else than `expected_sha256` is found, also at the very moment of replacing."""
        refuse_read_only(place)
        order = writing.Order(data, expected_sha256, mkdirs, exclusive, ours=self._changed)
        brake = Brake()

        def record(change: Change) -> None:
            self._record(change)
            self.bytes_written += 0 if change.op == "mkdir" else len(data)

        job, group = writing.Writing(self._access, place, order, record, brake), self._group
        small = len(data) <= _INLINE and place.size <= _INLINE
        if small and self.alone and len(self.changes) < _IN_PLACE and group.quick(place.root):
            return group.write_timed(job)
        if small and place.kind is PlaceKind.MISSING:
            return await group.write(job)
        return await self._threads.run(brake, group.write_timed if self.alone else writing.write, job)

    def writing(
        self, place: Place, *, expected_sha256: str | None, mkdirs: bool = True, exclusive: bool = False
    ) -> streaming.FileSink:
        """Put there what comes piece by piece, as `write` does it; use it as `async with`."""
        refuse_read_only(place)
        order = writing.Order(b"", expected_sha256, mkdirs, exclusive, ours=self._changed)
        return streaming.FileSink(self._access, self._threads, place, order, self._record, self._count_written)

    def _count_written(self, size: int) -> None:
        self.bytes_written += size

    async def delete(self, place: Place, *, recursive: bool, expected_sha256: str | None = None) -> Changes:
        """Remove a file, link or folder, keeping pre-images."""
        from handrail.workspace import removing

        refuse_read_only(place)
        brake, first = Brake(), len(self.changes)
        work = partial(
            removing.delete,
            recursive=recursive,
            expected=expected_sha256,
            excluded=partial(self._is_excluded, place.root),
            record=self._record,
            brake=brake,
        )
        try:
            await self._threads.run(brake, work, self._access, place)
        except Problem as problem:
            raise self._with_near(problem, place) from None
        return self.changes[first:]

    async def move(self, source: Place, target: Place, *, overwrite: bool) -> Changes:
        """Rename, also between roots; never over something unless `overwrite`."""
        from handrail.workspace import moving

        refuse_read_only(source, target)
        brake, first = Brake(), len(self.changes)
        ours = {change.path for change in self.changes}
        work = partial(moving.move, overwrite=overwrite, ours=ours, record=self._record, brake=brake)
        try:
            await self._threads.run(brake, work, self._access, source, target)
        except Problem as problem:
            raise self._with_near(problem, source) from None
        return self.changes[first:]

    async def make_dir(self, place: Place) -> Changes:
        """Make a folder and its parents; one that is there already is no change."""
        refuse_read_only(place)
        first = len(self.changes)
        await self._threads.run(Brake(), folders.make, self._access, place, self._record)
        return self.changes[first:]

    async def restore(self, place: Place, change: Change, data: bytes | None) -> Changes:
        """Put back what a recorded change took away; STALE_FILE where it was changed since. Not for moves."""
        from handrail.workspace import restoring

        refuse_read_only(place)
        brake, first = Brake(), len(self.changes)
        await self._threads.run(brake, restoring.restore, self._access, place, change, data, self._record, brake)
        return self.changes[first:]

    async def keep(self, touches: Sequence[Touch]) -> Sequence[Former]:
        """Keep what stands where an agent may change something by itself, so that undo can put it back."""
        changed = [touch.place for touch in touches if touch.kind in _CHANGING and touch.place is not None]
        if not changed:
            return ()
        from handrail.workspace.formers import keep_all

        brake = Brake()
        return await self._threads.run(brake, keep_all, self._access, changed, brake)

    def _record(self, change: Change) -> None:
        """Take down what was done, at once: also when nobody waits for the call any more."""
        self.changes.append(change)
        if change.op in ("create", "replace") and change.after and self._seen.get(change.path) == change.before:
            self._know(change.path, change.after)  # who knew the old text whole knows the new one
        elif change.op in ("delete", "move"):
            self._know(change.path if change.op == "delete" else change.source or "", None)

    def record(self, changes: Sequence[Change]) -> None:
        """Take down what was changed for this call by others than its tool."""
        seen = self._seen
        known: dict[str, str | None] = {}
        for change in changes:
            if change.op == "delete" and change.path in seen:
                known[change.path] = None
                del seen[change.path]
            elif change.op == "replace" and change.after and seen.get(change.path) == change.before:
                known[change.path] = seen[change.path] = change.after
        self.changes.extend(changes)
        if known:
            self.saw_whole = {**(self.saw_whole or {}), **known}

    def _know(self, shown: str, sha256: str | None) -> None:
        """Remember what the whole file holds, or that it is not known any more."""
        if self._seen.get(shown) == sha256:
            return
        if sha256 is None:
            self._seen.pop(shown, None)
        else:
            self._seen[shown] = sha256
        self.saw_whole = {**(self.saw_whole or {}), shown: sha256}

    def _changed(self, place: Place) -> bool:
        if not self.changes:
            return False
        shown = place.shown
        return any(change.path == shown for change in self.changes)

    # ── what a call knows ──

    def saw(self, place: Place, sha256: str, *, whole: bool) -> None:
        """Remember that this run read the file (whole or in part) with this hash."""
        if whole and self._seen.get(shown := place.shown) != sha256:
            self._know(shown, sha256)

    def seen(self, place: Place) -> str | None:
        """The hash this run last read the whole file with."""
        return self._seen.get(place.shown)

    def near(self, place: Place) -> Names:
        """Names near a missing one, as a caller would ask for them; never an excluded one."""
        if self._is_excluded(place.root, place.path.rpartition("/")[0]):
            return []
        return near(self._access, place, leaves_out(self._excluded, place.root))

    def excluded(self, place: Place, below: str = "") -> bool:
        """Whether the call's verdict excludes what lies at `below` beneath `place`."""
        path = f"{place.path}/{below}".strip("/") if below else place.path
        return self._is_excluded(place.root, path)

    def _is_excluded(self, root: Root, path: str) -> bool:
        return bool(self._excluded) and find_excluded(self._excluded, root, path) is not None

    def _problem(self, error: OSError, place: Place, doing: str) -> Problem:
        return self._with_near(problem_of(error, place, doing), place)

    def _with_near(self, problem: Problem, place: Place) -> Problem:
        """Name what may have been meant, where nothing was found."""
        if problem.code is Code.NOT_FOUND and "near" not in problem.details and (names := self.near(place)):
            problem.details["near"] = names
            problem.message = f"{problem.message} Near: {', '.join(names)}"
        return problem

"""The workspace of a run: resolves, queues, binds. Composes the other modules and holds the handles."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from handrail.errors import Problem
from handrail.ports import Entry
from handrail.words import Exclusion, Place, PlaceKind, Root, Touch
from handrail.workspace import beneath, listing, reading
from handrail.workspace.access import Access, Images, problem_of
from handrail.workspace.bound import BoundFiles
from handrail.workspace.group import Group
from handrail.workspace.locks import Locks
from handrail.workspace.resolve import Resolver
from handrail.workspace.roots import Roots
from handrail.workspace.threads import Brake, Threads

MOST_ENTRIES = 100_000


class WorkspaceFiles:
    """The folders a run may touch, and the only way to the files in them."""

    def __init__(
        self,
        roots: Sequence[Root],
        *,
        allow_absolute: bool = False,
        images: Images | None = None,
        locks_dir: Path | None = None,
        opener: beneath.OpenerName = "auto",
        seen: dict[str, str] | None = None,
    ) -> None:
        handles = Roots(roots)
        open_beneath = beneath.choose(opener)
        self.roots = handles.all
        self.seen: dict[str, str] = {} if seen is None else seen
        self.access = Access(handles, open_beneath, images)
        self.threads = Threads()
        self._shared = (self.access, self.threads, Group(self.threads))
        self._handles = handles
        self.resolve = Resolver(handles, open_beneath, allow_absolute=allow_absolute).resolve
        self._locks = Locks(locks_dir)

    def covers(self, path: str) -> bool:
        """Whether an absolute path, as it is written, lies beneath a root."""
        clean = f"{os.path.normpath(path)}/"
        return any(clean.startswith(f"{root.path.rstrip('/')}/") for root in self.roots)

    def hold(self, touches: Sequence[Touch]) -> AbstractAsyncContextManager[None]:
        """Queue with other calls, of this and other processes, that change the same files."""
        return self._locks.hold(touches)

    def hold_keeping(self, roots: Sequence[Root]) -> AbstractAsyncContextManager[None]:
        """Queue with others, of this and other processes, who keep what programs changed in the same roots."""
        return self._locks.hold_names([f"{root.path}\0keeping" for root in roots])

    def bind(self, call_id: str, excluded: Sequence[Exclusion]) -> BoundFiles:
        """Give the workspace of one call."""
        return BoundFiles(self._shared, self.seen, call_id, excluded)

    def below(self, place: Place, limit: int = 10_000) -> tuple[str, ...] | None:
        """Paths beneath its root of all that lies below a folder; None when there are more than `limit`, or when
        some of it cannot be read or named."""
        try:
            found = listing.everything(self.access, place, limit + 1)
        except Problem:
            return None
        if len(found.entries) > limit or found.unreadable:
            return None
        base = f"{place.path}/" if place.path else ""
        return tuple([base + entry.path for entry in found.entries])

    def is_known(self, place: Place) -> bool:
        """Whether the run has read a file whole, and it is as it was then; of a large one that is not looked up."""
        seen = self.seen.get(place.shown)
        if seen is None or place.size > reading.INLINE_BYTES:
            return False
        try:
            fd, _ = reading.open_regular(self.access, place)
        except Problem:
            return False
        try:
            return reading.digest(fd, Brake())[0] == seen
        finally:
            os.close(fd)

    async def fingerprint(self, place: Place) -> str:
        """Hash what stands there: the bytes of a file, the target of a link, names and dates of a folder's all; ""
        when nothing does. What an approval was given for has changed when this has."""
        if place.kind is PlaceKind.DIRECTORY:
            found = await self.threads.run(Brake(), listing.everything, self.access, place, MOST_ENTRIES)
            return f"folder:{_digest_entries(found.entries)}"
        try:
            fd, status = reading.open_regular(self.access, place)
        except Problem:
            return self._fingerprint_other(place)
        try:
            if status.st_size <= reading.INLINE_BYTES:
                return reading.digest(fd, Brake())[0]
            brake = Brake()
            return (await self.threads.run(brake, reading.digest, fd, brake))[0]
        finally:
            os.close(fd)

    def _fingerprint_other(self, place: Place) -> str:
        try:
            found = reading.look(self.access, place)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            raise problem_of(error, place, "read") from None
        target = "" if found.target is None else hashlib.sha256(os.fsencode(found.target)).hexdigest()
        return f"{found.kind}:{target or found.inode}"

    async def close(self) -> None:
        """End the threads and let the handles go."""
        await self.threads.close()
        self.let_go()

    def let_go(self) -> None:
        """Let the handles go; for a workspace in which nothing was begun."""
        self._handles.close()


def _digest_entries(entries: Sequence[Entry]) -> str:
    found = hashlib.sha256()
    for entry in entries:
        found.update(f"{entry.path}\0{entry.kind}\0{entry.size}\0{entry.mtime_ns}\n".encode())
    return found.hexdigest()

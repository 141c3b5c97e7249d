"""Files: what stands on the disk, and the only way tools reach it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from handrail.words import Change, Exclusion, Finding, Place, PlaceKind, Touch, noun


@noun
class Stat:
    """What the file system says of an open or listed thing."""

    kind: PlaceKind
    size: int
    mtime_ns: int
    mode: int  # permission bits
    inode: int = 0
    links: int = 1
    target: str | None = None  # of a link
    atime_ns: int = 0
    birth_ns: int | None = None  # None: not asked for, or nobody knows


@noun
class Entry:
    """One thing found below a folder; `path` is relative to that folder."""

    path: str
    kind: PlaceKind
    size: int
    mtime_ns: int


@noun
class Listing:
    """What lies below a folder, and how many entries were not shown, by reason."""

    entries: tuple[Entry, ...]
    hidden: int = 0
    ignored: int = 0
    protected: int = 0
    unreadable: int = 0


@noun
class Content:
    """A file read whole, and when it was last changed."""

    data: bytes
    mtime_ns: int


@noun
class Former:
    """What stands where an agent may change something by itself, before it does."""

    path: str  # as shown
    kind: PlaceKind
    sha256: str | None = None  # of a regular file
    mode: int | None = None
    kept: bool = False  # undo can put it back


class Stream(Protocol):
    """An open file: read in chunks, each checked for cancelling."""

    stat: Stat

    async def read(self, size: int) -> bytes:
        """Give the next bytes, at most `size`; empty at the end."""

    async def read_at(self, offset: int, size: int) -> bytes:
        """Give bytes from a place without moving."""


class Sink(Protocol):
    """A file that is being written under a temporary name; without `commit` nothing of it stays."""

    async def write(self, data: bytes) -> None:
        """Add a piece."""

    async def commit(self) -> Change:
        """Give the file its name, whole and durable."""


class Workspace(Protocol):
    """The only way tools reach files: bound to one call, records what that call changes.

    Every method takes a `Place` that the kernel resolved and policy judged, opens exactly that
    beneath the root's handle and follows no link. A changed situation is a Problem
    (STALE_FILE, NOT_FOUND, PATH_OUTSIDE_ROOTS …), never a guess.
    """

    async def read(self, place: Place, max_bytes: int) -> Content:
        """Read a regular file whole; FILE_TOO_LARGE over `max_bytes`, NOT_FOUND (with near names), NOT_A_FILE."""

    def open(self, place: Place) -> AbstractAsyncContextManager[Stream]:
        """Open a regular file to stream it, whatever its size."""

    async def stat(self, place: Place) -> Stat:
        """Look at a thing itself; a link is not followed."""

    async def list(
        self, place: Place, *, depth: int, hidden: bool, ignore: Sequence[str] = (), limit: int = 100_000
    ) -> Listing:
        """List what lies below, sorted by path; the call's exclusions are left out and counted as protected."""

    async def write(
        self, place: Place, data: bytes, *, expected_sha256: str | None, mkdirs: bool = True, exclusive: bool = False
    ) -> Change:
        """Put `data` there atomically and durably, keeping mode bits and a pre-image.

        `expected_sha256` is the hash of what must be there now ("" for: nothing is there); where
        something else is found, also at the very moment of replacing, STALE_FILE and nothing changes.
        None replaces whatever is there. `exclusive` demands that nothing is there (ALREADY_EXISTS).
        """

    def writing(
        self, place: Place, *, expected_sha256: str | None, mkdirs: bool = True, exclusive: bool = False
    ) -> AbstractAsyncContextManager[Sink]:
        """Put there what comes piece by piece; like `write`, at the moment of `commit` and not before."""

    async def delete(self, place: Place, *, recursive: bool, expected_sha256: str | None = None) -> Sequence[Change]:
        """Remove a file, link or folder, keeping pre-images."""

    async def move(self, source: Place, target: Place, *, overwrite: bool) -> Sequence[Change]:
        """Rename, also between roots; never over something unless `overwrite`."""

    async def make_dir(self, place: Place) -> Sequence[Change]:
        """Make a folder and its parents."""

    async def restore(self, place: Place, change: Change, data: bytes | None) -> Sequence[Change]:
        """Take one recorded change back (`data`: the content before it); STALE_FILE where it was changed since.

        Not for moves: those are undone by moving back.
        """

    def saw(self, place: Place, sha256: str, *, whole: bool) -> None:
        """Remember that this run read the file (whole or in part) with this hash."""

    def seen(self, place: Place) -> str | None:
        """The hash this run last read the whole file with."""

    def near(self, place: Place) -> Sequence[str]:
        """Names near a missing one, as a caller would ask for them; never an excluded one."""

    def excluded(self, place: Place, below: str = "") -> bool:
        """Whether the call's verdict excludes what lies at `below` beneath `place`."""


class Files(Protocol):
    """The workspace as the kernel sees it: resolves, queues, binds."""

    def resolve(self, path: str, *, follow: bool = True) -> Place:
        """Give the canonical place beneath a root, existing or not.

        Raises Problem INVALID_ARGS (unusable text) or PATH_OUTSIDE_ROOTS.
        """

    def covers(self, path: str) -> bool:
        """Whether an absolute path, as it is written, lies beneath a root."""

    def hold(self, touches: Sequence[Touch]) -> AbstractAsyncContextManager[None]:
        """Queue with other calls, of this and other processes, that change the same files."""

    def bind(self, call_id: str, excluded: Sequence[Exclusion]) -> BoundWorkspace:
        """Give the workspace of one call."""

    def below(self, place: Place, limit: int = 10_000) -> tuple[str, ...] | None:
        """Paths beneath its root of all that lies below a folder; None when there are more than `limit`."""

    def is_known(self, place: Place) -> bool:
        """Whether the run has read a file whole, and it is as it was then; of a large one that is not looked up."""

    async def fingerprint(self, place: Place) -> str:
        """Hash what stands at a place for an approval's digest: sha256 of a file, "" when nothing is there."""


class BoundWorkspace(Workspace, Protocol):
    """A call's workspace with what it did, for the kernel to record."""

    changes: list[Change]
    saw_whole: dict[str, str | None] | None  # shown path -> sha256 of what this call knows whole; None: no more
    bytes_read: int
    bytes_written: int

    def record(self, changes: Sequence[Change]) -> None:
        """Take down what was changed for this call by others than its tool."""

    async def keep(self, touches: Sequence[Touch]) -> Sequence[Former]:
        """Keep what stands where an agent may change something by itself, so that undo can put it back.

        A folder that is missing on the way comes before what would be made in it.
        """

    alone: bool  # nobody else waits: a change may hold up the loop for as long as a quick disk takes


Sort = Callable[[Sequence[Touch]], tuple[Sequence[Touch], Sequence[Finding]]]
Reach = Callable[[Touch], Awaitable[bool]]
# How a review names paths that it must ask for, whatever rules allow; both are shown to the person.
CONTESTED = "changed by others meanwhile"
LINKS_OUT = "links that lead out of the roots"
REPOSITORIES = "new git repositories"
UNSHOWN = "hidden in the diff as secrets"  # paths; nobody is asked for those that decide which programs run
Review = Callable[[Sequence[Touch], str, Any, Mapping[str, Sequence[str]]], Awaitable[Sequence[Touch]]]


@noun
class Work:
    """What one call works with: from it the kernel makes the ports that a tool asks for."""

    call_id: str
    files: BoundWorkspace
    touches: Sequence[Touch]
    excluded: Sequence[Exclusion]
    locked: Sequence[Exclusion] = ()
    judge: Callable[[Touch], None] | None = None  # judges a touch found on the way (a redirect); raises what denies it
    key: str | None = None  # the call's idempotency key
    review: Review | None = None  # judges what programs changed, once that is known: touches, their diff,
    # what an approval of them is bound to, and how the program ended, for a person to see;
    # gives the resolved touches, raises what denies them or asks for approval
    reach: Reach | None = None  # judges a host that a program reaches for, and asks a person where policy asks; gives
    # whether one was asked, raises what denies it
    sort: Sort | None = None  # judges each change that programs made by itself; None: all are judged together
    direct: bool = False  # its programs change the workspace itself, also where others work on a layer

"""What kernel and tools need from outside, as protocols. No implementation belongs here.

Longer than 400 lines because all of them stand in one place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from handrail.errors import Fault
from handrail.words import Change, Exclusion, Grant, Outcome, Place, PlaceKind, Ref, Risk, Scope, Touch, noun

if TYPE_CHECKING:
    from handrail.queries import FileQuery, FilesFound, TextFound, TextQuery

# ── files ────────────────────────────────────────────────────────────────────────────────────


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


class Stream(Protocol):
    """An open file: read in chunks, each checked for cancelling."""

    stat: Stat

    async def read(self, size: int) -> bytes:
        """Give the next bytes, at most `size`; empty at the end."""

    async def read_at(self, offset: int, size: int) -> bytes:
        """Give bytes from a place without moving."""


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

    def hold(self, touches: Sequence[Touch]) -> AbstractAsyncContextManager[None]:
        """Queue with other calls, of this and other processes, that change the same files."""

    def bind(self, call_id: str, excluded: Sequence[Exclusion]) -> BoundWorkspace:
        """Give the workspace of one call."""

    def below(self, place: Place, limit: int = 10_000) -> tuple[str, ...] | None:
        """Paths beneath its root of all that lies below a folder; None when there are more than `limit`."""

    async def fingerprint(self, place: Place) -> str:
        """Hash what stands at a place for an approval's digest: sha256 of a file, "" when nothing is there."""


class BoundWorkspace(Workspace, Protocol):
    """A call's workspace with what it did, for the kernel to record."""

    changes: list[Change]
    saw_whole: dict[str, str | None] | None  # shown path -> sha256 of what this call knows whole; None: no more
    bytes_read: int
    bytes_written: int


@noun
class Work:
    """What one call works with: from it the kernel makes the ports that a tool asks for."""

    call_id: str
    files: BoundWorkspace
    touches: Sequence[Touch]
    excluded: Sequence[Exclusion]


# ── search ───────────────────────────────────────────────────────────────────────────────────


class Searcher(Protocol):
    """ripgrep on a vetted handle, confined to the root; bound to one call's exclusions.

    Nothing excluded is named, and every line shown was read through a handle that follows no link. Raises Problem:
    INVALID_ARGS with the engine's own message, TIMEOUT, IO_ERROR. What was started is gone when a method returns,
    however it returns.
    """

    async def files(self, place: Place, query: FileQuery) -> FilesFound:
        """List files below a place."""

    async def text(self, place: Place, query: TextQuery) -> TextFound:
        """Search in a file, or in the files below a place."""


# ── what a tool may see or show ──────────────────────────────────────────────────────────────


class Secrets(Protocol):
    """Redaction for tools that show part of a whole."""

    def text(self, text: str) -> str:
        """Hide what must be hidden."""

    def excerpt(self, before: str, text: str, after: str = "") -> str:
        """Hide in `text` what would be hidden in the whole around it."""


class Screen(Protocol):
    """Where a person looks."""

    def show(self, fields: Mapping[str, Any]) -> None:
        """Show one display event."""


class Clock(Protocol):
    """Time, passed in."""

    def now(self) -> float:
        """Wall clock, seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that only grow, for deadlines."""


class Places:
    """The resolved places of a call whose tool states its own touches, by the path as asked."""

    __slots__ = ("_by_target",)

    def __init__(self, touches: Iterable[Touch]) -> None:
        self._by_target = {touch.target: touch.place for touch in touches if touch.place is not None}

    def __getitem__(self, target: str) -> Place:
        return self._by_target[target]

    def of(self, value: Any) -> Any:
        """The places of an argument's paths, in the shape that the argument has."""
        if isinstance(value, list):
            return [self._by_target[item] for item in value]
        return self._by_target.get(value)


@noun
class Limits:
    """What a tool that cuts by itself must keep to."""

    max_output_lines: int = 2000
    max_output_bytes: int = 51200
    max_line_chars: int = 2000
    max_read_bytes: int = 5 * 1024 * 1024


class Archive(Protocol):
    """Former contents of files, kept with the run that changed them."""

    async def load(self, run: str, sha256: str) -> bytes:
        """Give one; NOT_FOUND when it was not kept."""


class Spill(Protocol):
    """Where the whole of a cut output goes, redacted by its caller."""

    def put(self, text: str, name: str = "") -> Ref:
        """Keep a text in the run's observations and name it."""


# ── approvals ────────────────────────────────────────────────────────────────────────────────


@noun
class Request:
    """What a person is asked: everything needed to decide, and to replay exactly this call."""

    id: str
    tool: str
    version: str
    risk: Risk
    reason: str
    params: Mapping[str, Any]  # as they will run, values redacted
    impact: Mapping[str, Sequence[str]]  # reads, writes, deletes, runs, reaches
    digest: str
    policy_digest: str
    created: float
    expires: float
    run_id: str
    call_id: str
    workspace: str
    caller: str
    max_scope: Scope
    touches: tuple[tuple[str, str], ...] = ()
    diff: str = ""  # what would change in files, redacted
    replay: Mapping[str, Any] | None = None  # {"command": …, "request": …}

    def to_dict(self) -> dict[str, Any]:
        """Give the request as plain JSON values: what `details` of APPROVAL_REQUIRED and the ledger hold."""
        return {
            "id": self.id,
            "tool": self.tool,
            "version": self.version,
            "risk": self.risk.value,
            "reason": self.reason,
            "params": dict(self.params),
            "impact": {kind: list(targets) for kind, targets in self.impact.items()},
            "digest": self.digest,
            "policy_digest": self.policy_digest,
            "created": self.created,
            "expires": self.expires,
            "run_id": self.run_id,
            "call_id": self.call_id,
            "workspace": self.workspace,
            "caller": self.caller,
            "max_scope": self.max_scope.word,
            "touches": [list(pair) for pair in self.touches],
            "diff": self.diff,
            "replay": None if self.replay is None else dict(self.replay),
        }


@noun
class Reply:
    """What came back from a person, or from nobody."""

    state: str  # granted | denied | pending | expired
    scope: Scope = Scope.CALL
    by: str = ""
    advice: str = ""  # to the model, with a refusal
    uses: int | None = None
    expires: float | None = None
    patterns: tuple[tuple[str, str], ...] | None = None  # wider targets the person confirmed
    at: float = 0.0  # when; the ledger fills it in


class Recorded(NamedTuple):
    """A request as the ledger holds it."""

    request: Request
    state: str  # pending | granted | denied | expired | used
    reply: Reply | None


class Answered(Fault):
    """An answer came too late: somebody answered before, or the request expired."""

    def __init__(self, request_id: str, state: str, by: str, at: float) -> None:
        who = f" by {by}" if by else ""
        super().__init__(f"request {request_id} is {state} already{who}; the first answer counts")
        self.request_id = request_id
        self.state = state  # granted | denied | expired | used
        self.by = by
        self.at = at


class Approver(Protocol):
    """A way to ask a person. One that asks nobody says so with `asks = False`."""

    async def ask(self, request: Request) -> Reply:
        """Ask and wait; `pending` where nobody can be asked now."""


class Ledger(Protocol):
    """Approvals and grants: the authority across processes. Every change is compare-and-set.

    A ledger that cannot be read or written raises Problem APPROVAL_DENIED: it never says "granted".
    """

    def request(self, request: Request, args: Mapping[str, Any]) -> Request:
        """Put a request on record, or give the pending or granted one with the same digest.

        An empty `id` and a missing `replay` are filled in.
        """

    def find(self, request_id: str) -> Recorded:
        """Give a request, its state and its answer; KeyError when unknown."""

    def answer(self, request_id: str, reply: Reply) -> Grant | None:
        """Answer a pending request; the first answer counts, a later one raises `Answered`.

        A scope wider than the request's `max_scope` is narrowed to it; the grant says what was given.
        """

    def granted(self, digest: str, now: float) -> Grant | None:
        """The unused grant for exactly this call, whatever its scope."""

    def grants(self, run_id: str, now: float, workspace: str = "") -> tuple[Grant, ...]:
        """Grants of wider scope in force: those of the run, and those of the session in this workspace.

        Targets are relative to a workspace and run names may be given twice, so without `workspace`
        no session grant is in force.
        """

    def use(self, grant: Grant, now: float) -> bool:
        """Consume one use; False when it is used up, expired or revoked."""


class SharedLedger(Ledger, Protocol):
    """What approvers and front ends need of a ledger beyond the kernel."""

    async def wait(self, request_id: str, *, until: float | None = None, clock: Clock | None = None) -> Reply:
        """Wait until the request is answered here or elsewhere, or expires; `pending` once `until` has passed."""

    def args(self, request_id: str) -> dict[str, Any]:
        """The raw arguments, to replay the call; APPROVAL_DENIED once they are erased, KeyError when unknown."""

    def pending(self, now: float) -> tuple[Request, ...]:
        """Requests that wait for an answer, oldest first."""

    def list(self, states: Sequence[str] = ()) -> tuple[Recorded, ...]:
        """Requests in these states (none given: in any), oldest first."""

    def revoke(self, grant_id: str, by: str = "") -> bool:
        """Take a grant back, by its own id or its request's; False when there was none left to take."""

    def expire(self, now: float) -> int:
        """Close what has run out and erase its arguments; how many requests that were."""

    def changed(self) -> bool:
        """Whether anything was written since this was last asked; cheap enough to ask every 20 ms."""


# ── journal ──────────────────────────────────────────────────────────────────────────────────


class Journal(Protocol):
    """The truth of what happened. Raises Problem JOURNAL_UNAVAILABLE when it cannot write."""

    run_id: str

    def append(self, kind: str, call_id: str | None, fields: Mapping[str, Any]) -> None:
        """Add one event to the chain; it is in the file after the next `flush` or `durable`."""

    def flush(self) -> None:
        """Hand everything appended to the operating system: survives the death of this process."""

    async def durable(self) -> None:
        """Wait until everything appended so far survives a power loss; shared with others who wait."""


class Keys(Protocol):
    """Idempotency keys and caller-given call ids of a run."""

    async def join(self, key: str, call_id: str, args_digest: str) -> Outcome | None:
        """Become the first with this key (None), or give the outcome of the first; INVALID_ARGS for other arguments."""

    def store(self, key: str, call_id: str, outcome: Outcome) -> None:
        """Keep the outcome of a call that started."""

    def release(self, key: str, call_id: str) -> None:
        """Let those who wait for this key go on."""

    def claim_id(self, call_id: str) -> bool:
        """Take a caller's call id; False when it was used before."""


Cancelled = Callable[[], bool]
Progress = Callable[[int, int], None]
Sleep = Callable[[float], Awaitable[None]]

"""The nouns every layer speaks: plain data, no behaviour beyond naming itself, no I/O.

Longer than 500 lines because all of them stand in one place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar, dataclass_transform

T = TypeVar("T")
C = TypeVar("C")

if TYPE_CHECKING:

    @dataclass_transform(frozen_default=True, field_specifiers=(field,))
    def noun(cls: type[C]) -> type[C]:
        """Make a frozen slotted dataclass."""

else:

    def noun(cls):
        """Make a slotted dataclass that the type checker holds frozen.

        The runtime guard of `frozen=True` triples the cost of making an instance, and a call makes a dozen. What
        `dataclass` would generate anew for each class is shared but for `__init__`, so that the classes themselves
        are three times as quick to make: starting up makes a hundred.
        """
        made = dataclass(slots=True, eq=False, repr=False)(cls)
        names = made.__match_args__
        made.values_of = attrgetter(*names) if len(names) > 1 else _few(names)
        made.__eq__, made.__hash__, made.__repr__ = _equal, _hashed, _shown
        return made

    def _few(names):
        return lambda self: tuple(getattr(self, name) for name in names)

    def _equal(self, other):
        if other.__class__ is not self.__class__:
            return NotImplemented
        values = self.__class__.values_of
        return values(self) == values(other)

    def _hashed(self):
        return hash(self.__class__.values_of(self))

    def _shown(self):
        pairs = zip(self.__match_args__, self.__class__.values_of(self), strict=True)
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"


Json = Any  # a JSON value: None, bool, int, float, str, list or dict of the same


class TouchKind(StrEnum):
    """What kind of thing a call does to the world."""

    FS_READ = "fs.read"
    FS_WRITE = "fs.write"
    FS_DELETE = "fs.delete"
    PROC_EXEC = "proc.exec"
    NET_CONNECT = "net.connect"
    GIT_WRITE = "git.write"
    MEMORY_WRITE = "memory.write"
    TOOL_USE = "tool.use"


class Decision(IntEnum):
    """Ordered so that merging is `max`."""

    ALLOW = 0
    ASK = 1  # a person is asked
    DENY = 2

    word: str  # as settings and journals name it


class Risk(StrEnum):
    """How much harm a tool can do; it chooses the default decision."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Scope(IntEnum):
    """How far a grant reaches; ordered so that limiting is `min`."""

    NONE = 0
    CALL = 1  # exactly this call, once
    RUN = 2  # the same tool and targets for the rest of the run
    SESSION = 3  # likewise for later runs in this workspace, until it expires
    ALWAYS = 4  # a standing grant for this workspace: until it is removed, or expires where the person said when

    word: str  # as settings and journals name it


for _item in (*Decision, *Scope):  # a property would look the name up each time
    _item.word = _item.name.lower()


class Mode(StrEnum):
    """Whether a person can be asked."""

    INTERACTIVE = "interactive"
    HEADLESS = "headless"


class Status(StrEnum):
    """How a call ended, in one word."""

    OK = "ok"  # it did what was asked
    FAILED = "failed"  # the arguments, the tool or the world were wrong
    DENIED = "denied"  # policy, a budget or a person said no
    PENDING = "pending"  # waits for a person; the request is in `error.details["approval"]`


class PlaceKind(StrEnum):
    """What stands at a path."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"
    MISSING = "missing"


class How(StrEnum):
    """The manner of a write or delete, where the default decision depends on it."""

    PLAIN = ""
    REPLACE = "replace"  # a whole file takes the place of whatever is there
    EDIT = "edit"  # part of a file changes, or something is appended
    MOVE = "move"  # the source of a move: what leaves stands at the target afterwards
    UNDO = "undo"  # puts back what a recorded call changed
    LOAD = "load"  # makes a skill the active one of the run
    REPOSITORY = "repository"  # part of a git repository that a program made and that makes git run no programs
    MAKE = "make"  # a folder comes to be where none is; one that is there stays as it is
    BACKGROUND = "background"  # a program that goes on without its call


class Effect(StrEnum):
    """What a change of a program is, where the decision on keeping it depends on that."""

    NONE = ""
    CACHE = "cache"  # lies in a cache that is made again, and git does not track it
    GIT_RECORD = "git-record"  # what git itself writes when it commits: objects, branches, the index
    HIDES = "hides"  # an index of git that no longer shows changes of some files
    LOST = "lost"  # its former content cannot be kept
    ON_PATH = "on-path"  # a program in a folder where the person's shell looks for commands


@noun
class Root:
    """One folder that a run may touch."""

    name: str  # "workspace", "run", or the folder's own path
    path: str  # absolute and canonical
    writable: bool

    def shown(self, path: str) -> str:
        """Write a path beneath this root the way a caller would ask for it."""
        if self.name == "workspace":
            return path or "."
        if not path:
            return self.name if self.name.startswith("run:") else self.path
        return f"{self.name}/{path}" if self.name.startswith("run:") else f"{self.path.rstrip('/')}/{path}"


@noun
class Place:
    """A resolved path: canonical beneath its root, and what stood there when it was resolved."""

    root: Root  # the folder it lies beneath: `name`, `path`, `writable`
    path: str  # canonical, relative to the root, "" for the root itself
    kind: PlaceKind  # file | directory | link | other | missing
    asked: str = ""  # as the caller wrote it
    size: int = 0
    mtime_ns: int = 0
    inode: int = 0
    links: int = 1
    below: frozenset[str] | None = None  # what may be taken away with it: all that lay below when that was judged

    @property
    def shown(self) -> str:
        """The path as a caller would ask for it."""
        root, path = self.root, self.path
        return path if path and root.name == "workspace" else root.shown(path)

    @property
    def absolute(self) -> str:
        """The path in the machine's own terms; for people and for matching, never for opening."""
        return f"{self.root.path.rstrip('/')}/{self.path}" if self.path else self.root.path


@noun
class SkillPart:
    """A skill that a call loads, or a script of one that it runs; completed when the call is resolved."""

    id: str
    resource: str = ""  # relative to the skill's folder
    digest: str = ""  # of the whole skill as it stands; empty: there is none that can be used
    tools: frozenset[str] | None = frozenset()  # what may be called once it is active; None: it does not narrow


@noun
class Touch:
    """One thing a call will do to the world: the unit that policy judges."""

    kind: TouchKind
    target: str  # path as asked, command words, `host:port`, or a name
    deep: bool = False  # reaches all that lies below
    how: How = How.PLAIN
    follow: bool = True  # a link at the end of the path is followed
    confirmed: bool = True  # False: the call lacks the `confirm` its tool demands
    place: Place | None = None  # filled by workspace.resolve for fs touches
    below: tuple[str, ...] | None = None  # what lies below a folder that is deleted or moved, as paths beneath its root
    words: tuple[str, ...] = ()  # the argument list of a proc.exec touch
    unsafe: bool = False  # net.connect: neither GET nor HEAD; proc.exec: an agent runs it itself, outside the sandbox;
    # others: not known to be harmless
    doubt: str = ""  # proc.exec: why the command cannot be fully understood; no rule covers it that allows words
    skill: SkillPart | None = None  # what it loads or runs of a skill
    private: bool = False  # of a program, where only its sandbox sees it: no touch at all unless it lies beneath a root
    known: bool = False  # fs.write: the run has read the file whole
    effect: Effect = Effect.NONE  # of a change that a program made

    @property
    def shown(self) -> str:
        """The target after resolving, as people and rules know it."""
        return self.place.shown if self.place is not None else self.target


@noun
class Finding:
    """What one source of policy says about one touch."""

    source: str  # builtin | confine | enablement | skills | permissions | rules | defaults | grants
    rule: str  # "builtin.key-material", "rules.3", "defaults.workspace-read"
    decision: Decision
    why: str = ""  # for a person to read
    where: str = ""  # "handrail.toml:14"
    touch: int = 0  # index into the call's touches
    code: str = "POLICY_DENIED"  # the error code if this finding decides


@noun
class Verdict:
    """The strictest finding over all touches, and all findings."""

    decision: Decision
    findings: tuple[Finding, ...]  # all that was said, not only what decided
    excluded: tuple[Exclusion, ...] = ()  # what a deep read must leave out
    locked: tuple[Exclusion, ...] = ()  # what a program may see but not change
    scope: Scope = Scope.CALL  # the widest scope that may be granted
    grant: str | None = None  # id of the grant that lifted an ask
    direct: bool = False  # its programs change the workspace itself, also where others work on a layer
    border: bool = False  # each change that its programs make is judged by itself

    @property
    def deciding(self) -> Finding:
        """The finding that made the decision: the first of the strictest."""
        return max(self.findings, key=lambda finding: finding.decision)


@noun
class Exclusion:
    """What a deep read must leave out: a glob beneath a root, and the rule that says so."""

    pattern: str
    rule: str
    root: str = ""  # name of the root; empty: every root
    except_for: tuple[str, ...] = ()
    any_case: bool = True


@noun
class Grant:
    """An approval on record."""

    id: str
    request: str  # id of the request it answers
    scope: Scope
    tool: str
    digest: str  # of the exact call; decides for scope `call`
    touches: tuple[tuple[str, str], ...]  # (kind, target) pairs covered by wider scopes; targets may be patterns
    run_id: str
    expires: float  # wall clock
    uses_left: int | None = None  # None: as often as its scope allows
    given_by: str = ""  # who said yes
    given_at: float = 0.0  # wall clock


@noun
class Call:
    """One request to use a tool."""

    tool: str
    args: Mapping[str, Json]  # as the caller wrote them
    id: str = ""  # empty: the kernel gives one
    version: str | None = None  # of the tool that the arguments are written for
    caller: str = "python"  # the front end, as rules name it
    trace_id: str = ""  # joins calls in the journal; empty: the run's own
    idempotency_key: str | None = None  # the same key in the same run gives the first outcome
    skill: str | None = None  # under which it is judged, besides the active one
    permissions: frozenset[str] | None = None  # the kinds of touch it limits itself to
    approval: str | None = None  # replay of a request on record
    parent: str | None = None  # the call on whose behalf it is made
    dialect: str = "native"  # whose names and arguments these are
    agent_call: str = ""  # the id under which the agent that carries the call out knows it
    agent_asks: bool = False  # that agent puts a question to its own person; counts only where it carries the call out
    client: str = ""  # the program that makes it, as it names itself


@noun
class Evidence:
    """What proves an outcome."""

    type: str  # file | process | http | tool
    ref: str  # the path, command or URL, or the call itself
    summary: str  # what was done with it
    sha256: str | None = None  # of the content that was read, written or received


@noun
class Ref:
    """A file in the run's folder that holds what an outcome could not."""

    ref: str  # a path that `read_file` takes
    sha256: str
    bytes: int


@noun
class Change:
    """One thing a call changed, with what undo needs."""

    path: str  # as shown
    op: str  # create | replace | delete | move | mkdir | rmdir
    before: str | None = None  # sha256 of what was there
    after: str | None = None  # sha256 of what is there now
    mode: int | None = None  # permission bits before
    source: str | None = None  # where a moved thing came from
    link: str | None = None  # target of a deleted or moved link
    kept: bool = True  # the pre-image is on record


@noun
class Truncation:
    """What was shown, of how much, and how to get the rest."""

    by: str  # lines | bytes | entries
    shown: int  # how many of them `content` holds
    total: int | None  # of how many; None where nobody counted
    next_cursor: str | None = None  # for the tool's `cursor` argument; `read_file`: the next call's arguments as JSON
    ref: str | None = None  # where the whole is kept; `read_file` takes it as a path


@noun
class Answer(Generic[T]):
    """What a tool hands back when its data alone does not say enough."""

    data: T  # for programs; checked against the tool's return type
    summary: str = ""  # one line for people and logs
    content: str | None = None  # what the model reads; default: the data as JSON
    evidence: tuple[Evidence, ...] = ()  # default: the call itself and the hash of its content
    truncation: Truncation | None = None  # where the tool itself cut what it shows
    refs: tuple[Ref, ...] = ()  # from `Spill`: where the rest is
    commands: tuple[str, ...] = ()  # the programs it ran
    warnings: tuple[str, ...] = ()  # for the caller
    exit_code: int | None = None  # of the program it ran


@noun
class ErrorInfo:
    """A problem as an outcome tells it."""

    code: str  # one of `Code`
    error_class: str  # validation | policy | tool_exec | timeout | unknown
    message: str  # what happened and how to mend it
    details: Mapping[str, Json] = field(default_factory=dict)  # facts by name, as the code has them
    retryable: bool = False  # the same call may work later
    next_call: Mapping[str, Json] | None = None  # `tool` and `args` of a call that would help


@noun
class Outcome:
    """The one result envelope of every call."""

    call_id: str  # under it the journal has the call, and `Runtime.undo` takes it back
    tool: str  # our name of it
    version: str  # of the tool
    status: Status  # how it ended; `ok` is short for `Status.OK`
    summary: str  # one line for people and logs
    content: str  # what the model reads: redacted, bounded, an error with how to mend it
    data: Json  # the same for programs, as JSON values; None on error, or where it is too large and in `refs`
    error: ErrorInfo | None  # what went wrong; None where the call did what was asked
    evidence: tuple[Evidence, ...]  # what proves it
    changes: tuple[Change, ...] = ()  # what it changed, in order, also where it failed half-way
    commands: tuple[str, ...] = ()  # the programs it ran
    refs: tuple[Ref, ...] = ()  # files in the run's folder that hold what did not fit
    truncation: Truncation | None = None  # what was left out and how to get it; None where all is shown
    redacted: bool = False  # something in it was hidden
    decision: str = "allow"  # what policy said: allow | ask | deny; "ask" where a person approved it
    scope: str = "none"  # of the grant that let it run: none | call | run | session | always
    rules: tuple[str, ...] = ()  # all that said something about it
    warnings: tuple[str, ...] = ()  # what was mended in the arguments, what cannot be undone
    duration_ms: float = 0.0  # from call to outcome
    asked: str = ""  # the tool's name as the caller wrote it, in a dialect

    @property
    def ok(self) -> bool:
        """Whether the tool did what was asked."""
        return self.status is Status.OK

    def to(self, dialect: str = "native") -> dict[str, Json]:
        """Give a dialect's envelope as plain JSON values; Misuse names the dialects there are."""
        if dialect == "native":
            return self.to_dict()
        # By name, since dialects stand above words.
        told: dict[str, Json] = import_module("handrail.dialects").get(dialect).envelope(self)
        return told

    def to_dict(self) -> dict[str, Json]:
        """Give all of it as plain JSON values: the envelope that `handrail call --json` prints."""
        return {
            "call_id": self.call_id,
            "tool": self.tool,
            "version": self.version,
            "status": self.status.value,
            "ok": self.ok,
            "summary": self.summary,
            "content": self.content,
            "data": self.data,
            "error": None if self.error is None else _error(self.error),
            "artifacts": {
                "files_changed": [change.path for change in self.changes],
                "commands_run": list(self.commands),
                "refs": [{"ref": ref.ref, "sha256": ref.sha256, "bytes": ref.bytes} for ref in self.refs],
            },
            "evidence": [
                {"type": item.type, "ref": item.ref, "summary": item.summary, "sha256": item.sha256}
                for item in self.evidence
            ],
            "truncation": None if self.truncation is None else _truncation(self.truncation),
            "redacted": self.redacted,
            "policy": {"decision": self.decision, "scope": self.scope, "rules": list(self.rules)},
            "warnings": list(self.warnings),
            "duration_ms": self.duration_ms,
        }


def _error(error: ErrorInfo) -> dict[str, Json]:
    return {
        "code": error.code,
        "class": error.error_class,
        "message": error.message,
        "details": dict(error.details),
        "retryable": error.retryable,
        "next_call": None if error.next_call is None else dict(error.next_call),
    }


def _truncation(cut: Truncation) -> dict[str, Json]:
    return {
        "by": cut.by,
        "shown": cut.shown,
        "total": cut.total,
        "next_cursor": cut.next_cursor,
        "ref": cut.ref,
    }


# A touch of these kinds alone changes nothing in the world.
READ_ONLY = frozenset({TouchKind.TOOL_USE, TouchKind.FS_READ})


def changes_world(touch: Touch) -> bool:
    """Whether a call with this touch must be durable in the journal before it acts."""
    if touch.kind is TouchKind.NET_CONNECT:
        return touch.unsafe
    return touch.kind not in READ_ONLY or touch.unsafe or touch.how is How.LOAD

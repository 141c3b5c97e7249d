"""A plan as a specification for the fork server: tier A, in namespaces of its own."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from threading import Lock
from time import monotonic
from typing import Any

from handrail.sandbox import landlock, seccomp
from handrail.sandbox.fork_server import ForkServer, Start
from handrail.sandbox.git_indexes import Prepared, prepare_indexes
from handrail.sandbox.inside.root import ON_DISK
from handrail.sandbox.launching import READY_SECONDS, Child, Confined, PreparedIndex, SetupFailed
from handrail.sandbox.masks import HIDE, Masks, masks
from handrail.sandbox.plan import Bounds, Plan
from handrail.sandbox.system import NEVER, links, names, system

PORT = 3128
_TRIES = 3
MANY = 3000  # entries below the roots: looking at more takes too long to be done twice, and before its time
_MOST_READY = 4
_INSIDE = 1000  # the id that root's programs see as their own
_OUTSIDE = 2_000_000_001  # and the one they have: it owns nothing
_CPU, _FSIZE, _DATA, _CORE, _NPROC, _NOFILE = 0, 1, 2, 4, 6, 7
_SCOPES = 0b11
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL = 1, 2, 4, 8, 1 << 14, 1 << 15
_DEVICES_ARE_MADE = (1 << 6) | (1 << 11)  # MAKE_CHAR, MAKE_BLOCK
_AS_ROOT = "the workspace cannot be shown with other owners, so programs run as root: process limits do not hold"


@dataclass(frozen=True, slots=True)
class _View:
    """A view that is built, and what stood where when that began."""

    spec: dict[str, Any]
    stands: list[tuple[int, ...]]
    start: Start
    made: float


class Native:
    """Tier A without any other program: namespaces, a root of its own, Landlock, a filter of system calls."""

    def __init__(self, server: ForkServer, confined: Confined) -> None:
        self.confined = confined
        self._server = server
        self._ready: list[_View] = []  # that wait for their programs
        self._lock = Lock()
        self._looked_at = MANY  # entries below the roots, the last time

    def spawn(
        self, plan: Plan, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: int, stdout: int, stderr: int
    ) -> Child:
        """Start a program; back once it was executed. Raises SetupFailed, and never runs it otherwise confined."""
        check(plan)
        outer = outside_ids()
        program = asked(argv, cwd, env)
        for left in reversed(range(_TRIES)):
            spec, (indexes, unread) = self._specified(plan, outer)
            ready = self._taken(spec, plan)
            try:
                child = (ready or self._begin(spec, plan)).go(program, stdin, stdout, stderr)
                child.indexes = indexes
                child.unprepared = unread
                return child
            except SetupFailed as failure:
                if failure.stage == "owners of the workspace" and outer:
                    outer = None
                elif failure.stage == ON_DISK and plan.layers is not None:
                    plan.layers.use_memory()
                elif not left or (failure.stage != "masks" and not (ready and failure.stage == "start")):
                    raise
        raise AssertionError("unreachable")

    def prepare(self, plan: Plan) -> Callable[[], None] | None:
        """Have a view built for the next program with this plan; gives what lets it go again if none comes.

        Only where looking for what to mask takes no time. What is started looks again: a view that would be another
        one by then is not used.
        """
        if self._looked_at >= MANY or len(self._ready) >= _MOST_READY:
            return None
        try:
            check(plan)
            spec, _ = self._specified(plan, outside_ids())
            stands = _standing(spec, plan)  # before it is built: what is replaced meanwhile must not fit any more
            start = self._begin(spec, plan)
        except SetupFailed:
            return None  # told where it is needed
        with self._lock:
            self._ready.append(_View(spec, stands, start, monotonic()))
        return lambda: self._let_go(start)

    def close(self) -> None:
        """End the fork server, and with it every program that still runs."""
        for view in [*self._ready]:
            self._let_go(view.start)
        self._server.close()

    def _begin(self, spec: dict[str, Any], plan: Plan) -> Start:
        """Begin a start, with layers of its own where changes are reviewed."""
        if not plan.review or plan.layers is None:
            return self._server.begin(spec)
        layers = [plan.layers.make(path) for path in plan.write]
        paths = [b"" if layer is None else os.fsencode(layer.path) for layer in layers]
        return self._server.begin({**spec, "layers": paths}, layers=layers)

    def _specified(self, plan: Plan, outer: tuple[int, int] | None) -> tuple[dict[str, Any], Prepared]:
        """Write down what a start needs, and which indexes of git are prepared for it."""
        found = masks(plan)
        self._looked_at = found.looked_at
        hidden = (path for path, how in found.paths if how == HIDE)
        indexes = prepare_indexes(plan.write, hidden) if plan.review else ((), ())
        return {**specify(plan, found, outer=outer), "indexes": [_index(index) for index in indexes[0]]}, indexes

    def _taken(self, spec: dict[str, Any], plan: Plan) -> Start | None:
        """A view that waits and is the very one that would be built now: the same, of the same files."""
        if not self._ready:
            return None
        stands, oldest = _standing(spec, plan), monotonic() - READY_SECONDS
        with self._lock:
            for number, view in enumerate(self._ready):
                fits = view.spec == spec and view.stands == stands and view.made >= oldest
                if fits and view.start.owner == os.getpid():
                    del self._ready[number]
                    return view.start
        return None

    def _let_go(self, start: Start) -> None:
        with self._lock:
            left = [view for view in self._ready if view.start is not start]
            waiting = len(left) < len(self._ready)
            self._ready = left
        if waiting:
            start.drop()


def _index(index: PreparedIndex) -> tuple[Any, ...]:
    """Write down an index that goes to a layer."""
    folders = [(os.fsencode(path), mode) for path, mode in index.folders]
    return os.fsencode(index.root), os.fsencode(index.path), index.after, index.mode, index.mtime_ns, folders


def _standing(spec: dict[str, Any], plan: Plan) -> list[tuple[int, ...]]:
    """Which files are masked and which folders shown: the system takes a mask off a name that is replaced."""
    found = [_identity(path) for path, _ in spec["masks"]]
    return found + [_identity(path)[:2] for path in (*plan.read, *plan.write)]


def _identity(path: str | bytes) -> tuple[int, ...]:
    try:
        status = os.lstat(path)
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_ctime_ns  # changed, too, when it was moved away and back


def check(plan: Plan) -> None:
    """Refuse roots that no view can be made of."""
    for path in (*plan.read, *plan.write):
        if path in ("/", *NEVER) or path.startswith(tuple(f"{name}/" for name in NEVER)) or not path.startswith("/"):
            raise SetupFailed("plan", 0, "Choose a folder of its own as root.", f"{path} cannot be a root of programs")


def specify(plan: Plan, found: Masks, *, outer: tuple[int, int] | None) -> dict[str, Any]:
    """Write down everything the fork server needs to build the view of a plan in tier A."""
    return {
        **_same_each_time(plan.read, plan.write, plan.review, plan.listens, plan.bounds, outer, plan.cache, plan.files),
        "masks": [(os.fsencode(path), how) for path, how in found.paths],
        "gaps": _gaps(found, outer),
    }


@lru_cache(maxsize=16)
def _same_each_time(
    read: tuple[str, ...],
    write: tuple[str, ...],
    review: bool,
    listens: bool,
    bounds: Bounds,
    outer: tuple[int, int] | None,
    cached: str,
    files: tuple[tuple[str, bytes], ...],
) -> dict[str, Any]:
    """What does not depend on what lies below the roots."""
    seen = system()
    plan = Plan(read, write, asks_hosts=listens, review=review, bounds=bounds, cache=cached)
    uid, gid = (_INSIDE, _INSIDE) if outer else (os.geteuid(), os.getegid())
    binds = _binds(plan, seen.folders)
    return {
        **common(plan),
        "tier": "A",
        "uid": uid,
        "gid": gid,
        "outer": outer,
        "owned": [(path, writable) for path, writable, ours in binds if ours] if outer else [],
        "binds": binds,
        "files": [(os.fsencode(path), text) for path, text in (*seen.files, *names(uid, gid), *files)],
        "links": [(os.fsencode(path), os.fsencode(target)) for path, target in links((*read, *write))],
        "review": [os.fsencode(path) for path in write] if review else [],
        "scratch": bounds.scratch_bytes,
        "landlock": second_wall(plan),
        "seccomp": seccomp.program(seccomp.Filter(os.uname().machine, network=True, unix=True, ipc=True)),
    }


def asked(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> dict[str, Any]:
    """What is the program's own."""
    return {
        "argv": [os.fsencode(word) for word in argv],
        "env": {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
        "cwd": os.fsencode(cwd),
    }


def common(plan: Plan) -> dict[str, Any]:
    """What every way of starting a program is told alike."""
    return {
        "limits": limits(plan.bounds),
        "memory": plan.bounds.memory_bytes,
        "umask": 0o022,
        "confined": True,
        "outer": None,
        "owned": [],
        "review": [],
        "listen": PORT if plan.listens else 0,
        "layers": [],
        "indexes": [],
        "bubble": None,
        "bubble_data": [],
        "scratch_folder": None,
        "gaps": [],
    }


def limits(bounds: Bounds) -> list[tuple[int, int]]:
    """The kernel's limits for a program; of address space none, since some programs reserve more than they use."""
    return [
        (_CPU, bounds.cpu_seconds),
        (_FSIZE, bounds.file_bytes),
        (_DATA, bounds.memory_bytes),
        (_CORE, 0),
        (_NPROC, bounds.processes + 1),  # the first process counts
        (_NOFILE, bounds.open_files),
    ]


def _binds(plan: Plan, folders: tuple[str, ...]) -> list[tuple[bytes, bool, bool]]:
    """Every folder shown: path, whether it is for writing, whether it is the plan's; the more specific last."""
    chosen = dict.fromkeys(folders, (False, False))
    chosen |= dict.fromkeys(plan.read, (False, True))
    chosen |= dict.fromkeys(written_by(plan), (True, True))
    ordered = sorted(chosen.items(), key=lambda item: (item[0].count("/"), item[0]))
    return [(os.fsencode(path), writable, ours) for path, (writable, ours) in ordered]


def written_by(plan: Plan) -> tuple[str, ...]:
    """List the folders that programs write: the plan's roots, and the cache."""
    return (*plan.write, plan.cache) if plan.cache else plan.write


def second_wall(plan: Plan) -> tuple[bytes, list[tuple[bytes, int]]] | None:
    """A second wall: all is readable that the view shows, and what is for writing writable."""
    version = landlock.abi()
    if version < 1:
        return None
    files = struct.unpack_from("=Q", landlock.handled(version))[0]
    fields = [files, *([0] if version >= 4 else []), *([_SCOPES] if version >= 6 else [])]
    everything = files & ~_DEVICES_ARE_MADE
    devices = files & (_READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE | _IOCTL)
    rules = [(b"/", _EXECUTE | _READ_FILE | _READ_DIR), (b"/dev", devices)]
    rules += [(path, everything) for path in (b"/tmp", b"/dev/shm", *map(os.fsencode, written_by(plan)))]
    return struct.pack(f"={len(fields)}Q", *fields), rules


def _gaps(found: Masks, outer: tuple[int, int] | None) -> list[str]:
    gaps = [f"{path} is a link: what it leads to is protected, the link itself can be replaced" for path in found.links]
    return gaps + ([_AS_ROOT] if outer is None and os.geteuid() == 0 else [])


@cache
def outside_ids() -> tuple[int, int] | None:
    """Ids that own nothing, for root to give to its programs; None for other users, who keep their own."""
    if os.geteuid() != 0:
        return None
    uid, gid = _unused("/proc/self/uid_map"), _unused("/proc/self/gid_map")
    return (uid, gid) if uid and gid else None


def _unused(table: str) -> int | None:
    """An id that this user namespace has and that nobody is known to use."""
    with open(table) as lines:
        ranges = [(int(first), int(count)) for first, _, count in map(str.split, lines)]
    if any(first <= _OUTSIDE < first + count for first, count in ranges):
        return _OUTSIDE
    first, count = max(ranges, key=lambda item: item[1])
    return first + count - 1 if count > 1 else None

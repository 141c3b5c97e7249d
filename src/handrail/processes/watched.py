"""A note on disk of what stood where when programs were started: what they plant is found also by who comes next.

While a runtime lives, it looks itself. One that is killed cannot: whoever opens the workspace next finds its note, and
sets aside what is new where it would take effect. It is written for a process that dies, not for a machine that does.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock

from handrail.policy.builtin import REPOSITORY, SETTINGS_FILES
from handrail.policy.patterns import excluded
from handrail.processes.effects import Tree
from handrail.processes.protected import Found, at, walked
from handrail.processes.taking import set_aside
from handrail.processes.text import legible
from handrail.sandbox.plan import Plan
from handrail.words import Exclusion, Root, noun
from handrail.workspace.access import Access
from handrail.workspace.exclude import last_names

# What makes other programs run, or decides what tools may do.
NEVER = (
    *(Exclusion(pattern, "builtin.repository") for pattern in REPOSITORY),
    *(Exclusion(pattern, "builtin.settings") for pattern in SETTINGS_FILES),
)
_MARK = b"handrail-watch-1\n"
_RUNNING, _QUIET = b"1", b"0"  # the first byte: whether programs ran, or all had been looked after
_LATE_NS = 60 * 10**9  # after its last sign of life a runtime's programs are dead; what is younger is somebody else's
_fits = last_names(NEVER).fullmatch
Standing = Mapping[str, Mapping[str, Sequence[str]]]  # root: folder: names there that would be taken away if new


def standing(places: Sequence[Found], paths: Sequence[tuple[Root, str]]) -> Standing:
    """Say which of the names that matter stand where; a run's own folders are no other run's concern.

    Some folders are named also where nothing stands in them: there, what is new is taken away. What turns up in others
    is told.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for root, folder in places:
        if not root.name.startswith("run:"):
            found.setdefault(root.path, {})[folder] = []
    for root, path in paths:
        folder, _, name = path.rpartition("/")
        if _fits(name) and root.path in found:
            found[root.path].setdefault(folder, []).append(name)
    return found


class Watched:
    """The note of one run; locked for as long as the runtime lives. Used from threads, too."""

    def __init__(self, folder: str, run_id: str) -> None:
        self._folder, self._run_id = Path(folder), run_id
        self._path = self._folder / f"{os.urandom(8).hex()}.watch"
        self._lock = Lock()
        self._fd, self._running = -1, 0
        self._trees: tuple[Tree, ...] | None = None
        self._text = b""

    def begin(self, trees: tuple[Tree, ...] | None, stands: Callable[[], Standing]) -> None:
        """Have on disk what stands there before a program starts; where nothing can be written, go without."""
        with self._lock, contextlib.suppress(OSError):
            self._running += 1
            if self._fd < 0 or trees is None or trees != self._trees:
                text = json.dumps([self._run_id, stands()]).encode()  # names need not be texts
                if text != self._text or self._fd < 0:
                    self._write(text)
                self._trees = trees
            os.pwrite(self._fd, _RUNNING, 0)

    def seen(self) -> None:
        """Give a sign of life."""
        with self._lock, contextlib.suppress(OSError):
            if self._fd >= 0:
                os.utime(self._fd)

    def end(self) -> None:
        """A program has ended and was looked after."""
        with self._lock, contextlib.suppress(OSError):
            self._running -= 1
            if self._running == 0 and self._fd >= 0:
                os.pwrite(self._fd, _QUIET, 0)

    def close(self) -> None:
        """Nothing is to be looked for any more."""
        with self._lock:
            if self._fd >= 0:
                self._path.unlink(missing_ok=True)
                os.close(self._fd)
                self._fd = -1

    def _write(self, text: bytes) -> None:
        from handrail.store.private import SAFE, draft_of, make_folder, write_all

        make_folder(self._folder)
        draft = draft_of(self._path)
        fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | SAFE, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            write_all(fd, _RUNNING + _MARK + text)
            os.rename(draft, self._path)
        except BaseException:
            os.close(fd)
            draft.unlink(missing_ok=True)
            raise
        old, self._fd, self._text = self._fd, fd, text
        if old >= 0:
            os.close(old)


@noun
class Plants:
    """What programs of a killed runtime had planted."""

    run_id: str
    paths: tuple[str, ...]  # that are set aside
    aside: tuple[str, ...]  # where each of them is now
    left: tuple[str, ...]  # in words


def left_behind(folder: Path, roots: Sequence[Root], access: Access) -> Iterator[Plants]:
    """Set aside what programs planted in some roots whose runtime was killed before it looked."""
    for name in sorted(_listed(folder)):
        told = _read(folder / name) if name.endswith(".watch") else None
        if told is not None and _ours(told[2], roots):
            found = _looked_after(folder / name, roots, access)
            if found is not None and (found.paths or found.left):
                yield found


def _ours(stands: Standing, roots: Sequence[Root]) -> dict[str, Found]:
    """The roots of a note that lie in ours, each as a place of ours."""
    found: dict[str, Found] = {}
    for path in stands:
        for root in roots:
            if f"{path}/".startswith(f"{root.path.rstrip('/')}/"):
                found[path] = root, path[len(root.path) :].strip("/")
                break
    return found


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read(path: Path) -> tuple[bytes, str, Standing] | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            flag, data = file.read(1), file.read()
        run_id, stands = json.loads(data.removeprefix(_MARK))
        whole = data.startswith(_MARK) and isinstance(run_id, str)
        return (flag, run_id, {root: dict(folders) for root, folders in stands.items()}) if whole else None
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _looked_after(path: Path, roots: Sequence[Root], access: Access) -> Plants | None:
    """Take a note that nobody holds, do what is to be done here, and leave the rest to whom it concerns."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        told, status = _read(path), os.fstat(fd)
        if told is None or not os.path.samestat(status, os.lstat(path)):
            return None
        flag, run_id, stands = told
        ours = _ours(stands, roots)
        last = status.st_mtime_ns + _LATE_NS
        plants = _set_aside(run_id, stands, ours, access, path.parent, last) if flag == _RUNNING else None
        rest = {root: folders for root, folders in stands.items() if root not in ours}
        if not rest or flag != _RUNNING:
            path.unlink(missing_ok=True)
            return plants
        text = flag + _MARK + json.dumps([run_id, rest]).encode()
        os.pwrite(fd, text, 0)
        os.ftruncate(fd, len(text))
        os.utime(fd, ns=(status.st_atime_ns, status.st_mtime_ns))
        return plants
    except OSError:
        return None  # somebody is at it
    finally:
        os.close(fd)


def _set_aside(
    run_id: str, stands: Standing, ours: Mapping[str, Found], access: Access, aside: Path, last: int
) -> Plants:
    known = {
        (root, f"{start}/{folder}".strip("/")): names
        for noted, (root, start) in ours.items()
        for folder, names in stands[noted].items()
    }
    roots = tuple(dict.fromkeys(root for root, _ in ours.values()))
    plan = Plan((), tuple(root.path for root in roots), (), NEVER, roots)
    found, closed = at(plan, list(known), access)
    paths: list[str] = []
    where: list[str] = []
    left = [f"{legible(path)} cannot be listed" for path in closed]
    for root, path in found:
        folder, _, name = path.rpartition("/")
        if name in known[root, folder] or excluded(NEVER, root, path) is None:
            continue
        said = _one(access, root, path, aside, last, where)
        if said:
            left.append(said)
        else:
            paths.append(legible(root.shown(path)))
    return Plants(run_id, tuple(paths), tuple(where), (*left, *_elsewhere(plan, ours, known, last)))


def _elsewhere(plan: Plan, ours: Mapping[str, Found], known: Mapping[Found, Sequence[str]], last: int) -> Iterator[str]:
    """Tell of what matters in folders that the note does not name: nobody knows whether it is the programs' work."""
    for root, path in walked(plan, plan.roots).paths:
        folder, _, name = path.rpartition("/")
        inside = any(root is ours_in and f"{path}/".startswith(f"{at}/" if at else "") for ours_in, at in ours.values())
        if not inside or (root, folder) in known or not _fits(name) or ".git/objects/" in path:
            continue
        if any((root, above) in known and below in known[root, above] for above, below in _above(path)):
            continue
        with contextlib.suppress(OSError):
            if os.lstat(f"{root.path}/{path}").st_ctime_ns <= last:
                yield f"{legible(root.shown(path))} may be new; look at it before you use it"


def _above(path: str) -> Iterator[tuple[str, str]]:
    """Each folder that a path lies in, with the name that leads to the path."""
    while path:
        folder, _, name = path.rpartition("/")
        yield folder, name
        path = folder


def _one(access: Access, root: Root, path: str, aside: Path, last: int, where: list[str]) -> str:
    """Set one thing aside; gives what is to be said where it stays."""
    shown = legible(root.shown(path))
    try:
        if os.lstat(f"{root.path}/{path}").st_ctime_ns > last:
            return f"{shown} is new, but younger than the programs of that run; look at it before you use it"
        where.append(set_aside(access, root, path, str(aside)))
    except FileNotFoundError:
        return f"{shown} was there, and is gone again"
    except OSError as error:
        return f"{shown} could not be set aside and is IN EFFECT: {error.strerror}. Remove it by hand"
    return ""

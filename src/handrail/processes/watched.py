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
from handrail.policy.repositories import locks
from handrail.policy.world import Repositories
from handrail.processes.effects import Tree
from handrail.processes.protected import Found, at, walked
from handrail.processes.taking import set_aside
from handrail.processes.text import legible
from handrail.sandbox.plan import Plan
from handrail.words import Exclusion, Root, noun
from handrail.workspace.access import Access
from handrail.workspace.exclude import last_names
from handrail.workspace.repositories import RepositoryFinder

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

    def begin(
        self, trees: tuple[Tree, ...] | None, stands: Callable[[], Standing], known: Repositories | None = None
    ) -> None:
        """Have on disk what exists before a program starts; where nothing can be written, go without.

        `known` are the repositories by another name than `.git`, and what git configs name.
        """
        with self._lock, contextlib.suppress(OSError):
            self._running += 1
            if self._fd < 0 or trees is None or trees != self._trees:
                text = json.dumps([self._run_id, stands(), _describe(known)]).encode()  # names need not be texts
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
class _Note:
    """The content of a note."""

    flag: bytes  # _RUNNING or _QUIET
    run_id: str
    stands: Standing
    folders: tuple[str, ...] | None  # repositories by another name; None where nobody looked for them
    absent: tuple[str, ...]  # paths that git configs name and that did not exist


def _describe(known: Repositories | None) -> dict[str, Sequence[str]] | None:
    """Give what a note keeps of repositories."""
    if known is None:
        return None
    return {"folders": known.folders, "absent": [path for path in known.named if not os.path.lexists(path)]}


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
        note = _read(folder / name) if name.endswith(".watch") else None
        if note is not None and _ours(note.stands, roots):
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


def _read(path: Path) -> _Note | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            flag = file.read(1)
            data = file.read()
        run_id, stands, *more = json.loads(data.removeprefix(_MARK))
        if not data.startswith(_MARK) or not isinstance(run_id, str):
            return None
        known = more[0] if more else None
        folders = None if known is None else tuple(known["folders"])
        absent = () if known is None else tuple(known["absent"])
        return _Note(flag, run_id, {root: dict(names) for root, names in stands.items()}, folders, absent)
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None


def _looked_after(path: Path, roots: Sequence[Root], access: Access) -> Plants | None:
    """Take a note that nobody holds, do what is to be done here, and leave the rest to whom it concerns."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        note = _read(path)
        status = os.fstat(fd)
        if note is None or not os.path.samestat(status, os.lstat(path)):
            return None
        ours = _ours(note.stands, roots)
        last = status.st_mtime_ns + _LATE_NS
        plants = _set_aside(note, ours, access, path.parent, last) if note.flag == _RUNNING else None
        rest = {root: folders for root, folders in note.stands.items() if root not in ours}
        if not rest or note.flag != _RUNNING:
            path.unlink(missing_ok=True)
            return plants
        known = None if note.folders is None else {"folders": note.folders, "absent": note.absent}
        text = note.flag + _MARK + json.dumps([note.run_id, rest, known]).encode()
        os.pwrite(fd, text, 0)
        os.ftruncate(fd, len(text))
        os.utime(fd, ns=(status.st_atime_ns, status.st_mtime_ns))
        return plants
    except OSError:
        return None  # somebody is at it
    finally:
        os.close(fd)


def _set_aside(note: _Note, ours: Mapping[str, Found], access: Access, aside: Path, last: int) -> Plants:
    known = {
        (root, f"{start}/{folder}".strip("/")): names
        for noted, (root, start) in ours.items()
        for folder, names in note.stands[noted].items()
    }
    roots = tuple(dict.fromkeys(root for root, _ in ours.values()))
    never = (*NEVER, *locks(Repositories(folders=note.folders or ())))
    plan = Plan((), tuple(root.path for root in roots), (), never, roots)
    found, closed = at(plan, list(known), access)
    new = [
        (root, path)
        for root, path in found
        if path.rpartition("/")[2] not in known[root, path.rpartition("/")[0]] and excluded(never, root, path)
    ]
    paths: list[str] = []
    where: list[str] = []
    left = [f"{legible(path)} cannot be listed" for path in closed]
    for root, path in dict.fromkeys((*new, *_named(note, ours))):
        said = _one(access, root, path, aside, last, where)
        if said:
            left.append(said)
        else:
            paths.append(legible(root.shown(path)))
    left += [*_elsewhere(plan, ours, known, last), *_made_repositories(note, ours, last)]
    return Plants(note.run_id, tuple(paths), tuple(where), tuple(left))


def _named(note: _Note, ours: Mapping[str, Found]) -> Iterator[Found]:
    """List what git configs name, did not exist before and does now."""
    for path in note.absent:
        place = _place(path, ours)
        if place is not None and os.path.lexists(path):
            yield place


def _made_repositories(note: _Note, ours: Mapping[str, Found], last: int) -> Iterator[str]:
    """Report folders that git takes for repositories now though they are not called `.git`.

    They stay: nobody knows whether they are the programs' work.
    """
    if note.folders is None:
        return
    roots = [Root(str(number), path, writable=True) for number, path in enumerate(ours)]
    for folder in RepositoryFinder(roots, {}, lambda: None).look().folders:
        place = _place(folder, ours)
        if folder in note.folders or place is None:
            continue
        with contextlib.suppress(OSError):
            if os.lstat(f"{folder}/HEAD").st_ctime_ns <= last:
                shown = legible(place[0].shown(f"{place[1]}/HEAD".lstrip("/")))
                yield f"{shown} may be new, and makes git use its folder as a repository; look at it before you use git"


def _place(path: str, ours: Mapping[str, Found]) -> Found | None:
    """Give an absolute path as a place in one of our roots; None where it lies in none."""
    for noted, (root, _) in ours.items():
        if f"{path}/".startswith(f"{noted.rstrip('/')}/"):
            return root, path[len(root.path) :].strip("/")
    return None


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

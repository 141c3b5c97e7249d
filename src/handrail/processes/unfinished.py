"""Keeping a reviewed change whole, whatever happens meanwhile: what stood there is on disk before anything is changed.

Whoever opens a workspace next finds a note that nobody holds, puts back what it says, and tells of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import orjson

from handrail.errors import Misuse, Problem
from handrail.processes.layer import Made, sha256
from handrail.words import Change, Place, PlaceKind, Root, noun
from handrail.workspace.access import READ, Access
from handrail.workspace.beneath import FOLDER, HANDLE, choose
from handrail.workspace.restoring import restore
from handrail.workspace.roots import Roots
from handrail.workspace.threads import Brake

_MARK = b"handrail-unfinished-1\n"
_LEFTOVER = re.compile(r"\.handrail-[0-9a-f]{16}\.(?:old|tmp)")
_ORDER = ("create", "mkdir", "rmdir", "delete", "replace")  # in which changes are taken back
_PART = 1 << 20
Record = Callable[[Change], None]


@noun
class Step:
    """One change that is to be made, and what undoes it."""

    root: Root
    path: str
    op: str
    before: str = ""  # sha256; empty: no file
    after: str = ""
    mode: int | None = None  # before
    link: str | None = None  # what a link that is removed leads to
    data: bytes = b""
    attributes: tuple[tuple[str, bytes], ...] = ()  # of what is removed: what is replaced hands its own on

    def place(self, kind: PlaceKind = PlaceKind.FILE) -> Place:
        """Where, and what stands there."""
        return Place(self.root, self.path, kind)


class Note:
    """A note on disk of what is about to be changed; locked for as long as somebody is at it."""

    def __init__(self, path: Path, handle: int, call_id: str, run_id: str, steps: Sequence[Step]) -> None:
        self._path, self._handle = path, handle
        self.call_id, self.run_id, self.steps = call_id, run_id, steps

    @classmethod
    def write(cls, folder: Path, run_id: str, call_id: str, steps: Sequence[Step]) -> Note:
        """Put it on disk; back when it survives a power loss."""
        from handrail.store.private import SAFE, draft_of, make_folder, sync_folder, write_all

        make_folder(folder)
        path = folder / f"{os.urandom(8).hex()}.note"
        draft = draft_of(path)
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | SAFE, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            head = orjson.dumps([run_id, call_id, [_told(step) for step in steps]])
            write_all(handle, _MARK + len(head).to_bytes(8, "little") + head)
            for step in steps:
                write_all(handle, step.data)
            os.fsync(handle)
            os.rename(draft, path)
            sync_folder(folder)
        except BaseException:
            os.close(handle)
            draft.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            raise
        return cls(path, handle, call_id, run_id, steps)

    @classmethod
    def read(cls, path: Path) -> Note | None:
        """Take a note that nobody holds; None where somebody does, or where it is none."""
        try:
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_nlink:
                run_id, call_id, steps = _parsed(_whole(handle))
                return cls(path, handle, call_id, run_id, steps)
        except (OSError, ValueError, TypeError, KeyError):
            pass
        os.close(handle)
        return None

    def roll_back(self, record: Record) -> list[str]:
        """Put back everything as it was; what somebody has changed since stays, and is named."""
        roots = list(dict.fromkeys(step.root for step in self.steps))
        try:
            handles = Roots(roots)
        except (Misuse, Problem) as error:
            return [str(error)]
        try:
            access = Access(handles, choose("auto"), None)
            _tidy(access, self.steps)
            gone = {(step.root, step.path) for step in self.steps if step.op in ("delete", "rmdir")}
            left = []
            for step in _in_order(self.steps):
                said = _taken_back(access, step, record)
                # Where something else stood, that is still there, or comes back by a step of its own.
                if said and not (step.op in ("create", "mkdir") and (step.root, step.path) in gone):
                    left.append(said)
            return left
        finally:
            handles.close()

    def remove(self) -> None:
        """Everything is as it should be: nothing is to be put back any more."""
        from handrail.store.private import sync_folder

        if self._handle >= 0:
            self._path.unlink(missing_ok=True)
            sync_folder(self._path.parent)
            self.let_go()

    def set_aside(self) -> Path:
        """Keep it under another name: what it holds could not all be put back, and is looked for by a person."""
        aside = self._path.with_suffix(".left")
        os.rename(self._path, aside)
        self.let_go()
        return aside

    def let_go(self) -> None:
        """Leave it to whoever comes next."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def steps_of(access: Access, changes: Sequence[Made]) -> list[Step]:
    """What changes would do, with what stands there now."""
    return [_step(access, made) for made in changes]


def abandoned(folder: Path, roots: Collection[str]) -> Iterator[Note]:
    """The notes about nothing but some roots that nobody is at any more."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        # Looked at before it is taken: whoever opens another workspace must not keep it from its own.
        path = folder / name
        note = Note.read(path) if name.endswith(".note") and _is_about(path, roots) else None
        if note is not None and _concern([(step.root.name, step.root.path) for step in note.steps], roots):
            yield note
        elif note is not None:
            note.let_go()


def _is_about(path: Path, roots: Collection[str]) -> bool:
    """Whether a note is about nothing but some roots; of its contents nothing is read."""
    try:
        with open(path, "rb", opener=_no_link) as file:
            if file.read(len(_MARK)) != _MARK:
                return False
            _, _, told = orjson.loads(file.read(int.from_bytes(file.read(8), "little")))
            return _concern([(name, path) for name, path, *_ in told], roots)
    except (OSError, ValueError, TypeError, LookupError, OverflowError, MemoryError):
        return False


def _concern(named: Collection[tuple[str, str]], roots: Collection[str]) -> bool:
    """Whether some roots are all that is concerned, but for folders of the run itself, which nobody else opens."""
    others = [path for name, path in named if not name.startswith("run:")]
    return all(path in roots for path in others) and (bool(others) or all(path in roots for _, path in named))


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _step(access: Access, made: Made) -> Step:
    mode, link = None, None
    attributes: tuple[tuple[str, bytes], ...] = ()
    if made.op not in ("create", "mkdir"):
        fd = access.open(Place(made.root, made.path, PlaceKind.FILE), HANDLE)
        try:
            seen = os.fstat(fd).st_mode
            mode = stat.S_IMODE(seen)
            link = os.readlink("", dir_fd=fd) if stat.S_ISLNK(seen) else None
            if link is None and made.op in ("delete", "rmdir"):
                attributes = _attributes(fd)
        finally:
            os.close(fd)
    data = made.before or b""
    return Step(made.root, made.path, made.op, sha256(made.before), sha256(made.after), mode, link, data, attributes)


def _attributes(handle: int) -> tuple[tuple[str, bytes], ...]:
    """The extended attributes of what a handle names, access lists among them; what cannot be read is left out."""
    found: list[tuple[str, bytes]] = []
    path = f"/proc/self/fd/{handle}"
    with contextlib.suppress(OSError):
        for name in os.listxattr(path):
            with contextlib.suppress(OSError):
                found.append((name, os.getxattr(path, name)))
    return tuple(found)


def _told(step: Step) -> list[object]:
    root = step.root
    attributes = [[name, value.hex()] for name, value in step.attributes]
    more = [attributes] if attributes else []
    known = [step.path, step.op, step.before, step.after, step.mode, step.link, len(step.data)]
    return [root.name, root.path, *known, *more]


def _whole(handle: int) -> bytes:
    with open(os.dup(handle), "rb") as file:
        file.seek(0)
        return file.read()


def _parsed(data: bytes) -> tuple[str, str, list[Step]]:
    if not data.startswith(_MARK):
        raise ValueError("no note")
    at = len(_MARK) + 8
    end = at + int.from_bytes(data[len(_MARK) : at], "little")
    run_id, call_id, told = orjson.loads(data[at:end])
    steps = []
    for name, folder, path, op, before, after, mode, link, size, *more in told:
        content, end = data[end : end + size], end + size
        attributes = tuple((key, bytes.fromhex(value)) for key, value in (more[0] if more else ()))
        step = Step(Root(name, folder, writable=True), path, op, before, after, mode, link, content, attributes)
        _check(step)
        steps.append(step)
    return run_id, call_id, steps


def _check(step: Step) -> None:
    """Refuse what no note of ours says."""
    texts = (step.root.name, step.root.path, step.path, step.before, step.after, step.link or "")
    if step.op not in _ORDER or not all(isinstance(text, str) for text in texts):
        raise ValueError("no step")
    if not (step.mode is None or isinstance(step.mode, int)) or (step.data and sha256(step.data) != step.before):
        raise ValueError("no step")


def _in_order(steps: Sequence[Step]) -> list[Step]:
    """What was made goes first, the deepest before what holds it; then folders come back, and what was in them."""

    def rank(step: Step) -> tuple[int, int]:
        depth = step.path.count("/")
        return _ORDER.index(step.op), -depth if step.op == "mkdir" else depth

    return sorted(steps, key=rank)


def _taken_back(access: Access, step: Step, record: Record) -> str:
    """Take one change back if it was made; says what is in the way."""
    place = step.place()
    try:
        kind, now = _now(access, place)
        place = step.place(kind)
        if step.op == "replace" and now == step.before:
            _set_mode(access, step)
        elif _was_made(step, kind, now):
            change = Change(place.shown, step.op, step.before or None, step.after or None, step.mode, link=step.link)
            restore(access, place, change, step.data, record, Brake())
            if step.op == "replace":
                _set_mode(access, step)
            _set_attributes(access, step)
        elif not _as_before(step, kind, now):
            return f"{place.shown} was changed since, and is left as it is"
    except Problem as problem:
        return problem.message
    except OSError as error:
        return f"{place.shown} could not be put back: {error.strerror}"
    return ""


def _was_made(step: Step, kind: PlaceKind, now: str) -> bool:
    if step.op in ("create", "replace"):
        return kind is PlaceKind.FILE and now == step.after
    return kind is (PlaceKind.DIRECTORY if step.op == "mkdir" else PlaceKind.MISSING)


def _as_before(step: Step, kind: PlaceKind, now: str) -> bool:
    if step.op in ("create", "mkdir"):
        return kind is PlaceKind.MISSING
    if step.op == "rmdir":
        return kind is PlaceKind.DIRECTORY
    return kind is PlaceKind.LINK if step.link is not None else kind is PlaceKind.FILE and now == step.before


def _now(access: Access, place: Place) -> tuple[PlaceKind, str]:
    """What stands at a place, and the hash of a file."""
    try:
        fd = access.open(place, HANDLE)
    except (FileNotFoundError, NotADirectoryError):
        return PlaceKind.MISSING, ""
    try:
        mode = os.fstat(fd).st_mode
    finally:
        os.close(fd)
    if stat.S_ISREG(mode):
        return PlaceKind.FILE, _digest(access.open(place, READ))
    kinds = {stat.S_IFDIR: PlaceKind.DIRECTORY, stat.S_IFLNK: PlaceKind.LINK}
    return kinds.get(stat.S_IFMT(mode), PlaceKind.OTHER), ""


def _digest(fd: int) -> str:
    """The hash of an open file, which is closed."""
    digest = hashlib.sha256()
    try:
        while part := os.read(fd, _PART):
            digest.update(part)
    finally:
        os.close(fd)
    return digest.hexdigest()


def _set_mode(access: Access, step: Step) -> None:
    fd = access.open(step.place(), READ)
    try:
        if step.mode is not None and stat.S_IMODE(os.fstat(fd).st_mode) != step.mode:
            os.fchmod(fd, step.mode)
    finally:
        os.close(fd)


def _set_attributes(access: Access, step: Step) -> None:
    """Give back what the system lets us: names of the system's own are for root."""
    if not step.attributes:
        return
    fd = access.open(step.place(), FOLDER if step.op == "rmdir" else READ)
    try:
        for name, value in step.attributes:
            with contextlib.suppress(OSError):
                os.setxattr(fd, name, value)
    finally:
        os.close(fd)


def _tidy(access: Access, steps: Sequence[Step]) -> None:
    """Remove drafts that hold nothing but what the note knows: what was killed left them beside the files."""
    known = {digest for step in steps for digest in (step.before, step.after, sha256(b"")) if digest}
    links = {step.link for step in steps if step.link is not None}
    for root, folder in dict.fromkeys((step.root, step.path.rpartition("/")[0]) for step in steps):
        with contextlib.suppress(OSError):
            fd = access.open_beneath(access.roots.handle(root), folder or ".", FOLDER, 0)
            try:
                for name in filter(_LEFTOVER.fullmatch, os.listdir(fd)):
                    if _holds(fd, name, known, links):
                        os.unlink(name, dir_fd=fd)
            finally:
                os.close(fd)


def _holds(folder: int, name: str, known: Collection[str], links: Collection[str]) -> bool:
    if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return os.readlink(name, dir_fd=folder) in links
    return _digest(os.open(name, READ, dir_fd=folder)) in known

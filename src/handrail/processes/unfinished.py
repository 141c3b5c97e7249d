"""Keeping a reviewed change whole, whatever happens meanwhile: what is to be changed is on disk before it is changed.

The note holds names and hashes; contents are renamed back from where they were renamed to. Whoever opens a workspace
next finds a note that nobody holds, takes its changes back, and says so.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from handrail.errors import Misuse, Problem
from handrail.processes.layer import digest
from handrail.processes.steps import ORDER, Handles, Step, look_at, make_folder_again
from handrail.words import Change, Root
from handrail.workspace import names
from handrail.workspace.access import READ, Access
from handrail.workspace.beneath import choose
from handrail.workspace.roots import Roots

_MARK = b"handrail-unfinished-2\n"
NOTE, DONE, LEFT = ".note", ".done", ".left"
Record = Callable[[Change], None]


class Note:
    """A note on disk of what is about to be changed; locked for as long as somebody is at it."""

    def __init__(self, path: Path, handle: int, call_id: str, run_id: str, steps: Sequence[Step]) -> None:
        self._path = path
        self._handle = handle
        self.call_id = call_id
        self.run_id = run_id
        self.steps = steps

    @classmethod
    def write(cls, folder: Path, run_id: str, call_id: str, steps: Sequence[Step]) -> Note:
        """Write it; it outlives this process, and after `sync` a power loss."""
        from handrail.store.private import SAFE, draft_of, make_folder, write_all

        make_folder(folder)
        path = folder / f"{os.urandom(8).hex()}{NOTE}"
        draft = draft_of(path)
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | SAFE, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            write_all(handle, _MARK + orjson.dumps([run_id, call_id, [_row(step) for step in steps]]))
            os.rename(draft, path)
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
                run_id, call_id, steps = _parse(_read_all(handle))
                return cls(path, handle, call_id, run_id, steps)
        except (OSError, ValueError, TypeError, KeyError):
            pass
        os.close(handle)
        return None

    @property
    def device(self) -> int:
        """Which file system it is on."""
        return os.fstat(self._handle).st_dev

    def sync(self) -> None:
        """Put it on disk."""
        from handrail.store.private import sync_folder

        os.fsync(self._handle)
        sync_folder(self._path.parent)

    @property
    def is_done(self) -> bool:
        """Whether everything was kept, and only what was in its place is left to be removed."""
        return self._path.suffix == DONE

    def roll_back(self, record: Record) -> list[str]:
        """Take back everything that was done; what somebody has changed since stays, and is named."""
        return self._with_access(lambda access: _roll_back(access, self.steps, record))

    def clean_up(self) -> list[str]:
        """Remove what lies in the roots beside a change that was kept."""
        return self._with_access(lambda access: clean_up(access, self.steps))

    def _with_access(self, act: Callable[[Access], list[str]]) -> list[str]:
        roots = list(dict.fromkeys(step.root for step in self.steps))
        try:
            handles = Roots(roots)
        except (Misuse, Problem) as error:
            return [str(error)]
        try:
            return act(Access(handles, choose("auto"), None))
        finally:
            handles.close()

    def finish(self) -> None:
        """Say that everything was kept: from now on nothing is taken back."""
        from handrail.store.private import sync_folder

        done = self._path.with_suffix(DONE)
        os.rename(self._path, done)
        self._path = done
        sync_folder(done.parent)

    def remove(self) -> None:
        """Remove it: nothing is left to be done."""
        from handrail.store.private import sync_folder

        if self._handle >= 0:
            self._path.unlink(missing_ok=True)
            if not self.is_done:  # one that is done may come back: then there is nothing left to do
                sync_folder(self._path.parent)
            self.let_go()

    def set_aside(self) -> Path:
        """Keep it under another name: not all could be taken back, and a person has to look at it."""
        aside = self._path.with_suffix(LEFT)
        os.rename(self._path, aside)
        self.let_go()
        return aside

    def let_go(self) -> None:
        """Leave it to whoever comes next."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def abandoned(folder: Path, roots: Collection[str]) -> Iterator[Note]:
    """List the notes about nothing but some roots that nobody is at any more."""
    for path in _files(folder, (NOTE, DONE)):
        # Looked at before it is taken: who opens another workspace must not keep it from its own.
        note = Note.read(path) if _concern(_named(path), roots) else None
        if note is not None and _concern([(step.root.name, step.root.path) for step in note.steps], roots):
            yield note
        elif note is not None:
            note.let_go()


def used_layers(folder: Path) -> set[str]:
    """List the layers that notes name: what is to be taken back, or looked at by a person, is in them."""
    found: set[str] = set()
    for path in _files(folder, (NOTE, DONE, LEFT)):
        with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
            found |= {str(row["layer"]) for row in _rows(path) if row["layer"]}
    return found


def _files(folder: Path, kinds: tuple[str, ...]) -> list[Path]:
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if name.endswith(kinds)]
    except OSError:
        return []


def _named(path: Path) -> list[tuple[str, str]] | None:
    """Which roots a note is about; None where it is none."""
    try:
        return [(row["root"], row["folder"]) for row in _rows(path)]
    except (OSError, ValueError, TypeError, LookupError, MemoryError):
        return None


def _rows(path: Path) -> list[dict[str, Any]]:
    with open(path, "rb", opener=_no_link) as file:
        data = file.read()
    if not data.startswith(_MARK):
        raise ValueError("no note")
    rows: list[dict[str, Any]] = orjson.loads(data[len(_MARK) :])[2]
    return rows


def _concern(named: Collection[tuple[str, str]] | None, roots: Collection[str]) -> bool:
    """Whether some roots are all that is concerned, but for folders of the run itself, which nobody else opens."""
    if named is None:
        return False
    others = [path for name, path in named if not name.startswith("run:")]
    return all(path in roots for path in others) and (bool(others) or all(path in roots for _, path in named))


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _read_all(handle: int) -> bytes:
    with open(os.dup(handle), "rb") as file:
        file.seek(0)
        return file.read()


def _row(step: Step) -> dict[str, Any]:
    attributes = [[name, value.hex()] for name, value in step.attributes]
    names = ("path", "op", "layer", "spot", "before", "after", "inode", "mode", "link")
    known = {name: getattr(step, name) for name in names}
    return {"root": step.root.name, "folder": step.root.path, **known, "attributes": attributes}


def _parse(data: bytes) -> tuple[str, str, list[Step]]:
    if not data.startswith(_MARK):
        raise ValueError("no note")
    run_id, call_id, rows = orjson.loads(data[len(_MARK) :])
    steps = []
    for row in rows:
        root = Root(row.pop("root"), row.pop("folder"), writable=True)
        attributes = tuple((key, bytes.fromhex(value)) for key, value in row.pop("attributes"))
        step = Step(root=root, attributes=attributes, **row)
        _check(step)
        steps.append(step)
    return run_id, call_id, steps


def _check(step: Step) -> None:
    """Refuse what no note of ours says."""
    texts = (step.root.name, step.root.path, step.path, step.layer, step.spot, step.before, step.after, step.link or "")
    if step.op not in ORDER or not all(isinstance(text, str) for text in texts):
        raise ValueError("no step")
    parts = step.spot.split("/")
    if ".." in parts or (not step.layer and len(parts) > 1) or not (step.mode is None or isinstance(step.mode, int)):
        raise ValueError("no step")


# ── taking back ──────────────────────────────────────────────────────────────────────────────


def _roll_back(access: Access, steps: Sequence[Step], record: Record) -> list[str]:
    """Take the steps back, the last one first; says what is in the way."""
    handles = Handles(access)
    left = []
    try:
        for step in reversed(steps):
            try:
                said = _TAKE_BACK[step.op](handles, step, record)
            except Problem as problem:
                said = problem.message
            except OSError as error:
                said = f"{step.shown} could not be put back: {error.strerror}"
            if said:
                left.append(said)
    finally:
        handles.close()
    return left


def _changed(step: Step) -> str:
    return f"{step.shown} was changed since, and is left as it is"


def _remove_new(handles: Handles, step: Step, record: Record) -> str:
    """Take back a file or link that was made: while its spot is there, it was not."""
    spot = handles.spot(step)
    if look_at(*spot) is not None:
        if not step.layer:
            os.unlink(spot[1], dir_fd=spot[0])
        return ""
    try:
        folder, name = handles.target(step)
    except OSError:  # the folder it would be in was not made
        return ""
    now = look_at(folder, name)
    if now is None:
        return ""
    if not _holds(folder, name, now, step):
        return _changed(step) if step.layer else ""  # in memory: it may not have been written yet
    if step.layer:
        names.put_new(folder, name, *spot)
    else:
        os.unlink(name, dir_fd=folder)
    record(Change(step.shown, "delete", before=step.after or None, link=step.link))
    return ""


def _holds(folder: int, name: str, now: os.stat_result, step: Step) -> bool:
    """Whether what a step made is still at its name."""
    if step.op == "link":
        return stat.S_ISLNK(now.st_mode) and os.readlink(name, dir_fd=folder) == step.link
    return stat.S_ISREG(now.st_mode) and _hash(folder, name) == step.after


def _exchange_back(handles: Handles, step: Step, record: Record) -> str:
    """Take back a file that was replaced: then the former one is at the spot."""
    folder, name = handles.target(step)
    there, spot = handles.spot(step)
    former = look_at(there, spot)
    if former is not None and former.st_ino == step.inode:
        now = look_at(folder, name)
        if now is None or not stat.S_ISREG(now.st_mode) or _hash(folder, name) != step.after:
            return _changed(step)
        names.exchange(there, spot, folder, name)
        record(Change(step.shown, "replace", step.after, step.before))
    if former is not None and not step.layer:
        os.unlink(spot, dir_fd=there)
    return ""


def _bring_back(handles: Handles, step: Step, record: Record) -> str:
    """Take back a file or link that was removed: then it is at its spot."""
    folder, name = handles.target(step)
    there, spot = handles.spot(step)
    if look_at(there, spot) is None:
        return ""
    try:
        names.put_new(there, spot, folder, name)
    except FileExistsError:
        return _changed(step)
    record(Change(step.shown, "create", after=step.before or None, link=step.link))
    return ""


def _remove_folder(handles: Handles, step: Step, record: Record) -> str:
    try:
        folder, name = handles.target(step)
        os.rmdir(name, dir_fd=folder)
    except (FileNotFoundError, NotADirectoryError):
        return ""  # it was not made
    record(Change(step.shown, "rmdir"))
    return ""


def _make_folder(handles: Handles, step: Step, record: Record) -> str:
    folder, name = handles.target(step)
    now = look_at(folder, name)
    if now is None:
        make_folder_again(handles, step)
        record(Change(step.shown, "mkdir"))
    elif not stat.S_ISDIR(now.st_mode):
        return _changed(step)
    return ""


_TAKE_BACK = {
    "create": _remove_new,
    "link": _remove_new,
    "replace": _exchange_back,
    "delete": _bring_back,
    "mkdir": _remove_folder,
    "rmdir": _make_folder,
}


def clean_up(access: Access, steps: Sequence[Step]) -> list[str]:
    """Remove former contents that lie in the roots; those in a layer go with it."""
    handles = Handles(access)
    left = []
    try:
        for step in steps:
            if step.spot and not step.layer:
                try:
                    names.forget(*handles.spot(step))
                except OSError as error:
                    left.append(f"{step.shown}: {step.spot} in its root could not be removed: {error.strerror}")
    finally:
        handles.close()
    return left


def _hash(folder: int, name: str) -> str:
    """Hash the file at a name, also one that its owner may not read."""
    try:
        return digest(os.open(name, READ, dir_fd=folder))
    except PermissionError:
        mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        os.chmod(name, mode | stat.S_IRUSR, dir_fd=folder)
        try:
            return digest(os.open(name, READ, dir_fd=folder))
        finally:
            os.chmod(name, mode, dir_fd=folder)

"""List what lies below a folder by handles alone; no link is followed, nothing that is left out is entered."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from handrail.errors import Code, Problem
from handrail.policy.patterns import excluded as fits
from handrail.ports import Entry, Listing
from handrail.words import Exclusion, Place, PlaceKind, Root
from handrail.workspace.access import Access, problem_of
from handrail.workspace.beneath import FOLDER
from handrail.workspace.exclude import Leaves
from handrail.workspace.resolve import KINDS
from handrail.workspace.threads import Brake

MAX_DEPTH = 256
Row = tuple[str, PlaceKind, int, int]  # path, kind, size, mtime_ns of an entry
Counts = tuple[int, int, int, int]  # entries that are not shown, by reason
_NOWHERE = Root("", "", False)  # ignoring goes by the listed folder, whatever its root
_BY_NAME = itemgetter(0)
_IFMT, _DIRECTORY, _OTHER = 0o170000, PlaceKind.DIRECTORY, PlaceKind.OTHER
QUICK_FOLDER_BYTES = 1 << 14  # a folder of this size holds a few hundred names
QUICK_ENTRIES, QUICK_GLOBS = 256, 4  # names of a walk that goes deeper or compares them with globs, and these globs


class TooMuch(Exception):  # a signal, no error
    """A walk that was to be quick cannot be."""


@dataclass(slots=True)
class Walk:
    """One listing under way."""

    base: str  # of the listed folder beneath its root, with a slash where it is not the root
    hidden_too: bool
    ignore: tuple[Exclusion, ...]
    limit: int
    leaves_out: Leaves
    brake: Brake
    rows: list[Row] = field(default_factory=list)
    hidden: int = 0
    ignored: int = 0
    protected: int = 0
    unreadable: int = 0
    looked: int = 0  # at so many names, shown or not
    quick: bool = False  # only where it is soon done

    @property
    def counts(self) -> Counts:
        """How many entries are not shown, by reason."""
        return self.hidden, self.ignored, self.protected, self.unreadable

    def below(self, folder: int, path: str, depth: int) -> None:
        """Take up what stands in an open folder, sorted, each folder followed by what lies in it."""
        rows, limit, brake = self.rows, self.limit, self.brake
        for name, status in self._sorted(folder, path):
            if len(rows) >= limit:
                return
            if brake.pulled:
                brake.check()
            if self.quick and _is_large(status):
                raise TooMuch
            inner, kind = path + name, KINDS.get(status.st_mode & _IFMT, _OTHER)
            rows.append((inner, kind, status.st_size, status.st_mtime_ns))
            if depth > 1 and kind is _DIRECTORY:
                self._into(folder, name, inner, depth - 1)

    def _into(self, folder: int, name: str, path: str, depth: int) -> None:
        try:
            below = os.open(name, FOLDER, dir_fd=folder)
        except OSError:
            self.unreadable += 1
            return
        try:
            self.below(below, f"{path}/", depth)
        finally:
            os.close(below)

    def _sorted(self, folder: int, path: str) -> list[tuple[str, os.stat_result]]:
        found, leaves_out, base = [], self.leaves_out, self.base + path
        dots_too, ignoring = self.hidden_too, bool(self.ignore)
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                self.looked += 1
                if self.quick and self.looked > QUICK_ENTRIES:
                    raise TooMuch
                # Most names are plain, and told to be so here; the others are counted by why they are left out.
                odd = ignoring or not name.isascii() or (name[0] == "." and not dots_too)
                if (odd or leaves_out(name, base + name)) and not self._wanted(name, path):
                    continue
                try:
                    found.append((name, entry.stat(follow_symlinks=False)))
                except OSError:
                    self.unreadable += 1
        found.sort(key=_BY_NAME)
        return found

    def _wanted(self, name: str, path: str) -> bool:
        if self.leaves_out(name, f"{self.base}{path}{name}"):
            self.protected += 1
        elif name[0] == "." and not self.hidden_too:
            self.hidden += 1
        elif self.ignore and fits(self.ignore, _NOWHERE, path + name) is not None:
            self.ignored += 1
        elif not sayable(name):
            self.unreadable += 1
        else:
            return True
        return False


def sayable(name: str) -> bool:
    """Whether a name is text at all; others cannot be shown or asked for."""
    return name.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in name)


def open_folder(access: Access, place: Place) -> int:
    """Open a folder to list it; NOT_A_DIRECTORY for anything else."""
    try:
        return access.open(place, FOLDER)
    except NotADirectoryError as error:
        if place.kind in (PlaceKind.DIRECTORY, PlaceKind.MISSING):
            raise problem_of(error, place, "listed") from None
        next_call = {"tool": "read_file", "args": {"path": place.shown}}
        text = f"{place.shown} is no folder."
        raise Problem(Code.NOT_A_DIRECTORY, text, next_call=next_call, path=place.shown) from None
    except OSError as error:
        raise problem_of(error, place, "listed") from None


def _is_large(status: os.stat_result) -> bool:
    return status.st_mode & _IFMT == stat.S_IFDIR and status.st_size > QUICK_FOLDER_BYTES


def walked(folder: int, walk: Walk, depth: int) -> None:
    """Carry a walk out."""
    walk.below(folder, "", min(depth, MAX_DEPTH))


def walked_quickly(folder: int, walk: Walk, depth: int) -> bool:
    """Carry a walk out if there is little to see; False: it is as if it had not begun."""
    if os.fstat(folder).st_size > QUICK_FOLDER_BYTES or len(walk.ignore) > QUICK_GLOBS:
        return False
    walk.quick = depth > 1 or bool(walk.ignore)
    try:
        walked(folder, walk, depth)
    except TooMuch:
        walk.rows, walk.quick, walk.looked = [], False, 0
        walk.hidden = walk.ignored = walk.protected = walk.unreadable = 0
        return False
    return True


def ignoring(globs: Sequence[str]) -> tuple[Exclusion, ...]:
    """Make what to ignore of globs: one without a slash fits at any depth, and a folder covers all in it."""
    return tuple(
        Exclusion(
            f"/{glob}" if "/" in glob.rstrip("/") and not glob.startswith(("/", "**/")) else glob,
            "ignore",
            any_case=False,
        )
        for glob in globs
    )


def everything(access: Access, place: Place, limit: int) -> Listing:
    """List all that lies below a folder, whatever its name."""
    folder = open_folder(access, place)
    try:
        walk = Walk("", True, (), limit, lambda _name, _path: False, Brake())
        walked(folder, walk, MAX_DEPTH)
        entries = tuple([Entry(*row) for row in walk.rows])
        return Listing(entries, *walk.counts[:3], walk.unreadable + _unentered(entries))
    except OSError as error:
        raise problem_of(error, place, "listed") from None
    finally:
        os.close(folder)


def _unentered(entries: Sequence[Entry]) -> int:
    """How many folders lie so deep that what is in them was not looked at."""
    return sum(entry.kind is PlaceKind.DIRECTORY and entry.path.count("/") == MAX_DEPTH - 1 for entry in entries)

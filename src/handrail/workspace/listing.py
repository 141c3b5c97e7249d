"""List what lies below a folder by handles alone; no link is followed, nothing that is left out is entered."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from handrail.errors import Code, Problem
from handrail.policy.patterns import excluded as fits
from handrail.ports import Entry, Listing
from handrail.words import Exclusion, Place, PlaceKind, Root
from handrail.workspace.access import Access, problem_of
from handrail.workspace.beneath import FOLDER
from handrail.workspace.exclude import Leaves
from handrail.workspace.resolve import kind_of
from handrail.workspace.threads import Brake

MAX_DEPTH = 256
_NOWHERE = Root("", "", False)  # ignoring goes by the listed folder, whatever its root
QUICK_FOLDER_BYTES = 1 << 14  # a folder of this size holds a few hundred names


@dataclass(slots=True)
class Walk:
    """One listing under way."""

    base: str  # of the listed folder beneath its root, with a slash where it is not the root
    hidden_too: bool
    ignore: tuple[Exclusion, ...]
    limit: int
    leaves_out: Leaves
    brake: Brake
    entries: list[Entry] = field(default_factory=list)
    hidden: int = 0
    ignored: int = 0
    protected: int = 0
    unreadable: int = 0

    def below(self, folder: int, path: str, depth: int) -> None:
        """Take up what stands in an open folder, sorted, each folder followed by what lies in it."""
        for name, status in self._sorted(folder, path):
            if len(self.entries) >= self.limit:
                return
            self.brake.check()
            inner = path + name
            self.entries.append(Entry(inner, kind_of(status.st_mode), status.st_size, status.st_mtime_ns))
            if depth > 1 and stat.S_ISDIR(status.st_mode):
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
        found = []
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if not self._wanted(name, path):
                    continue
                try:
                    found.append((name, entry.stat(follow_symlinks=False)))
                except OSError:
                    self.unreadable += 1
        found.sort(key=_by_name)
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


def _by_name(item: tuple[str, os.stat_result]) -> str:
    return item[0]


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


def listed(folder: int, walk: Walk, depth: int) -> Listing:
    """Carry a walk out."""
    walk.below(folder, "", min(depth, MAX_DEPTH))
    return Listing(tuple(walk.entries), walk.hidden, walk.ignored, walk.protected, walk.unreadable)


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
        found = listed(folder, Walk("", True, (), limit, lambda _name, _path: False, Brake()), MAX_DEPTH)
        return replace(found, unreadable=found.unreadable + _unentered(found.entries))
    except OSError as error:
        raise problem_of(error, place, "listed") from None
    finally:
        os.close(folder)


def _unentered(entries: Sequence[Entry]) -> int:
    """How many folders lie so deep that what is in them was not looked at."""
    return sum(entry.kind is PlaceKind.DIRECTORY and entry.path.count("/") == MAX_DEPTH - 1 for entry in entries)

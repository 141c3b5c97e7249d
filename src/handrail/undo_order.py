"""What stands in the way of taking a recorded change back: later changes of it, and what was not kept. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from handrail.words import noun

_HIDDEN = "***REDACTED***"  # as `output.redact` writes it; that one is not loaded for a word
_ARRIVING = ("create", "move", "mkdir")
NO_ROOM = "there was no room to keep it: undo.max_bytes"
_BY_PROGRAM = "a program changed it, and no former content was kept"
SHOWN = 5  # calls that a refusal names
Recorded = Mapping[str, Any]  # a change as an event keeps it


@noun
class Ended:
    """A recorded call: what it changed, and whether that is taken back."""

    call: str
    tool: str
    ts: str
    changes: tuple[Recorded, ...]
    taken_back: bool = False
    program: bool = False  # ran one, which changed things by itself
    order: int = 0  # its number among the changes of all runs; 0 where none was taken, as in 0.1.0

    @property
    def left(self) -> bool:
        """Whether there is something to take back."""
        return not self.taken_back and any(change.get("kept", True) for change in self.changes)

    @property
    def lost(self) -> list[Recorded]:
        """What cannot be taken back, whatever is done."""
        return [change for change in self.changes if not change.get("kept", True)]

    @property
    def why_lost(self) -> str:
        """What cannot be taken back and why, on one line."""
        return listed([f"{change['path']} ({why_lost(change, program=self.program)})" for change in self.lost], 3)

    @property
    def paths(self) -> str:
        """What it changed, on one line."""
        return listed([str(change["path"]) for change in self.changes], 3)


def listed(names: Sequence[str], most: int) -> str:
    """Some of these names on one line, each once, and how many more there are."""
    names = list(dict.fromkeys(names))
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def why_lost(change: Recorded, *, program: bool = False) -> str:
    """Say why a change cannot be taken back."""
    before, op = change.get("before"), change["op"]
    if change.get("held"):
        return "it holds what stays"
    if program:
        return _BY_PROGRAM
    if _HIDDEN in str(change["path"]) or _HIDDEN in str(change.get("source")):
        return "its name is hidden in the record"
    if op in ("replace", "delete") and before is not None:
        return NO_ROOM
    return "it was no regular file" if op == "delete" else _BY_PROGRAM


def ended(events: Iterable[Mapping[str, Any]]) -> list[Ended]:
    """The calls of a run in the order of their ends; taking back is no change of its own."""
    calls: list[Ended] = []
    undone, programs = set[str](), set[str]()
    for event in events:
        kind, call = event["kind"], event.get("call_id")
        if kind == "tool.started" and any(touch.get("kind") == "proc.exec" for touch in event.get("touches") or ()):
            programs.add(str(call))
        elif kind in ("tool.completed", "tool.failed", "tool.observed") and event.get("tool") != "undo_changes":
            changes = _held(tuple(event.get("files_changed") or ()))
            program = str(call) in programs or bool(event.get("commands_run"))
            ts, order = str(event.get("ts", "")), int(event.get("order") or 0)
            calls.append(Ended(str(call), str(event.get("tool")), ts, changes, program=program, order=order))
        elif kind == "undo.applied":
            undone.update(event.get("calls", ()))
    return [replace(item, taken_back=True) if item.call in undone else item for item in calls]


def _held(changes: tuple[Recorded, ...]) -> tuple[Recorded, ...]:
    """The changes of a call; a folder that it made for something that stays is none that can be taken back."""
    lost = [str(change["path"]) for change in changes if not change.get("kept", True) and change["op"] in _ARRIVING]
    if not lost:
        return changes
    stay = {folder for path in lost for folder in _above(path)}
    return tuple(
        {**change, "kept": False, "held": True} if change["op"] == "mkdir" and change["path"] in stay else change
        for change in changes
    )


@dataclass(slots=True, eq=False)
class Spot:
    """Where a change left something, or would put something back, and what became of it since."""

    call: str
    path: str  # where it lies by now
    stood: bool  # something was left there; else it is a place to put something back to
    holds: bool = False  # what later calls did below is in the way, too
    gone: bool = False  # what stands there now is another thing, or a later call is bound to it
    later: bool = False  # calls that can be taken back changed it since
    beyond: dict[str, None] = field(default_factory=dict)  # the first calls that did, and what they did cannot be
    start: str = ""

    def __post_init__(self) -> None:
        self.start = self.path


@dataclass(slots=True)
class Found:
    """What later calls did to what some calls left: spots by call and change, and which to take back first."""

    spots: dict[tuple[str, int], list[Spot]]
    first: list[str]  # last first


def look_ahead(calls: Sequence[Ended], only: str | None) -> Found:
    """Look at what came after one call; after all that are not taken back where none is named.

    What belongs to one call is taken back in the order of the run where all of it is: then only that is in the way
    which cannot be taken back.
    """
    if only is None and not any(item.lost for item in calls):
        return Found({}, [])
    found, watch, bound = Found({}, []), _Watch(), dict[str, None]()
    for item in calls:
        watched = item.left and (only is None or item.call == only)
        # A folder that was made on the way to something stays while it is used: that is in nobody's way.
        holds = all(change["op"] == "mkdir" for change in item.changes)
        for number, change in enumerate(item.changes):
            lost = not change.get("kept", True)
            if item.taken_back and not lost:
                continue
            for spot, bars in watch.met(change, item.call, lost=lost, whole=only is None):
                if lost:
                    watch.note_beyond(spot, f"{item.call} ({item.tool})")
                    spot.gone = spot.gone or bars
                elif only is not None:
                    bound[item.call] = None
                    spot.later, spot.gone = True, spot.gone or bars
            if watched and not lost:
                found.spots[item.call, number] = watch.add_all(item.call, change, holds=holds)
        if item.call in bound:
            for change in (change for change in item.changes if change.get("kept", True)):
                watch.add_all(item.call, change, holds=holds, only_new=True)
    for spot in (spot for spots in found.spots.values() for spot in spots):
        spot.gone = spot.gone or (only is not None and spot.path != spot.start)
    found.first = list(reversed(bound))
    return found


class _Watch:
    """Spots by where they lie, and by what holds them."""

    def __init__(self) -> None:
        self._at: dict[str, dict[int, Spot]] = {}
        self._below: dict[str, dict[int, Spot]] = {}
        self._open: dict[str, dict[int, Spot]] = {}  # as `_at`, those with room for a call that cannot be taken back

    def note_beyond(self, spot: Spot, call: str) -> None:
        """Note a call whose change of a spot cannot be taken back; as many as are named."""
        spot.beyond[call] = None
        if len(spot.beyond) >= SHOWN:
            self._open.get(spot.path, {}).pop(id(spot), None)

    def add_all(self, call: str, change: Recorded, *, holds: bool, only_new: bool = False) -> list[Spot]:
        """Watch what a change left, and where it would put things back; return both.

        With `only_new`, skip a spot where an equal one is watched: what happens to one happens to the other.
        """
        path, op, source = str(change["path"]), change["op"], change.get("source")
        folder = change.get("after") is None and change.get("link") is None
        moved = op == "move" and source is not None
        spots = [Spot(call, path, op not in ("delete", "rmdir"), holds=holds or (moved and folder))]
        if moved:
            spots.append(Spot(call, str(source), stood=False, holds=True))
        for spot in spots:
            if not (only_new and self._has_equal(spot)):
                self._add(spot)
        return spots

    def _has_equal(self, spot: Spot) -> bool:
        known = self._at.get(spot.path, {}).values()
        return any((other.stood, other.holds) == (spot.stood, spot.holds) for other in known)

    def met(self, change: Recorded, call: str, *, lost: bool, whole: bool) -> Iterator[tuple[Spot, bool]]:
        """The spots of other calls that a change is about, and whether it bars them, however things stand now."""
        if whole and not lost and change["op"] not in ("move", "delete", "rmdir"):
            return  # it is taken back in its turn, and moves nothing
        for spot, bars in list(self._met(change, lost=lost)):
            if spot.call == call and not lost and not whole:
                continue
            source, path = change.get("source"), str(change["path"])
            if change["op"] == "move" and source is not None and (spot.stood or spot.path != source):
                if spot.path == source or spot.path.startswith(f"{source}/"):
                    self._drop(spot)
                    spot.path = path + spot.path[len(source) :]
                    self._add(spot)
            elif whole and not lost and spot.path == path and change["op"] in ("delete", "rmdir"):
                self._drop(spot)  # it comes back first
            yield spot, bars

    def _met(self, change: Recorded, *, lost: bool) -> Iterator[tuple[Spot, bool]]:
        op, path, source = change["op"], str(change["path"]), change.get("source")
        moved = set[int]()
        if op == "move" and source is not None:
            for spot in (*self._at.get(source, {}).values(), *self._below.get(source, {}).values()):
                moved.add(id(spot))
                if spot.stood or spot.path != source:
                    yield spot, lost
                elif not lost:
                    yield spot, True
        at = self._open if lost and op == "replace" else self._at
        for spot in at.get(path, {}).values():
            if id(spot) not in moved and (spot.stood or not lost):
                yield spot, op != "replace" if spot.stood else op in ("delete", "rmdir")
        for spot in self._below.get(path, {}).values():
            if id(spot) not in moved and (spot.stood or not lost):
                yield spot, spot.stood or op != "mkdir"
        for name in () if lost else (path, source or ""):
            for folder in _above(name):
                for spot in self._at.get(folder, {}).values():
                    if spot.holds and id(spot) not in moved:
                        yield spot, True

    def _add(self, spot: Spot) -> None:
        self._at.setdefault(spot.path, {})[id(spot)] = spot
        if len(spot.beyond) < SHOWN:
            self._open.setdefault(spot.path, {})[id(spot)] = spot
        for folder in _above(spot.path):
            self._below.setdefault(folder, {})[id(spot)] = spot

    def _drop(self, spot: Spot) -> None:
        self._at.get(spot.path, {}).pop(id(spot), None)
        self._open.get(spot.path, {}).pop(id(spot), None)
        for folder in _above(spot.path):
            self._below.get(folder, {}).pop(id(spot), None)


def _above(path: str) -> Iterator[str]:
    """The folders that hold a path, innermost first."""
    while (cut := path.rfind("/")) > 0:
        path = path[:cut]
        yield path

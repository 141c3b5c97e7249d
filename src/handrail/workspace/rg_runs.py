"""Runs of ripgrep put together so that a caller gets things in the order of paths as soon as can be.

Sorting costs ripgrep its threads. So a sorted run gets a head start, in which a common pattern fills its page; then
a parallel run finds all there is of a rare one; a sorted run to the end is for what is neither.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from handrail.errors import Code, Problem
from handrail.sandbox.spawning import Started
from handrail.workspace.rg_arguments import Walk
from handrail.workspace.rg_process import Child, End, Ground, follow, start, written
from handrail.workspace.threads import Brake

_LARGE_BYTES = 1 << 24
LITTLE_AHEAD, _FAR_AHEAD = 1 << 14, 1 << 18  # bytes; a run that will be stopped soon should not get far ahead
_PATIENCE = 20  # how many head starts a run gets that finds all that is wanted in that time
_UNREADABLE = re.compile(r"^rg: .*\(os error \d+\)$", re.MULTILINE)
_NOTHING_SEARCHED = re.compile(r"(?s)(?:rg: )?No files were searched.*")  # said of filters that fit no file


class Sink(Protocol):
    """Takes up what ripgrep prints."""

    @property
    def progress(self) -> float:
        """How much of what is wanted has been found, from 0 to 1."""

    def feed(self, data: bytes) -> bool:
        """Take bytes; True when there is enough."""

    def close(self) -> None:
        """Take up the last words."""


S = TypeVar("S", bound=Sink)


class Runs:
    """The runs of one search: where they stand and when their time is up."""

    def __init__(
        self,
        ground: Ground,
        deadline: float,
        head_start_seconds: float,
        brake: Brake,
        killed: list[Started],
        first: Child | None,
    ) -> None:
        """`first` is the first run, where it is under way already; `killed` takes up what was stopped, for `reap`."""
        self._ground = ground
        self._deadline = deadline
        self._head_start = head_start_seconds
        self._brake = brake
        self._killed = killed
        self._first = first
        self.left_out = False

    def close(self) -> None:
        """Stop what was started and not needed."""
        if self._first is not None:
            self._first.kill(self._killed)
            self._first.close()

    def in_order(
        self, walk: Walk, fresh: Callable[[], S], sort: Callable[[bytes], bytes], flood_bytes: int
    ) -> tuple[S, End]:
        """Feed a sink in the order of paths, by the quickest way there is.

        Where a line is too long for the memory given, large files are left out (`left_out` says so).
        """
        sink, end = self._quickest(walk, fresh, sort, flood_bytes)
        if end.out_of_memory:
            self.left_out = True
            sink, end = self._quickest(walk.without_large(_LARGE_BYTES), fresh, sort, flood_bytes)
        return sink, self.checked(end)

    def _quickest(
        self, walk: Walk, fresh: Callable[[], S], sort: Callable[[bytes], bytes], flood_bytes: int
    ) -> tuple[S, End]:
        began, sink = time.monotonic(), fresh()

        def patience() -> float:
            """The head start, and more of it for a run that gets on."""
            seconds = self._head_start * (1 + _PATIENCE * sink.progress)
            return min(self._deadline, began + seconds)

        end = self._fed(walk.in_order, sink, patience)
        if not end.late:
            return sink, end
        flood = Flood(flood_bytes)
        end = self._fed(walk.in_any_order, flood, ahead_bytes=_FAR_AHEAD)
        if end.late or end.out_of_memory:
            return sink, end
        sink = fresh()
        if end.finished:
            sink.feed(sort(flood.data))
            sink.close()
            return sink, end
        return sink, self._fed(walk.in_order, sink)

    def _fed(
        self, argv: list[str], sink: Sink, until: Callable[[], float] | None = None, ahead_bytes: int = LITTLE_AHEAD
    ) -> End:
        try:
            return self.run(argv, sink.feed, until=until, ahead_bytes=ahead_bytes)
        finally:
            sink.close()

    def run(
        self,
        argv: Sequence[str],
        feed: Callable[[bytes], bool],
        fds: Sequence[int] = (),
        until: Callable[[], float] | None = None,
        pieces: Iterable[bytes] | None = None,
        ahead_bytes: int = _FAR_AHEAD,
    ) -> End:
        """Run once, until the deadline unless told otherwise."""
        with written(pieces) as stdin:
            child, self._first = self._first, None
            if child is None:
                child = start(self._ground, argv, ahead_bytes, stdin, fds)
            until = until or (lambda: self._deadline)
            return follow(child, feed, until=until, brake=self._brake, killed=self._killed)

    def checked(self, end: End) -> End:
        """Raise what a run's end means for the caller."""
        if end.late:
            text = (
                "The search took too long and was stopped; search below a smaller `path`, or name a `glob` or `type`."
            )
            raise Problem(Code.TIMEOUT, text)
        if end.out_of_memory:
            raise Problem(Code.IO_ERROR, "ripgrep ran out of memory over a line that is too long; search fewer files.")
        if not end.messages:
            return end
        told = _NOTHING_SEARCHED.sub("", _UNREADABLE.sub("", end.messages)).strip()
        if end.code in (2, None) and told:
            raise Problem(Code.INVALID_ARGS, told.removeprefix("rg: "))
        return end


class Flood:
    """Keeps what is printed, as long as it is not too much."""

    def __init__(self, max_bytes: int) -> None:
        self._parts: list[bytes] = []
        self._left = max_bytes

    progress = 0.0

    @property
    def data(self) -> bytes:
        return b"".join(self._parts)

    def feed(self, data: bytes) -> bool:
        self._parts.append(data)
        self._left -= len(data)
        return self._left < 0

    def close(self) -> None:
        """Nothing is held open."""


def unreadable(end: End) -> int:
    """How many files a run could not read."""
    return len(_UNREADABLE.findall(end.messages)) if end.messages else 0

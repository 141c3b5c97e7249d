"""Searching files, and the index of a code base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from handrail.words import Place, noun

if TYPE_CHECKING:
    from handrail.ports.journal import Progress
    from handrail.queries import FileQuery, FilesFound, TextFound, TextQuery


class Searcher(Protocol):
    """ripgrep on a vetted handle, confined to the root; bound to one call's exclusions.

    Nothing excluded is named, and every line shown was read through a handle that follows no link. Raises Problem:
    INVALID_ARGS with the engine's own message, TIMEOUT, IO_ERROR. What was started is gone when a method returns,
    however it returns.
    """

    async def files(self, place: Place, query: FileQuery) -> FilesFound:
        """List files below a place."""

    async def text(self, place: Place, query: TextQuery) -> TextFound:
        """Search in a file, or in the files below a place."""


@noun
class Passage:
    """Lines of a file that fit a question; `path` is beneath the root of the place it was found below."""

    place: Place
    first: int  # line, from 1
    last: int
    symbol: str  # what is defined there, "" where nothing is
    score: float


@noun
class IndexState:
    """How fresh the index was when it answered."""

    files: int  # that it covers
    updated: int  # that were read anew for this answer
    waiting: int = 0  # that there was no time to read; the next search goes on
    skipped: int = 0  # too large, unreadable or no text
    seconds: float = 0.0  # spent on bringing it up to date
    partial: bool = False  # there are more files than settings let it cover
    vectors: bool = False  # they helped to rank
    lacks: str = ""  # why they did not, though settings ask for them


class Index(Protocol):
    """The code index of the roots; bound to one call, whose exclusions it keeps to.

    Raises Problem IO_ERROR when it cannot be built or read: nothing else depends on it.
    """

    async def search(
        self, query: str, places: Sequence[Place], limit: int, progress: Progress
    ) -> tuple[Sequence[Passage], IndexState]:
        """Bring the index up to date below the places, and give the parts of files that fit best."""

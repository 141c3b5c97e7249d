"""Notes that outlive a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from handrail.words import noun


@noun
class Note:
    """One thing remembered across runs."""

    id: str
    content: str
    title: str = ""
    scope: str = "workspace"  # workspace | user
    tags: tuple[str, ...] = ()
    created: float = 0.0  # wall clock
    updated: float = 0.0
    score: float = 0.0  # how well it fits what was asked; larger is better


@noun
class NoteChange:
    """What a call wants remembered, changed or forgotten."""

    action: str  # create | update | delete
    id: str = ""  # of the note to change; empty for a new one
    content: str | None = None  # None: as it is
    title: str | None = None
    scope: str = "workspace"
    tags: tuple[str, ...] | None = None


@noun
class NoteKept:
    """What became of a change: done, or waiting for a person."""

    id: str  # of the note, or of the candidate
    candidate: bool
    ref: str = ""  # where the candidate lies in the run's folder


class MemoryProvider(Protocol):
    """Where notes live. Raises Problem NOT_FOUND for an id it does not know, IO_ERROR, UPSTREAM_ERROR.

    A note that is added twice under one id is there once: who is not sure that it arrived may send it again.
    """

    async def search(self, query: str, scope: str | None, limit: int) -> Sequence[Note]:
        """Give the notes that fit best, the best first; an empty query gives the newest."""

    async def add(self, note: Note) -> Note:
        """Keep a new note under the id it brings."""

    async def change(self, change: NoteChange, now: float) -> Note:
        """Put new text in place of what a note of the change's scope says."""

    async def remove(self, note_id: str, scope: str) -> None:
        """Forget a note."""

    async def close(self) -> None:
        """Let go of files and connections."""


class Memory(Protocol):
    """Notes as tools reach them, under the settings' write mode; bound to one call."""

    async def recall(self, query: str, scope: str | None, limit: int) -> Sequence[Note]:
        """Give the notes that fit best."""

    async def write(self, change: NoteChange) -> NoteKept:
        """Carry a change out, or keep it as a candidate for a person to accept."""

"""Changes of notes that wait for a person: one JSON file each in the archive of the run that wants them.

`archive/memory/<id>.json` waits; answering moves it into `accepted/` or `rejected/` beside it. The rename decides who
answered first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from handrail.errors import Code, Problem
from handrail.ports import MemoryProvider, Note, NoteChange
from handrail.store.private import make_folder, make_inside, read_private, sync_folder, write_atomic

FOLDER = "memory"
STATES = ("accepted", "rejected")
MAX_BYTES = 1 << 20  # of a file that is taken for a candidate


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change that a run wants, and who wants it."""

    id: str
    run_id: str
    call_id: str
    workspace: str
    created: float
    action: str
    note_id: str = ""
    content: str | None = None
    title: str | None = None
    scope: str = "workspace"
    tags: tuple[str, ...] | None = None
    state: str = "pending"  # pending | accepted | rejected

    @property
    def change(self) -> NoteChange:
        """What it would do."""
        return NoteChange(self.action, self.note_id, self.content, self.title, self.scope, self.tags)


def keep(archive: Path, candidate: Candidate) -> str:
    """Write a candidate down, whole and durable; gives its path beneath the run's folder."""
    make_folder(archive / FOLDER)
    write_atomic(archive / FOLDER / f"{candidate.id}.json", [_written(candidate)])
    return f"archive/{FOLDER}/{candidate.id}.json"


def listed(runs: Path, *, every: bool = False) -> list[Candidate]:
    """The candidates of all runs that wait, oldest first; `every` adds the answered ones."""
    found = [candidate for archive in _archives(runs) for candidate in _of(archive, every=every)]
    return sorted(found, key=lambda candidate: (candidate.created, candidate.id))


async def accept(runs: Path, candidate: Candidate, provider: MemoryProvider, now: float) -> str:
    """Carry a candidate out; gives the id of the note.

    Adding twice under one id keeps one note, so whoever was interrupted before the rename accepts again.
    """
    _waiting(runs, candidate)
    note_id = await carry_out(candidate.change, candidate.id, provider, now)
    _answer(runs, candidate, "accepted")
    return note_id


def reject(runs: Path, candidate: Candidate) -> None:
    """Put a candidate aside; nothing is remembered of it but the file."""
    _answer(runs, candidate, "rejected")


async def carry_out(change: NoteChange, new_id: str, provider: MemoryProvider, now: float) -> str:
    """Have a provider do what a change says; gives the id of the note."""
    if change.action == "create":
        note = Note(new_id, change.content or "", change.title or "", change.scope, change.tags or (), now, now)
        return (await provider.add(note)).id
    if change.action == "update":
        return (await provider.change(change, now)).id
    await provider.remove(change.id, change.scope)
    return change.id


def _answer(runs: Path, candidate: Candidate, state: str) -> None:
    folder = _folder(runs, candidate)
    make_inside(folder, STATES)
    name = f"{candidate.id}.json"
    try:
        os.rename(folder / name, folder / state / name)
    except FileNotFoundError:
        raise _answered(runs, candidate) from None
    sync_folder(folder / state)
    sync_folder(folder)


def _waiting(runs: Path, candidate: Candidate) -> None:
    if not (_folder(runs, candidate) / f"{candidate.id}.json").is_file():
        raise _answered(runs, candidate)


def _answered(runs: Path, candidate: Candidate) -> Problem:
    folder = _folder(runs, candidate)
    state = next((state for state in STATES if (folder / state / f"{candidate.id}.json").exists()), "gone")
    return Problem(Code.NOT_FOUND, f"Candidate {candidate.id} is {state} already; the first answer counts.")


def _folder(runs: Path, candidate: Candidate) -> Path:
    return runs / candidate.run_id / "archive" / FOLDER


def _archives(runs: Path) -> Iterator[Path]:
    try:
        with os.scandir(runs) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return
    yield from (runs / name / "archive" / FOLDER for name in names)


def _of(folder: Path, *, every: bool) -> Iterator[Candidate]:
    run_id = folder.parent.parent.name
    for state in ("pending", *STATES) if every else ("pending",):
        place = folder if state == "pending" else folder / state
        for path in sorted(place.glob("*.json")):
            candidate = _read(path)
            # What a file says of its own place does not count.
            if candidate is not None and path.stem == candidate.id:
                yield replace(candidate, run_id=run_id, state=state)


def _written(candidate: Candidate) -> bytes:
    return orjson.dumps(asdict(candidate), option=orjson.OPT_INDENT_2)


def _read(path: Path) -> Candidate | None:
    """Read a file back; None for what is no candidate."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return None
        found: dict[str, Any] = orjson.loads(read_private(path))
        tags = found.pop("tags", None)
        return Candidate(**found, tags=None if tags is None else tuple(tags))
    except (OSError, ValueError, TypeError, AttributeError):
        return None

"""Changes of notes that wait for a person: one JSON file each in the archive of the run that wants them.

`archive/memory/<id>.json` waits; answering moves it into `accepted/` or `rejected/` beside it. The rename decides who
answered first. What is accepted is what the run's journal has the hash of, and holds no secret as far as is known by
then.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from handrail.errors import Code, Problem, RunFault
from handrail.ports import MemoryProvider, Note, NoteChange, Secrets
from handrail.store.private import make_folder, make_inside, read_private, sync_folder, write_atomic
from handrail.store.reader import events, verify
from handrail.strict_json import is_text
from handrail.tools.memory._notes import refuse_secrets

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


def keep(archive: Path, candidate: Candidate) -> tuple[str, str]:
    """Write a candidate down, whole and durable; gives its path beneath the run's folder, and its sha256."""
    make_folder(archive / FOLDER)
    data = orjson.dumps(asdict(candidate), option=orjson.OPT_INDENT_2)
    write_atomic(archive / FOLDER / f"{candidate.id}.json", [data])
    return f"archive/{FOLDER}/{candidate.id}.json", hashlib.sha256(data).hexdigest()


def listed(runs: Path, *, every: bool = False) -> list[Candidate]:
    """The candidates of all runs that wait, oldest first; `every` adds the answered ones."""
    found = [candidate for archive in _archives(runs) for candidate in _of(archive, every=every)]
    return sorted(found, key=lambda candidate: (candidate.created, candidate.id))


async def accept(runs: Path, candidate: Candidate, provider: MemoryProvider, secrets: Secrets, now: float) -> str:
    """Carry a candidate out; gives the id of the note.

    Adding twice under one id keeps one note, so whoever was interrupted before the rename accepts again.
    """
    _waiting(runs, candidate)
    _unchanged(runs, candidate)
    refuse_secrets(secrets, [candidate.note_id, candidate.title, candidate.content, *(candidate.tags or ())])
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


def _unchanged(runs: Path, candidate: Candidate) -> None:
    """Refuse what is not the file that the run's journal knows."""
    path = _folder(runs, candidate) / f"{candidate.id}.json"
    try:
        whole = verify(runs / candidate.run_id).ok
        known = [
            event.get("sha256")
            for event in events(runs / candidate.run_id)
            if event.get("kind") == "memory.candidate" and event.get("id") == candidate.id
        ]
        data = read_private(path)
    except (OSError, RunFault):
        whole, known, data = False, [], b""
    # What was read for the list must be what lies there now, and what lies there what the run wrote.
    same = hashlib.sha256(data).hexdigest() in known and _parsed(data) == replace(candidate, state="pending")
    if not whole or not same:
        text = (
            f"Candidate {candidate.id} is not what its run wrote down: the file or the run's journal has changed "
            f"since. It is not remembered; `handrail memory reject {candidate.id}` puts it aside."
        )
        raise Problem(Code.STALE_FILE, text, run=candidate.run_id)


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


def _read(path: Path) -> Candidate | None:
    """Read a file back; None for what is no candidate."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
            return None
        return _parsed(read_private(path))
    except OSError:
        return None


def _parsed(data: bytes) -> Candidate | None:
    try:
        found: dict[str, Any] = orjson.loads(data)
        tags = found.pop("tags", None)
        candidate = Candidate(**found, tags=None if tags is None else tuple(tags))
    except (ValueError, TypeError, AttributeError):
        return None
    return candidate if _is_sound(candidate) else None


def _is_sound(candidate: Candidate) -> bool:
    """Whether every field is of its type; a dataclass takes anything."""
    fields = asdict(candidate)
    created, tags = fields.pop("created"), fields.pop("tags") or ()
    optional = {name for name in ("content", "title") if fields[name] is None}
    texts = (*(value for name, value in fields.items() if name not in optional), *tags)
    return isinstance(created, float) and all(map(is_text, texts))

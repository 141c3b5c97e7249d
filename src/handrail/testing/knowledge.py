"""What an agent may look up, held in memory: skills, notes, an index of code."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from handrail.errors import Code, Problem
from handrail.ports import IndexState, Note, NoteKept, Skill, SkillFile
from handrail.words import Place, PlaceKind, Root

if TYPE_CHECKING:
    from handrail.ports import NoteChange, Passage, Progress


class MemorySkills:
    """Skills without folders: what each says, and its files; `activated` names those that were loaded."""

    def __init__(self, bodies: Mapping[str, str], files: Mapping[str, Mapping[str, bytes]] | None = None) -> None:
        self._bodies, self._files = dict(bodies), dict(files or {})
        self.activated: list[str] = []

    def list(self) -> Sequence[Skill]:
        """All of them."""
        return tuple(self._skill(name) for name in self._bodies)

    def find(self, skill_id: str) -> Skill:
        """Give one."""
        if skill_id not in self._bodies:
            raise Problem(Code.NOT_FOUND, f"There is no skill {skill_id}.", near=sorted(self._bodies))
        return self._skill(skill_id)

    def body(self, skill: Skill) -> str:
        """What it says."""
        return self._bodies[skill.id]

    def files(self, skill: Skill) -> Sequence[SkillFile]:
        """Its files."""
        found = self._files.get(skill.id, {})
        return tuple(SkillFile(path, len(data), hashlib.sha256(data).hexdigest()) for path, data in found.items())

    def read(self, skill: Skill, resource: str) -> bytes:
        """One file."""
        if resource.startswith("/") or ".." in resource.split("/"):
            raise Problem(Code.PATH_OUTSIDE_ROOTS, f"{resource} leads out of the skill {skill.id}.")
        if resource not in self._files.get(skill.id, {}):
            raise Problem(Code.NOT_FOUND, f"{skill.id} has no file {resource}.")
        return self._files[skill.id][resource]

    def place(self, skill: Skill, resource: str) -> Place:
        """Where a file would stand."""
        self.read(skill, resource)
        return Place(Root(skill.folder, skill.folder, writable=False), resource, PlaceKind.FILE)

    def activate(self, skill: Skill) -> None:
        """Remember that it was loaded."""
        self.activated.append(skill.id)

    def _skill(self, name: str) -> Skill:
        digest = hashlib.sha256(repr((self._bodies[name], self._files.get(name))).encode()).hexdigest()
        return Skill(name, name, f"The skill {name}.", "memory", f"/skills/{name}", digest, None)


class MemoryNotes:
    """Notes in a dictionary; with `candidates` what is written waits in `waiting` instead, as for a person."""

    def __init__(self, *notes: Note, candidates: bool = False) -> None:
        self.notes = {note.id: note for note in notes}
        self.waiting: list[NoteChange] = []
        self._candidates = candidates

    async def recall(self, query: str, scope: str | None, limit: int) -> Sequence[Note]:
        """Give the notes that hold a word of the query, the newest first; all for an empty query."""
        words = query.casefold().split()
        found = [
            note
            for note in reversed(self.notes.values())
            if scope in (None, note.scope)
            and (not words or any(word in f"{note.title} {note.content}".casefold() for word in words))
        ]
        return tuple(found[:limit])

    async def write(self, change: NoteChange) -> NoteKept:
        """Carry a change out, or let it wait."""
        if change.action != "create" and change.id not in self.notes:
            raise Problem(Code.NOT_FOUND, f"There is no note {change.id}.", near=sorted(self.notes))
        if self._candidates:
            self.waiting.append(change)
            return NoteKept(f"candidate_{len(self.waiting)}", candidate=True)
        if change.action == "delete":
            del self.notes[change.id]
            return NoteKept(change.id, candidate=False)
        note = self._changed(change)
        self.notes[note.id] = note
        return NoteKept(note.id, candidate=False)

    def _changed(self, change: NoteChange) -> Note:
        old = self.notes.get(change.id) or Note(f"note_{len(self.notes) + 1}", "", scope=change.scope)
        return Note(
            old.id,
            old.content if change.content is None else change.content,
            old.title if change.title is None else change.title,
            old.scope,
            old.tags if change.tags is None else change.tags,
        )


class ListedIndex:
    """An index that gives these passages, in this order, whatever is asked; `asked` keeps the questions."""

    def __init__(self, *passages: Passage) -> None:
        self._passages = passages
        self.asked: list[str] = []

    async def search(
        self,
        query: str,
        places: Sequence[Place],
        limit: int,
        progress: Progress,  # noqa: ARG002
    ) -> tuple[Sequence[Passage], IndexState]:
        """Give the passages that lie below the places."""
        self.asked.append(query)
        found = [passage for passage in self._passages if any(_below(passage.place, place) for place in places)]
        return tuple(found[:limit]), IndexState(files=len(self._passages), updated=0)


def _below(place: Place, folder: Place) -> bool:
    same = place.root == folder.root
    return same and (folder.path in ("", place.path) or place.path.startswith(f"{folder.path}/"))

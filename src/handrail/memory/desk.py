"""Notes as the tools of one call reach them: the write mode decides where a change goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uuid_utils import uuid7

from handrail.memory import candidates
from handrail.ports import Clock, Journal, MemoryProvider, Note, NoteChange, NoteKept


@dataclass(frozen=True, slots=True)
class Office:
    """What all calls of a run share."""

    provider: MemoryProvider
    mode: str  # candidate | external
    archive: Path  # of the run
    workspace: str
    journal: Journal
    clock: Clock


@dataclass(frozen=True, slots=True)
class MemoryDesk:
    """Satisfies `ports.Memory` for one call."""

    office: Office
    call_id: str

    async def recall(self, query: str, scope: str | None, limit: int) -> Sequence[Note]:
        """Give the notes that fit best."""
        return await self.office.provider.search(query, scope, limit)

    async def write(self, change: NoteChange) -> NoteKept:
        """Carry a change out, or keep it for a person to accept."""
        office = self.office
        if office.mode != "external":
            return await self._candidate(change)
        note_id = await candidates.carry_out(change, str(uuid7()), office.provider, office.clock.now())
        return NoteKept(note_id, candidate=False)

    async def _candidate(self, change: NoteChange) -> NoteKept:
        office = self.office
        candidate = candidates.Candidate(
            id=str(uuid7()),
            run_id=office.journal.run_id,
            call_id=self.call_id,
            workspace=office.workspace,
            created=office.clock.now(),
            action=change.action,
            note_id=change.id,
            content=change.content,
            title=change.title,
            scope=change.scope,
            tags=change.tags,
        )
        ref, sha256 = candidates.keep(office.archive, candidate)
        fields = {"id": candidate.id, "action": change.action, "scope": change.scope, "ref": ref, "sha256": sha256}
        office.journal.append("memory.candidate", self.call_id, fields)
        await office.journal.durable()
        return NoteKept(candidate.id, candidate=True, ref=ref)

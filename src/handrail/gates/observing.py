"""Writing down what an agent tells of a call that it carried out itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from handrail.errors import Problem
from handrail.gates import record
from handrail.words import Change, Json, noun

if TYPE_CHECKING:
    from handrail.kernel import Parts

_FILE, _MISSING = "file", "missing"


@noun
class Observation:
    """A call that an agent carried out, as it tells it."""

    call_id: str
    tool: str
    agent: str
    ok: bool
    args: Mapping[str, Json]
    response: Any = None
    message: str = ""  # of a call that failed
    duration_ms: float = 0.0
    status: str = ""  # how it ended, where that is more than well or not
    formers: Sequence[Mapping[str, Any]] = ()  # `before` of its start
    changed_input: bool = False  # other arguments than were judged
    approved: str = ""  # who answered, where the agent asked its own person
    reads: str = ""  # the file that it read whole
    wrote_whole: bool = False  # it gave all that the files which it changed hold now
    changes: Sequence[Change] = ()  # of its programs
    warnings: Sequence[str] = field(default_factory=tuple)


class Observer:
    """Looks at what became of the files that a call was to change, and appends `tool.observed`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def observe(self, seen: Observation) -> tuple[Change, ...]:
        """Put a call's end on record; returns what it changed."""
        parts = self._parts
        changes = [*[change for item in seen.formers for change in await self._change(item)], *seen.changes]
        fields: dict[str, Any] = {
            "trace_id": parts.trace_id,
            "tool": seen.tool,
            "agent": seen.agent,
            "status": seen.status or ("ok" if seen.ok else "failed"),
            "duration_ms": seen.duration_ms,
            "args": parts.finisher.args(record.jsonable(seen.args)),
        }
        told = {"message": seen.message, "approved": seen.approved, "warnings": list(seen.warnings)}
        fields |= parts.finisher.hidden({name: value for name, value in told.items() if value})
        if seen.changed_input:
            fields["changed_input"] = True
        if seen.response is not None:
            fields["response"] = self._shown(seen.response)
        if changes:
            fields["files_changed"] = self._hidden(changes)
            if parts.order is not None:
                fields["order"] = parts.order()
        known = {change.path: change.after for change in changes if change.after and seen.wrote_whole}
        if seen.reads and (content := await self._hash(seen.reads)):
            known[seen.reads] = content
        if known:
            fields["seen"] = parts.finisher.hidden(self._remember(seen.call_id, known))
        parts.journal.append("tool.observed", seen.call_id, fields)
        parts.journal.flush()
        return tuple(changes)

    def _remember(self, call_id: str, known: dict[str, str]) -> dict[str, str]:
        """Have later calls know what the agent has read or written whole."""
        bound = self._parts.files.bind(call_id, ())
        for path, sha256 in known.items():
            bound.saw(self._parts.files.resolve(path), sha256, whole=True)
        return known

    def _hidden(self, changes: Sequence[Change]) -> list[dict[str, Json]]:
        """Changes with secrets in file names hidden; such a change cannot be undone from the journal."""
        told = [record.change_fields(change) for change in changes]
        hidden = self._parts.finisher.hidden(told)
        pairs = zip(told, hidden, strict=True)
        return [new if new["path"] == old["path"] else {**new, "kept": False} for old, new in pairs]

    def _shown(self, response: Any) -> Any:
        return record.cut(self._parts.finisher.hidden(record.jsonable(response)))

    async def _change(self, former: Mapping[str, Any]) -> list[Change]:
        """Compare what stands at a path with what stood there before."""
        path, before = str(former.get("path")), former.get("sha256")
        if path.endswith("/"):
            made = await self._hash(path.rstrip("/"))
            return [Change(path.rstrip("/"), "mkdir")] if made is not None else []
        if former.get("kind") not in (_FILE, _MISSING):
            return []
        now = await self._hash(path)
        if now == before:
            return []
        kept, mode = bool(former.get("kept")), former.get("mode")
        if before is None:
            return [Change(path, "create", after=now)]
        if now is None:
            return [Change(path, "delete", before, mode=mode, kept=kept)]
        return [Change(path, "replace", before, now, mode, kept=kept)]

    async def _hash(self, path: str) -> str | None:
        """Hash what stands at a path; None where nothing does, or a link leads out of the roots by now."""
        files = self._parts.files
        try:
            return await files.fingerprint(files.resolve(path)) or None
        except Problem:
            return None

"""Calls that an agent carries out now: what is remembered of them until it tells how they ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from handrail.words import Change

if TYPE_CHECKING:
    from handrail.processes.effects import Look, Watch
    from handrail.runtime import Runtime

MOST_ENTRIES = 20_000  # in the write roots, that a hook looks at before and after a command


@dataclass(slots=True)
class Handed:
    """One such call."""

    id: str
    tool: str
    call: str  # the agent's own id
    digest: str  # of what the tool was given
    asked: bool = False  # the agent asked its own person
    before: Sequence[Mapping[str, Any]] = ()  # what stood where it may write


def handed_calls(open_calls: Mapping[str, Mapping[str, Any]]) -> dict[str, Handed]:
    """Find the calls of a run that were handed over and not seen again."""
    found: dict[str, Handed] = {}
    for call_id, call in open_calls.items():
        handed = call.get("handed_over")
        if isinstance(handed, Mapping):
            about = (str(handed.get("id") or ""), str(handed.get("digest") or ""), bool(handed.get("asks")))
            found[call_id] = Handed(call_id, str(call.get("tool")), *about, list(call.get("before") or ()))
    return found


class Looks:
    """How the write roots stood before commands that an agent runs itself."""

    def __init__(self) -> None:
        self._watch: Watch | None = None
        self._looks: dict[str, Look] = {}

    async def look(self, runtime: Runtime, call_id: str) -> None:
        """Look at the write roots before a command."""
        watch = self._watching(runtime)
        self._looks[call_id] = await asyncio.to_thread(watch.look, MOST_ENTRIES)

    async def changes(self, runtime: Runtime, call_id: str) -> tuple[list[Change], list[str]]:
        """Say what changed since a command was handed over; nothing where nobody looked."""
        before = self._looks.pop(call_id, None)
        if before is None:
            return [], []
        watch = self._watching(runtime)
        after = await asyncio.to_thread(watch.look, MOST_ENTRIES)
        found, warnings = await asyncio.to_thread(watch.changes, before, after)
        return found, warnings

    def forget(self) -> None:
        """Forget all looks: the run is closed."""
        self._watch = None
        self._looks.clear()

    def _watching(self, runtime: Runtime) -> Watch:
        if self._watch is None:
            from handrail.processes.effects import Watch
            from handrail.settings import paths

            apart = [str(runtime.parts.folder.path.parent), str(paths.state_dir()), str(paths.cache_dir())]
            self._watch = Watch(runtime.parts.files.roots, runtime.parts.files.access, apart)
        return self._watch

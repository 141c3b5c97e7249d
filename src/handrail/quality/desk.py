"""The linters of one call: run confined with the roots to be read only, and what earlier looks found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handrail.errors import Problem
from handrail.ports import Finished, Linter, LintLook, Processes, Program
from handrail.quality.linters import find_linter
from handrail.store.images import Images
from handrail.store.reader import events
from handrail.words import Place

SECONDS = 30.0  # of one linter on one file


@dataclass(slots=True)
class Bench:
    """What all calls of a run share."""

    settings: Mapping[str, Mapping[str, Any]]
    home: Place  # the workspace itself, where linters find their configuration
    run: Path  # the run's folder
    ruff: str | None = None  # as settings name it
    looks: dict[str, LintLook] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LintDesk:
    """Satisfies `ports.Linters` for one call."""

    bench: Bench
    programs: Callable[[], Processes]

    def find(self, path: str) -> Linter | None:
        """The linter for a file, by its name."""
        return find_linter(path, self.bench.settings, self.bench.ruff)

    async def run(self, linter: Linter, place: Place, data: bytes) -> Finished:
        """Run a linter on a content."""
        argv = tuple(word.replace("{path}", place.absolute) for word in linter.argv)
        stdin = data if linter.stdin else b""
        program = Program(argv, self.bench.home, stdin, timeout_seconds=SECONDS, reads=linter.reads)
        return await self.programs().run(program)

    def last(self, place: Place) -> LintLook | None:
        """What this run's last look at a file found."""
        return self.bench.looks.get(place.absolute)

    def looked(self, place: Place, look: LintLook) -> None:
        """Remember a look."""
        self.bench.looks[place.absolute] = look

    async def former(self, place: Place) -> bytes | None:
        """What the file held before this run's last change of it; None where that is not known."""
        return await asyncio.to_thread(_former, self.bench.run, place.shown)


def _former(run: Path, shown: str) -> bytes | None:
    before: str | None = None
    for event in events(run):
        for change in event.get("files_changed") or () if event.get("kind") == "tool.completed" else ():
            if isinstance(change, dict) and change.get("path") == shown:
                before = change.get("before") if change.get("op") != "create" else ""
    if before == "":
        return b""
    try:
        return None if before is None else Images(run / "archive", 0).load(before)
    except (Problem, ValueError):
        return None

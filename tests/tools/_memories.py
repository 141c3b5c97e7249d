"""What tests of memory share: a runtime that may write notes, and notes put there without one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from handrail import Runtime
from handrail.faculties import memory_files
from handrail.memory.sqlite import SqliteMemory
from handrail.ports import Note
from handrail.store.reader import events

EXTERNAL: dict[str, Any] = {
    "memory": {"write_mode": "external"},
    "rules": [{"effect": "allow", "touch": "memory.write"}],
}


async def put(workspace: Path, *notes: Note) -> None:
    """Put notes where a runtime on this workspace looks for them."""
    provider = SqliteMemory(memory_files(str(workspace)))
    for note in notes:
        await provider.add(note)
    await provider.close()


async def stored(workspace: Path) -> list[tuple[str, str, str]]:
    """All notes, as scope, title and content, newest first."""
    provider = SqliteMemory(memory_files(str(workspace)))
    found = await provider.search("", None, 100_000)
    await provider.close()
    return [(note.scope, note.title, note.content) for note in found]


def candidates(runtime: Runtime) -> list[dict[str, Any]]:
    """The candidate files of a run."""
    folder = runtime.parts.folder.archive / "memory"
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def kinds(runtime: Runtime) -> list[str]:
    """The kinds of a run's events."""
    return [event["kind"] for event in events(runtime.parts.folder.path)]

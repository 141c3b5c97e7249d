"""Searching past runs: calls whose tool, arguments, targets or outcome hold some words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from handrail.errors import RunFault
from handrail.front.cli._tables import calls_of

Match = dict[str, Any]
MOST_EVENTS = 200_000  # of one run


def search_runs(folders: Iterable[Path], words: Sequence[str], wanted: Mapping[str, str | None]) -> Iterator[Match]:
    """Give the calls that hold all words, newest run first; `wanted` names a tool, a decision or a status."""
    texts = [word.casefold() for word in words]
    for folder in folders:
        for call in _calls(folder):
            if all(value is None or _names(call, name, value) for name, value in wanted.items()):
                whole = orjson.dumps(call, default=str).decode().casefold()
                if all(text in whole for text in texts):
                    yield {"run_id": folder.name, **call}


def _names(call: Mapping[str, Any], name: str, value: str) -> bool:
    if name == "tool":
        return value in (call.get("tool"), call.get("asked"))
    return bool(call.get(name) == value)


def _calls(folder: Path) -> list[dict[str, Any]]:
    from handrail.store.reader import events

    found = []
    try:
        for number, event in enumerate(events(folder)):
            if number == MOST_EVENTS:
                break
            found.append(event)
    except RunFault:
        return []
    return calls_of(found)

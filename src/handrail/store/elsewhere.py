"""Folders of runs outside the user's state folder: on record there, so that every later run keeps its tools out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import orjson

from handrail.store.chain import EVENTS
from handrail.store.folders import INFO
from handrail.store.private import SAFE, make_folder

NAME = "runs-elsewhere.jsonl"
USUAL = ("runs", ".agent/runs", ".handrail/runs", ".handrail")  # where settings that are shipped or common keep runs


def note(state: Path, runs: Path) -> None:
    """Put a folder of runs on record, once; the user's own one needs none.

    Where there is no place for the record, the usual places are found all the same.
    """
    place = os.path.realpath(runs)
    if f"{place}/".startswith(f"{os.path.realpath(state)}/") or place in _noted(state):
        return
    with suppress(OSError):
        make_folder(state)
        with open(os.open(state / NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND | SAFE, 0o600), "wb") as file:
            file.write(orjson.dumps(place) + b"\n")


def within(state: Path, roots: Iterable[str]) -> list[str]:
    """Give the folders beneath these roots in which runs lie: those on record, and those in the usual places."""
    noted, found = _noted(state), []
    for root in dict.fromkeys(roots):
        above = root.rstrip("/")
        found += [place for place in noted if place.startswith(f"{above}/") and os.path.isdir(place)]
        found += [place for name in USUAL if (place := f"{above}/{name}") not in noted and _holds_runs(place)]
    return found


def _noted(state: Path) -> list[str]:
    try:
        lines = (state / NAME).read_bytes().splitlines()
    except OSError:
        return []
    return list(_texts(lines))


def _texts(lines: Iterable[bytes]) -> Iterator[str]:
    for line in lines:
        try:
            value = orjson.loads(line)
        except ValueError:
            continue
        if isinstance(value, str):
            yield value


def _holds_runs(folder: str) -> bool:
    """Whether a run lies here: a folder with a journal and what describes it."""
    try:
        with os.scandir(folder) as entries:
            return any(
                os.path.lexists(f"{entry.path}/{EVENTS}") and os.path.lexists(f"{entry.path}/{INFO}")
                for entry in entries
            )
    except OSError:
        return False

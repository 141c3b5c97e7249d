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
MOST_NAMED = 256
USUAL = ("runs", ".agent/runs", ".handrail/runs", ".handrail")  # where settings that are shipped or common keep runs


def note(state: Path, runs: Path) -> None:
    """Put a folder of runs on record, once; the user's own one needs none.

    Where there is no place for the record, the usual places are found all the same.
    """
    place = os.path.realpath(runs)
    if f"{place}/".startswith(f"{os.path.realpath(state)}/") or place in read_noted(state):
        return
    with suppress(OSError, TypeError):  # the second: a name that is no text
        make_folder(state)
        with open(os.open(state / NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND | SAFE, 0o600), "wb") as file:
            file.write(orjson.dumps(place) + b"\n")


def within(state: Path, roots: Iterable[str]) -> list[str]:
    """Give what belongs to runs in these roots: folders on record, and single runs that lie in the usual places.

    What is on record is ours; elsewhere anybody can lay out what looks like a run, and has no more than that withheld.
    """
    noted, found = read_noted(state), []
    for root in dict.fromkeys(roots):
        above = root.rstrip("/")
        found += [place for place in noted if place.startswith(f"{above}/") and os.path.isdir(place)]
        found += [root for place in noted if above == place or (os.path.dirname(above) == place and _is_run(above))]
        found += [run for name in USUAL if (place := f"{above}/{name}") not in noted for run in _runs_in(root, place)]
    return found


def read_noted(state: Path) -> list[str]:
    """Give the folders of runs that are on record."""
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


def _runs_in(root: str, folder: str) -> list[str]:
    """The runs that lie in a folder which no link leads to; the folder itself where they are too many to name."""
    if os.path.realpath(folder) != f"{os.path.realpath(root).rstrip('/')}{folder[len(root.rstrip('/')) :]}":
        return []
    try:
        with os.scandir(folder) as entries:
            runs = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False) and _is_run(entry.path)]
    except OSError:
        return []
    return runs if len(runs) <= MOST_NAMED else [folder]


def _is_run(folder: str) -> bool:
    """Whether a run lies here: a journal and what describes it."""
    return os.path.isfile(f"{folder}/{EVENTS}") and os.path.isfile(f"{folder}/{INFO}")

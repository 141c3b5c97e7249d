"""The checkpoint of a run: its state at one place of the chain, so that opening never reads a long journal."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import orjson

from handrail.store.chain import Mark
from handrail.store.private import read_private, write_atomic
from handrail.store.state import RunState

NAME = "checkpoint.json"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was true right behind a line of the journal."""

    mark: Mark
    state: RunState


def pack(mark: Mark, state: RunState) -> bytes:
    """Write a checkpoint down as it stands now."""
    body = {"seq": mark.seq, "head": mark.head, "offset": mark.offset, "state": state.to_json()}
    return orjson.dumps({"sum": sha256(orjson.dumps(body)).hexdigest(), **body})


def save(folder: Path, packed: bytes) -> None:
    """Put a packed checkpoint in place; the journal must be durable up to its mark."""
    write_atomic(folder / NAME, [packed])


def load(folder: Path) -> Checkpoint | None:
    """Read the checkpoint; None when there is none that can be believed."""
    try:
        body = orjson.loads(read_private(folder / NAME))
        if body.pop("sum") != sha256(orjson.dumps(body)).hexdigest():
            return None
        return Checkpoint(Mark(body["seq"], body["head"], body["offset"]), RunState.from_json(body["state"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def clear_drafts(folder: Path) -> None:
    """Remove what a killed process left of checkpoints it was writing."""
    for draft in folder.glob(f".{NAME}.*.tmp"):
        draft.unlink(missing_ok=True)

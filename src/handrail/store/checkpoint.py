"""The checkpoint of a run: its state at one place of the chain, so that opening never reads a long journal."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from handrail.store.chain import Mark, line_before, walk
from handrail.store.private import read_private, write_atomic
from handrail.store.state import RunState
from handrail.words import noun

NAME = "checkpoint.json"
LINES_A_PAUSE = 100


@noun
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


def advance(fd: int, folder: Path, run_id: str, target: Mark, pause: Callable[[], None]) -> None:
    """Keep a new checkpoint at a durable mark: the last one and the lines since then, as they stand in the file.

    Read from the file and not handed over, so that no update a caller forgot can be missing from it. `pause` is called
    after every few lines, to let others run.
    """
    known = load(folder)
    start, state = (known.mark, known.state) if known is not None and fits(fd, known.mark) else (Mark(), RunState())

    def visit(event: dict[str, Any], _: str) -> None:
        state.apply(event)
        if event["seq"] % LINES_A_PAUSE == 0:
            pause()

    mark, _ = walk(fd, start, run_id, visit, until=target.offset)
    if mark == target:
        save(folder, pack(mark, state))


def fits(fd: int, mark: Mark) -> bool:
    """Whether the line that ends at a mark is the one it names."""
    if mark.offset == 0:
        return mark == Mark()
    line = line_before(fd, mark.offset)
    return line is not None and sha256(line).hexdigest() == mark.head


def clear_drafts(folder: Path) -> None:
    """Remove what a killed process left of checkpoints it was writing."""
    for draft in folder.glob(f".{NAME}.*.tmp"):
        draft.unlink(missing_ok=True)

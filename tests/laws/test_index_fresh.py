"""Law of the index: after any changes it answers as one that was made this moment."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.index.desk import IndexDesk
from handrail.index.shelf import Bounds, Shelf
from handrail.output.redact import Redactor
from handrail.testing import FixedClock
from handrail.words import PlaceKind, Root
from handrail.workspace.files import WorkspaceFiles
from handrail.workspace.ripgrep import Ripgrep

REDACTOR = Redactor(engine="plain")
NAMES = st.sampled_from(["a.py", "b.py", "d/c.py", "d/e.md"])
TEXTS = st.sampled_from(["def alpha(): pass\n", "def beta(): pass\n", "# Gamma\n\nalpha beta\n", "", "\0binary"])
STEPS = st.lists(st.tuples(NAMES, st.none() | TEXTS), max_size=8)


async def answers(root: Path, folder: Path, clock: FixedClock) -> list[Any]:
    """What an index kept in a folder says of a tree."""
    files = WorkspaceFiles([Root("workspace", str(root), True)])
    shelf = Shelf(folder, REDACTOR, clock, Bounds())
    try:
        desk = IndexDesk(shelf, files.bind("call", ()), Ripgrep(files).bind(()))
        place = files.resolve(".")
        assert place.kind is PlaceKind.DIRECTORY
        found = []
        for query in ("alpha", "beta gamma", "c"):
            passages, state = await desk.search(query, [place], 10, lambda _done, _total: None)
            places = sorted((item.place.path, item.first, item.last, item.symbol) for item in passages)
            found.append((places, state.files))
        return found
    finally:
        shelf.close()
        await files.close()


def change(root: Path, name: str, text: str | None, now: float) -> None:
    """Write or remove a file at some time."""
    path = root / name
    if text is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    os.utime(path, ns=(int(now * 1e9), int(now * 1e9)))


@given(rounds=st.lists(STEPS, min_size=1, max_size=4), pause=st.sampled_from([0.0, 10.0]))
@settings(max_examples=12, deadline=None)
def test_an_index_that_was_kept_answers_as_a_new_one(rounds: list[Any], pause: float) -> None:
    """Files come, go and change, also back to what they were, also within one tick of the clock."""

    async def compare(folder: Path) -> None:
        clock, root = FixedClock(), folder / "tree"
        root.mkdir()
        for number, steps in enumerate(rounds):
            for name, text in steps:
                change(root, name, text, clock.now())
            kept = await answers(root, folder / "kept", clock)
            assert kept == await answers(root, folder / f"new{number}", clock)
            clock.advance(pause)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder)))

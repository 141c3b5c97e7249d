"""codebase_search on a tree of 20,000 files: the first index, nothing changed, a hundred files changed.

Run it alone: `python bench/index.py [files]`. To hold, by words alone and with vectors: the first under 60 s, nothing
changed under 2 s. Beside the wall clock stands the processor time, which other load on the machine does not stretch.
Then how many of the written-down questions find their file in the first five, with and without vectors.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

from search import make_tree

from handrail import Runtime

QUERY = "where is the rare xyzzy plugh literal"
HOLD = {"first": 60.0, "unchanged": 2.0}


async def asked(runtime: Runtime, what: str, ranking: str) -> float:
    """Ask once; print and give the seconds."""
    began, used = time.perf_counter(), _used()
    outcome = await runtime.call("codebase_search", {"query": QUERY, "limit": 5})
    seconds, cpu = time.perf_counter() - began, _used() - used
    assert outcome.ok, outcome.error
    index = outcome.data["index"]
    assert index["ranking"] == ranking, index
    hold = f"under {HOLD[what]:g} s" if what in HOLD else ""
    counts = " | ".join(str(index[name]) for name in ("files", "updated", "waiting"))
    print(f"| {ranking}, {what} | {seconds:.2f} | {cpu:.2f} | {counts} | {hold} |", flush=True)
    assert not outcome.warnings, outcome.warnings
    return seconds


def _used() -> float:
    """Processor time of this process and of what reads files by grammar, as far as it has ended."""
    return sum(os.times()[:4])


async def measure(root: Path, files: int, vectors: str) -> None:
    """Index a tree, and again with nothing and with little changed."""
    ranking = "hybrid" if vectors == "on" else "lexical"
    config = {"limits": {"timeout_seconds": 600.0}, "search": {"vectors": vectors}}
    async with Runtime.open(root, config=config, screen=Quiet()) as runtime:
        taken = {"first": await asked(runtime, "first", ranking)}
        await asyncio.sleep(2.5)  # a file is not trusted to be unchanged so shortly after it was written
    async with Runtime.open(root, config=config, screen=Quiet()) as runtime:
        taken["unchanged"] = min([await asked(runtime, "unchanged", ranking) for _ in range(3)])
        for path in sorted(root.rglob("file_*"))[:: max(1, files // 100)][:100]:
            path.write_text(path.read_text() + "one line more\n")
        await asked(runtime, "100 changed", ranking)
    indexes = list(Path(os.environ["XDG_CACHE_HOME"]).rglob("index/*.db*"))
    print(f"| {ranking}, size | {sum(path.stat().st_size for path in indexes) / 1e6:.0f} MB | | | | | |", flush=True)
    for path in indexes:
        path.unlink()
    for what, bound in HOLD.items():
        assert taken[what] < bound, f"{ranking}, {what}: {taken[what]:.1f} s, to hold: {bound:g} s"


async def questions() -> None:
    """How many of the written-down questions find their file in the first five."""
    import pydantic

    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from tools._questions import OTHER_WORDS_OWN, OTHER_WORDS_PYDANTIC, OWN, PYDANTIC
    from tools._searched import answered

    own, package = Path(__file__).parents[1], Path(pydantic.__file__).parent
    print("\n| questions in the first five | of | by words | with vectors |\n|---|---|---|---|")
    for what, root, asked_for in (
        ("this project", own, OWN),
        ("an installed package", package, PYDANTIC),
        ("this project, in other words", own, OTHER_WORDS_OWN),
        ("an installed package, in other words", package, OTHER_WORDS_PYDANTIC),
    ):
        found = [len(await answered(root, asked_for, vectors)) for vectors in ("off", "on")]
        print(f"| {what} | {len(asked_for)} | {found[0]} | {found[1]} |", flush=True)


class Quiet:
    """Shows nothing."""

    def show(self, fields: object) -> None:
        """Pass over a display."""


async def main(root: Path, files: int) -> None:
    """All of it."""
    make_tree(root, files)
    print("| codebase_search | s | processor s | files | read | left | to hold |\n|---|---|---|---|---|---|---|")
    for vectors in ("off", "on"):
        await measure(root, files, vectors)
    await questions()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for name in ("STATE", "CONFIG", "CACHE"):
            os.environ[f"XDG_{name}_HOME"] = f"{folder}/{name.lower()}"
        (Path(folder) / "tree").mkdir()
        asyncio.run(main(Path(folder) / "tree", int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))

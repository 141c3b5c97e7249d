"""grep and find_files against bare `rg` with the same flags and limit, on a warm tree of 20,000 files.

Run it alone: `python bench/search.py [files]`. Rounds of all sides alternate, so that load on the machine hits all.

ripgrep has no limit of its own. Ours goes through `runtime.call`, every gate on. The figure is against what a person
runs, `rg … | head`; beside it stands the hardest opponent, a loop written for the purpose that reads from rg until it
has counted enough and kills it, and rg without `--sort path`, which it pays for with its threads.
"""

from __future__ import annotations

import asyncio
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from handrail import Runtime
from handrail.policy.builtin import KEY_MATERIAL
from handrail.queries import FileQuery, TextQuery
from handrail.settings import paths
from handrail.store import databases
from handrail.words import Exclusion, Root
from handrail.workspace.files import WorkspaceFiles
from handrail.workspace.rg_arguments import of_names, of_text, of_walk
from handrail.workspace.rg_process import find_program

ROUNDS = 41
NUL = b"\0"
WORDS = [
    "return",
    "import",
    "def",
    "class",
    "self",
    "value",
    "index",
    "offset",
    "buffer",
    "stream",
    "parse",
    "token",
    "match",
    "result",
    "config",
    "option",
    "error",
    "handle",
    "path",
    "file",
    "read",
    "write",
    "open",
    "close",
    "lock",
    "thread",
    "queue",
    "event",
]
EXCLUDED = (
    *(Exclusion(name, "bench") for name in KEY_MATERIAL),
    Exclusion(".env*", "bench", except_for=(".env.example",)),
)

Call = Callable[[], Awaitable[Any]]


def make_tree(root: Path, files: int) -> None:
    """Write files of 20 to 120 lines, twenty to a folder, a rare literal in one of 4001."""
    chance = random.Random(7)
    for index in range(files):
        folder = root / f"pkg{index // 400:03d}" / f"mod{index // 20 % 20:02d}"
        if index % 20 == 0:
            folder.mkdir(parents=True, exist_ok=True)
        lines = [
            f"    {' '.join(chance.choices(WORDS, k=chance.randint(3, 10)))} {chance.randint(0, 9999)}"
            for _ in range(chance.randint(20, 120))
        ]
        if index % 4001 == 0:
            lines.append("the rare xyzzy_plugh literal")
        (folder / f"file_{index:05d}.{chance.choice(('py', 'js', 'md', 'txt'))}").write_text("\n".join(lines) + "\n")
    (root / ".gitignore").write_text("*.log\nbuild/\n")


def piped(root: Path, argv: list[str], limit: int, end: bytes) -> float:
    """Run `rg … | head` as a person does. Seconds."""
    line = f"{shlex.join([find_program(), *argv])} | head {'-z ' if end == NUL else ''}-n {limit}"
    began = time.perf_counter()
    subprocess.run(line, shell=True, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return time.perf_counter() - began


def counted(root: Path, argv: list[str], limit: int, end: bytes) -> float:
    """Read from rg until the limit, kill it, reap it. Seconds."""
    began = time.perf_counter()
    child = subprocess.Popen(
        [find_program(), *argv], cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert child.stdout is not None
    count = 0
    while count < limit and (data := os.read(child.stdout.fileno(), 1 << 16)):
        count += data.count(end)
    child.kill()
    child.wait()
    child.stdout.close()
    return time.perf_counter() - began


async def ours(call: Call) -> float:
    """Run a tool. Seconds."""
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began


async def compare(root: Path, call: Call, argv: list[str], limit: int, end: bytes = b"\n") -> dict[str, float]:
    """Medians in milliseconds, by who ran."""
    times: dict[str, list[float]] = {"ours": [], "rg | head": [], "rg counted": [], "rg unsorted | head": []}
    unsorted = [word for word in argv if word != "--sort=path"]
    for _ in range(ROUNDS):
        times["rg | head"].append(piped(root, argv, limit, end))
        times["ours"].append(await ours(call))
        await asyncio.sleep(0.002)  # what we leave to be reaped after the answer is not on the next one's account
        times["rg counted"].append(counted(root, argv, limit, end))
        times["rg unsorted | head"].append(piped(root, unsorted, limit, end))
    return {name: statistics.median(found) * 1000 for name, found in times.items()}


async def measure(root: Path) -> dict[str, dict[str, float]]:
    """Give medians by case."""
    files = WorkspaceFiles([Root("workspace", str(root), writable=False)])
    place = files.resolve(".")

    def text(pattern: str) -> list[str]:
        query = TextQuery(pattern)
        return [*of_text(query, "content"), *of_walk(place, query, EXCLUDED), "--sort=path", "--", pattern]

    names = [*of_walk(place, FileQuery(), EXCLUDED), *of_names(), "--sort=path"]
    async with Runtime.open(root, config={"limits": {"max_repeats": 0}}) as runtime:

        def call(tool: str, pattern: str) -> Call:
            async def asked() -> None:
                outcome = await runtime.call(tool, {"pattern": pattern})
                assert outcome.ok, outcome.content

            return asked

        found = {
            "grep, rare literal": await compare(root, call("grep", "xyzzy_plugh"), text("xyzzy_plugh"), 100),
            "grep, common regex": await compare(root, call("grep", "ret[a-z]+n"), text("ret[a-z]+n"), 100),
            "find_files": await compare(root, call("find_files", "*"), names, 1000, NUL),
        }
    await files.close()
    return found


def main(count: int = 20_000) -> None:
    """Print a table."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {f"XDG_{name}_HOME": f"{folder}/{name}" for name in ("STATE", "CONFIG")}
        databases.prepare(paths.cache_dir())  # as `handrail doctor` does
        tree = Path(folder, "tree").resolve()
        make_tree(tree, count)
        for name, times in asyncio.run(measure(tree)).items():
            print(f"{name}: {times['ours']:.2f} ms")
            for other in list(times)[1:]:
                print(f"    {other:20} {times[other]:8.2f} ms   ratio {times['ours'] / times[other]:5.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""Files and lines far larger than what may be held in memory: read, hashed and searched within 100 MB.

At scale 1 the file has 256 MB, from scale 20 on 1 GB; the line always has 100 MB. Memory is the peak of a child, all
of it, interpreter and runtime too.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from handrail import Runtime
from handrail.catalog import tool

MB = 1 << 20
MOST = 100 * MB
LINE = 100 * MB
NEEDLE = "needle-in-the-haystack"
ROOM = 3 * 1024 * MB

CALLS: dict[str, dict[str, Any]] = {
    "read_file": {},
    "read_file.tail": {"tail": 5},
    "read_file.offset": {"offset": 1000, "limit": 5},
    "read_file.bytes": {"byte_offset": 90 * MB, "byte_limit": 1000},
    "hash_file": {},
    "grep": {"pattern": NEEDLE, "literal": True},
}


def blocks(path: Path, size: int, block: bytes) -> None:
    """Write a file of some size from one block, with what is looked for at its end."""
    with path.open("wb") as file:
        for _ in range(size // len(block)):
            file.write(block)
        file.write(NEEDLE.encode() + b"\n")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A workspace with a large file, and one of a single line."""
    from faults._small_disk import missing

    folder = tmp_path_factory.mktemp("large")
    if shutil.disk_usage(folder).free < ROOM:
        missing("less than 3 GB of disk are free")
    size = 1024 * MB if int(os.environ.get("HANDRAIL_TEST_SCALE", "1")) >= 20 else 256 * MB
    blocks(folder / "lines.txt", size, (b"a line of text that is not long\n" * 32768))
    blocks(folder / "line.txt", LINE, b"word " * 200_000)
    yield folder
    shutil.rmtree(folder)


def measured(folder: Path, name: str, path: str) -> dict[str, Any]:
    """Make one call in a child, and give its outcome and the most memory that it and its children took."""
    argv = [sys.executable, __file__, str(folder), name, path]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("path", ["lines.txt", "line.txt"])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_on_a_large_file_takes_little_memory(large: Path, name: str, path: str) -> None:
    """Less than 100 MB in all, in the process and in those it starts, and it gives an answer."""
    if path == "line.txt" and name == "read_file.offset":
        pytest.skip("there is one line")
    found = measured(large, name, path)
    assert found["ok"], found["content"]
    assert 10 * MB < found["peak"] < MOST
    assert found["children"] < MOST
    assert found["said"] < 1 * MB


@pytest.mark.slow
@pytest.mark.parametrize("size", [LINE, 15 * MB])
def test_endless_output_of_a_tool_is_refused_or_bounded(large: Path, size: int) -> None:
    """Without a line break: 100 MB are refused before they are copied, less is bounded; both within 300 MB."""
    small = measured(large, "floods", "1")
    found = measured(large, "floods", str(size))
    assert (found["ok"], found["code"]) == ((False, "INVALID_RESULT") if size == LINE else (True, None))
    assert found["peak"] - small["peak"] < 3 * LINE
    assert found["said"] < 1 * MB


@tool(risk="low", pure=True, max_bytes=MB)
async def floods(size: int) -> str:
    """Give a text without an end."""
    return "x" * size


async def once(folder: str, name: str, path: str) -> dict[str, Any]:
    """Make the call, and look at what it took."""
    tool_name = name.partition(".")[0]
    args = {"size": int(path)} if name == "floods" else {"path": path, **CALLS[name]}
    async with Runtime.open(folder, config={}, tools=[floods]) as runtime:
        outcome = await runtime.call(tool_name, args)
    return {
        "ok": outcome.ok,
        "code": None if outcome.error is None else outcome.error.code,
        "content": outcome.content[:200],
        "said": len(json.dumps(outcome.to_dict())),
        "peak": peak(),
        "children": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,
    }


def peak() -> int:
    """The most memory this process held; getrusage would count what the one that started it held, too."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


if __name__ == "__main__":
    print(json.dumps(asyncio.run(once(*sys.argv[1:]))))

"""Runs commands through one runtime as whoever runs this, and tells what came of each, as JSON.

A program of its own, so that the whole of it can be run by another user: `python _sandbox_runtime.py <folder> <mark>`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from handrail import Runtime
from handrail.testing import ScriptedApprover

SETTINGS = {
    "tools": {"enable": ["exec", "fs"]},
    "exec": {"sandbox": "native", "min_tier": "A", "workspace": "review", "allowed_hosts": ["good.test"]},
}
CHANGE = "echo two > a.txt; rm gone; mkdir -p n; echo hi > n/x"
STUBBORN = "trap '' TERM; (setsid sleep 60.{0} &); sleep 60.{0}"  # the sleepers carry a number that nobody else has
ASKS = (
    'python3 -c \'import http.client; c = http.client.HTTPConnection("127.0.0.1", 3128); '
    'c.request("GET", "http://evil.test/"); print(c.getresponse().status)\''
)


def files(work: Path) -> dict[str, str]:
    """What stands in a workspace."""
    return {str(path.relative_to(work)): path.read_text() for path in sorted(work.rglob("*")) if path.is_file()}


def living(mark: str) -> int:
    """How many processes of the machine carry a mark on their command lines; what has ended has none."""
    found = 0
    for name in os.listdir("/proc"):
        try:
            found += name.isdigit() and mark.encode() in Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
    return found


async def ended(opened: Runtime, mark: str) -> dict[str, Any]:
    """Run past a time limit what will not end; the most that was seen of it, and what is left within three seconds."""
    line = STUBBORN.format(mark)
    running = asyncio.ensure_future(opened.call("run_command", {"command": line, "timeout_seconds": 2}))
    most = 0
    while not running.done():
        most = max(most, living(f"60.{mark}"))
        await asyncio.sleep(0.05)
    outcome = await running
    end = time.monotonic() + 3
    while (left := living(f"60.{mark}")) and time.monotonic() < end:
        await asyncio.sleep(0.02)
    code = outcome.error.code if outcome.error is not None else outcome.status
    return {"code": code, "seen": most > 0, "left": left}


async def main(place: Path, mark: str) -> None:
    """Print what came of each."""
    work = place / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    (work / "gone").write_text("x\n")
    before = files(work)
    async with Runtime.open(work, config=SETTINGS, approver=ScriptedApprover("once")) as opened:
        changed = await opened.call("run_command", {"command": CHANGE})
        kept, owner = files(work), (work / "n/x").stat().st_uid
        await opened.undo(changed.call_id)
        after = files(work)
        limit = await ended(opened, mark)
        asked = await opened.call("run_command", {"command": ASKS})
    told = {"runs as": os.getuid(), "owner": owner, "kept": kept, "undone": after == before, "limit": limit}
    told |= {"proxy": (asked.data or {}).get("stdout"), "said": [changed.content, asked.content]}
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))

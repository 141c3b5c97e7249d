"""Runs commands at the border that close, or meet, what their user may not read or write, and tells what came of it.

A program of its own, so that an ordinary user can run it: `python _border_closed.py <folder>`.
"""

from __future__ import annotations

import asyncio
import json
import stat
import sys
from pathlib import Path
from typing import Any

from handrail import Runtime
from handrail.testing import ScriptedApprover

CONFIG = {"tools": {"enable": ["exec"]}, "exec": {"workspace": "review", "ask": "border"}, "limits": {"max_repeats": 0}}
LINES = {
    "a closed folder": "mkdir n; echo x > n/f; chmod 000 n",
    "a folder that is only read": "mkdir n; echo x > n/f; chmod 555 n",
    "a closed file": "echo x > n; chmod 000 n",
    "a file that nobody reads goes": "rm -f unread",
    "a file that nobody reads changes": "chmod 644 unread; echo x > unread",
    "a folder that nobody writes": "chmod 755 unwritten; echo x > unwritten/new; echo x > unwritten/f",
}


def seen(work: Path) -> dict[str, int]:
    """Names and modes."""
    return {str(path.relative_to(work)): stat.S_IMODE(path.lstat().st_mode) for path in sorted(work.rglob("*"))}


async def each(work: Path, line: str) -> dict[str, Any]:
    """Run a line and take it back."""
    for folder in (work, work / "unwritten"):
        folder.mkdir()
    (work / "unread").write_text("x")
    (work / "unread").chmod(0)
    (work / "unwritten/f").write_text("x")
    (work / "unwritten").chmod(0o555)
    before = seen(work)
    async with Runtime.open(work, config=CONFIG, approver=ScriptedApprover(lambda _: "no")) as opened:
        outcome = await opened.call("run_command", {"command": f"{line}; echo kept > kept"})
        kept = (work / "kept").exists()
        undone = await opened.undo()
    same = seen(work) == before
    (work / "unwritten").chmod(0o755)
    return {"kept": kept, "undone": undone.ok, "same": same, "said": outcome.content}


async def main(place: Path) -> None:
    """Print what came of each."""
    found = {name: await each(place / str(number), line) for number, (name, line) in enumerate(LINES.items())}
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

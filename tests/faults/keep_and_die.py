"""Keeps a reviewed change and kills itself at a step of that: `python keep_and_die.py WORKSPACE STEP…`.

For each number a process of its own is forked, killed, and looked after by another one that opens the workspace again.
Each prints one line: the step, how the killed one ended, what the workspace was left as, what it is afterwards, and
what was told. Without a kill the number of steps is printed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import signal
import stat
import sys
from pathlib import Path
from typing import Any

NEVER = 1 << 30
LINE = (
    "for i in 1 2 3 4; do echo new > changed$i; rm gone$i; mkdir -p made/$i; echo x > made/$i/file; done; "
    "rm -r old link turned; chmod +x tool; mkdir -p deep/er; echo y > deep/er/file; "
    "echo file > turned; rm plain; mkdir plain; echo z > plain/file; ln -s tool new-link; ln deep/er/file made/again"
)
CONFIG = {
    "tools": {"enable": ["exec"]},
    "exec": {"workspace": "review"},
    "rules": [{"effect": "allow", "touch": name} for name in ("proc.exec", "fs.write", "fs.delete")],
}


BORDER = {
    "tools": {"enable": ["exec"]},
    "exec": {"workspace": "review", "ask": "border"},
    "limits": {"bulk_files": 100},
}


def settings() -> dict[str, Any]:
    """Give the settings of an attempt: every change is allowed by rules, or at the border."""
    return BORDER if os.environ.get("ASK") == "border" else CONFIG


def lay_out(work: Path) -> None:
    """Make the workspace as it is before every attempt."""
    shutil.rmtree(work, ignore_errors=True)
    (work / "old" / "inner").mkdir(parents=True)
    (work / "old" / "inner" / "file").write_text("inner\n")
    (work / "old").chmod(0o750)
    for number in range(1, 5):
        (work / f"changed{number}").write_text(f"before {number}\n")
        (work / f"gone{number}").write_text(f"gone {number}\n")
    (work / "turned").mkdir()
    (work / "turned" / "file").write_text("in a folder\n")
    (work / "plain").write_text("no folder\n")
    (work / "tool").write_text("#!/bin/sh\n")
    (work / "link").symlink_to("tool")


def seen(work: Path) -> dict[str, str]:
    """All there is in a workspace: kind, mode and content."""
    found = {}
    for path in sorted(work.rglob("*")):
        status = path.lstat()
        if path.is_symlink():
            what = os.readlink(path)
        else:
            what = "" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        found[str(path.relative_to(work))] = f"{stat.S_IFMT(status.st_mode):o} {stat.S_IMODE(status.st_mode):o} {what}"
    return found


class Deadly:
    """Counts what changes the disk, from the moment that a review is being kept, and dies before one of them."""

    def __init__(self, at: int) -> None:
        self.at, self.count, self.armed = at, 0, False

    def around(self, owner: Any, name: str) -> None:
        """Count a function's calls."""
        function = getattr(owner, name)

        def counted(*args: Any, **more: Any) -> Any:
            if self.armed:
                self.count += 1
                if self.count == self.at:
                    os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **more)

        setattr(owner, name, counted)

    def lie_in_wait(self) -> None:
        """Arm when keeping begins, and disarm when it is over."""
        from handrail.processes.review import Review
        from handrail.workspace import names

        for name in ("fsync", "rename", "unlink", "mkdir", "rmdir", "fchmod", "symlink", "write"):
            self.around(os, name)
        self.around(names, "rename")
        apply = Review._apply

        async def armed(review: Review, *args: Any) -> None:
            self.armed = True
            await apply(review, *args)
            self.armed = False

        setattr(Review, "_apply", armed)  # noqa: B010


async def keep(work: Path, at: int) -> int:
    """Run the line, and die at a step; gives how many there were."""
    from handrail import Runtime

    deadly = Deadly(at)
    deadly.lie_in_wait()
    async with Runtime.open(work, config=settings(), mode="headless") as runtime:
        outcome = await runtime.call("run_command", {"command": LINE})
        assert outcome.ok, outcome.content
    return deadly.count


async def look_after(work: Path) -> list[Any]:
    """Open the workspace again; what was told of it."""
    from handrail import Runtime
    from handrail.store import reader

    async with Runtime.open(work, config=settings(), mode="headless") as runtime:
        folder = runtime.parts.folder.path
    return [
        [event["left"], sorted(event["paths"])]
        for event in map(dict, reader.events(folder))
        if event["kind"] == "review.dropped"
    ]


def apart(step: Any) -> tuple[int, Any]:
    """Do something in a process of its own: how that ended, and what it gave."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, json.dumps(asyncio.run(step())).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as given:
        told = given.read()
    status = os.waitpid(pid, 0)[1]
    return os.waitstatus_to_exitcode(status), json.loads(told) if told else None


def main() -> None:
    """Do what the arguments say."""
    import handrail.processes.review
    import handrail.runtime  # noqa: F401

    if os.environ.get("LAYER") == "memory":
        from handrail.processes.layer_home import LayerHomes

        setattr(LayerHomes, "home", lambda *_: "")  # noqa: B010
    work = Path(sys.argv[1])
    for at in [int(word) for word in sys.argv[2:]] or [NEVER]:
        lay_out(work)
        ended, count = apart(lambda at=at: keep(work, at))
        left = seen(work)
        _, told = apart(lambda: look_after(work))
        print(json.dumps([at, ended, count, left, seen(work), told]), flush=True)


if __name__ == "__main__":
    main()

"""Looks whether the settings have changed, and opens the run anew with what they say now."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from handrail.errors import Fault, Problem
from handrail.front.mcp.door import Door
from handrail.settings import Loaded, paths
from handrail.settings.files import PROJECT_FILE, PYPROJECT
from handrail.settings.trust import trust_store

log = logging.getLogger("handrail.mcp")

LOOK_SECONDS = 1.0
HOLD_BACK = 20  # looks in vain, after which new calls wait for those that are going on
PATIENCE_SECONDS = 10.0

Stamp = tuple[tuple[int, int, int] | None, ...]


@asynccontextmanager
async def watching(
    door: Door, changed: Callable[[], Awaitable[None]], seconds: float = LOOK_SECONDS
) -> AsyncIterator[None]:
    """Watch the settings of a door for as long as this lasts."""
    seen = stamp(door.loaded)
    task = asyncio.ensure_future(_watch(door, changed, seconds, seen))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _watch(door: Door, changed: Callable[[], Awaitable[None]], seconds: float, seen: Stamp) -> None:
    tried = 0
    while True:
        await asyncio.sleep(seconds if door.is_open else seconds * 10)
        now = stamp(door.loaded)
        if now == seen and door.is_open:
            continue
        tried += 1
        patience = PATIENCE_SECONDS if tried % HOLD_BACK == 0 else 0.0
        if await _taken(door, changed, patience):
            seen, tried = now, 0


async def _taken(door: Door, changed: Callable[[], Awaitable[None]], patience: float) -> bool:
    """Take changed settings into use; False: to be tried again."""
    try:
        if not door.differs():
            return True
        if not await door.reopen(patience):
            if patience:
                log.warning("the settings have changed; they count once the calls that are going on have ended")
            return False
    except (Fault, Problem, OSError) as fault:
        still = "the former ones still count" if door.is_open else "every call is refused until they are mended"
        log.error("the settings have changed and cannot be taken, so %s: %s", still, fault)
        return True
    log.warning("the settings have changed and count from now on")
    await changed()
    return True


def stamp(loaded: Loaded) -> Stamp:
    """Name the state of all files that settings may come from, those that are not there too."""
    home = Path(loaded.workspace)
    files = {paths.user_file(), home / PROJECT_FILE, home / PYPROJECT, trust_store(os.environ).path}
    files |= {Path(file.path) for file in loaded.files}
    return tuple(_stamp(path) for path in sorted(files))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino

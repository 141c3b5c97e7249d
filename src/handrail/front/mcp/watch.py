"""Looks whether the settings have changed, and opens the run anew with what they say now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from handrail.errors import Fault, Problem
from handrail.front.mcp.door import Door
from handrail.settings import Loaded
from handrail.settings.stamps import stamp

log = logging.getLogger("handrail.mcp")

LOOK_SECONDS = 1.0
AGAIN = 60  # looks, after which files that could not be taken are read again: it may have been the machine's fault
CLOSED = 10  # times as long between looks while no run could be opened
HOLD_BACK = 20  # looks in vain, after which new calls wait for those that are going on
PATIENCE_SECONDS = 10.0

Changed = Callable[[], Awaitable[None]]


@asynccontextmanager
async def watching(door: Door, changed: Changed, seconds: float = LOOK_SECONDS) -> AsyncIterator[None]:
    """Watch the settings of a door for as long as this lasts."""
    task = asyncio.ensure_future(_watch(Watch(door, changed), seconds))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _watch(watch: Watch, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds if watch.door.is_open else seconds * CLOSED)
        await watch.look()


class Watch:
    """What was seen of the settings of a door, and what was told of it."""

    def __init__(self, door: Door, changed: Changed) -> None:
        self.door, self._changed, self._seen = door, changed, stamp(door.loaded)
        self._looks = self._tried = 0
        self._told = ""  # why files cannot be taken; empty where all are
        self._warned = door.loaded.warnings  # which the log has

    async def look(self) -> None:
        """Look once; whatever goes wrong is told, and looked at again."""
        try:
            now = stamp(self.door.loaded)
            self._looks += 1
            again = self._told and self._looks % AGAIN == 0
            if now == self._seen and self.door.is_open and not again:
                return
            self._tried += 1
            if await self._taken(self._patience()):
                self._seen, self._tried = now, 0
        except Exception as error:  # noqa: BLE001  nobody would notice that nothing is looked at any more
            self._tell(f"looking at the settings failed and is tried again: {type(error).__name__}: {error}", error)

    def _patience(self) -> float:
        """How long new calls are to wait: longer each time, so that calls that overlap keep no change out for ever."""
        times, rest = divmod(self._tried, HOLD_BACK)
        return 0.0 if rest else PATIENCE_SECONDS * 2 ** min(times - 1, 8)

    async def _taken(self, patience: float) -> bool:
        """Take changed settings into use; False: to be tried again."""
        door = self.door
        try:
            settings = await asyncio.to_thread(door.settings)  # reading takes a while where files are large
            differs = door.differs(settings)
            if differs and not await door.reopen(patience):
                if patience:
                    log.warning("the settings have changed; they count once the calls that are going on have ended")
                return False
        except (Fault, Problem, OSError) as fault:
            still = "the former ones still count" if door.is_open else "every call is refused until they are mended"
            self._tell(f"the settings have changed and cannot be taken, so {still}: {fault}")
            return True
        why = settings.fault
        self._tell(f"the project's settings cannot be taken, so its former ones still count: {why}" if why else "")
        if differs:
            but = ", but for what is warned of" if _warnings(settings) else ""
            log.warning("the settings have changed and count from now on%s", but)
            await self._changed()
        else:
            self._warn(settings)
        self._warned = settings.warnings
        return True

    def _warn(self, settings: Loaded) -> None:
        """Pass on what settings warn of that change nothing; where they change something, opening the run does."""
        for warning in _warnings(settings):
            if warning not in self._warned:
                log.warning("%s", warning)

    def _tell(self, text: str, error: Exception | None = None) -> None:
        """Say once what is wrong."""
        if text and text != self._told:
            log.error("%s", text, exc_info=error)
        self._told = text


def _warnings(settings: Loaded) -> tuple[str, ...]:
    """What settings warn of, but why a file was not taken, which is told otherwise."""
    return tuple(warning for warning in settings.warnings if warning != settings.fault)

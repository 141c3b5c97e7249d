"""The order of runs and changes: a counter beside the runs, since the clock can be set back.

Every opened run, every change and every closed run takes the next number. Nothing is synced for it: a power loss can
take back at most the numbers of the last seconds. So the first number of each boot leaves a gap.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import time
from pathlib import Path

from handrail.store.folders import list_runs
from handrail.store.private import SAFE, sync_folder

NAME = ".order"  # a run's name never begins with a dot
log = logging.getLogger(__name__)
_BOOT = "/proc/sys/kernel/random/boot_id"
_GAP = 1_000_000  # more than can be taken before the kernel writes the file to the disk
_TRIES = 20  # to get the lock, which others hold for microseconds
_PAUSE_SECONDS = 0.002


class RunOrder:
    """Numbers that all processes with this folder of runs take from one counter."""

    def __init__(self, runs_dir: Path) -> None:
        self._path = runs_dir / NAME
        self._boot = _read_boot()
        self._last = 0

    def take(self) -> int:
        """Take the next number.

        Return the highest known number again where the file cannot be written or stays locked: that stops no call.
        """
        with contextlib.suppress(OSError):
            self._last = max(self._last, self._take())
        return self._last

    def _take(self) -> int:
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | SAFE, 0o600)
        try:
            is_locked = _lock(handle)  # until the handle is closed
            line = os.pread(handle, 100, 0)
            number, boot = _parse(line)
            if not is_locked:
                return number
            is_new = number == 0
            if is_new:
                number = self._recover(line)
            number += 1 if number == 0 or boot == self._boot else _GAP
            os.pwrite(handle, f"{number:020d} {self._boot}\n".encode(), 0)
            if is_new:
                os.fsync(handle)
                sync_folder(self._path.parent)
        finally:
            os.close(handle)
        return number

    def _recover(self, line: bytes) -> int:
        """Find the highest number that the runs recorded, for a counter that is new, lost or malformed."""
        runs = list_runs(self._path.parent)
        highest = max((max(run.order, run.ended or 0) for run in runs), default=0)
        if line or highest:
            state = "malformed" if line else "missing"
            log.warning(
                "%s is %s: the order of runs goes on after %d, the highest on record", self._path, state, highest
            )
        return highest


def _lock(handle: int) -> bool:
    """Lock the counter; give up soon, since calls wait for it: a process that was stopped may hold it for hours."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_SECONDS)
        else:
            return True
    return False


def _parse(line: bytes) -> tuple[int, str]:
    words = line.decode("ascii", "replace").split()
    if not words or not words[0].isdecimal():
        return 0, ""
    return int(words[0]), " ".join(words[1:2])


def _read_boot() -> str:
    try:
        return Path(_BOOT).read_text().strip()
    except OSError:
        return "-"
